//! A checkpoint that is written: under a temporary name, synced and renamed, so that a crash leaves the old
//! file.

use super::checksum::{CHECKSUM, Checksum};
use super::{NOTES, UPDATES};
use crate::arena::FileLayout;
use crate::optimizer::AdamW;
use crate::product::transpose;
use crate::{Error, Parameters, Result};
use half::f16;
use safetensors::tensor::{Dtype, Metadata, TensorInfo, View};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The header's length is a multiple of so many bytes.
const ALIGNMENT: usize = 8;

/// Collects the contents of a file.
#[derive(Default)]
pub struct CheckpointWriter<'a> {
    tensors: Vec<(String, Stored<'a>)>,
    notes: BTreeMap<String, String>,
    half: bool,
}

/// One parameter's range in a flat buffer.
struct Stored<'a> {
    values: &'a [f32],
    shape: Vec<usize>,
    /// The number of columns in memory, if the file holds the transpose.
    turned: Option<usize>,
}

/// One parameter and whether the file holds it in 16 bits.
struct Written<'a>(&'a Stored<'a>, bool);

impl View for Written<'_> {
    fn dtype(&self) -> Dtype {
        if self.1 { Dtype::F16 } else { Dtype::F32 }
    }

    fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let bytes = |values: &[f32]| -> Vec<u8> {
            match self.1 {
                true => values.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
                false => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            }
        };
        match self.0.turned {
            Some(columns) => {
                let mut turned = vec![0.0; self.0.values.len()];
                transpose(&mut turned, self.0.values, columns);
                Cow::Owned(bytes(&turned))
            }
            None => Cow::Owned(bytes(self.0.values)),
        }
    }

    fn data_len(&self) -> usize {
        self.0.values.len() * if self.1 { 2 } else { 4 }
    }
}

impl<'a> CheckpointWriter<'a> {
    /// An empty checkpoint.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds parameters, each named `prefix` followed by its own name.
    pub fn parameters(mut self, prefix: &str, parameters: &'a Parameters) -> Self {
        self.add(prefix, parameters, parameters.values());
        self
    }

    /// Adds an optimizer's moments, average and number of updates, under `prefix`.
    pub fn optimizer(
        mut self,
        prefix: &str,
        parameters: &'a Parameters,
        optimizer: &'a AdamW,
    ) -> Self {
        let (updates, buffers) = optimizer.state();
        for (kind, values) in buffers {
            self.add(&format!("{prefix}{kind}."), parameters, values);
        }
        self.note(format!("{prefix}{UPDATES}"), updates.to_string())
    }

    /// Adds a note, such as the step or the configuration.
    pub fn note(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.notes.insert(key.into(), value.into());
        self
    }

    /// Stores every number in 16 bits: for weights that are used and never trained on.
    pub fn half(mut self) -> Self {
        self.half = true;
        self
    }

    fn add(&mut self, prefix: &str, parameters: &'a Parameters, values: &'a [f32]) {
        for entry in &parameters.entries {
            let columns = entry.shape.last();
            let stored = Stored {
                values: &values[entry.range.clone()],
                shape: entry.file_shape().extents().to_vec(),
                turned: (entry.layout == FileLayout::Transposed).then_some(columns),
            };
            self.tensors.push((format!("{prefix}{}", entry.name), stored));
        }
    }

    /// Writes the file: under a temporary name, synced, then renamed.
    ///
    /// # Errors
    /// If a value is not finite or writing fails; the old file is then untouched.
    pub fn save(&self, path: &Path) -> Result<()> {
        let largest = if self.half { f16::MAX.to_f32() } else { f32::MAX };
        for (name, stored) in &self.tensors {
            // What is not a number is not in bounds either.
            let fits = |value: &f32| value.abs() <= largest;
            if let Some(index) = stored.values.iter().position(|value| !fits(value)) {
                let value = stored.values[index];
                let problem = format!("not written: `{name}` holds {value} at element {index}");
                return Err(Error::Checkpoint { path: path.into(), problem });
            }
        }
        let temporary = temporary_name(path);
        let written = self.write_synced(&temporary).and_then(|()| {
            std::fs::rename(&temporary, path)
                .map_err(Error::file("cannot move the checkpoint to", path))
        });
        if written.is_err() {
            // The original error is the one to report.
            let _ = std::fs::remove_file(&temporary);
        }
        written?;
        sync_folder(path)
    }

    fn checksum(&self) -> String {
        let mut checksum = Checksum::new(&self.notes);
        for (name, written) in self.sorted() {
            let kind = format!("{:?}", written.dtype());
            checksum.tensor(name, &kind, written.shape(), &written.data());
        }
        checksum.finish()
    }

    /// Writes the bytes of [`safetensors::serialize`] to a file of its own name. The library's own way to a
    /// file goes through another temporary one, which a kill would leave behind under a name that nobody
    /// can tell from somebody else's.
    fn write_synced(&self, path: &Path) -> Result<()> {
        let mut notes = self.notes.clone();
        notes.insert(CHECKSUM.to_owned(), self.checksum());
        let notes = serde_json::to_string(&notes).expect("strings become JSON");
        let metadata = HashMap::from([(NOTES.to_owned(), notes)]);
        let (mut infos, mut end) = (Vec::with_capacity(self.tensors.len()), 0);
        let sorted = self.sorted();
        for (name, written) in &sorted {
            let begin = end;
            end += written.data_len();
            let (dtype, shape) = (written.dtype(), written.shape().to_vec());
            let info = TensorInfo { dtype, shape, data_offsets: (begin, end) };
            infos.push(((*name).to_owned(), info));
        }
        let write = || {
            let header = Metadata::new(Some(metadata), infos).map_err(std::io::Error::other)?;
            let mut header = serde_json::to_vec(&header)?;
            header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
            let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
            file.write_all(&(header.len() as u64).to_le_bytes())?;
            file.write_all(&header)?;
            for written in sorted.values() {
                file.write_all(&written.data())?;
            }
            file.into_inner()?.sync_all()
        };
        write().map_err(Error::file("cannot write", path))
    }

    /// The tensors by name, as they lie in the file.
    fn sorted(&self) -> BTreeMap<&str, Written<'_>> {
        self.tensors
            .iter()
            .map(|(name, stored)| (name.as_str(), Written(stored, self.half)))
            .collect()
    }
}

fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    path.with_file_name(name)
}

/// Makes the rename durable.
fn sync_folder(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(Error::file("cannot sync", folder))
}

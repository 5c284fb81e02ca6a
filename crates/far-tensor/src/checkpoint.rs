//! Checkpoints: safetensors files with named tensors, written atomically.
//!
//! One file holds any number of arenas and optimizers, each under its own prefix, and a map of
//! notes. Weights of linear layers are stored as [outputs, inputs], as in PyTorch. A file is
//! written to a temporary name, synced and renamed, so that a crash leaves the old one; values that
//! are not finite are rejected on writing and reading. A checksum among the notes tells a damaged file
//! from a whole one. Files hold f32; weights that are only used, and files of other programs, may hold f16
//! or bf16.

use crate::arena::{Entry, FileLayout};
use crate::checkpoint_checksum::{CHECKSUM, Checksum};
use crate::optimizer::AdamW;
use crate::product::transpose;
use crate::{Error, Parameters, Result};
use half::{bf16, f16};
use safetensors::tensor::{Dtype, Metadata, SafeTensors, TensorInfo, TensorView, View};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The one key of the file's metadata: notes as JSON, in a fixed order, so that equal checkpoints
/// are equal bytes.
const NOTES: &str = "far";
/// The note with the number of updates of an optimizer, after its prefix.
const UPDATES: &str = "updates";
/// The header's length is a multiple of so many bytes.
const ALIGNMENT: usize = 8;

/// How names that only one side has are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching {
    /// Every parameter must be in the file.
    Strict,
    /// Parameters that are not in the file keep their values.
    Partial,
}

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

/// A checkpoint that was read.
pub struct Checkpoint {
    path: PathBuf,
    bytes: Vec<u8>,
    notes: BTreeMap<String, String>,
    used: BTreeSet<String>,
}

impl Checkpoint {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, is not a safetensors file, or its checksum is wrong.
    pub fn open(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(Error::file("cannot read", path))?;
        Self::from_bytes(path, bytes)
    }

    /// Parses a file's bytes; `path` is for messages.
    ///
    /// # Errors
    /// If they are not a safetensors file, or their checksum is wrong.
    pub fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Self> {
        let problem = |problem: String| Error::Checkpoint { path: path.into(), problem };
        let (_, metadata) = SafeTensors::read_metadata(&bytes)
            .map_err(|error| problem(format!("not a whole safetensors file: {error}")))?;
        let tensors = SafeTensors::deserialize(&bytes)
            .map_err(|error| problem(format!("not a whole safetensors file: {error}")))?;
        let notes = metadata.metadata().as_ref().and_then(|map| map.get(NOTES));
        let mut notes: BTreeMap<String, String> = match notes {
            Some(text) => serde_json::from_str(text)
                .map_err(|error| problem(format!("its notes are not a map of strings: {error}")))?,
            None => BTreeMap::new(),
        };
        if let Some(expected) = notes.remove(CHECKSUM) {
            let found = checksum(&tensors, &notes);
            if found != expected {
                let reason = "damaged: its checksum is";
                return Err(problem(format!("{reason} {expected}, its contents have {found}")));
            }
        }
        Ok(Self { path: path.into(), bytes, notes, used: BTreeSet::new() })
    }

    /// The notes.
    pub fn notes(&self) -> &BTreeMap<String, String> {
        &self.notes
    }

    /// The shape of a tensor; `None` where the file has none of that name.
    pub fn shape(&self, name: &str) -> Option<Vec<usize>> {
        Some(self.tensors().tensor(name).ok()?.shape().to_vec())
    }

    /// Loads parameters saved under `prefix` and returns how many were found.
    ///
    /// # Errors
    /// If a tensor is missing (with strict matching), has another type or shape, or is not finite;
    /// the parameters are then unchanged.
    pub fn load_parameters(
        &mut self,
        prefix: &str,
        parameters: &mut Parameters,
        matching: Matching,
    ) -> Result<usize> {
        let entries = parameters.entries.to_vec();
        self.load(prefix, &entries, parameters.values_mut()?, matching)
    }

    /// Loads an optimizer saved under `prefix`; all of its tensors are required.
    ///
    /// # Errors
    /// As [`Checkpoint::load_parameters`]; also if the number of updates is missing.
    pub fn load_optimizer(
        &mut self,
        prefix: &str,
        parameters: &Parameters,
        optimizer: &mut AdamW,
    ) -> Result<()> {
        let key = format!("{prefix}{UPDATES}");
        let count = self.notes.get(&key).and_then(|count| count.parse().ok());
        let count = count
            .ok_or_else(|| self.problem(format!("the note `{key}` is missing or not a number")))?;
        let (updates, buffers) = optimizer.state_mut();
        for (kind, values) in buffers {
            self.load(&format!("{prefix}{kind}."), &parameters.entries, values, Matching::Strict)?;
        }
        *updates = count;
        Ok(())
    }

    /// Fails if the file has tensors that were not loaded.
    ///
    /// # Errors
    /// Names the first of them.
    pub fn expect_all_used(&self) -> Result<()> {
        let tensors = self.tensors();
        let names: BTreeSet<&str> = tensors.names().into_iter().collect();
        let mut extra = names.into_iter().filter(|name| !self.used.contains(*name));
        let Some(first) = extra.next() else { return Ok(()) };
        let more = extra.count();
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        Err(self.problem(format!("`{first}`{rest} is in the file but not in the model")))
    }

    fn tensors(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.bytes).expect("it was read once already")
    }

    fn problem(&self, problem: String) -> Error {
        Error::Checkpoint { path: self.path.clone(), problem }
    }

    fn load(
        &mut self,
        prefix: &str,
        entries: &[Entry],
        values: &mut [f32],
        matching: Matching,
    ) -> Result<usize> {
        let tensors = self.tensors();
        let mut found = Vec::new();
        // Everything is checked before anything is changed.
        for entry in entries {
            let name = format!("{prefix}{}", entry.name);
            match tensors.tensor(&name) {
                Ok(view) => {
                    self.examine(&name, entry, &view)?;
                    found.push((name, entry, view));
                }
                Err(_) if matching == Matching::Partial => {}
                Err(_) => {
                    let shape = entry.file_shape();
                    return Err(
                        self.problem(format!("`{name}` is missing; F32 {shape} was expected"))
                    );
                }
            }
        }
        let names: Vec<String> = found.iter().map(|(name, ..)| name.clone()).collect();
        for (_, entry, view) in found {
            let target = &mut values[entry.range.clone()];
            let source: Vec<f32> = floats(&view).collect();
            match entry.layout {
                FileLayout::Transposed => transpose(target, &source, entry.shape.extents()[0]),
                FileLayout::Same => target.copy_from_slice(&source),
            }
        }
        drop(tensors);
        let count = names.len();
        self.used.extend(names);
        Ok(count)
    }

    fn examine(&self, name: &str, entry: &Entry, view: &TensorView<'_>) -> Result<()> {
        let expected = entry.file_shape();
        let known = [Dtype::F32, Dtype::F16, Dtype::BF16].contains(&view.dtype());
        if !known || view.shape() != expected.extents() {
            let (dtype, shape) = (view.dtype(), view.shape());
            return Err(self.problem(format!(
                "`{name}` is {dtype:?} {shape:?}, but F32 {expected} was expected"
            )));
        }
        match floats(view).position(|value| !value.is_finite()) {
            Some(index) => Err(self.problem(format!("`{name}` is not finite at element {index}"))),
            None => Ok(()),
        }
    }
}

/// The checksum of what was read.
fn checksum(tensors: &SafeTensors<'_>, notes: &BTreeMap<String, String>) -> String {
    let found: BTreeMap<String, TensorView<'_>> = tensors.tensors().into_iter().collect();
    let mut checksum = Checksum::new(notes);
    for (name, view) in found {
        checksum.tensor(&name, &format!("{:?}", view.dtype()), view.shape(), view.data());
    }
    checksum.finish()
}

/// The numbers of a tensor of 32 or 16 bits.
fn floats<'a>(view: &TensorView<'a>) -> Box<dyn Iterator<Item = f32> + 'a> {
    let bytes = view.data();
    let (pairs, _) = bytes.as_chunks::<2>();
    match view.dtype() {
        Dtype::F16 => Box::new(pairs.iter().map(|pair| f16::from_le_bytes(*pair).to_f32())),
        Dtype::BF16 => Box::new(pairs.iter().map(|pair| bf16::from_le_bytes(*pair).to_f32())),
        _ => {
            let (words, _) = bytes.as_chunks::<4>();
            Box::new(words.iter().map(|word| f32::from_le_bytes(*word)))
        }
    }
}

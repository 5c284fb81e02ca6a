//! Checkpoints: safetensors files with named tensors and a map of notes.
//!
//! One file holds any number of arenas and optimizers, each under its own prefix. Weights of linear layers
//! are stored as [outputs, inputs], as in PyTorch. Values that are not finite are rejected on writing and
//! reading. A checksum among the notes tells a damaged file from a whole one. Files hold f32; weights that
//! are only used, and files of other programs, may hold f16 or bf16.

mod checksum;
mod writer;

pub use writer::CheckpointWriter;

use crate::arena::{Entry, FileLayout};
use crate::optimizer::AdamW;
use crate::product::transpose;
use crate::{Error, Parameters, Result};
use checksum::{CHECKSUM, Checksum};
use half::{bf16, f16};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The one key of the file's metadata: notes as JSON, in a fixed order, so that equal checkpoints
/// are equal bytes.
const NOTES: &str = "far";
/// The note with the number of updates of an optimizer, after its prefix.
const UPDATES: &str = "updates";

/// How names that only one side has are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching {
    /// Every parameter must be in the file.
    Strict,
    /// Parameters that are not in the file keep their values.
    Partial,
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

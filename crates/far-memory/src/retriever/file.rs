//! A retriever as a safetensors file.
//!
//! The tensors are those of [`RetrieverConfig::tensors`], all `F32`. The header's metadata has one
//! entry, `far_retriever`: a JSON object with `version` (1) and `config`. Nothing may be missing or
//! added: a file is either understood completely or rejected with the reason.

use crate::{Error, Retriever, RetrieverConfig};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Name of the metadata entry.
const ENTRY: &str = "far_retriever";
/// By which slots stayed empty before memories had a worth of their own.
const RETIRED: &str = "set.empty";
/// The version this code writes and reads.
pub const RETRIEVER_VERSION: u32 = 1;

#[derive(Deserialize)]
struct Version {
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    config: RetrieverConfig,
}

fn refuse<T>(reason: impl Into<String>) -> Result<T, Error> {
    Err(Error::Retriever { reason: reason.into() })
}

impl Retriever {
    /// Reads a retriever file.
    ///
    /// # Errors
    /// [`Error::Disk`] if the file cannot be read; otherwise as [`from_bytes`](Self::from_bytes).
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|source| Error::Disk {
            operation: "read",
            file,
            source,
        })?;
        Self::from_bytes(&bytes)
    }

    /// Reads a retriever from the bytes of a file.
    ///
    /// # Errors
    /// [`Error::RetrieverVersion`] if a newer program wrote it, [`Error::Retriever`] if it is damaged or
    /// not a retriever, with the tensor or entry at fault.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let damaged = |cause: &dyn std::fmt::Display| Error::Retriever {
            reason: format!("it is not a safetensors file: {cause}"),
        };
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|cause| damaged(&cause))?;
        let entry = header.metadata().as_ref().and_then(|entries| entries.get(ENTRY));
        let Some(entry) = entry else {
            return refuse(format!("its metadata has no entry {ENTRY:?}"));
        };
        let unreadable = |cause: serde_json::Error| Error::Retriever {
            reason: format!("its metadata entry {ENTRY:?} is not understood: {cause}"),
        };
        let Version { version } = serde_json::from_str(entry).map_err(unreadable)?;
        if version != RETRIEVER_VERSION {
            return Err(Error::RetrieverVersion { found: version, supported: RETRIEVER_VERSION });
        }
        let Document { config, .. } = serde_json::from_str(entry).map_err(unreadable)?;
        config.check()?;
        let file = SafeTensors::deserialize(bytes).map_err(|cause| damaged(&cause))?;
        let mut tensors = BTreeMap::new();
        for (name, view) in file.iter() {
            if view.dtype() != Dtype::F32 {
                return refuse(format!("tensor {name:?} is {:?} instead of F32", view.dtype()));
            }
            let numbers = view
                .data()
                .chunks_exact(4)
                .map(|bytes| f32::from_le_bytes(bytes.try_into().expect("chunks of four bytes")));
            tensors.insert(name.to_owned(), (view.shape().to_vec(), numbers.collect()));
        }
        Self::from_tensors(config, tensors)
    }

    /// A retriever from its parameters by name, each with its shape.
    ///
    /// # Errors
    /// [`Error::Retriever`] if a tensor is missing, unexpected, of another shape or not finite.
    pub fn from_tensors(
        config: RetrieverConfig,
        mut tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    ) -> Result<Self, Error> {
        config.check()?;
        if tensors.contains_key(RETIRED) {
            return refuse(format!(
                "it abstains by tensor {RETIRED:?}, which no longer exists: slots now stay empty by what \
                 each memory is worth; train it again with this version"
            ));
        }
        let mut parameters = BTreeMap::new();
        for (name, shape) in config.tensors() {
            let Some((found, values)) = tensors.remove(&name) else {
                return refuse(format!("tensor {name:?} of shape {shape:?} is missing"));
            };
            if found != shape || values.len() != shape.iter().product::<usize>() {
                return refuse(format!("tensor {name:?} has shape {found:?} instead of {shape:?}"));
            }
            if let Some(place) = values.iter().position(|value| !value.is_finite()) {
                return refuse(format!("tensor {name:?} has {} at {place}", values[place]));
            }
            parameters.insert(name, values);
        }
        if let Some(name) = tensors.keys().next() {
            return refuse(format!("tensor {name:?} does not belong to it"));
        }
        Ok(Self::assemble(config, parameters))
    }

    /// The bytes of the retriever's file; the same retriever always gives the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let document = Document { version: RETRIEVER_VERSION, config: self.config().clone() };
        let entry = serde_json::to_string(&document).expect("a configuration is plain data");
        let views = self.tensors().into_iter().map(|(name, shape, values)| {
            let view = TensorView::new(Dtype::F32, shape, bytemuck::cast_slice(values));
            (name, view.expect("parameters have the shapes of the configuration"))
        });
        let metadata = HashMap::from([(ENTRY.to_owned(), entry)]);
        serialize(views, Some(metadata)).expect("shapes and bytes agree")
    }

    /// Writes the retriever's file; an older file is replaced only when the new one is complete.
    ///
    /// # Errors
    /// [`Error::Disk`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let failed = |source| {
            let file = path.display().to_string();
            Error::Disk { operation: "write", file, source }
        };
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        std::fs::write(&partial, self.to_bytes()).map_err(failed)?;
        std::fs::rename(&partial, path).map_err(failed)
    }
}

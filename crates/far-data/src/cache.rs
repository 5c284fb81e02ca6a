//! Latents and keys: tensors computed from episodes, kept on disk until what made them changes.
//!
//! A cache lies in `<root>/<kind>-<hash of the recipe>/`, one safetensors file per episode, named by
//! the hash of the episode. Another tokenizer checkpoint or another recording has another name, so
//! nothing outdated is ever read; a file that does not open is made again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use half::f16;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::summary::episode_stem;
use crate::{DataError, Dataset, Episode, Result, durable};

/// Metadata entry that repeats what made the file.
const MADE_BY: &str = "far.made_by";

/// How the numbers of a cached tensor are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// 16-bit floats: latents.
    Half,
    /// 32-bit floats.
    Single,
}

/// A tensor to be kept, or one that was.
#[derive(Clone, Debug, PartialEq)]
pub struct CachedTensor {
    /// Its name in the file: "latents", "keys.vision".
    pub name: String,
    /// Its shape; the first axis counts the frames of the episode.
    pub shape: Vec<usize>,
    /// Its values, row-major.
    pub values: Vec<f32>,
    /// How they are stored.
    pub precision: Precision,
}

/// The cache of one kind of tensor made in one way.
#[derive(Clone, Debug)]
pub struct TensorCache {
    folder: PathBuf,
    /// Hash of kind and recipe.
    recipe: String,
}

/// The tensors of one episode, read row by row from memory.
#[derive(Clone)]
pub struct CachedTensors {
    bytes: Arc<[u8]>,
    path: PathBuf,
}

impl TensorCache {
    /// The cache below `root` (usually `cache` in the dataset's folder) of tensors of one `kind`
    /// made by `recipe`: every setting and the hash of every weight that decides the values.
    pub fn new(root: &Path, kind: &str, recipe: &str) -> Self {
        let recipe = durable::hash_bytes(format!("{kind}\n{recipe}").as_bytes());
        Self { folder: root.join(format!("{kind}-{}", &recipe[..16])), recipe }
    }

    /// The folder of this cache.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The tensors of an episode, if they are there and whole.
    pub fn get(&self, dataset: &Dataset, id: u32) -> Result<Option<CachedTensors>> {
        let (path, made_by) = self.place(dataset, id)?;
        match std::fs::read(&path) {
            Ok(bytes) => Ok(CachedTensors::parse(bytes, path, &made_by)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(DataError::io("read", &path)(error)),
        }
    }

    /// The tensors of an episode, made by `make` and kept when they are not there yet.
    pub fn get_or_make(
        &self,
        dataset: &Dataset,
        id: u32,
        make: impl FnOnce(&Episode) -> Result<Vec<CachedTensor>>,
    ) -> Result<CachedTensors> {
        if let Some(found) = self.get(dataset, id)? {
            return Ok(found);
        }
        let episode = dataset.episode(id)?;
        let tensors = make(&episode)?;
        if let Some(wrong) =
            tensors.iter().find(|tensor| tensor.shape.first() != Some(&episode.len()))
        {
            let reason =
                format!("{} of shape {:?} for {} frames", wrong.name, wrong.shape, episode.len());
            return Err(DataError::Episode { episode: id, reason });
        }
        let (path, made_by) = self.place(dataset, id)?;
        let bytes =
            serialize(&tensors, &made_by).map_err(|reason| DataError::corrupt(&path, reason))?;
        std::fs::create_dir_all(&self.folder).map_err(DataError::io("create", &self.folder))?;
        durable::write(&path, &bytes)?;
        self.remove_outdated(id, &path)?;
        durable::remove_abandoned(&self.folder)?;
        CachedTensors::parse(bytes, path.clone(), &made_by)
            .ok_or_else(|| DataError::corrupt(&path, "it does not read back"))
    }

    /// The file of an episode and the hash of everything that makes it.
    fn place(&self, dataset: &Dataset, id: u32) -> Result<(PathBuf, String)> {
        let episode = match dataset.summary(id)?.hash {
            Some(hash) => hash,
            None => durable::hash_file(&crate::dataset_writer::episode_path(dataset.folder(), id))?,
        };
        let made_by = durable::hash_bytes(format!("{}\n{episode}", self.recipe).as_bytes());
        let name = format!("{}-{}.safetensors", episode_stem(id), &made_by[..16]);
        Ok((self.folder.join(name), made_by))
    }

    /// Removes files of the same episode that were made from an earlier recording of it.
    fn remove_outdated(&self, id: u32, current: &Path) -> Result<()> {
        let prefix = format!("{}-", episode_stem(id));
        let entries =
            std::fs::read_dir(&self.folder).map_err(DataError::io("list", &self.folder))?;
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path != current && name.starts_with(&prefix) && name.ends_with(".safetensors") {
                std::fs::remove_file(&path).map_err(DataError::io("remove", &path))?;
            }
        }
        Ok(())
    }
}

impl CachedTensors {
    /// Opens a safetensors file that came with a dataset, whatever made it.
    pub fn open(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(DataError::io("read", path))?;
        SafeTensors::deserialize(&bytes)
            .map_err(|error| DataError::corrupt(path, error.to_string()))?;
        Ok(Self { bytes: bytes.into(), path: path.to_owned() })
    }

    /// Opens the bytes of a file; `None` when they are damaged or were made by something else.
    fn parse(bytes: Vec<u8>, path: PathBuf, made_by: &str) -> Option<Self> {
        let (_, metadata) = SafeTensors::read_metadata(&bytes).ok()?;
        let noted = metadata.metadata().as_ref().and_then(|entries| entries.get(MADE_BY));
        SafeTensors::deserialize(&bytes).ok()?;
        (noted.map(String::as_str) == Some(made_by)).then(|| Self { bytes: bytes.into(), path })
    }

    /// Shape of a tensor.
    pub fn shape(&self, name: &str) -> Result<Vec<usize>> {
        self.with(name, |tensor| Ok(tensor.shape().to_vec()))
    }

    /// Appends the values of one frame of a tensor to `values` and returns their number.
    pub fn row(&self, name: &str, frame: usize, values: &mut Vec<f32>) -> Result<usize> {
        self.with(name, |tensor| {
            let width: usize = tensor.shape().iter().skip(1).product();
            let bytes = match tensor.dtype() {
                Dtype::F16 => 2 * width,
                _ => 4 * width,
            };
            let data = tensor.data().get(frame * bytes..(frame + 1) * bytes);
            let data = data.ok_or_else(|| format!("{name} has no row {frame}"))?;
            decode(data, tensor.dtype(), values)?;
            Ok(width)
        })
    }

    /// A whole tensor.
    pub fn tensor(&self, name: &str) -> Result<CachedTensor> {
        self.with(name, |tensor| {
            let mut values = Vec::new();
            decode(tensor.data(), tensor.dtype(), &mut values)?;
            let precision =
                if tensor.dtype() == Dtype::F16 { Precision::Half } else { Precision::Single };
            Ok(CachedTensor {
                name: name.into(),
                shape: tensor.shape().to_vec(),
                values,
                precision,
            })
        })
    }

    fn with<T>(
        &self,
        name: &str,
        read: impl FnOnce(TensorView<'_>) -> std::result::Result<T, String>,
    ) -> Result<T> {
        let wrong = |reason: String| DataError::corrupt(&self.path, reason);
        let tensors = SafeTensors::deserialize(&self.bytes).map_err(|e| wrong(e.to_string()))?;
        let tensor = tensors.tensor(name).map_err(|_| wrong(format!("it has no tensor {name}")))?;
        read(tensor).map_err(wrong)
    }
}

fn decode(data: &[u8], dtype: Dtype, values: &mut Vec<f32>) -> std::result::Result<(), String> {
    match dtype {
        Dtype::F16 => {
            values.extend(data.as_chunks().0.iter().map(|pair| f16::from_le_bytes(*pair).to_f32()));
        }
        Dtype::F32 => {
            values.extend(data.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)));
        }
        other => return Err(format!("values of type {other:?} where floats were due")),
    }
    Ok(())
}

fn serialize(tensors: &[CachedTensor], made_by: &str) -> std::result::Result<Vec<u8>, String> {
    let encode = |tensor: &CachedTensor| match tensor.precision {
        Precision::Half => {
            let numbers = tensor.values.iter().map(|&value| f16::from_f32(value));
            (Dtype::F16, numbers.flat_map(f16::to_le_bytes).collect())
        }
        Precision::Single => {
            (Dtype::F32, tensor.values.iter().flat_map(|value| value.to_le_bytes()).collect())
        }
    };
    let encoded: Vec<(Dtype, Vec<u8>)> = tensors.iter().map(encode).collect();
    let mut views = Vec::new();
    for (tensor, (dtype, bytes)) in tensors.iter().zip(&encoded) {
        let view = TensorView::new(*dtype, tensor.shape.clone(), bytes);
        views.push((tensor.name.as_str(), view.map_err(|error| error.to_string())?));
    }
    let note = HashMap::from([(MADE_BY.to_string(), made_by.to_string())]);
    safetensors::serialize(views, Some(note)).map_err(|error| error.to_string())
}

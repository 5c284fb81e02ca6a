//! What `far bench joint` trains on: a dataset that is given, or one made for the measurement.

use crate::commands::train::explain;
use crate::commands::world;
use crate::hint::Hint;
use far_train::{TokenizerKind, TrainConfig, synthetic};
use far_world::{Recording, World};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Frames of a synthetic episode, explored and returned through: more than any pool and horizon.
const FRAMES: [u32; 2] = [420, 140];
/// Walks of a world: enough that every part of the split has some.
const WALKS: u32 = 24;

/// The folders of a measurement, removed when it ends.
pub struct JointData {
    config: String,
    given: Option<PathBuf>,
    temporary: TempDir,
}

impl JointData {
    /// Folders for a configuration, and the dataset where one is given.
    ///
    /// # Errors
    /// If there is no room for temporary files.
    pub fn new(config: &str, given: Option<&Path>) -> anyhow::Result<Self> {
        let temporary = tempfile::tempdir()?;
        Ok(Self { config: config.to_owned(), given: given.map(Path::to_owned), temporary })
    }

    /// The folder of the dataset.
    pub fn folder(&self) -> PathBuf {
        self.given.clone().unwrap_or_else(|| self.temporary.path().join("data"))
    }

    /// The folder of tokenizer and encoders.
    pub fn run(&self) -> &Path {
        self.temporary.path()
    }

    /// Makes the dataset where none is given.
    ///
    /// # Errors
    /// If nothing is known to make it of.
    pub fn make(&self, config: &TrainConfig) -> anyhow::Result<()> {
        if self.given.is_some() {
            return Ok(());
        }
        let folder = self.folder();
        if matches!(config.tokenizer.kind, TokenizerKind::Precomputed(_)) {
            let latents = synthetic::latents_of(&self.config);
            return synthetic::write(config, latents, &folder, FRAMES).map_err(explain);
        }
        let (world, variant) = self.world()?;
        let size = config.tokenizer.patch_pca.resolution.iter().copied().max().unwrap_or(64);
        let recording = Recording::new(world, variant, 0, size as u32).map_err(world::explain)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        far_world::record(world, &recording, WALKS, &folder, threads, &|_| {})
            .map_err(world::explain)?;
        Ok(())
    }

    /// The world that the configuration is called after, as `apartment-v2`.
    fn world(&self) -> anyhow::Result<(&'static dyn World, Option<&'static str>)> {
        let (name, variant) = self.config.split_once('-').unwrap_or((&self.config, ""));
        let known = far_world::worlds().iter().find(|world| world.name() == name);
        let Some(world) = known else {
            let hint = "give --data the folder of a dataset";
            return Err(Hint::error(format!("`{}` is no world to record", self.config), hint));
        };
        Ok((*world, world.constants().variants.iter().copied().find(|own| *own == variant)))
    }
}

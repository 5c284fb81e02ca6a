//! The walks that the demo records.

use super::Arguments;
use crate::hint::Hint;
use crate::stage::Stage;
use far_data::{DatasetDescription, Split};
use far_train::TrainConfig;
use far_world::{Progress, Recording, World};
use std::path::Path;

/// Hint where a folder has something else.
const ELSEWHERE: &str = "give another --out, or --fresh to start again";

/// A recording of villages that is still to be made, or to be finished.
pub struct Walks {
    world: &'static dyn World,
    recording: Recording,
    episodes: u32,
}

impl Walks {
    /// The walks that the arguments ask for.
    ///
    /// # Errors
    /// If there are none to learn from, or none to judge by.
    pub fn new(arguments: &Arguments, config: &TrainConfig) -> anyhow::Result<Self> {
        let episodes = arguments.episodes.unwrap_or(if arguments.quick { 20 } else { 120 });
        let world = far_world::world("village")?;
        let size = config.tokenizer.patch_pca.resolution[0] as u32;
        let recording = Recording::new(world, Some(&arguments.variant), arguments.seed, size)?;
        let walks = Self { world, recording, episodes };
        for split in [Split::Train, Split::Test] {
            if !walks.has(split)? {
                let message = format!("--episodes {episodes} gives no walk to {}", split.name());
                return Err(Hint::usage(message, "a fifth of them is held out: give 10 or more"));
            }
        }
        Ok(walks)
    }

    fn has(&self, split: Split) -> anyhow::Result<bool> {
        for id in 0..self.episodes {
            if self.world.episode(&self.recording, id)?.course().facts.split == split {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The dataset that they will be.
    pub fn description(&self) -> DatasetDescription {
        far_world::description(self.world, &self.recording)
    }

    /// Refuses a folder with another recording before anything is added to it.
    ///
    /// # Errors
    /// If it holds another one.
    pub fn check(&self, folder: &Path, fresh: bool) -> anyhow::Result<()> {
        let path = folder.join("dataset.json");
        let Ok(bytes) = std::fs::read(&path) else { return Ok(()) };
        if fresh {
            return Ok(());
        }
        let wanted = self.description();
        match DatasetDescription::parse(&bytes, &path) {
            Ok(found) if found == wanted => Ok(()),
            _ => {
                let message = format!("{} holds another recording", folder.display());
                Err(Hint::error(message, ELSEWHERE))
            }
        }
    }

    /// Records the walks, or those that are missing.
    ///
    /// # Errors
    /// If the folder or the disk refuses.
    pub fn record(&self, folder: &Path) -> anyhow::Result<()> {
        let bar = Stage::new(u64::from(self.episodes), "walks recorded");
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let tell = |news| match news {
            Progress::Start { kept, .. } => bar.start_at(kept as u64),
            Progress::Episode => bar.advance(),
            Progress::Frame => {}
        };
        let (world, episodes) = (self.world, self.episodes);
        let recorded = far_world::record(world, &self.recording, episodes, folder, threads, &tell);
        bar.end();
        recorded.map_err(super::super::world::explain)?;
        Ok(())
    }
}

//! The interface of a world: it makes episodes from a seed, one by one, in any order.

use far_data::{DatasetDescription, EpisodeFacts, Generator, Signal};
use far_memory::{Camera, Pose};

use crate::error::{Result, WorldError};
use crate::scene::Scene;
use crate::studio::Studio;

/// The settings of a recording: everything an episode depends on besides its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// One of the world's variants.
    pub variant: &'static str,
    /// Seed of the whole recording.
    pub seed: u64,
    /// Width and height of the frames in pixels.
    pub size: u32,
}

impl Recording {
    /// A recording of a world's variant (`None`: its first), checked.
    pub fn new(world: &dyn World, variant: Option<&str>, seed: u64, size: u32) -> Result<Self> {
        let known = world.variants();
        let wanted = variant.unwrap_or(known[0]);
        let variant = known.iter().find(|name| **name == wanted).ok_or_else(|| {
            WorldError::UnknownVariant { world: world.name(), variant: wanted.to_string(), known }
        })?;
        if !(8..=2048).contains(&size) {
            return Err(WorldError::Size { size });
        }
        Ok(Self { variant, seed, size })
    }
}

/// One of the built-in worlds.
///
/// Episode `index` of a recording depends on the recording and on `index` alone, never on other
/// episodes, their order, or the number of threads.
pub trait World: Send + Sync {
    /// Name on the command line and in datasets.
    fn name(&self) -> &'static str;

    /// Version of the generator: changes whenever the same seed gives other bytes.
    fn version(&self) -> u32;

    /// Names of the variants; the first is the default.
    fn variants(&self) -> &'static [&'static str];

    /// Frames per second.
    fn fps(&self) -> f32;

    /// The camera of every frame.
    fn camera(&self) -> Camera;

    /// Fills in what is specific to this world: signals, labels, splits, cues, sound. Corpus,
    /// variant, rate, camera, size and generator are already set.
    fn describe(&self, recording: &Recording, description: &mut DatasetDescription);

    /// Plans an episode and builds its scene.
    fn episode(&self, recording: &Recording, index: u32) -> Result<Box<dyn Episode>>;
}

/// The description of a dataset recorded from a world.
pub fn description(world: &dyn World, recording: &Recording) -> DatasetDescription {
    let camera = world.camera();
    let degrees = [camera.horizontal_field_of_view, camera.vertical_field_of_view]
        .map(|angle| (angle.to_degrees() * 100.0).round() / 100.0);
    let size = [recording.size, recording.size];
    let mut description = DatasetDescription::new(world.name(), world.fps(), size, degrees);
    description.variant = recording.variant.to_string();
    description.generator = Generator {
        name: world.name().to_string(),
        version: world.version(),
        seed: recording.seed,
    };
    description.signals = vec![Signal::VisibleFaces];
    world.describe(recording, &mut description);
    description
}

/// One planned episode: a scene, a path through it, and its events.
pub trait Episode: Send {
    /// Scene, splits, route and so on, for the dataset's index.
    fn facts(&self) -> EpisodeFacts;

    /// Number of frames.
    fn frames(&self) -> usize;

    /// Renders frame `index`, counted from 0, with all columns of the dataset. Frames may be
    /// rendered in any order.
    fn frame(&mut self, index: usize, studio: &mut Studio) -> Result<far_data::Frame>;

    /// The scene at frame `index`, for maps and benchmarks.
    fn scene(&mut self, index: usize) -> &Scene;

    /// The camera's pose in frame `index`.
    fn pose(&self, index: usize) -> Pose;

    /// Index of the first return frame.
    fn boundary(&self) -> usize;

    /// Height in meters at which a map cuts the scene open, so that ceilings do not hide rooms.
    fn map_height(&self) -> f32 {
        f32::INFINITY
    }
}

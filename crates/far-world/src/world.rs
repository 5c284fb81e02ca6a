//! The interface of a world: it makes episodes from a seed, one by one, in any order.

use far_data::{DatasetDescription, EpisodeFacts, Generator, Phase, Signal};
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
    /// Different scenes; episodes take them in turn.
    pub scenes: u32,
}

impl Recording {
    /// A recording of a world's variant (`None`: its first), checked.
    pub fn new(world: &dyn World, variant: Option<&str>, seed: u64, size: u32) -> Result<Self> {
        let known = world.constants().variants;
        let wanted = variant.unwrap_or(known[0]);
        let variant = known.iter().find(|name| **name == wanted).ok_or_else(|| {
            WorldError::UnknownVariant { world: world.name(), variant: wanted.to_string(), known }
        })?;
        if !(8..=2048).contains(&size) {
            return Err(WorldError::Size { size });
        }
        Ok(Self { variant, seed, size, scenes: world.constants().scenes })
    }

    /// The same with another number of scenes, checked: episodes of few scenes share each of them.
    ///
    /// # Errors
    /// If a split of so few scenes could have no test part.
    pub fn with_scenes(self, world: &dyn World, scenes: u32) -> Result<Self> {
        let least = world.constants().least_scenes;
        if scenes < least {
            return Err(WorldError::Scenes { world: world.name(), scenes, least });
        }
        Ok(Self { scenes, ..self })
    }

    /// Which of `kinds` kinds of route an episode has, so that a short recording has every kind and
    /// every scene gets all of them in turn.
    pub(crate) fn kind(&self, index: u32, kinds: u32) -> u32 {
        let coprime = |step: &u32| gcd((self.scenes + step) % kinds, kinds) == 1;
        // From one round over the scenes to the next, a scene's kind moves by scenes + step.
        let step = (0..kinds).find(coprime).unwrap_or(1);
        ((u64::from(index) + u64::from(step) * u64::from(index / self.scenes)) % u64::from(kinds))
            as u32
    }
}

/// The greatest common divisor.
fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// What never changes about a world.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorldConstants {
    /// Name on the command line and in datasets.
    pub name: &'static str,
    /// Version of the generator: changes whenever the same seed gives other bytes.
    pub version: u32,
    /// Names of the variants; the first is the default.
    pub variants: &'static [&'static str],
    /// Different scenes of a recording that asks for no other number.
    pub scenes: u32,
    /// Fewest scenes whose split always has a test part.
    pub least_scenes: u32,
    /// Frames per second.
    pub fps: f32,
    /// Field of view of the camera, both ways, in degrees.
    pub field_of_view: f32,
}

/// One of the built-in worlds.
///
/// Episode `index` of a recording depends on the recording and on `index` alone, never on other
/// episodes, their order, or the number of threads.
pub trait World: Send + Sync {
    /// What never changes about the world.
    fn constants(&self) -> WorldConstants;

    /// Name on the command line and in datasets.
    fn name(&self) -> &'static str {
        self.constants().name
    }

    /// The camera of every frame.
    fn camera(&self) -> Camera {
        let degrees = self.constants().field_of_view;
        Camera::from_degrees(degrees, degrees)
    }

    /// Fills in what is specific to this world: signals, labels, splits, cues, sound. Corpus,
    /// variant, rate, camera, size and generator are already set.
    fn describe(&self, recording: &Recording, description: &mut DatasetDescription);

    /// The error of an episode for which no plan satisfied the world's constraints.
    fn no_episode(&self, recording: &Recording, index: u32, reason: String) -> WorldError {
        WorldError::NoEpisode { world: self.name(), index, seed: recording.seed, reason }
    }

    /// Plans an episode and builds its scene.
    fn episode(&self, recording: &Recording, index: u32) -> Result<Box<dyn Episode>>;
}

/// The description of a dataset recorded from a world.
pub fn description(world: &dyn World, recording: &Recording) -> DatasetDescription {
    let camera = world.camera();
    let degrees = [camera.horizontal_field_of_view, camera.vertical_field_of_view]
        .map(|angle| (angle.to_degrees() * 100.0).round() / 100.0);
    let size = [recording.size, recording.size];
    let mut description =
        DatasetDescription::new(world.name(), world.constants().fps, size, degrees);
    description.variant = recording.variant.to_string();
    description.generator = Generator {
        name: world.name().to_string(),
        version: world.constants().version,
        seed: recording.seed,
        scenes: (recording.scenes != world.constants().scenes).then_some(recording.scenes),
    };
    description.signals = vec![Signal::VisibleFaces];
    world.describe(recording, &mut description);
    description
}

/// Where the camera goes in an episode, and what the dataset's index says about it.
#[derive(Clone, Debug)]
pub struct Course {
    /// Scene, splits, route and so on, for the dataset's index.
    pub facts: EpisodeFacts,
    /// The camera's pose in every frame.
    pub poses: Vec<Pose>,
    /// Index of the first return frame.
    pub boundary: usize,
    /// Frames per second.
    pub fps: f32,
    /// Height in meters at which a map cuts the scene open, so that ceilings do not hide rooms.
    pub map_height: f32,
}

impl Course {
    /// Renders frame `index` with the columns that every world has.
    pub fn shoot(&self, index: usize, scene: &Scene, studio: &mut Studio) -> far_data::Frame {
        let phase = if index < self.boundary { Phase::Explore } else { Phase::Return };
        let time = index as f64 / f64::from(self.fps);
        studio.shoot(scene, &self.poses[index], time, phase)
    }
}

/// One planned episode: a scene, a path through it, and its events.
pub trait Episode: Send {
    /// The camera's path.
    fn course(&self) -> &Course;

    /// Renders frame `index`, counted from 0, with all columns of the dataset. Frames may be
    /// rendered in any order.
    fn frame(&mut self, index: usize, studio: &mut Studio) -> Result<far_data::Frame>;

    /// The scene at frame `index`, for maps and benchmarks.
    fn scene(&mut self, index: usize) -> &Scene;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_scene_meets_every_kind_of_route() {
        for world in crate::worlds() {
            let recording = Recording::new(*world, None, 0, 16).unwrap();
            for scenes in world.constants().least_scenes..world.constants().least_scenes + 30 {
                let recording = recording.clone().with_scenes(*world, scenes).unwrap();
                for (kinds, scene) in [(6, 0), (8, 0), (6, scenes - 1), (8, scenes - 1)] {
                    let rounds = (0..kinds).map(|round| scene + round * scenes);
                    let met: BTreeSet<u32> =
                        rounds.map(|index| recording.kind(index, kinds)).collect();
                    assert_eq!(met.len(), kinds as usize, "{scenes} scenes, {kinds} kinds");
                }
            }
        }
    }

    #[test]
    fn a_number_of_scenes_is_checked_and_kept_in_the_description() {
        for world in crate::worlds() {
            let own = Recording::new(*world, None, 0, 16).unwrap();
            assert_eq!(own.scenes, world.constants().scenes);
            assert_eq!(description(*world, &own).generator.scenes, None);
            let few = own.clone().with_scenes(*world, 30).unwrap();
            assert_eq!(description(*world, &few).generator.scenes, Some(30));
            let refused = own.with_scenes(*world, world.constants().least_scenes - 1).unwrap_err();
            assert!(refused.to_string().contains("scenes"), "{refused}");
        }
    }
}

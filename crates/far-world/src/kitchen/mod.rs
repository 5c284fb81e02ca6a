//! The kitchen, after AI2-THOR: stations with canonical viewpoints, containers that open, and
//! objects that are moved out of view.
//!
//! An episode surveys six stations, moves four objects from one to another, and returns to all six.
//! Some interactions are done from a station's canonical viewpoint, so that memory holds a current
//! view from there; the others from an offset viewpoint, so that the newest view from the canonical
//! one is stale.

mod anchor;
mod episode;
mod furniture;
mod object;
mod palette;
mod room;
mod scene;
mod script;
mod sight;
mod state;
mod station;
#[cfg(test)]
mod tests;
mod track;

use far_data::{DatasetDescription, Deal, EpisodeFacts, Pair, Signal, SplitRule};
use rand::RngExt;

pub use object::ObjectKind;
pub use station::StationKind;

use self::episode::KitchenEpisode;
use self::scene::KitchenScene;
use self::script::Script;
use crate::error::Result;
use crate::{Course, Episode, Recording, World, WorldConstants, random};

/// Different kitchens in one recording.
const SCENES: u32 = 120;
/// One of five kitchens is for testing.
const TEST: (u32, u32) = (5, 1);
/// Of every ten episodes of the default variant the last two are a counterfactual pair.
const BLOCK: u32 = 10;
/// Attempts at a script before giving up; more than three were never needed.
const ATTEMPTS: usize = 50;

/// The kitchen world.
#[derive(Clone, Copy, Debug)]
pub struct Kitchen;

/// Which story an episode follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    /// Number of the story; the two episodes of a pair share it.
    story: u32,
    /// Whether the pivotal interaction is left out.
    counterfactual: bool,
    /// The other episode of the pair.
    partner: Option<u32>,
}

impl Part {
    fn of(variant: &str, index: u32) -> Self {
        let pair = |story| Self { story, counterfactual: index % 2 == 1, partner: Some(index ^ 1) };
        if variant == "paired" {
            return pair(index / 2);
        }
        let within = index % BLOCK;
        let story = index / BLOCK * (BLOCK - 1) + within.min(BLOCK - 2);
        let alone = Self { story, counterfactual: false, partner: None };
        if within < BLOCK - 2 { alone } else { pair(story) }
    }
}

impl World for Kitchen {
    fn constants(&self) -> WorldConstants {
        WorldConstants {
            name: "kitchen",
            version: 1,
            variants: &["mixed", "paired"],
            scenes: SCENES,
            least_scenes: TEST.0,
            fps: 10.0,
            field_of_view: 70.0,
        }
    }

    fn describe(&self, _: &Recording, description: &mut DatasetDescription) {
        let signals = [Signal::Events, Signal::DoorFraction, Signal::Change, Signal::States];
        description.signals.extend(signals);
        description.labels = track::LABELS.map(String::from).to_vec();
        description.splits = vec![SplitRule::SceneDisjoint];
        description.overlap_radius = 8.0;
        description.provenance = "built-in kitchen, after AI2-THOR".into();
    }

    fn episode(&self, recording: &Recording, index: u32) -> Result<Box<dyn Episode>> {
        let part = Part::of(recording.variant, index);
        let number = part.story % recording.scenes;
        let mut stream = random(recording.seed, "kitchen-scene", u64::from(number));
        let kitchen = KitchenScene::draw(&mut stream);
        let mut stream = random(recording.seed, "kitchen-story", u64::from(part.story));
        let seed = stream.random();
        let script =
            (0..ATTEMPTS).find_map(|_| Script::draw(&kitchen, &mut stream)).ok_or_else(|| {
                self.no_episode(recording, index, "nothing was put into a container".into())
            })?;
        let script = if part.counterfactual { script.counterfactual() } else { script };
        let split = Deal { seed: recording.seed, block: TEST.0, test: TEST.1 }.split(number);
        let mut facts = EpisodeFacts::new(format!("kitchen-{number:03}"), split, seed);
        let role = if part.counterfactual { "counterfactual" } else { "factual" };
        facts.pair = part.partner.map(|episode| Pair { episode, role: role.into() });
        let scene = kitchen.empty();
        let poses = script.moments.iter().map(|moment| moment.pose).collect();
        let (boundary, fps) = (script.boundary, self.constants().fps);
        let course = Course { facts, poses, boundary, fps, map_height: 1.3 };
        let camera = self.camera();
        Ok(Box::new(KitchenEpisode { kitchen, script, course, camera, scene }))
    }
}

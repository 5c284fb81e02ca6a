//! Apartment: rooms, doors and similar corridors with sound, after SoundSpaces.
//!
//! A walker scans at A, goes to B (and C), scans again and returns on the shortest path, while two
//! to four sources play. Both variants take the same paths through the same rooms with the same
//! sources; `v1` scans only at both ends of the exploration, `v2` also on the way. The return is
//! the same in both, frame by frame and sample by sample.

mod decoration;
mod episode;
mod finish;
mod fixture;
mod furnish;
mod furniture;
mod ground;
mod house;
mod lattice;
mod map;
mod passage;
mod piece;
mod plan;
mod route;
mod source;
#[cfg(test)]
mod tests;

use crate::error::Result;
use crate::random::random;
use crate::sound::SAMPLE_RATE;
use crate::world::{Course, Episode, Recording, World, WorldConstants};
pub use episode::ApartmentEpisode;
use far_data::{DatasetDescription, Deal, EpisodeFacts, SplitRule};
use house::House;
use rand::RngExt;
use route::{Route, TIERS};

/// Frames per second.
const FPS: f32 = 10.0;
/// Different apartments per recording.
const SCENES: u32 = 81;
/// Of 27 apartments, 8 are for testing: 57 training and 24 test scenes out of 81.
const TEST: (u32, u32) = (27, 8);
/// Attempts with other random numbers before giving up on an episode.
const ATTEMPTS: u64 = 20;

/// The apartment world.
#[derive(Clone, Copy, Debug)]
pub struct Apartment;

impl World for Apartment {
    fn constants(&self) -> WorldConstants {
        WorldConstants {
            name: "apartment",
            version: 1,
            variants: &["v1", "v2"],
            scenes: SCENES,
            least_scenes: TEST.0,
            fps: FPS,
            field_of_view: 90.0,
        }
    }

    fn describe(&self, _recording: &Recording, description: &mut DatasetDescription) {
        description.splits = vec![SplitRule::SceneDisjoint];
        description.audio_rate = Some(SAMPLE_RATE);
        description.cues.push("audio".into());
        description.overlap_radius = 10.0;
        description.provenance =
            "Rendered by far's apartment world after SoundSpaces; free to use.".into();
    }

    fn episode(&self, recording: &Recording, index: u32) -> Result<Box<dyn Episode>> {
        Ok(Box::new(self.walk(recording, index)?))
    }
}

impl Apartment {
    /// Plans an episode, with what only apartments have: sources and a map.
    pub fn walk(&self, recording: &Recording, index: u32) -> Result<ApartmentEpisode> {
        let scene = index % recording.scenes;
        let kind = recording.kind(index, 6);
        let (three, tier) = (kind % 2 == 1, TIERS[kind as usize / 2]);
        let house = House::build(random(recording.seed, "apartment", u64::from(scene)));
        for attempt in 0..ATTEMPTS {
            let number = u64::from(index) * ATTEMPTS + attempt;
            let mut random = random(recording.seed, "loop", number);
            let Some(route) = Route::draw(&house, three, tier, &mut random) else { continue };
            let soundscape = source::soundscape(&house, &mut random);
            let deal = Deal { seed: recording.seed, block: TEST.0, test: TEST.1 };
            let name = format!("apartment-{scene:02}");
            let facts = EpisodeFacts {
                route: route.name.into(),
                tier: Some(tier),
                ..EpisodeFacts::new(name, deal.split(scene), random.random())
            };
            let mut poses = match recording.variant {
                "v2" => route.dense(&house.plan),
                _ => route.explore,
            };
            let boundary = poses.len();
            poses.extend(route.back);
            let course = Course { facts, poses, boundary, fps: FPS, map_height: 1.9 };
            return Ok(ApartmentEpisode { course, house, soundscape, heard: Vec::new() });
        }
        let reason = format!("no return path of about {tier} m was found in apartment {scene}");
        Err(self.no_episode(recording, index, reason))
    }
}

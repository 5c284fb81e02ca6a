//! Village: houses, lanes and trees in six biomes, after LoopNav.
//!
//! A walker scans at A, goes to B (and C), and returns on a path of its own. Everything up to the
//! start of the return is memory. On such a return most views are new, because the walker faces the
//! other way. In the variant `patrol` a round over a few places is walked several times, so that
//! the return shows places seen before; in `changing` paint, windows, shutters, doors, lanterns and
//! stalls change between two rounds, so that the nearest view is often stale and the newest right.

mod biome;
mod change;
mod episode;
mod furniture;
mod house;
mod material;
mod nature;
mod plan;
mod route;
mod town;

use far_data::{DatasetDescription, Deal, EpisodeFacts, SplitRule};
use rand::RngExt;

use crate::error::Result;
use crate::random::random;
use crate::world::{Episode, Recording, World, WorldConstants};

use episode::{VillageEpisode, changes};
use route::{TIERS, loop_route, patrol_route};
use town::Town;

/// Frames per second.
const FPS: f32 = 20.0;
/// Different villages per recording: twenty in each biome.
const SCENES: u32 = 120;
/// One of five scenes, or episodes, is for testing.
const TEST: (u32, u32) = (5, 1);
/// Attempts with other random numbers before giving up on an episode.
const ATTEMPTS: u64 = 20;

/// The village world.
#[derive(Clone, Copy, Debug)]
pub struct Village;

impl World for Village {
    fn constants(&self) -> WorldConstants {
        WorldConstants {
            name: "village",
            version: 3,
            variants: &["static", "patrol", "changing"],
            scenes: SCENES,
            least_scenes: TEST.0,
            fps: FPS,
            field_of_view: 75.0,
        }
    }

    fn describe(&self, _recording: &Recording, description: &mut DatasetDescription) {
        description.splits = vec![SplitRule::SceneDisjoint, SplitRule::Episode];
        description.overlap_radius = 60.0;
        description.provenance =
            "Rendered by far's village world after the LoopNav benchmark; free to use.".into();
    }

    fn episode(&self, recording: &Recording, index: u32) -> Result<Box<dyn Episode>> {
        let scene = index % recording.scenes;
        let kind = recording.kind(index, 8);
        let (three, tier) = (kind % 2 == 1, TIERS[kind as usize / 2]);
        let town = Town::new(recording.seed, scene);
        for attempt in 0..ATTEMPTS {
            let number = u64::from(index) * ATTEMPTS + attempt;
            let mut random = random(recording.seed, "route", number);
            let changing = recording.variant == "changing";
            let route = match recording.variant {
                "static" => loop_route(&town, &mut random, three, tier),
                "patrol" => patrol_route(&town, &mut random, tier, 2),
                _ => patrol_route(&town, &mut random, tier, 3),
            };
            let Some(route) = route else { continue };
            let events = if changing { changes(&town, &route, &mut random) } else { Vec::new() };
            let deal = |seed, number| Deal { seed, block: TEST.0, test: TEST.1 }.split(number);
            let facts = EpisodeFacts {
                second_split: Some(deal(recording.seed ^ 1, index)),
                route: route.name.into(),
                tier: Some(route.tier),
                ..EpisodeFacts::new(town.name.clone(), deal(recording.seed, scene), random.random())
            };
            return Ok(Box::new(VillageEpisode::new(town, facts, route, events)));
        }
        let reason = format!("no route of tier {tier} m was found in {}", town.name);
        Err(self.no_episode(recording, index, reason))
    }
}

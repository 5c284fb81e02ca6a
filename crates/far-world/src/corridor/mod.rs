//! The corridor, after AI2-THOR-dyn: an agent patrols a corridor and is visible only through a
//! doorway.
//!
//! The observer views both empty ends, goes to a post in the room, watches the agent cross from end
//! to end, then goes through the doorway and views both ends again. The last crossing determines
//! where the agent is; the present view does not show it.

mod checker;
mod episode;
mod hall;
mod patrol;
mod plan;
#[cfg(test)]
mod tests;

use far_data::{DatasetDescription, Deal, EpisodeFacts, Pair, Signal, SplitRule};
use rand::RngExt;

use self::episode::CorridorEpisode;
use self::hall::Hall;
use self::plan::Plan;
use crate::error::Result;
use crate::{Course, Episode, Recording, Scene, World, WorldConstants, random};

/// Different halls in one recording; all of them appear in training and in testing.
const HALLS: u32 = 7;
/// Attempts at a plan that passes quality control before giving up.
const ATTEMPTS: usize = 50;

/// The corridor world.
#[derive(Clone, Copy, Debug)]
pub struct Corridor;

far_memory::named! {
    /// The role of an episode in its story.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Role {
        /// The agent patrols.
        Acted = "acted",
        /// The same frames without an agent.
        Control = "control",
        /// The agent patrols; another episode leaves its last crossing out.
        Factual = "factual",
        /// The last crossing is left out.
        Counterfactual = "counterfactual",
    }
}

/// Roles within a block of the default variant: six alone, two with their static control (one
/// episode in six is a control, as in the paper), and a counterfactual pair.
const BLOCK: [(u32, Role); 12] = [
    (0, Role::Acted),
    (1, Role::Acted),
    (2, Role::Acted),
    (3, Role::Acted),
    (4, Role::Acted),
    (5, Role::Acted),
    (6, Role::Acted),
    (6, Role::Control),
    (7, Role::Acted),
    (7, Role::Control),
    (8, Role::Factual),
    (8, Role::Counterfactual),
];
/// Stories per block.
const STORIES: u32 = 9;

/// Story, role and partner of an episode.
fn part(variant: &str, index: u32) -> (u32, Role, Option<u32>) {
    if variant == "paired" {
        let role = if index.is_multiple_of(2) { Role::Factual } else { Role::Counterfactual };
        return (index / 2, role, Some(index ^ 1));
    }
    let within = index % BLOCK.len() as u32;
    let (story, role) = BLOCK[within as usize];
    let partner = (within >= 6).then_some(index ^ 1);
    (index / BLOCK.len() as u32 * STORIES + story, role, partner)
}

impl World for Corridor {
    fn constants(&self) -> WorldConstants {
        WorldConstants {
            name: "corridor",
            version: 2,
            variants: &["mixed", "paired"],
            scenes: HALLS,
            least_scenes: 1,
            fps: 10.0,
            field_of_view: 70.0,
        }
    }

    fn describe(&self, _: &Recording, description: &mut DatasetDescription) {
        description.signals.extend([Signal::Events, Signal::Agent, Signal::States]);
        description.labels = vec!["transit".into()];
        description.splits = vec![SplitRule::Episode];
        description.cues = ["metadata", "vision", "agent"].map(String::from).to_vec();
        description.overlap_radius = 14.0;
        description.provenance = "built-in corridor, after AI2-THOR-dyn".into();
    }

    fn episode(&self, recording: &Recording, index: u32) -> Result<Box<dyn Episode>> {
        let (story, role, partner) = part(recording.variant, index);
        let number = story % recording.scenes;
        let hall =
            Hall::draw(number, &mut random(recording.seed, "corridor-hall", u64::from(number)));
        let mut stream = random(recording.seed, "corridor-story", u64::from(story));
        let seed = stream.random();
        let appearance = hall.appearances[stream.random_range(0..hall.appearances.len())];
        let mut rejected = None;
        let plan = (0..ATTEMPTS).find_map(|_| {
            let plan = Plan::draw(&hall, &mut stream);
            let verdict = checker::check(&hall, &plan, &self.camera());
            rejected = verdict.err();
            rejected.is_none().then_some(plan)
        });
        let mut plan = plan.ok_or_else(|| {
            let last =
                format!("every plan shows the agent at the wrong time, the last: {rejected:?}");
            self.no_episode(recording, index, last)
        })?;
        match role {
            Role::Acted | Role::Factual => {}
            Role::Control => plan.patrol.absent = true,
            Role::Counterfactual => {
                plan.patrol.crossings.pop();
            }
        }
        // The episodes of a pair are in the same split, so that no test story is trained on.
        let split = Deal { seed: recording.seed, block: 5, test: 1 }.split(story);
        let mut facts = EpisodeFacts::new(format!("hall-{number}"), split, seed);
        facts.route = if role == Role::Control { "static" } else { "acted" }.into();
        facts.pair = partner.map(|episode| Pair { episode, role: role.name().into() });
        let scene = Scene::new(std::sync::Arc::clone(&hall.stage), hall.props.clone());
        let (poses, boundary, fps) = (plan.poses.clone(), plan.watch.end, self.constants().fps);
        let course = Course { facts, poses, boundary, fps, map_height: 1.3 };
        Ok(Box::new(CorridorEpisode { hall, plan, course, appearance, scene }))
    }
}

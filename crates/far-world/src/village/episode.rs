//! One episode in a village.

use far_data::EpisodeFacts;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::error::Result;
use crate::scene::Scene;
use crate::studio::Studio;
use crate::world::{Course, Episode};

use super::FPS;
use super::change::Changeable;
use super::route::Route;
use super::town::Town;

/// A change of appearance at a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub frame: usize,
    pub changeable: usize,
    pub state: u8,
}

/// A route through a village, and the changes on the way.
pub(super) struct VillageEpisode {
    course: Course,
    scene: Scene,
    changeables: Vec<Changeable>,
    /// Ascending by frame.
    events: Vec<Event>,
    /// Frame whose state the scene has now.
    shown: usize,
}

impl VillageEpisode {
    pub fn new(town: Town, facts: EpisodeFacts, route: Route, events: Vec<Event>) -> Self {
        let Town { scene, changeables, .. } = town;
        let Route { poses, boundary, .. } = route;
        let course = Course { facts, poses, boundary, fps: FPS, map_height: f32::INFINITY };
        Self { course, scene, changeables, events, shown: 0 }
    }

    /// Sets the scene to the state of a frame.
    fn show(&mut self, frame: usize) {
        if frame < self.shown {
            // Going backward: start again with the initial states.
            for changeable in &self.changeables {
                changeable.apply(changeable.start, &mut self.scene);
            }
            self.shown = 0;
        }
        let due = |event: &&Event| event.frame > self.shown && event.frame <= frame;
        for event in self.events.iter().filter(due) {
            self.changeables[event.changeable].apply(event.state, &mut self.scene);
        }
        self.shown = frame;
    }
}

impl Episode for VillageEpisode {
    fn course(&self) -> &Course {
        &self.course
    }

    fn frame(&mut self, index: usize, studio: &mut Studio) -> Result<far_data::Frame> {
        self.show(index);
        Ok(self.course.shoot(index, &self.scene, studio))
    }

    fn scene(&mut self, index: usize) -> &Scene {
        self.show(index);
        &self.scene
    }
}

/// Changes at random times before the paths of the return are walked for the last time: views from
/// earlier rounds are mostly stale, from near or far, and the newest view of a place is right.
pub(super) fn changes(town: &Town, route: &Route, random: &mut ChaCha8Rng) -> Vec<Event> {
    let mut events = Vec::new();
    for (index, changeable) in town.changeables.iter().enumerate() {
        let mut state = changeable.start;
        let mut frame = random.random_range(1..=route.last_visit.max(3) / 3);
        while frame < route.last_visit {
            let other = random.random_range(1..changeable.options());
            state = (state + other) % changeable.options();
            events.push(Event { frame, changeable: index, state });
            frame += random.random_range(route.last_visit / 5..=route.last_visit / 2).max(1);
        }
    }
    events.sort_by_key(|event| (event.frame, event.changeable));
    events
}

//! The camera's path through a kitchen, frame by frame, with its interactions.

use far_memory::{Pose, wrap_angle};

use super::scene::KitchenScene;
use super::state::{Chronicle, Contents, Interaction};
use super::station::EYE;

/// Meters per frame while walking.
const STEP: f32 = 0.18;
/// Radians per frame while turning.
const TURN: f32 = 0.32;
/// Pitch of the camera while walking, in radians.
const WALK_PITCH: f32 = -0.18;
/// Moves shorter than this are made without facing their direction, in meters.
const SIDESTEP: f32 = 0.8;
/// Frames a door takes to open or close.
const SWING: usize = 5;

/// What happens between two frames, in the order of the dataset's labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A container begins to open.
    Open,
    /// A container begins to close.
    Close,
    /// An object is taken and is no longer visible.
    Pick,
    /// An object appears where it is put.
    Place,
}

/// Names of the events, in order.
pub(crate) const LABELS: [&str; 4] = ["open", "close", "pick", "place"];

/// One frame of a track.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub pose: Pose,
    /// Station whose canonical viewpoint this is.
    pub viewpoint: Option<usize>,
    /// Interactions so far.
    pub version: usize,
    /// The station of the interaction and how far it is open.
    pub open: Option<(usize, f32)>,
    pub event: Option<Event>,
}

/// The viewpoint of an interaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// The canonical viewpoint, with a view before and after.
    Canonical,
    /// An offset viewpoint, left without another view.
    Reach,
}

/// Builds a track.
pub(crate) struct Tracker<'a> {
    kitchen: &'a KitchenScene,
    pub moments: Vec<Moment>,
    pub chronicle: Chronicle,
    pose: Pose,
    viewpoint: Option<usize>,
    open: Option<(usize, f32)>,
    event: Option<Event>,
}

impl<'a> Tracker<'a> {
    /// A track that begins at the canonical viewpoint of a station.
    pub fn new(kitchen: &'a KitchenScene, first: Contents, start: usize) -> Self {
        Self {
            kitchen,
            moments: Vec::new(),
            chronicle: Chronicle::new(first),
            pose: kitchen.stations[start].canonical,
            viewpoint: Some(start),
            open: None,
            event: None,
        }
    }

    /// Adds a frame of the current state.
    fn shoot(&mut self) {
        self.moments.push(Moment {
            pose: self.pose,
            viewpoint: self.viewpoint,
            version: self.chronicle.interactions.len(),
            open: self.open,
            event: self.event.take(),
        });
    }

    fn hold(&mut self, frames: usize) {
        (0..frames).for_each(|_| self.shoot());
    }

    /// Turns and tilts in place, ending exactly at `goal`.
    fn turn(&mut self, yaw: f32, pitch: f32) {
        let (from_yaw, from_pitch) = (self.pose.yaw(), self.pose.pitch());
        let (turn, tilt) = (wrap_angle(yaw - from_yaw), pitch - from_pitch);
        let frames = (turn.abs().max(tilt.abs()) / TURN).ceil() as usize;
        for frame in 1..=frames {
            let share = frame as f32 / frames as f32;
            let position = self.pose.position;
            self.pose =
                Pose::from_yaw_pitch(position, from_yaw + share * turn, from_pitch + share * tilt);
            // The last frame of a turn is the first of what comes next.
            if frame < frames {
                self.shoot();
            }
        }
    }

    /// Walks to a pose; the frame at the pose itself is added by what comes next.
    fn go(&mut self, goal: Pose, viewpoint: Option<usize>) {
        if self.pose == goal {
            self.viewpoint = viewpoint;
            return;
        }
        self.viewpoint = None;
        let from = self.pose.position;
        let [dx, dy] = [goal.position[0] - from[0], goal.position[1] - from[1]];
        let distance = dx.hypot(dy);
        let frames = (distance / STEP).ceil() as usize;
        let aside = distance < SIDESTEP;
        let (yaw, pitch) = (self.pose.yaw(), self.pose.pitch());
        let heading = dy.atan2(dx);
        if !aside {
            self.turn(heading, WALK_PITCH);
            self.shoot();
        }
        for frame in 1..=frames {
            let share = frame as f32 / frames as f32;
            let position = [from[0] + share * dx, from[1] + share * dy, EYE];
            self.pose = if aside {
                let turn = wrap_angle(goal.yaw() - yaw);
                let tilt = goal.pitch() - pitch;
                Pose::from_yaw_pitch(position, yaw + share * turn, pitch + share * tilt)
            } else {
                Pose::from_yaw_pitch(position, heading, WALK_PITCH)
            };
            if frame < frames {
                self.shoot();
            }
        }
        if !aside {
            self.turn(goal.yaw(), goal.pitch());
        }
        // Exactly the same numbers every time, so that the same world gives the same bytes.
        self.pose = goal;
        self.viewpoint = viewpoint;
    }

    /// Goes to a station.
    pub fn visit(&mut self, station: usize, stand: Stand) {
        let own = &self.kitchen.stations[station];
        match stand {
            Stand::Canonical => self.go(own.canonical, Some(station)),
            Stand::Reach => self.go(own.reach, None),
        }
    }

    /// Opens the station, runs `inside` while it is open, and closes it. A surface only runs it.
    fn opened(&mut self, station: usize, inside: impl FnOnce(&mut Self)) {
        if !self.kitchen.stations[station].kind.is_container() {
            inside(self);
            return;
        }
        for frame in 1..=SWING {
            self.event = (frame == 1).then_some(Event::Open);
            self.open = Some((station, frame as f32 / SWING as f32));
            self.shoot();
        }
        inside(self);
        for frame in 1..=SWING {
            self.event = (frame == 1).then_some(Event::Close);
            self.open = Some((station, 1.0 - frame as f32 / SWING as f32));
            self.shoot();
        }
        self.open = None;
    }

    /// Views a station from its canonical viewpoint, opening it if it is a container.
    pub fn inspect(&mut self, station: usize) {
        self.visit(station, Stand::Canonical);
        self.hold(2);
        self.opened(station, |tracker| tracker.hold(2));
        self.hold(1);
    }

    /// Takes an object from a spot or puts it there. Carried objects are not visible.
    pub fn act(&mut self, interaction: Interaction, stand: Stand) {
        let station = self.kitchen.station_of(interaction.spot);
        self.visit(station, stand);
        self.hold(1);
        self.opened(station, |tracker| {
            tracker.hold(1);
            tracker.chronicle.add(interaction);
            tracker.event = Some(if interaction.put { Event::Place } else { Event::Pick });
            tracker.hold(2);
        });
        self.hold(1);
    }
}

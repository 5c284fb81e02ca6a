//! Stations, where objects stand or are stored: kinds, spots and viewpoints.

use far_memory::Pose;

use super::anchor::Anchor;
use crate::vector::{Vector, add, scale};

/// Height of the camera above the floor, in meters.
pub(crate) const EYE: f32 = 1.5;

far_memory::named! {
    /// Kind of a station.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum StationKind {
        /// A worktop over cabinets.
        Counter = "counter",
        /// A worktop with a basin and a tap.
        Sink = "sink",
        /// A table at the wall.
        Table = "table",
        /// An open shelf of two boards.
        Shelf = "shelf",
        /// A small round table.
        Stand = "stand",
        /// A fridge with one door.
        Fridge = "fridge",
        /// A cupboard on the wall with two doors.
        Cupboard = "cupboard",
        /// An oven whose door folds down.
        Oven = "oven",
        /// A drawer that slides out.
        Drawer = "drawer",
        /// A chest with a lid.
        Chest = "chest",
        /// A low cabinet with two doors.
        Sideboard = "sideboard",
        /// A microwave on a worktop.
        Microwave = "microwave",
    }
}

impl StationKind {
    /// Kinds whose spots are always visible.
    pub const SURFACES: [Self; 5] =
        [Self::Counter, Self::Sink, Self::Table, Self::Shelf, Self::Stand];
    /// Kinds that open.
    pub const CONTAINERS: [Self; 7] = [
        Self::Fridge,
        Self::Cupboard,
        Self::Oven,
        Self::Drawer,
        Self::Chest,
        Self::Sideboard,
        Self::Microwave,
    ];

    /// Whether it opens, so that its spots are hidden while it is closed.
    pub fn is_container(self) -> bool {
        Self::CONTAINERS.contains(&self)
    }

    /// Space along the wall, in meters.
    pub(crate) fn width(self) -> f32 {
        self.measures()[0]
    }

    /// Space out of the wall, in meters.
    pub(crate) fn depth(self) -> f32 {
        self.measures()[1]
    }

    /// In meters: space along the wall and out of it; then how it is viewed: distance of the eye
    /// from its front, and the local height and depth of the point at the center of the frame.
    fn measures(self) -> [f32; 5] {
        match self {
            Self::Counter | Self::Sink => [1.25, 0.62, 0.95, 0.95, 0.30],
            Self::Table => [1.2, 0.8, 0.85, 0.80, 0.40],
            Self::Shelf => [1.25, 0.42, 1.2, 1.25, 0.2],
            Self::Stand => [0.9, 0.7, 0.95, 0.80, 0.35],
            Self::Fridge => [0.9, 0.72, 1.3, 1.12, 0.4],
            Self::Cupboard => [1.0, 0.62, 0.95, 1.62, 0.2],
            Self::Oven => [0.85, 0.62, 1.0, 0.60, 0.4],
            Self::Drawer => [0.85, 0.62, 0.95, 0.70, 0.75],
            Self::Chest => [1.0, 0.5, 0.85, 0.40, 0.25],
            Self::Sideboard => [1.0, 0.5, 1.05, 0.50, 0.25],
            Self::Microwave => [0.9, 0.62, 0.95, 1.05, 0.3],
        }
    }
}

/// A place for one object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    /// Foot of the object while the station is closed.
    foot: Vector,
    /// How far the spot moves when the station opens fully (drawers).
    slide: Vector,
}

impl Spot {
    /// Where an object's foot is when the station is open by a fraction.
    pub fn foot(&self, open: f32) -> Vector {
        add(self.foot, scale(self.slide, open))
    }
}

/// A station of a kitchen.
#[derive(Clone, Debug)]
pub(crate) struct Station {
    pub kind: StationKind,
    pub anchor: Anchor,
    /// Places for objects.
    pub spots: Vec<Spot>,
    /// Props that move when it opens, as indices into the scene's props.
    pub moving: Vec<usize>,
    /// The canonical viewpoint, the same in every inspection.
    pub canonical: Pose,
    /// The offset viewpoint of an interaction: nearer, from the side.
    pub reach: Pose,
}

impl Station {
    /// A station of a kind; spots and a slide are in local coordinates, `side` is the side of the
    /// offset viewpoint (+1 or −1 along the wall).
    pub fn new(
        kind: StationKind,
        anchor: Anchor,
        spots: &[Vector],
        slide: Vector,
        moving: Vec<usize>,
        side: f32,
    ) -> Self {
        let [_, front, distance, height, depth] = kind.measures();
        let eye = front + distance;
        let target = [0.0, depth, height];
        let spots = spots
            .iter()
            .map(|&local| Spot { foot: anchor.to_world(local), slide: anchor.direction(slide) })
            .collect();
        Self {
            kind,
            anchor,
            spots,
            moving,
            canonical: anchor.view([0.0, eye, EYE], target),
            reach: anchor.view([0.32 * side, eye - 0.12, EYE], [-0.04 * side, depth, height]),
        }
    }
}

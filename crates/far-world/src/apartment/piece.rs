//! A piece of what stands in a room, put together part by part.
//!
//! It is built around the center of its footprint, on the floor, with its back to +Y.

use crate::{MaterialId, Prop, Shape};

/// The front face of a part.
pub(super) const FRONT: usize = 2;
/// The upper face.
pub(super) const TOP: usize = 5;

/// A piece before it is placed.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Width along X and depth along Y in meters.
    pub size: [f32; 2],
    /// Its parts.
    pub parts: Vec<Prop>,
}

impl Piece {
    /// A piece without parts.
    pub fn new(width: f32, depth: f32) -> Self {
        Self { size: [width, depth], parts: Vec::new() }
    }

    /// Height of its highest part.
    pub fn height(&self) -> f32 {
        self.parts.iter().map(|part| part.center[2] + 0.5 * part.size[2]).fold(0.0, f32::max)
    }

    /// The parts of the piece, rotated by `yaw` and moved to `center`, as object `number`.
    pub fn placed(&self, center: [f32; 2], yaw: f32, number: u16) -> impl Iterator<Item = Prop> {
        let foot = [center[0], center[1], 0.0];
        self.parts.iter().map(move |part| part.moved(foot, yaw).with_object(number).with_shadow())
    }

    /// The same with one more part, which stands on `foot`.
    pub(super) fn part(mut self, foot: [f32; 3], size: [f32; 3], material: MaterialId) -> Self {
        self.parts.push(Prop::standing(foot, size, material));
        self
    }

    /// The same with another material on one face of the last part.
    pub(super) fn faced(mut self, face: usize, material: MaterialId) -> Self {
        if let Some(last) = self.parts.last_mut() {
            last.materials[face] = material;
        }
        self
    }

    /// The same with another shape of the last part.
    pub(super) fn shaped(mut self, shape: Shape) -> Self {
        if let Some(last) = self.parts.last_mut() {
            last.shape = shape;
        }
        self
    }

    /// The same with four legs, so far from the center along X and Y.
    pub(super) fn legs(mut self, [x, y]: [f32; 2], height: f32, material: MaterialId) -> Self {
        for (side, end) in [(-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0), (1.0, 1.0)] {
            self = self.part([side * x, end * y, 0.0], [0.07, 0.07, height], material);
        }
        self
    }
}

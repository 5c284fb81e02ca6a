//! A second agent: a simple person made of boxes, with arms and legs that swing when walking.

use crate::material::MaterialId;
use crate::prop::{Axis, Placement, Shape, turn};
use crate::vector::{Vector, add, along, scale};

/// Materials of a person.
#[derive(Clone, Copy, Debug)]
pub struct PersonAppearance {
    /// Face and hands.
    pub skin: MaterialId,
    /// Hair.
    pub hair: MaterialId,
    /// Upper body and sleeves.
    pub shirt: MaterialId,
    /// Legs.
    pub trousers: MaterialId,
    /// Shoes.
    pub shoes: MaterialId,
}

/// A standing or walking person.
#[derive(Clone, Copy, Debug)]
pub struct Person {
    /// Point between the feet, in the world.
    pub foot: Vector,
    /// Heading in radians, counter-clockwise from X.
    pub yaw: f32,
    /// Height in meters.
    pub height: f32,
    /// Phase of the walk in radians: one full turn is two steps; 0 stands still.
    pub phase: f32,
    /// Materials.
    pub look: PersonAppearance,
    /// Number in object masks.
    pub object: u16,
    /// Whether the person is rendered.
    pub visible: bool,
}

/// One solid of a person: where, how large, of what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limb {
    pub shape: Shape,
    pub placement: Placement,
    pub size: Vector,
    pub material: MaterialId,
}

/// Solids per person.
pub(crate) const LIMBS: usize = 13;

impl Person {
    /// The person's solids in the current pose.
    pub(crate) fn limbs(&self) -> [Limb; LIMBS] {
        let unit = self.height / 1.75;
        let swing = 0.55 * self.phase.sin();
        let bob = 0.02 * (2.0 * self.phase).sin().abs();
        // Own axes: X forward, Y left, Z up.
        let base = turn(Axis::Z, self.yaw);
        // A solid that hangs `drop` below a joint, the limb swung forward by `angle`.
        let hang = |joint: Vector, angle: f32, drop: Vector, size: Vector, material, shape| {
            let axes = turn(Axis::Y, -angle);
            let center = add(joint, along(axes, drop));
            let center = add(self.foot, along(base, scale(center, unit)));
            let placement = Placement { center, axes: axes.map(|own| along(base, own)) };
            Limb { shape, placement, size: scale(size, unit), material }
        };
        let look = self.look;
        let fixed = |at: Vector, size, material, shape| {
            let at = [at[0], at[1], at[2] + bob];
            hang(at, 0.0, [0.0; 3], size, material, shape)
        };
        let block = Shape::Block;
        let leg = |side: f32, angle: f32| {
            let hip = [0.0, 0.1 * side, 0.86];
            [
                hang(hip, angle, [0.0, 0.0, -0.40], [0.17, 0.16, 0.80], look.trousers, block),
                hang(hip, angle, [0.05, 0.0, -0.82], [0.27, 0.15, 0.09], look.shoes, block),
            ]
        };
        let arm = |side: f32, angle: f32| {
            let shoulder = [0.0, 0.27 * side, 1.42];
            [
                hang(shoulder, angle, [0.0, 0.0, -0.24], [0.13, 0.12, 0.52], look.shirt, block),
                hang(shoulder, angle, [0.0, 0.0, -0.54], [0.11, 0.10, 0.12], look.skin, block),
            ]
        };
        let ([leg_a, shoe_a], [leg_b, shoe_b]) = (leg(1.0, swing), leg(-1.0, -swing));
        let ([arm_a, hand_a], [arm_b, hand_b]) = (arm(1.0, -swing), arm(-1.0, swing));
        [
            leg_a,
            shoe_a,
            leg_b,
            shoe_b,
            arm_a,
            hand_a,
            arm_b,
            hand_b,
            fixed([0.0, 0.0, 1.15], [0.24, 0.42, 0.60], look.shirt, block),
            fixed([0.0, 0.0, 0.86], [0.22, 0.36, 0.14], look.trousers, block),
            fixed([0.0, 0.0, 1.48], [0.11, 0.12, 0.10], look.skin, block),
            fixed([0.0, 0.0, 1.62], [0.24, 0.21, 0.28], look.skin, Shape::Ball),
            fixed([-0.03, 0.0, 1.67], [0.25, 0.23, 0.24], look.hair, Shape::Ball),
        ]
    }
}

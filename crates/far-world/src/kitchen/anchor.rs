//! The local frame of furniture: against a wall, facing the room.

use far_memory::Pose;

use crate::vector::Vector;
use crate::{Axis, MaterialId, Motion, Prop};

/// A place at the foot of a wall. Local axes: `u` along the wall (to the left when facing it), `v`
/// out of the wall into the room, `z` up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anchor {
    /// Middle of the furniture's back edge on the floor.
    pub position: [f32; 2],
    /// Direction out of the wall, radians counter-clockwise from X.
    pub facing: f32,
}

impl Anchor {
    /// A local point in the world.
    pub fn to_world(self, [u, v, z]: Vector) -> Vector {
        let (sin, cos) = self.facing.sin_cos();
        [self.position[0] + u * sin + v * cos, self.position[1] - u * cos + v * sin, z]
    }

    /// A local direction in the world.
    pub fn direction(self, local: Vector) -> Vector {
        Self { position: [0.0; 2], ..self }.to_world(local)
    }

    /// Yaw of props that are aligned with the local axes.
    pub fn yaw(self) -> f32 {
        self.facing - std::f32::consts::FRAC_PI_2
    }

    /// A box along the local axes.
    pub fn block(self, center: Vector, size: Vector, material: MaterialId) -> Prop {
        Prop::block(self.to_world(center), size, material).with_yaw(self.yaw())
    }

    /// A box that swings about a line through the local point `hinge`.
    pub fn hinged(
        self,
        (center, size): (Vector, Vector),
        material: MaterialId,
        hinge: Vector,
        axis: Axis,
        angle: f32,
    ) -> Prop {
        let pivot = std::array::from_fn(|i| hinge[i] - center[i]);
        self.block(center, size, material).with_motion(Motion::Hinge { pivot, axis, angle })
    }

    /// A pose whose eye and target point are given in local coordinates.
    pub fn view(self, eye: Vector, target: Vector) -> Pose {
        let (eye, target) = (self.to_world(eye), self.to_world(target));
        let [dx, dy, dz] = std::array::from_fn(|axis| target[axis] - eye[axis]);
        Pose::from_yaw_pitch(eye, dy.atan2(dx), dz.atan2(dx.hypot(dy)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_looks_at_its_target_from_every_wall() {
        for quarter in 0..4 {
            let facing = quarter as f32 * std::f32::consts::FRAC_PI_2;
            let anchor = Anchor { position: [2.0, 3.0], facing };
            let pose = anchor.view([0.3, 2.0, 1.5], [0.0, 0.4, 0.9]);
            let [right, down, ahead] = pose.to_camera(anchor.to_world([0.0, 0.4, 0.9]));
            assert!(right.abs() < 1e-5 && down.abs() < 1e-5 && ahead > 1.6);
        }
    }

    #[test]
    fn local_axes_agree_with_those_of_props() {
        let anchor = Anchor { position: [1.0, 1.0], facing: 2.2 };
        let placement = anchor.block([0.0; 3], [1.0; 3], MaterialId::EMPTY).placement();
        let point = anchor.to_world([0.2, 0.7, 0.4]);
        let own = placement.to_own(point);
        assert!((own[0] - 0.2).abs() < 1e-5 && (own[1] - 0.7).abs() < 1e-5, "{own:?}");
    }
}

//! Objects that are not voxels: boxes, ellipsoids and cylinders, rotated about Z, that may swing or
//! slide.

use crate::material::MaterialId;
use crate::vector::{Vector, add, along, scale};

/// Shape of a prop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A box.
    Block,
    /// An ellipsoid inscribed in the box.
    Ball,
    /// An upright elliptic cylinder inscribed in the box.
    Drum,
}

/// An axis of a prop's own frame: X to its right side, Y to its back, Z up (before it is turned).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Own X.
    X,
    /// Own Y.
    Y,
    /// Own Z.
    Z,
}

/// How a prop moves when it opens.
#[derive(Clone, Copy, Debug)]
pub enum Motion {
    /// It does not move.
    Fixed,
    /// It swings about a line, as doors and lids do.
    Hinge {
        /// A point of the line, in meters from the center of the closed prop, in its own axes.
        pivot: Vector,
        /// Direction of the line.
        axis: Axis,
        /// Angle in radians when fully open, counter-clockwise about the axis.
        angle: f32,
    },
    /// It slides, as drawers do: by this much when fully open, in its own axes, in meters.
    Slide(Vector),
}

/// An object in the scene.
#[derive(Clone, Copy, Debug)]
pub struct Prop {
    /// Its shape.
    pub shape: Shape,
    /// Center when closed, in the world.
    pub center: Vector,
    /// Full size along its own axes, in meters.
    pub size: Vector,
    /// Rotation about Z in radians, counter-clockwise.
    pub yaw: f32,
    /// How it opens.
    pub motion: Motion,
    /// 0 closed to 1 open.
    pub open: f32,
    /// Materials of its faces: −X, +X, −Y, +Y, −Z, +Z; balls and drums use −X around the side.
    pub materials: [MaterialId; 6],
    /// Number in object masks; 0 for no object.
    pub object: u16,
    /// Whether it is rendered.
    pub visible: bool,
    /// Whether it casts shadows when the stage is baked (for static props).
    pub shadow: bool,
}

impl Prop {
    /// A fixed, visible, axis-aligned box of one material.
    pub fn block(center: Vector, size: Vector, material: MaterialId) -> Self {
        Self {
            shape: Shape::Block,
            center,
            size,
            yaw: 0.0,
            motion: Motion::Fixed,
            open: 0.0,
            materials: [material; 6],
            object: 0,
            visible: true,
            shadow: false,
        }
    }

    /// A box that stands on `foot` (the center of its lower face).
    pub fn standing(foot: Vector, size: Vector, material: MaterialId) -> Self {
        Self::block([foot[0], foot[1], foot[2] + 0.5 * size[2]], size, material)
    }

    /// Sets the shape.
    pub fn with_shape(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    /// Sets the rotation about Z, in radians.
    pub fn with_yaw(mut self, yaw: f32) -> Self {
        self.yaw = yaw;
        self
    }

    /// Sets how it opens.
    pub fn with_motion(mut self, motion: Motion) -> Self {
        self.motion = motion;
        self
    }

    /// Sets the number in object masks.
    pub fn with_object(mut self, object: u16) -> Self {
        self.object = object;
        self
    }

    /// Sets the material of one face (order as in [`Prop::materials`]).
    pub fn with_face(mut self, face: usize, material: MaterialId) -> Self {
        self.materials[face] = material;
        self
    }

    /// Makes it cast shadows when the stage is baked.
    pub fn with_shadow(mut self) -> Self {
        self.shadow = true;
        self
    }

    /// The same prop after turning the world by `yaw` about the origin and moving the origin to
    /// `foot`.
    pub fn moved(mut self, foot: Vector, yaw: f32) -> Self {
        let (sin, cos) = yaw.sin_cos();
        let [x, y, z] = self.center;
        self.center = [foot[0] + cos * x - sin * y, foot[1] + sin * x + cos * y, foot[2] + z];
        self.yaw += yaw;
        self
    }

    /// The current placement: center and the prop's three axes (unit vectors) in the world.
    pub fn placement(&self) -> Placement {
        let base = turn(Axis::Z, self.yaw);
        let (shift, axes) = match self.motion {
            Motion::Fixed => return Placement { center: self.center, axes: base },
            Motion::Slide(by) => (scale(by, self.open), base),
            Motion::Hinge { pivot, axis, angle } => {
                let axes = turn(axis, angle * self.open);
                // The center relative to the pivot rotates with the axes.
                let turned = along(axes, scale(pivot, -1.0));
                (add(pivot, turned), axes.map(|own| along(base, own)))
            }
        };
        Placement { center: add(self.center, along(base, shift)), axes }
    }

    /// Whether a world point lies inside the prop at its current placement.
    pub fn contains(&self, point: Vector) -> bool {
        let own = self.placement().to_own(point);
        let [x, y, z] =
            std::array::from_fn(|axis| 2.0 * own[axis].abs() / self.size[axis].max(1e-9));
        match self.shape {
            Shape::Block => x <= 1.0 && y <= 1.0 && z <= 1.0,
            Shape::Ball => x * x + y * y + z * z <= 1.0,
            Shape::Drum => x * x + y * y <= 1.0 && z <= 1.0,
        }
    }
}

/// A center and three unit axes in the world.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// Center in the world.
    pub center: Vector,
    /// Own X, Y and Z axes as world directions.
    pub axes: [Vector; 3],
}

impl Placement {
    /// A world point relative to the center, in own axes.
    pub fn to_own(&self, point: Vector) -> Vector {
        let from = crate::vector::subtract(point, self.center);
        self.axes.map(|axis| crate::vector::dot(axis, from))
    }
}

/// Own axes after a counter-clockwise rotation about one of them.
pub(crate) fn turn(axis: Axis, angle: f32) -> [Vector; 3] {
    let (sin, cos) = angle.sin_cos();
    match axis {
        Axis::X => [[1.0, 0.0, 0.0], [0.0, cos, sin], [0.0, -sin, cos]],
        Axis::Y => [[cos, 0.0, -sin], [0.0, 1.0, 0.0], [sin, 0.0, cos]],
        Axis::Z => [[cos, sin, 0.0], [-sin, cos, 0.0], [0.0, 0.0, 1.0]],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f32::consts::FRAC_PI_2;

    #[test]
    fn a_door_swings_about_its_hinge() {
        let hinge = Motion::Hinge { pivot: [-0.5, 0.0, 0.0], axis: Axis::Z, angle: FRAC_PI_2 };
        let mut door =
            Prop::block([1.0, 0.0, 1.0], [1.0, 0.1, 2.0], MaterialId(1)).with_motion(hinge);
        assert!(door.contains([1.4, 0.0, 1.0]));
        door.open = 1.0;
        assert!(!door.contains([1.4, 0.0, 1.0]));
        assert!(door.contains([0.5, 0.9, 1.0]), "{:?}", door.placement());
        assert!(door.contains([0.5, 0.1, 1.0]));
    }

    #[test]
    fn a_drawer_slides_along_its_own_axes() {
        let mut drawer = Prop::block([0.0; 3], [0.4, 0.4, 0.2], MaterialId(1))
            .with_yaw(FRAC_PI_2)
            .with_motion(Motion::Slide([0.0, -0.5, 0.0]));
        drawer.open = 1.0;
        let center = drawer.placement().center;
        assert!((center[0] - 0.5).abs() < 1e-6 && center[1].abs() < 1e-6, "{center:?}");
    }
}

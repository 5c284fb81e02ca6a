//! Light sources.

use crate::color::Color;
use crate::vector::{Vector, normalize, scale};

/// A lamp inside a scene; its light is baked with shadows into the static stage.
#[derive(Clone, Copy, Debug)]
pub struct Lamp {
    /// Position in the world.
    pub position: Vector,
    /// Distance in meters at which its light has faded to zero.
    pub reach: f32,
    /// Strength nearby; 1 lights a white wall fully.
    pub strength: f32,
}

/// The light of a scene: one sun, one ambient color, any number of lamps of one color.
#[derive(Clone, Debug)]
pub struct Light {
    /// Unit vector toward the sun.
    pub sun_direction: Vector,
    /// Linear light of the sun on a face perpendicular to it.
    pub sun: Vector,
    /// Linear ambient light, before occlusion.
    pub ambient: Vector,
    /// Linear color of all lamps.
    pub lamp_color: Vector,
    /// The lamps.
    pub lamps: Vec<Lamp>,
    /// Range of ambient occlusion, in meters.
    pub occlusion_reach: f32,
}

impl Light {
    /// Daylight with the sun at a compass direction and elevation, both in radians.
    pub fn daylight(yaw: f32, elevation: f32) -> Self {
        let level = elevation.cos();
        Self {
            sun_direction: normalize([level * yaw.cos(), level * yaw.sin(), elevation.sin()]),
            sun: scale(Color::hex(0xfff3d6).to_light(), 0.85),
            ambient: scale(Color::hex(0xcfdcf0).to_light(), 0.62),
            lamp_color: Color::hex(0xffdfa8).to_light(),
            lamps: Vec::new(),
            occlusion_reach: 2.5,
        }
    }

    /// Room light: soft ambient and the given lamps, no sun.
    pub fn indoor(lamps: Vec<Lamp>) -> Self {
        Self {
            sun_direction: [0.0, 0.0, 1.0],
            sun: [0.0; 3],
            ambient: scale(Color::hex(0xf4efe8).to_light(), 0.5),
            lamp_color: Color::hex(0xfff0d8).to_light(),
            lamps,
            occlusion_reach: 0.8,
        }
    }
}

/// How much ambient light a face of this normal receives: up most, down least, and east-west a
/// little more than north-south, so that edges of houses are visible.
#[inline]
pub(crate) fn exposure(normal: Vector) -> f32 {
    0.80 + 0.20 * normal[2] + 0.05 * (normal[0] * normal[0] - normal[1] * normal[1])
}

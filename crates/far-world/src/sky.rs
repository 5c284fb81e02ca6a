//! The sky: a gradient, clouds, a sun disk and hills, drawn once per scene.

use crate::color::Color;
use crate::noise::{fractal, smooth};
use crate::vector::{Vector, add, dot, mix, normalize, scale};

/// Texels along one edge of the baked half sphere.
const EDGE: usize = 256;

/// Appearance of a sky.
#[derive(Clone, Copy, Debug)]
pub struct SkyLook {
    /// Color overhead.
    pub zenith: Color,
    /// Color near the horizon; distant surfaces fade into it.
    pub horizon: Color,
    /// Color of clouds.
    pub cloud: Color,
    /// Fraction of the sky that clouds cover, 0 to 1.
    pub cover: f32,
    /// Color of the hills along the horizon.
    pub hill: Color,
    /// Height of the hills as an elevation in radians; 0 for none.
    pub hill_height: f32,
    /// Seed of clouds and hills.
    pub seed: u32,
}

impl SkyLook {
    /// A sky of one color, for indoor scenes.
    pub const fn plain(color: Color) -> Self {
        let cover = 0.0;
        Self {
            zenith: color,
            horizon: color,
            cloud: color,
            cover,
            hill: color,
            hill_height: 0.0,
            seed: 0,
        }
    }
}

/// The baked upper half sphere, looked up by direction.
#[derive(Clone, Debug)]
pub struct Sky {
    texels: Vec<[u8; 4]>,
    horizon: Vector,
}

impl Sky {
    /// Draws the sky; `sun_direction` is a unit vector, `sun` its linear light.
    pub fn bake(look: &SkyLook, sun_direction: Vector, sun: Vector) -> Self {
        let mut texels = Vec::with_capacity(EDGE * EDGE);
        for row in 0..EDGE {
            for column in 0..EDGE {
                let at = |i: usize| i as f32 / (EDGE - 1) as f32 * 2.0 - 1.0;
                let light = paint(look, unfold(at(column), at(row)), sun_direction, sun);
                let [r, g, b] = Color::from_light(light).0;
                texels.push([r, g, b, 255]);
            }
        }
        Self { texels, horizon: look.horizon.to_light() }
    }

    /// Linear light of the horizon.
    pub fn horizon(&self) -> Vector {
        self.horizon
    }

    /// Linear light from a direction of any length; below the horizon, that of the horizon.
    #[inline]
    pub fn sample(&self, direction: Vector) -> Vector {
        let [x, y, z] = direction;
        let norm = 1.0 / (x.abs() + y.abs() + z.max(0.0)).max(1e-12);
        let (p, q) = (x * norm, y * norm);
        let last = (EDGE - 1) as f32;
        let column = ((p + q) * 0.5 + 0.5).clamp(0.0, 1.0) * last;
        let row = ((p - q) * 0.5 + 0.5).clamp(0.0, 1.0) * last;
        let (x0, y0) = ((column as usize).min(EDGE - 2), (row as usize).min(EDGE - 2));
        let (u, v) = (column - x0 as f32, row - y0 as f32);
        let start = y0 * EDGE + x0;
        let corners = [start, start + 1, start + EDGE, start + EDGE + 1];
        let weights = [(1.0 - u) * (1.0 - v), u * (1.0 - v), (1.0 - u) * v, u * v];
        let mut display = [0.0; 3];
        for (corner, weight) in corners.into_iter().zip(weights) {
            let texel = self.texels[corner];
            for channel in 0..3 {
                display[channel] += weight * f32::from(texel[channel]);
            }
        }
        display.map(|value| (value * (1.0 / 255.0)).powi(2))
    }
}

/// Direction of a place on the square: the upper half of an octahedron, turned by 45 degrees.
fn unfold(column: f32, row: f32) -> Vector {
    let (p, q) = ((column + row) * 0.5, (column - row) * 0.5);
    normalize([p, q, (1.0 - p.abs() - q.abs()).max(0.0)])
}

fn paint(look: &SkyLook, direction: Vector, sun_direction: Vector, sun: Vector) -> Vector {
    let height = direction[2].max(0.0);
    let mut light = mix(look.horizon.to_light(), look.zenith.to_light(), height.powf(0.6));
    if look.cover > 0.0 {
        let (x, y) = (direction[0] / (height + 0.12) * 1.4, direction[1] / (height + 0.12) * 1.4);
        let density = fractal(x, y, 64, 4, look.seed);
        let edge = 0.75 - 0.5 * look.cover;
        let cloud = ((density - edge) * 5.0).clamp(0.0, 1.0) * (height * 8.0).clamp(0.0, 1.0);
        light = mix(light, look.cloud.to_light(), cloud * 0.9);
    }
    let glow = dot(direction, sun_direction).max(0.0);
    light = add(light, scale(sun, 0.25 * glow.powi(24)));
    if glow > 0.9985 {
        light = add(light, sun);
    }
    if look.hill_height > 0.0 {
        let angle = direction[1].atan2(direction[0]) / std::f32::consts::TAU;
        let near = smooth(angle * 18.0, 0.5, 18, look.seed ^ 0x51);
        let far = smooth(angle * 9.0, 0.5, 9, look.seed ^ 0x52);
        let haze = look.horizon.to_light();
        if height < look.hill_height * (0.5 + far) {
            light = mix(look.hill.to_light(), haze, 0.55);
        }
        if height < look.hill_height * near {
            light = mix(look.hill.to_light(), haze, 0.2);
        }
    }
    light
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup_finds_what_was_painted() {
        let look = SkyLook {
            zenith: Color::hex(0x2060c0),
            horizon: Color::hex(0xd0e0f0),
            ..SkyLook::plain(Color::hex(0))
        };
        let sky = Sky::bake(&look, [1.0, 0.0, 0.0], [0.0; 3]);
        for step in 0..100 {
            let yaw = step as f32 * 0.37;
            let pitch = 0.02 + step as f32 * 0.015;
            let direction = [pitch.cos() * yaw.cos(), pitch.cos() * yaw.sin(), pitch.sin()];
            let found = sky.sample(scale(direction, 3.0));
            let wanted = paint(&look, direction, [1.0, 0.0, 0.0], [0.0; 3]);
            for channel in 0..3 {
                assert!((found[channel] - wanted[channel]).abs() < 0.03);
            }
        }
    }
}

//! A square tile of color with mipmaps at half, quarter, … size.

use crate::material::Surface;
use crate::vector::{Vector, add, scale};

/// Texels along one edge of the finest level.
pub(crate) const EDGE: usize = 32;
/// Levels: 32, 16, 8, 4, 2, 1.
const LEVELS: usize = 6;
/// First texel of each level in one array.
const OFFSET: [usize; LEVELS] = [0, 1024, 1280, 1344, 1360, 1364];
const TEXELS: usize = 1365;

/// The tile of one surface, as display values (square roots of light).
#[derive(Clone, Debug)]
pub(crate) struct Texture {
    texels: Box<[[u8; 4]; TEXELS]>,
}

impl Texture {
    /// Draws the surface's pattern and averages the smaller levels in linear light.
    pub fn bake(surface: &Surface, seed: u32) -> Self {
        let mut light = vec![[0.0f32; 3]; TEXELS];
        for y in 0..EDGE {
            for x in 0..EDGE {
                let color = surface.pattern.texel(x as i32, y as i32, surface.colors, seed);
                light[y * EDGE + x] = color.to_light();
            }
        }
        for level in 1..LEVELS {
            let (edge, finer) = (EDGE >> level, EDGE >> (level - 1));
            for y in 0..edge {
                for x in 0..edge {
                    let at = |dx: usize, dy: usize| {
                        light[OFFSET[level - 1] + (2 * y + dy) * finer + 2 * x + dx]
                    };
                    let sum = add(add(at(0, 0), at(1, 0)), add(at(0, 1), at(1, 1)));
                    light[OFFSET[level] + y * edge + x] = scale(sum, 0.25);
                }
            }
        }
        let mut texels = Box::new([[0u8; 4]; TEXELS]);
        for (texel, light) in texels.iter_mut().zip(light) {
            let [r, g, b] = crate::Color::from_light(light).0;
            *texel = [r, g, b, 255];
        }
        Self { texels }
    }

    /// Light at tile coordinates (`u` right, `v` down; the tile repeats with period 1) for a ray
    /// whose footprint is `footprint` tiles wide.
    #[inline]
    pub fn sample(&self, u: f32, v: f32, footprint: f32) -> Vector {
        // The exponent of the footprint in texels, rounded, is the level to read.
        let texels = (footprint * (EDGE as f32 * std::f32::consts::SQRT_2)).max(1.0);
        let level = ((texels.to_bits() >> 23) as usize - 127).min(LEVELS - 1);
        let edge = EDGE >> level;
        // Floor without a call: scene coordinates never reach the negative of the offset.
        const OFFSET_TILES: f32 = 1024.0;
        let x = ((u + OFFSET_TILES) * edge as f32) as usize;
        let y = ((v + OFFSET_TILES) * edge as f32) as usize;
        let mask = edge - 1;
        let texel = self.texels[OFFSET[level] + (y & mask) * edge + (x & mask)];
        let decode = |channel: u8| {
            let value = f32::from(channel) * (1.0 / 255.0);
            value * value
        };
        [decode(texel[0]), decode(texel[1]), decode(texel[2])]
    }

    /// Light averaged over the tile.
    pub fn average(&self) -> Vector {
        self.sample(0.5, 0.5, 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;

    #[test]
    fn smaller_levels_keep_the_average() {
        let surface = Surface::new(Pattern::Checker, [0xffffff, 0x000000, 0x000000]);
        let texture = Texture::bake(&surface, 1);
        let mut sum = 0.0;
        for y in 0..EDGE {
            for x in 0..EDGE {
                let at = |i: usize| (i as f32 + 0.5) / EDGE as f32;
                sum += texture.sample(at(x), at(y), 0.0)[0];
            }
        }
        let mean = sum / (EDGE * EDGE) as f32;
        assert!((texture.average()[0] - mean).abs() < 0.02, "{mean}");
    }

    #[test]
    fn a_tile_repeats() {
        let texture = Texture::bake(&Surface::new(Pattern::Cobbles, [0x808080, 0x404040, 0]), 3);
        for step in 0..40 {
            let (u, v) = (step as f32 * 0.09375 + 0.015625, step as f32 * 0.03125 + 0.015625);
            assert_eq!(texture.sample(u, v, 0.0), texture.sample(u - 2.0, v + 1.0, 0.0));
        }
    }
}

//! Materials: patterns and colors per face, baked into small tiles with mipmaps, so that far
//! surfaces do not flicker.

use std::sync::Arc;

use crate::color::Color;
use crate::pattern::Pattern;
use crate::texture::Texture;

/// Number of a material in a [`MaterialSet`]; 0 is empty space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MaterialId(pub(crate) u8);

impl MaterialId {
    /// Empty space.
    pub const EMPTY: Self = Self(0);
}

/// Appearance of one face.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Surface {
    /// The pattern.
    pub pattern: Pattern,
    /// Main, second and third color; each pattern documents their use.
    pub colors: [Color; 3],
    /// Width of one tile in meters; 0 stretches one tile over a whole voxel or prop face, for
    /// windows, doors and pictures.
    pub tile: f32,
}

impl Surface {
    /// A surface of a pattern in three colors, repeating every two meters.
    pub const fn new(pattern: Pattern, colors: [u32; 3]) -> Self {
        let [a, b, c] = colors;
        Self { pattern, colors: [Color::hex(a), Color::hex(b), Color::hex(c)], tile: 2.0 }
    }

    /// Sets the tile width in meters (0: stretched over the whole face).
    pub const fn with_tile(mut self, tile: f32) -> Self {
        self.tile = tile;
        self
    }
}

/// A material: one surface for all faces.
#[derive(Clone, Copy, Debug)]
pub struct Material {
    /// Its appearance.
    pub surface: Surface,
    /// Relative variation of brightness between voxels (0 to about 0.1).
    pub variation: f32,
    /// Emitted light as a fraction of the color (0 none; lamps about 1).
    pub glow: f32,
}

impl Material {
    /// A material that neither varies nor glows.
    ///
    /// ```
    /// use far_world::{Material, MaterialSet, Pattern, Surface};
    /// let mut materials = MaterialSet::new(7);
    /// let brick = Material::new(Surface::new(Pattern::Bricks, [0xa5523c, 0xc9beb0, 0x8a4030]));
    /// let first = materials.add(brick);
    /// let second = materials.add(brick);
    /// assert_ne!(first, second);
    /// ```
    pub const fn new(surface: Surface) -> Self {
        Self { surface, variation: 0.0, glow: 0.0 }
    }

    /// Sets the variation of brightness between voxels.
    pub const fn with_variation(mut self, variation: f32) -> Self {
        self.variation = variation;
        self
    }

    /// Sets the emitted light.
    pub const fn with_glow(mut self, glow: f32) -> Self {
        self.glow = glow;
        self
    }
}

/// A material prepared for rendering.
#[derive(Clone, Debug)]
pub(crate) struct BakedMaterial {
    pub texture: Arc<Texture>,
    /// Tiles per meter; 0 when stretched over a face.
    pub tiles_per_meter: f32,
    pub variation: f32,
    pub glow: f32,
}

/// All materials of a scene, with their textures.
#[derive(Clone, Debug)]
pub struct MaterialSet {
    seed: u32,
    baked: Vec<BakedMaterial>,
}

impl MaterialSet {
    /// Largest number of materials in one set.
    pub const CAPACITY: usize = 190;

    /// An empty set; `seed` varies the grain of every texture.
    pub fn new(seed: u32) -> Self {
        Self { seed, baked: Vec::new() }
    }

    /// Adds a material and bakes its textures.
    ///
    /// # Panics
    /// Beyond [`MaterialSet::CAPACITY`] materials, which is a bug in the scene's code.
    pub fn add(&mut self, material: Material) -> MaterialId {
        assert!(self.baked.len() < Self::CAPACITY, "a scene has at most 190 materials");
        let number = self.baked.len() as u32 + 1;
        let Material { surface, variation, glow } = material;
        let seed = self.seed.wrapping_add(number.wrapping_mul(0x9e37_79b1));
        self.baked.push(BakedMaterial {
            texture: Arc::new(Texture::bake(&surface, seed)),
            tiles_per_meter: if surface.tile > 0.0 { 1.0 / surface.tile } else { 0.0 },
            variation,
            glow,
        });
        MaterialId(number as u8)
    }

    /// Another number for the same material, so that one house can be repainted (see
    /// [`Scene::repaint`](crate::Scene)) without the others. Textures are shared.
    ///
    /// # Panics
    /// Beyond [`MaterialSet::CAPACITY`] materials, which is a bug in the scene's code.
    pub fn alias(&mut self, id: MaterialId) -> MaterialId {
        assert!(self.baked.len() < Self::CAPACITY, "a scene has at most 190 materials");
        self.baked.push(self.baked(id).clone());
        MaterialId(self.baked.len() as u8)
    }

    /// The baked material; `id` must come from this set and not be empty.
    #[inline]
    pub(crate) fn baked(&self, id: MaterialId) -> &BakedMaterial {
        &self.baked[id.0 as usize - 1]
    }

    /// Average light of a material, for maps.
    pub fn average_color(&self, id: MaterialId) -> Color {
        Color::from_light(self.baked(id).texture.average())
    }
}

//! The materials of one village.

use crate::material::{Material, MaterialId, MaterialSet, Surface};
use crate::pattern::Pattern;

use super::biome::{Biome, plain};

/// Numbers of a village's materials.
pub(super) struct Palette {
    pub ground: MaterialId,
    pub lane: MaterialId,
    pub plaza: MaterialId,
    pub field: MaterialId,
    pub hedge: MaterialId,
    pub leaves: [MaterialId; 2],
    pub bark: MaterialId,
    pub walls: [MaterialId; 8],
    pub base: MaterialId,
    pub timber: MaterialId,
    pub roofs: [MaterialId; 4],
    /// Window by day, window with light behind it.
    pub windows: [MaterialId; 2],
    pub doors: [MaterialId; 5],
    pub shutters: [MaterialId; 4],
    /// Lantern that is off, lanterns that are on in two colors.
    pub lanterns: [MaterialId; 3],
    pub iron: MaterialId,
    pub wood: MaterialId,
    pub fence: MaterialId,
    pub stone: MaterialId,
    pub water: MaterialId,
    pub canopies: [MaterialId; 4],
    pub goods: [MaterialId; 4],
    pub flowers: [MaterialId; 2],
    pub hay: MaterialId,
    pub sign: MaterialId,
}

impl Palette {
    /// Adds a biome's materials to a set.
    pub fn new(biome: &Biome, set: &mut MaterialSet) -> Self {
        let ground = plain(biome.ground).with_variation(0.04);
        let mut one = |pattern, colors| set.add(Material::new(Surface::new(pattern, colors)));
        let canopies = [
            one(Pattern::Stripes, [0xd03c34, 0xf4ece0, 0]),
            one(Pattern::Stripes, [0x2c64b0, 0xf4ece0, 0]),
            one(Pattern::Stripes, [0xe0a820, 0xf8f0d8, 0]),
            one(Pattern::Stripes, [0x3c8c4c, 0xf0f0dc, 0]),
        ];
        let goods = [
            one(Pattern::Flowers, [0xd84030, 0xe86848, 0x509030]),
            one(Pattern::Flowers, [0xe8a030, 0xf0c048, 0xd07020]),
            one(Pattern::Flowers, [0x70a840, 0x90c050, 0xd84030]),
            one(Pattern::Flowers, [0x8058a0, 0xa070c0, 0xe8d8f0]),
        ];
        let flowers = [
            one(Pattern::Flowers, [0x3c7c34, 0xe84868, 0xf8d040]),
            one(Pattern::Flowers, [0x44843c, 0xf0f0f8, 0x9060d0]),
        ];
        let iron = one(Pattern::Plain, [0x30343a, 0, 0]);
        let wood = one(Pattern::Wood, [0x94683f, 0x6c4828, 0]);
        let fence = one(Pattern::Boards, [0xe4dccc, 0x8c8478, 0xd0c8b8]);
        let stone = one(Pattern::Cobbles, [0x9c9890, 0x5c5850, 0x848078]);
        let water = one(Pattern::Drift, [0x3c78b0, 0x5894c4, 0]);
        let hay = one(Pattern::Thatch, [0xd8b850, 0xb09038, 0xe8cc70]);
        let stretched =
            |pattern, colors| Material::new(Surface::new(pattern, colors).with_tile(0.0));
        let window = |colors| Material::new(Surface::new(Pattern::Window, colors).with_tile(1.0));
        let doors = [
            [0x3c6494, 0xf0e8d8, 0xe8c040],
            [0x94382c, 0xe8dcc8, 0xf0d060],
            [0x3c7048, 0xf0e8d8, 0xe8c040],
            [0x6c4a2c, 0x402a18, 0xd8b040],
            [0xd8a030, 0x6c4a2c, 0x303030],
        ];
        let shutters = [
            [0x3c7048, 0x2c5436, 0x24442c],
            [0x9c3c30, 0x742c24, 0x5c2018],
            [0x3c6494, 0x2c4c74, 0x203858],
            [0xe8dcc4, 0xc8bca4, 0xa89c84],
        ];
        let lanterns = [(0x5c5c58, 0.0), (0xffe080, 1.2), (0xff7848, 1.1)];
        let trees = |colors| plain((Pattern::Leaves, colors)).with_variation(0.07);
        Self {
            ground: set.add(ground),
            lane: set.add(plain(biome.lane).with_variation(0.03)),
            plaza: set.add(plain(biome.plaza)),
            field: set.add(plain(biome.field)),
            hedge: set.add(trees(biome.hedge)),
            leaves: biome.leaves.map(|colors| set.add(trees(colors))),
            bark: set.add(plain((Pattern::Bark, biome.bark))),
            walls: biome.walls.map(|wall| set.add(plain(wall))),
            base: set.add(plain(biome.base)),
            timber: set.add(plain((Pattern::Wood, biome.timber))),
            roofs: biome.roofs.map(|roof| set.add(plain(roof))),
            windows: [
                set.add(window([0xece8dc, 0x3c5064, 0x88a8c0])),
                set.add(window([0xece8dc, 0xf8c860, 0xfff0b0]).with_glow(0.5)),
            ],
            doors: doors.map(|colors| set.add(stretched(Pattern::Door, colors))),
            shutters: shutters.map(|colors| set.add(stretched(Pattern::Shutter, colors))),
            lanterns: lanterns.map(|(color, glow)| {
                set.add(Material::new(Surface::new(Pattern::Plain, [color, 0, 0])).with_glow(glow))
            }),
            iron,
            wood,
            fence,
            stone,
            water,
            canopies,
            goods,
            flowers,
            hay,
            sign: set.add(stretched(Pattern::Disk, [0x6c4a2c, 0xe8dcc0, 0xb03c30])),
        }
    }
}

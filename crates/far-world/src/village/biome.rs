//! Six biomes, each with its own ground, houses, trees and sky.

use crate::material::{Material, Surface};
use crate::pattern::Pattern;
use crate::pattern::Pattern::*;

/// Shape of the roofs of a biome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoofShape {
    /// Two slopes of 45 degrees.
    Gable,
    /// Four slopes.
    Hip,
    /// Flat with a parapet.
    Flat,
    /// Two slopes, steeper than 45 degrees.
    Steep,
}

/// Trees of a biome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TreeShape {
    /// A round crown.
    Round,
    /// A cone from the ground up.
    Cone,
    /// A slender, high crown.
    Slender,
    /// A flat, wide crown.
    Umbrella,
    /// A bare stem with arms.
    Cactus,
    /// A high stem with drooping leaves.
    Palm,
}

type Three = [u32; 3];

/// The materials, plants and light of a biome.
pub(super) struct Biome {
    pub name: &'static str,
    pub ground: (Pattern, Three),
    pub lane: (Pattern, Three),
    pub plaza: (Pattern, Three),
    pub field: (Pattern, Three),
    pub hedge: Three,
    pub leaves: [Three; 2],
    pub bark: Three,
    pub trees: [TreeShape; 3],
    pub walls: [(Pattern, Three); 8],
    pub base: (Pattern, Three),
    pub timber: Three,
    pub roofs: [(Pattern, Three); 4],
    pub roof_shapes: [RoofShape; 4],
    /// Zenith, horizon, clouds, hills and the sun.
    pub sky: [u32; 5],
}

use RoofShape::{Flat, Gable, Hip, Steep};
use TreeShape::{Cactus, Cone, Palm, Round, Slender, Umbrella};

/// The biomes; a scene's biome is its number modulo six.
pub(super) const BIOMES: [Biome; 6] = [
    Biome {
        name: "meadow",
        ground: (Grass, [0x6fb04a, 0x568f3a, 0xf0e068]),
        lane: (Gravel, [0xb89c70, 0xa08458, 0xd0bc94]),
        plaza: (Cobbles, [0xaaa49a, 0x6a645c, 0x8c867c]),
        field: (Planks, [0x7a5a38, 0x5a4028, 0x86c050]),
        hedge: [0x4f8c34, 0x2e5c22, 0x74b04c],
        leaves: [[0x68b044, 0x35702a, 0x90cc5c], [0x8cc04a, 0x4a7c2a, 0xf0a8c0]],
        bark: [0x70502f, 0x4a3420, 0],
        trees: [Round, Slender, Round],
        walls: [
            (Plaster, [0xf2e6cc, 0xdcc8a0, 0]),
            (Bricks, [0xb4553c, 0xd8ccb8, 0x96452f]),
            (Timber, [0xf0e4d0, 0x5c3c22, 0]),
            (Plaster, [0xe8b04c, 0xd09838, 0]),
            (Plaster, [0x9cc0d8, 0x7ca4c0, 0]),
            (Blocks, [0xb0aaa0, 0x807a70, 0x98928a]),
            (Planks, [0xa8764a, 0x6c4828, 0x94643c]),
            (Plaster, [0xe08c7c, 0xc87464, 0]),
        ],
        base: (Blocks, [0x9c968c, 0x6c665e, 0x848078]),
        timber: [0x64442a, 0x4a301c, 0],
        roofs: [
            (RoofTiles, [0xa8442c, 0x5c2014, 0xc05a3c]),
            (Thatch, [0xc8a458, 0x9c7c3c, 0xe0c078]),
            (RoofTiles, [0x54606c, 0x2c343c, 0x6c7884]),
            (RoofTiles, [0x7c4a2c, 0x42260f, 0x94603c]),
        ],
        roof_shapes: [Gable, Gable, Hip, Steep],
        sky: [0x3a7ad0, 0xcfe2f2, 0xffffff, 0x5c8460, 0xfff2d4],
    },
    Biome {
        name: "desert",
        ground: (Drift, [0xe6cc90, 0xd8b878, 0]),
        lane: (Gravel, [0xc8a468, 0xb89058, 0xdcc08c]),
        plaza: (Tiles, [0xdcc098, 0xa88858, 0]),
        field: (Gravel, [0xb89460, 0x9c7c4c, 0x88a050]),
        hedge: [0x8ca050, 0x5c7030, 0xc0cc70],
        leaves: [[0x6ca848, 0x3c7430, 0x98cc60], [0x88a848, 0x587430, 0xd8c868]],
        bark: [0xa07c50, 0x7c5c38, 0],
        trees: [Palm, Cactus, Palm],
        walls: [
            (Plaster, [0xf0dcb4, 0xe0c490, 0]),
            (Bricks, [0xd8b078, 0xb89058, 0xc89c64]),
            (Plaster, [0xfaf4e8, 0xe8dcc4, 0]),
            (Plaster, [0xd89060, 0xc07c4c, 0]),
            (Blocks, [0xe0c490, 0xb09464, 0xd0b07c]),
            (Plaster, [0x74b4b0, 0x58988f, 0]),
            (Plaster, [0xe8b8a0, 0xd0a088, 0]),
            (Plaster, [0xc86a48, 0xb05838, 0]),
        ],
        base: (Blocks, [0xcaa878, 0x98784c, 0xb8966a]),
        timber: [0x8a5c34, 0x6c4424, 0],
        roofs: [
            (Plaster, [0xe4cc9c, 0xd0b480, 0]),
            (Tiles, [0xc88058, 0x985838, 0]),
            (RoofTiles, [0xc4703c, 0x7c3c18, 0xd88850]),
            (Planks, [0xa07448, 0x6c4828, 0x8c6038]),
        ],
        roof_shapes: [Flat, Flat, Flat, Hip],
        sky: [0x4a90d8, 0xf4e4c4, 0xfffaf0, 0xc89c68, 0xffeec0],
    },
    Biome {
        name: "savanna",
        ground: (Grass, [0xc0b050, 0xa49440, 0xe8d878]),
        lane: (Gravel, [0xb06c40, 0x985832, 0xc88454]),
        plaza: (Bricks, [0xb8704c, 0x8c5034, 0xa4603c]),
        field: (Boards, [0xc8a848, 0x946c34, 0xd8c060]),
        hedge: [0x98a044, 0x687030, 0xc0c060],
        leaves: [[0x90a840, 0x5c7428, 0xc0c860], [0xb0b048, 0x7c7c30, 0xd8d070]],
        bark: [0x8c7860, 0x685844, 0],
        trees: [Umbrella, Umbrella, Slender],
        walls: [
            (Planks, [0xc87840, 0x8c4c24, 0xb46834]),
            (Plaster, [0xd8a468, 0xc08c50, 0]),
            (Boards, [0xa4603c, 0x6c3820, 0x90502f]),
            (Plaster, [0xf0e0c0, 0xdcc8a0, 0]),
            (Bricks, [0xa45838, 0xc89c74, 0x8c482c]),
            (Plaster, [0xc85840, 0xb04830, 0]),
            (Plaster, [0xe8c050, 0xd0a838, 0]),
            (Plaster, [0x5c9480, 0x4a7c68, 0]),
        ],
        base: (Cobbles, [0xa88c70, 0x6c5440, 0x907458]),
        timber: [0x7c4424, 0x5c3018, 0],
        roofs: [
            (Thatch, [0xb8944c, 0x8c6c34, 0xd0b068]),
            (Thatch, [0x9c7840, 0x745428, 0xb89458]),
            (Planks, [0x8c4c2c, 0x5c2c18, 0x7c4024]),
            (RoofTiles, [0xb05c34, 0x6c3018, 0xc87448]),
        ],
        roof_shapes: [Hip, Gable, Hip, Gable],
        sky: [0x5890c8, 0xf4dcb0, 0xfff0dc, 0x9c8450, 0xffe4a8],
    },
    Biome {
        name: "snow",
        ground: (Drift, [0xf4f8fc, 0xdce8f4, 0]),
        lane: (Gravel, [0xb4b8c0, 0x989ca8, 0xd8dce4]),
        plaza: (Cobbles, [0xb8bcc4, 0x70747c, 0x9ca0a8]),
        field: (Drift, [0xe8f0f8, 0xc8d8e8, 0]),
        hedge: [0x5c8068, 0x345440, 0xf0f4f8],
        leaves: [[0x4c7c64, 0x2c5444, 0xf4f8fc], [0xe4ecf4, 0xb8c8d8, 0xffffff]],
        bark: [0x5c4430, 0x3c2c20, 0],
        trees: [Cone, Cone, Slender],
        walls: [
            (Planks, [0x8c5c3c, 0x543420, 0x7c5034]),
            (Planks, [0xa03c30, 0x642018, 0x8c3428]),
            (Plaster, [0xdce4ec, 0xc0ccd8, 0]),
            (Planks, [0x4c6c94, 0x2c4464, 0x44648c]),
            (Blocks, [0x9ca0a8, 0x6c7078, 0x888c94]),
            (Timber, [0xece4d8, 0x4c3424, 0]),
            (Plaster, [0xd8a848, 0xc09038, 0]),
            (Plaster, [0x6c9c84, 0x58846c, 0]),
        ],
        base: (Blocks, [0x848890, 0x54585f, 0x74787f]),
        timber: [0x54382a, 0x3c281c, 0],
        roofs: [
            (Drift, [0xf8fbff, 0xdce8f4, 0]),
            (Drift, [0xf8fbff, 0xd0e0f0, 0]),
            (RoofTiles, [0x485460, 0x242c34, 0xd8e4f0]),
            (RoofTiles, [0x7c3830, 0x401814, 0xe8eef4]),
        ],
        roof_shapes: [Steep, Gable, Steep, Gable],
        sky: [0x7ca4d0, 0xe8eef4, 0xf4f6fa, 0x94a8bc, 0xfff4e8],
    },
    Biome {
        name: "forest",
        ground: (Grass, [0x4c7c44, 0x3a6436, 0x8c7040]),
        lane: (Gravel, [0x7c6448, 0x685038, 0x94785a]),
        plaza: (Blocks, [0x848c84, 0x545c54, 0x6c746c]),
        field: (Planks, [0x5c4430, 0x443020, 0x6c9448]),
        hedge: [0x3c6c3c, 0x244828, 0x5c8c4c],
        leaves: [[0x3c7848, 0x1f4c30, 0x5c9858], [0x5c8c44, 0x34602c, 0x88b058]],
        bark: [0x543c28, 0x38281c, 0],
        trees: [Cone, Cone, Round],
        walls: [
            (Planks, [0x7c5434, 0x4c301c, 0x6c482c]),
            (Wood, [0x94683c, 0x644424, 0]),
            (Cobbles, [0x8c908c, 0x50544f, 0x747874]),
            (Timber, [0xd8cca8, 0x40301f, 0]),
            (Plaster, [0xc8c098, 0xa8a078, 0]),
            (Boards, [0x4c6c50, 0x2c442f, 0x446048]),
            (Plaster, [0xb05c40, 0x984c34, 0]),
            (Plaster, [0xd8b868, 0xc0a050, 0]),
        ],
        base: (Cobbles, [0x787c78, 0x484c48, 0x646864]),
        timber: [0x48321f, 0x342416, 0],
        roofs: [
            (RoofTiles, [0x4c5c4c, 0x28342a, 0x607060]),
            (Planks, [0x5c4430, 0x3a2a1c, 0x50392a]),
            (RoofTiles, [0x5c4038, 0x342018, 0x70504c]),
            (Leaves, [0x68883c, 0x48682c, 0x88a848]),
        ],
        roof_shapes: [Steep, Steep, Gable, Hip],
        sky: [0x5c84a8, 0xc4d4d8, 0xe0e8ec, 0x3c5c50, 0xf8f0dc],
    },
    Biome {
        name: "autumn",
        ground: (Grass, [0x94983c, 0x7c7c30, 0xd07830]),
        lane: (Cobbles, [0x8c8078, 0x544c48, 0x746860]),
        plaza: (Cobbles, [0x9c8c80, 0x5c5048, 0x84746a]),
        field: (Boards, [0xc89440, 0x7c5c2c, 0xb0803a]),
        hedge: [0xa06830, 0x6c4420, 0xd09840],
        leaves: [[0xe08830, 0xa04c1c, 0xf4c048], [0xc84830, 0x8c2c1c, 0xe88848]],
        bark: [0x4c3c30, 0x342820, 0],
        trees: [Round, Round, Slender],
        walls: [
            (Bricks, [0x8c4434, 0xb8a894, 0x743628]),
            (Timber, [0xe0d0a8, 0x4c2c1c, 0]),
            (Blocks, [0x8c8880, 0x5c5850, 0x787470]),
            (Plaster, [0xd8b878, 0xc0a060, 0]),
            (Plaster, [0x8c9c8c, 0x748474, 0]),
            (Plaster, [0xb87860, 0xa0644c, 0]),
            (Planks, [0x6c4830, 0x442c1c, 0x5c3c28]),
            (Plaster, [0x9c6888, 0x845474, 0]),
        ],
        base: (Cobbles, [0x84807c, 0x4c4a48, 0x706c68]),
        timber: [0x4c301f, 0x382216, 0],
        roofs: [
            (RoofTiles, [0x5c5058, 0x302830, 0x70646c]),
            (RoofTiles, [0x8c4c2c, 0x4c2414, 0xa05c38]),
            (Thatch, [0x9c7c48, 0x745c34, 0xb89460]),
            (RoofTiles, [0x6c3434, 0x3c1818, 0x804444]),
        ],
        roof_shapes: [Gable, Steep, Gable, Hip],
        sky: [0x6c88b0, 0xf0d8b8, 0xf8e8d8, 0x8c7050, 0xffdca0],
    },
];

/// A material with a pattern in three colors.
pub(super) fn plain((pattern, colors): (Pattern, Three)) -> Material {
    Material::new(Surface::new(pattern, colors))
}

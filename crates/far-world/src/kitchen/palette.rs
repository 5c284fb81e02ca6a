//! The materials of one kitchen: drawn from many colors, so that no two kitchens look alike.

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use crate::{Material, MaterialId, MaterialSet, Pattern, Surface};

/// Wall pattern with its colors and tile width in meters.
const WALLS: [(Pattern, [u32; 3], f32); 12] = [
    (Pattern::Plaster, [0xf0e2c0, 0xe2d0a8, 0], 2.0),
    (Pattern::Plaster, [0xbfd8e6, 0xa8c6d8, 0], 2.0),
    (Pattern::Plaster, [0xcfe3b8, 0xb8d0a0, 0], 2.0),
    (Pattern::Plaster, [0xf2c4b0, 0xe4b09a, 0], 2.0),
    (Pattern::Stripes, [0xf4ead6, 0xd9c7a0, 0], 1.2),
    (Pattern::Stripes, [0xdfeaf4, 0xa9c0d8, 0], 1.0),
    (Pattern::Bricks, [0xc07a5a, 0xd8ccb8, 0xa8644a], 1.0),
    (Pattern::Bricks, [0xe8e4dc, 0xc4bfb4, 0xdcd6ca], 1.0),
    (Pattern::Boards, [0x9fb7a4, 0x6f8a76, 0xafc5b2], 1.6),
    (Pattern::Plaster, [0xd8c8ea, 0xc6b4dc, 0], 2.0),
    (Pattern::Tiles, [0xe6f0ee, 0xb0c4c2, 0], 0.5),
    (Pattern::Plaster, [0xe8d070, 0xdcc058, 0], 2.0),
];
/// Floor pattern with its colors and tile width in meters.
const FLOORS: [(Pattern, [u32; 3], f32); 9] = [
    (Pattern::Planks, [0xb98a58, 0x7c5530, 0xa87a4a], 1.6),
    (Pattern::Planks, [0x7a5236, 0x4a2f1c, 0x8a6040], 1.6),
    (Pattern::Planks, [0xd8c2a0, 0xa88e68, 0xcab490], 1.6),
    (Pattern::Checker, [0xf0ece4, 0x2c2c30, 0], 0.8),
    (Pattern::Checker, [0xf0ece4, 0xa83a30, 0], 0.8),
    (Pattern::Checker, [0xe8e4d0, 0x5a8a6a, 0], 0.8),
    (Pattern::Tiles, [0xc0623c, 0x7a4630, 0], 0.8),
    (Pattern::Tiles, [0x9aa4ac, 0x6c747c, 0], 1.0),
    (Pattern::Tiles, [0xe0d8c8, 0xa89e8c, 0], 1.0),
];
/// Cabinet fronts: main color and groove frame.
const CABINETS: [[u32; 2]; 10] = [
    [0xf2efe8, 0xd8d2c6],
    [0x2f5d8a, 0x24486c],
    [0x4f7f5b, 0x3c6446],
    [0xa66a3c, 0x82502a],
    [0xd8b080, 0xb89060],
    [0x8a2f2f, 0x6a2222],
    [0x3a3a40, 0x28282c],
    [0xe0b84a, 0xbf9a34],
    [0x7fb0b4, 0x629296],
    [0xc8a0b0, 0xa88090],
];
/// Worktops.
const WORKTOPS: [(Pattern, [u32; 3]); 6] = [
    (Pattern::Gravel, [0x4a4a50, 0x6a6a72, 0x9a9aa2]),
    (Pattern::Plain, [0xf0eee8, 0, 0]),
    (Pattern::Wood, [0xc89a64, 0xa0743f, 0]),
    (Pattern::Gravel, [0xd8d0c4, 0xb8ae9e, 0xf4f0e8]),
    (Pattern::Plain, [0x5c7078, 0, 0]),
    (Pattern::Wood, [0x6e4a2e, 0x54341c, 0]),
];
/// Fridge skins.
const FRIDGES: [u32; 7] = [0xf4f6f8, 0xb8bec4, 0x9fd8c4, 0xc83c34, 0xf0e4c0, 0x30343a, 0x8fb8e0];
/// Colors of chairs, rugs, curtains and the like.
const ACCENTS: [u32; 8] =
    [0xc8442c, 0x2f6aa8, 0xe0a020, 0x3f8a56, 0x8a4fa0, 0xd86a90, 0x30908c, 0x8a5a30];

/// Materials of a kitchen by use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    pub wall: MaterialId,
    pub floor: MaterialId,
    pub ceiling: MaterialId,
    pub baseboard: MaterialId,
    pub rug: MaterialId,
    pub cabinet: MaterialId,
    pub cabinet_front: MaterialId,
    pub cabinet_inside: MaterialId,
    pub worktop: MaterialId,
    pub backsplash: MaterialId,
    pub metal: MaterialId,
    pub black: MaterialId,
    pub handle: MaterialId,
    pub fridge: MaterialId,
    pub fridge_inside: MaterialId,
    pub fridge_shelf: MaterialId,
    pub oven_inside: MaterialId,
    pub oven_glass: MaterialId,
    pub wood: MaterialId,
    pub dark_wood: MaterialId,
    pub accent: MaterialId,
    pub window: MaterialId,
    pub door: MaterialId,
    pub picture: MaterialId,
    pub clock: MaterialId,
    pub lamp: MaterialId,
}

impl Palette {
    /// Draws a palette and adds its materials to the set.
    pub fn draw(set: &mut MaterialSet, random: &mut ChaCha8Rng) -> Self {
        let plain = |color: u32| Material::new(Surface::new(Pattern::Plain, [color, 0, 0]));
        let tiled = |(pattern, colors, tile): (Pattern, [u32; 3], f32)| {
            Material::new(Surface::new(pattern, colors).with_tile(tile))
        };
        let stretched =
            |pattern, colors| Material::new(Surface::new(pattern, colors).with_tile(0.0));
        let pick = |list: &[u32], random: &mut ChaCha8Rng| list[random.random_range(0..list.len())];
        let wall = WALLS[random.random_range(0..WALLS.len())];
        let floor = FLOORS[random.random_range(0..FLOORS.len())];
        let [front, groove] = CABINETS[random.random_range(0..CABINETS.len())];
        let (top, top_colors) = WORKTOPS[random.random_range(0..WORKTOPS.len())];
        let (fridge, accent) = (pick(&FRIDGES, random), pick(&ACCENTS, random));
        let (rug, splash) = (pick(&ACCENTS, random), pick(&ACCENTS, random));
        let land = *[0x3f8a3a, 0xc8a040, 0x8a3f3f, 0x3f6a8a].choose(random).expect("some");
        let rug_pattern =
            *[Pattern::Fabric, Pattern::Bands, Pattern::Disk].choose(random).expect("some");
        let woods = [[0xb98450, 0x8a5a2c], [0x8a5a38, 0x643c20], [0xe0c49a, 0xb89668]];
        let wood = *woods.choose(random).expect("some");
        Self {
            wall: set.add(tiled(wall)),
            floor: set.add(tiled(floor)),
            ceiling: set.add(plain(0xf4f2ec)),
            baseboard: set.add(plain(0xe6e0d4)),
            rug: set.add(tiled((rug_pattern, [rug, 0xf0e6d0, 0x40383c], 0.9))),
            cabinet: set.add(plain(front)),
            cabinet_front: set.add(stretched(Pattern::Door, [front, groove, 0xd8d8d8])),
            cabinet_inside: set.add(plain(0x8a6844)),
            worktop: set.add(tiled((top, top_colors, 0.7))),
            backsplash: set.add(tiled((Pattern::Tiles, [splash, 0xf0eee8, 0], 0.3))),
            metal: set.add(tiled((Pattern::Metal, [0xa8aeb4, 0xdce0e4, 0], 0.8))),
            black: set.add(plain(0x1c1c20)),
            handle: set.add(plain(0xd8dadc)),
            fridge: set.add(tiled((Pattern::Metal, [fridge, lighten(fridge), 0], 3.0))),
            fridge_inside: set.add(plain(0xf2f8fc).with_glow(0.35)),
            fridge_shelf: set.add(plain(0xb4d0dc).with_glow(0.2)),
            oven_inside: set.add(plain(0x8a5a3a).with_glow(0.35)),
            oven_glass: set.add(stretched(Pattern::Picture, [0x3a3d42, 0x26282c, 0x14151a])),
            wood: set.add(tiled((Pattern::Wood, [wood[0], wood[1], 0], 0.9))),
            dark_wood: set.add(plain(wood[1])),
            accent: set.add(tiled((Pattern::Fabric, [accent, lighten(accent), 0], 0.4))),
            window: set
                .add(stretched(Pattern::Window, [0xf6f4ee, 0x9cc8ec, 0xe4f4ff]).with_glow(0.5)),
            door: set.add(stretched(Pattern::Door, [0xa87848, 0xf0e8d8, 0xe8c040])),
            picture: set.add(stretched(Pattern::Picture, [0x6a4428, 0x9cc4e8, land])),
            clock: set.add(stretched(Pattern::Disk, [0xf6f2ea, 0x303038, 0xf6f2ea])),
            lamp: set.add(plain(0xfff2d0).with_glow(1.2)),
        }
    }
}

/// A color halfway to white.
fn lighten(color: u32) -> u32 {
    [16, 8, 0].into_iter().map(|shift| ((((color >> shift) & 0xff) + 255) / 2) << shift).sum()
}

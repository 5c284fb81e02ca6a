//! Colors and materials: each room has its own walls, floor and furniture colors.

use super::plan::RoomKind;
use crate::{Material, MaterialId, MaterialSet, Pattern, Surface};
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

/// Wall paints, light and strong ones.
const PAINTS: [u32; 20] = [
    0xe8dcc8, 0xbcd3b4, 0xaecbe2, 0xeab898, 0xd9a8bc, 0xf0dc90, 0x94c4ba, 0xc0aed8, 0x86ab96,
    0xdc9a78, 0x8cb0d6, 0xcc8880, 0x86b090, 0xb8a088, 0xdadada, 0xa794c0, 0xc8c070, 0x7fa8b2,
    0xe09a80, 0x9fb0c0,
];
/// Light and dark tones of wood.
const WOODS: [[u32; 2]; 6] = [
    [0x8a5a32, 0x6a4224],
    [0xc89a60, 0xa87a42],
    [0x5a3a26, 0x3e2818],
    [0xdcbc8c, 0xbc9a68],
    [0xa06840, 0x7c4a2a],
    [0xe8e2d6, 0xc8c0b0],
];
/// Fabrics of seats, beds and rugs.
const FABRICS: [u32; 12] = [
    0x2f5f9e, 0xa83232, 0x3e7d4a, 0xd09020, 0x6a4a8a, 0x2a8a8a, 0xc05a80, 0x70757c, 0xb86a3a,
    0x384858, 0xd8cdb8, 0x8a9a3a,
];

/// What identifies a material: pattern, colors, and the bits of tile width and glow.
type Recipe = (Pattern, [u32; 3], u32, u32);

/// The materials of a scene, each made once.
#[derive(Debug)]
pub struct Kit {
    pub set: MaterialSet,
    known: Vec<(Recipe, MaterialId)>,
}

impl Kit {
    /// An empty kit; `seed` varies the grain.
    pub fn new(seed: u32) -> Self {
        Self { set: MaterialSet::new(seed), known: Vec::new() }
    }

    /// A material with a pattern in three colors that repeats every `tile` meters (0: stretched
    /// over a face); it emits light if `glow` is above 0.
    pub fn material(
        &mut self,
        pattern: Pattern,
        colors: [u32; 3],
        tile: f32,
        glow: f32,
    ) -> MaterialId {
        let key = (pattern, colors, tile.to_bits(), glow.to_bits());
        if let Some((_, id)) = self.known.iter().find(|(known, _)| *known == key) {
            return *id;
        }
        let surface = Surface::new(pattern, colors).with_tile(tile);
        let id = self.set.add(Material::new(surface).with_glow(glow));
        self.known.push((key, id));
        id
    }

    /// One plain color.
    pub fn plain(&mut self, color: u32) -> MaterialId {
        self.material(Pattern::Plain, [color; 3], 1.0, 0.0)
    }

    /// A bright color that emits light.
    pub fn glowing(&mut self, color: u32) -> MaterialId {
        self.material(Pattern::Plain, [color; 3], 1.0, 0.9)
    }

    /// Wood in a light and a dark tone.
    pub fn wood(&mut self, [light, dark]: [u32; 2]) -> MaterialId {
        self.material(Pattern::Wood, [light, dark, dark], 0.8, 0.0)
    }

    /// Woven cloth.
    pub fn fabric(&mut self, color: u32) -> MaterialId {
        self.material(Pattern::Fabric, [color, darker(color), color], 0.5, 0.0)
    }

    /// A pattern stretched over a whole face.
    pub fn drawing(&mut self, pattern: Pattern, colors: [u32; 3]) -> MaterialId {
        self.material(pattern, colors, 0.0, 0.0)
    }
}

/// The color, a third darker.
pub fn darker(color: u32) -> u32 {
    let channel = |shift: u32| (((color >> shift) & 0xff) * 2 / 3) << shift;
    channel(16) | channel(8) | channel(0)
}

/// Materials of a room's surfaces.
#[derive(Clone, Copy, Debug)]
pub struct Finish {
    /// Walls above the panel.
    pub wall: MaterialId,
    /// Walls up to a meter.
    pub panel: MaterialId,
    /// The lowest strip of the walls.
    pub skirting: MaterialId,
    /// The floor.
    pub floor: MaterialId,
    /// Frames and leaves of doors.
    pub frame: MaterialId,
}

/// The colors of a room's furniture.
#[derive(Clone, Copy, Debug)]
pub struct Taste {
    /// Light and dark tones of the wood.
    pub wood: [u32; 2],
    /// Seats, blankets.
    pub fabric: u32,
    /// Cushions, rugs.
    pub second: u32,
}

impl Taste {
    /// Draws colors with two different fabrics.
    pub fn draw(random: &mut ChaCha8Rng) -> Self {
        let first = random.random_range(0..FABRICS.len());
        let step = random.random_range(1..FABRICS.len());
        Self {
            wood: *WOODS.choose(random).expect("the list is not empty"),
            fabric: FABRICS[first],
            second: FABRICS[(first + step) % FABRICS.len()],
        }
    }
}

/// One finish per room. No two rooms of a scene share a paint; the corridor, the first, is plain
/// and the same everywhere, so that its legs look alike.
pub fn finishes(kit: &mut Kit, rooms: &[RoomKind], random: &mut ChaCha8Rng) -> Vec<Finish> {
    let paints: Vec<u32> = PAINTS.sample(random, rooms.len()).copied().collect();
    let frame_color = *[0xf2efe8, 0x6a4224, 0x3e4a58, 0xc89a60].choose(random).expect("some");
    let frame = kit.material(Pattern::Wood, [frame_color, darker(frame_color), 0], 0.9, 0.0);
    let skirting = kit.plain(if frame_color == 0xf2efe8 { 0xf6f3ec } else { frame_color });
    rooms
        .iter()
        .zip(paints)
        .map(|(&kind, paint)| {
            let plaster = |kit: &mut Kit, color| {
                kit.material(Pattern::Plaster, [color, darker(color), color], 2.0, 0.0)
            };
            let wall = plaster(kit, paint);
            let panel = match (kind, random.random_range(0..4)) {
                (RoomKind::Bath | RoomKind::Kitchen | RoomKind::Laundry, _) => {
                    kit.material(Pattern::Tiles, [0xf0f2f0, darker(paint), paint], 0.5, 0.0)
                }
                (RoomKind::Corridor, choice) if choice < 2 => plaster(kit, darker(paint)),
                (RoomKind::Corridor, _) => wall,
                (_, 0) => kit.material(Pattern::Stripes, [paint, 0xf4f0e6, paint], 0.8, 0.0),
                (_, 1) => kit.material(Pattern::Boards, [0xf0ece2, 0xc8c2b4, 0xe6e0d2], 0.8, 0.0),
                (_, 2) => plaster(kit, darker(paint)),
                _ => wall,
            };
            let [light, dark] = *WOODS[..5].choose(random).expect("the list is not empty");
            let floor = match (kind, random.random_range(0..5)) {
                (RoomKind::Bath | RoomKind::Laundry, n) if n < 3 => {
                    kit.material(Pattern::Checker, [0xe8e8e8, darker(paint), paint], 0.7, 0.0)
                }
                (RoomKind::Bath | RoomKind::Kitchen | RoomKind::Laundry, _) => {
                    kit.material(Pattern::Tiles, [0xd8cfc0, 0x9a9284, paint], 0.7, 0.0)
                }
                (RoomKind::Bedroom | RoomKind::Study, 0..=1) => {
                    let carpet = *FABRICS.choose(random).expect("the list is not empty");
                    kit.fabric(carpet)
                }
                (RoomKind::Corridor, 0) => {
                    kit.material(Pattern::Checker, [0xd8d2c6, 0x5a5650, 0], 0.8, 0.0)
                }
                _ => kit.material(Pattern::Planks, [light, dark, light], 0.9, 0.0),
            };
            Finish { wall, panel, skirting, floor, frame }
        })
        .collect()
}

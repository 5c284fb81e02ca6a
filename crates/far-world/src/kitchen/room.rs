//! The shell of a kitchen: floor, walls, ceiling, lamp and wall decoration.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::anchor::Anchor;
use super::palette::Palette;
use super::station::StationKind;
use crate::vector::scale;
use crate::{Color, Lamp, Light, MaterialSet, Prop, Shape, SkyLook, StagePlan, VoxelGrid};

/// Edge of a voxel in meters.
const VOXEL: f32 = 0.1;
/// Thickness of walls, floor and ceiling in voxels.
const SHELL: usize = 2;
/// Free space at both ends of a wall, so that furniture of two walls does not meet.
const CORNER: f32 = 0.85;

/// Size of a room and the use of its walls.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    /// Extent along X, Y and Z; the room's floor starts at the origin.
    size: [f32; 3],
    /// Free ranges of the four walls, as (from, to) along each.
    free: [Vec<(f32, f32)>; 4],
}

/// A range of wall taken by a station.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Berth {
    pub kind: StationKind,
    pub anchor: Anchor,
}

impl Room {
    /// A room of random size.
    pub fn draw(random: &mut ChaCha8Rng) -> Self {
        let decimeters = |random: &mut ChaCha8Rng, range| random.random_range(range) as f32 * VOXEL;
        let size =
            [decimeters(random, 46..64), decimeters(random, 42..58), decimeters(random, 25..29)];
        let free = std::array::from_fn(|wall| vec![(CORNER, size[wall % 2] - CORNER)]);
        Self { size, free }
    }

    /// Place at `along` meters on a wall (0 south, 1 east, 2 north, 3 west; west and east run north).
    fn anchor(&self, wall: usize, along: f32) -> Anchor {
        let [width, depth, _] = self.size;
        let quarter = std::f32::consts::FRAC_PI_2;
        let (position, facing) = match wall {
            0 => ([along, 0.0], quarter),
            1 => ([width, along], 2.0 * quarter),
            2 => ([along, depth], 3.0 * quarter),
            _ => ([0.0, along], 0.0),
        };
        Anchor { position, facing }
    }

    /// Takes `width` meters of a random wall; `None` if no wall has that much.
    fn take(&mut self, width: f32, random: &mut ChaCha8Rng) -> Option<(usize, f32)> {
        let mut choices = Vec::new();
        for (wall, stretches) in self.free.iter().enumerate() {
            for (index, (from, to)) in stretches.iter().enumerate() {
                if to - from >= width {
                    choices.push((wall, index));
                }
            }
        }
        if choices.is_empty() {
            return None;
        }
        let (wall, index) = choices[random.random_range(0..choices.len())];
        let (from, to) = self.free[wall].remove(index);
        let slack = to - from - width;
        // Near one end, so that the rest of the wall stays in one piece.
        let offset = random.random_range(0.0..=slack.min(0.3));
        let start = if random.random_bool(0.5) { from + offset } else { from + slack - offset };
        self.free[wall].extend([(from, start), (start + width, to)]);
        Some((wall, start + 0.5 * width))
    }

    /// Finds space for a station.
    pub fn berth(&mut self, kind: StationKind, random: &mut ChaCha8Rng) -> Option<Berth> {
        let (wall, along) = self.take(kind.width() + 0.06, random)?;
        Some(Berth { kind, anchor: self.anchor(wall, along) })
    }

    /// Voxels, materials and light of the room.
    pub fn stage(&self, set: MaterialSet, palette: &Palette, random: &mut ChaCha8Rng) -> StagePlan {
        let count = self.size.map(|meters| (meters / VOXEL).round() as usize + 2 * SHELL);
        let edge = SHELL as f32 * VOXEL;
        let mut grid = VoxelGrid::new(count, VOXEL, [-edge; 3]);
        let [width, depth, height] = self.size;
        let high = self.size.map(|meters| meters + edge);
        grid.fill_meters([-edge; 3], high, palette.wall);
        grid.fill_meters([0.0, 0.0, -edge], [width, depth, height + edge], palette.floor);
        grid.fill_meters([0.0, 0.0, height], [width, depth, height + edge], palette.ceiling);
        grid.fill_meters([0.0; 3], self.size, crate::MaterialId::EMPTY);
        for (low, high) in [
            ([-edge, -edge, 0.0], [0.0, depth + edge, VOXEL]),
            ([width, -edge, 0.0], [width + edge, depth + edge, VOXEL]),
            ([-edge, -edge, 0.0], [width + edge, 0.0, VOXEL]),
            ([-edge, depth, 0.0], [width + edge, depth + edge, VOXEL]),
        ] {
            grid.fill_meters(low, high, palette.baseboard);
        }
        let rug: [f32; 2] = [random.random_range(0.5..0.9), random.random_range(0.4..0.7)];
        let (x, y) = (0.5 * width, 0.5 * depth);
        let (low, high) = ([x - rug[0], y - rug[1], -VOXEL], [x + rug[0], y + rug[1], 0.0]);
        grid.fill_meters(low, high, palette.rug);
        let lamp = |position| Lamp { position, reach: 6.5, strength: 0.62 };
        let mut light = Light::indoor(vec![
            lamp([0.32 * width, 0.5 * depth, height - 0.5]),
            lamp([0.68 * width, 0.5 * depth, height - 0.5]),
        ]);
        let tint = [0xfff0d8, 0xf4f6ff, 0xffe4bc][random.random_range(0..3)];
        light.lamp_color = Color::hex(tint).to_light();
        light.ambient = scale(light.ambient, random.random_range(0.85..1.15));
        let sky = SkyLook::plain(Color::hex(0xb8d8f0));
        StagePlan { grid, materials: set, light, sky, ground: None, haze: 0.0 }
    }

    /// Lamps, a door, windows and pictures. `berths` are the occupied parts of the walls, with
    /// heights.
    pub fn decorate(
        &mut self,
        berths: &[Berth],
        palette: &Palette,
        random: &mut ChaCha8Rng,
        props: &mut Vec<Prop>,
    ) {
        let [width, depth, height] = self.size;
        for x in [0.32 * width, 0.68 * width] {
            let y = 0.5 * depth;
            props.push(Prop::block([x, y, height - 0.2], [0.02, 0.02, 0.4], palette.black));
            let shade = Prop::block([x, y, height - 0.42], [0.36, 0.36, 0.16], palette.lamp);
            props.push(shade.with_shape(Shape::Drum));
        }
        if let Some((wall, along)) = self.take(1.0, random) {
            let anchor = self.anchor(wall, along);
            props.push(anchor.block([0.0, 0.02, 1.03], [0.92, 0.05, 2.06], palette.door));
        }
        for berth in berths {
            use StationKind::{Chest, Counter, Sideboard, Sink, Stand, Table};
            let low = matches!(berth.kind, Counter | Sink | Table | Stand | Chest | Sideboard);
            if !low {
                continue;
            }
            let (size, material) = match random.random_range(0..4) {
                0 | 1 => ([0.9, 0.05, 0.8], palette.window),
                2 => ([0.6, 0.04, 0.45], palette.picture),
                _ => ([0.36, 0.04, 0.36], palette.clock),
            };
            let center = [random.random_range(-0.1..0.1), 0.02, 1.86];
            props.push(berth.anchor.block(center, size, material));
        }
        while let Some((wall, along)) = self.take(0.8, random) {
            if random.random_bool(0.6) {
                let anchor = self.anchor(wall, along);
                props.push(anchor.block([0.0, 0.02, 1.6], [0.6, 0.04, 0.5], palette.picture));
            }
        }
    }
}

//! The scene: a corridor with two ends, and a room with one doorway to it.

use std::sync::Arc;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::vector::Vector;
use crate::{
    Color, Lamp, Light, Material, MaterialId, MaterialSet, Pattern, PersonAppearance, Prop, Shape,
    SkyLook, Stage, StagePlan, Surface, VoxelGrid,
};

/// Edge of a voxel in meters.
const VOXEL: f32 = 0.2;
/// Height of room and corridor.
const HEIGHT: f32 = 2.6;
/// Height of the doorway.
const LINTEL: f32 = 2.0;
/// Thickness of the wall between room and corridor.
pub(crate) const WALL: f32 = 0.2;
/// Half the width of the doorway.
pub(crate) const DOORWAY: f32 = 0.5;

const WALLS: [(Pattern, [u32; 3]); 7] = [
    (Pattern::Plaster, [0xe8dcc0, 0xd8c8a4, 0]),
    (Pattern::Plaster, [0xb8d0dc, 0xa0bccc, 0]),
    (Pattern::Bricks, [0xb87458, 0xd4c8b4, 0x9c5c44]),
    (Pattern::Stripes, [0xf0e8d8, 0xc8b890, 0]),
    (Pattern::Plaster, [0xc4d8b0, 0xacc498, 0]),
    (Pattern::Boards, [0xa8b8c4, 0x74889a, 0xb8c8d4]),
    (Pattern::Plaster, [0xe8c0b0, 0xd8a898, 0]),
];
const FLOORS: [(Pattern, [u32; 3], f32); 6] = [
    (Pattern::Planks, [0xa87a4a, 0x6c4826, 0xb98a58], 1.6),
    (Pattern::Tiles, [0xa0a8b0, 0x70787f, 0], 1.0),
    (Pattern::Checker, [0xece6da, 0x3a3a42, 0], 1.0),
    (Pattern::Planks, [0xd4bc98, 0xa08660, 0xc6ae8a], 1.6),
    (Pattern::Checker, [0xe4dcc8, 0x7a5a48, 0], 1.0),
    (Pattern::Tiles, [0xb86444, 0x7a4630, 0], 0.8),
];
const CARPETS: [u32; 6] = [0x8a2c2c, 0x2c5a8a, 0x3f7a4a, 0x8a6a2c, 0x5a3f7a, 0x30787c];
const SHIRTS: [u32; 6] = [0xe04028, 0x2868d8, 0x28a048, 0xf0b020, 0xa038b8, 0xf07020];
const HAIR: [u32; 4] = [0x2a1c14, 0x7a4a24, 0xd8b060, 0x1a1a1c];

/// One of the two ends of a corridor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Toward −X.
    West,
    /// Toward +X.
    East,
}

impl End {
    /// Both ends.
    pub const BOTH: [Self; 2] = [Self::West, Self::East];

    /// The other end.
    pub fn other(self) -> Self {
        if self == Self::West { Self::East } else { Self::West }
    }

    /// Direction toward it, in radians.
    pub fn yaw(self) -> f32 {
        if self == Self::West { std::f32::consts::PI } else { 0.0 }
    }
}

/// A corridor along X from 0 to `length`, from Y 0 to `width`; the room lies south of it.
#[derive(Clone, Debug)]
pub(crate) struct Hall {
    pub length: f32,
    pub width: f32,
    /// Middle of the doorway along X.
    pub door: f32,
    /// Extent of the room along X and Y.
    pub room: [f32; 2],
    pub stage: Arc<Stage>,
    pub props: Vec<Prop>,
    /// Clothes to choose from.
    pub appearances: Vec<PersonAppearance>,
}

impl Hall {
    /// Draws a hall; `number` picks walls and floor, so that the halls of one recording differ.
    pub fn draw(number: u32, random: &mut ChaCha8Rng) -> Self {
        let floor = FloorPlan::draw(random);
        let FloorPlan { length, width, door, room } = floor;
        let mut set = MaterialSet::new(random.random());
        let grid = floor.build(number, &mut set, random);
        let props = floor.furnish(&mut set, random);
        let appearances = (0..SHIRTS.len()).map(|index| clothes(index, &mut set)).collect();
        let lamp =
            |x: f32, y: f32| Lamp { position: [x, y, HEIGHT - 0.3], reach: 6.0, strength: 0.6 };
        let lamps = vec![
            lamp(1.5, 0.5 * width),
            lamp(0.5 * length, 0.5 * width),
            lamp(length - 1.5, 0.5 * width),
            lamp(door, -WALL - 0.5 * room[1]),
        ];
        let plan = StagePlan {
            grid,
            materials: set,
            light: Light::indoor(lamps),
            sky: SkyLook::plain(Color::hex(0xb8d8f0)),
            ground: None,
            haze: 0.0,
        };
        let stage = Arc::new(Stage::bake(plan, &props));
        Self { length, width, door, room, stage, props, appearances }
    }

    /// Floor point of a person waiting at an end.
    pub fn end(&self, end: End) -> [f32; 2] {
        let x = if end == End::West { 1.0 } else { self.length - 1.0 };
        [x, 0.5 * self.width]
    }

    /// Floor point in the corridor in front of the doorway, from where both ends are visible.
    pub fn middle(&self) -> [f32; 2] {
        [self.door, 0.5 * self.width]
    }
}

/// The dimensions of a hall.
#[derive(Clone, Copy, Debug)]
struct FloorPlan {
    length: f32,
    width: f32,
    door: f32,
    room: [f32; 2],
}

impl FloorPlan {
    fn draw(random: &mut ChaCha8Rng) -> Self {
        let cells = |random: &mut ChaCha8Rng, range| random.random_range(range) as f32 * VOXEL;
        let length = cells(random, 52..66);
        let width = cells(random, 8..11);
        // Half a voxel off the grid, so that the doorway's five voxels are centered on it; the room
        // has an odd number of voxels for the same reason.
        let door =
            ((0.5 * length / VOXEL).round() + random.random_range(-4..5) as f32 + 0.5) * VOXEL;
        let room = [2.0 * cells(random, 10..14) + VOXEL, cells(random, 19..25)];
        Self { length, width, door, room }
    }

    fn build(&self, number: u32, set: &mut MaterialSet, random: &mut ChaCha8Rng) -> VoxelGrid {
        let shift = random.random_range(0..2);
        let (wall, colors) = WALLS[number as usize % WALLS.len()];
        let (room_wall, room_colors) = WALLS[(number as usize + 3) % WALLS.len()];
        let tiled = |(pattern, colors, tile): (Pattern, [u32; 3], f32)| {
            Material::new(Surface::new(pattern, colors).with_tile(tile))
        };
        let floor = FLOORS[(number as usize + shift) % FLOORS.len()];
        let wall = set.add(tiled((wall, colors, 2.0)));
        let room_wall = set.add(tiled((room_wall, room_colors, 2.0)));
        let floor = set.add(tiled(floor));
        let room_floor = set.add(tiled(FLOORS[(number as usize + 4) % FLOORS.len()]));
        let ceiling = set.add(tiled((Pattern::Plain, [0xf2f0ea, 0, 0], 1.0)));
        let carpet = CARPETS[number as usize % CARPETS.len()];
        let carpet = set.add(tiled((Pattern::Fabric, [carpet, 0x20181c, 0], 0.8)));

        let [room_width, room_depth] = self.room;
        let (west, east) = (self.door - 0.5 * room_width, self.door + 0.5 * room_width);
        let south = -WALL - room_depth;
        let origin = [-WALL, south - WALL, -WALL];
        let extent =
            [self.length + 2.0 * WALL, self.width + room_depth + 3.0 * WALL, HEIGHT + 2.0 * WALL];
        let count = extent.map(|meters| (meters / VOXEL).round() as usize);
        let mut grid = VoxelGrid::new(count, VOXEL, origin);
        let far = |axis: usize| origin[axis] + extent[axis];
        grid.fill_meters(origin, [far(0), far(1), far(2)], wall);
        // The room's own walls, then both floors and ceilings, then air.
        grid.fill_meters([west - WALL, origin[1], 0.0], [east + WALL, -WALL, HEIGHT], room_wall);
        grid.fill_meters([0.0, 0.0, -WALL], [self.length, self.width, HEIGHT + WALL], floor);
        grid.fill_meters([west, south, -WALL], [east, -WALL, HEIGHT + WALL], room_floor);
        grid.fill_meters([origin[0], origin[1], HEIGHT], [far(0), far(1), far(2)], ceiling);
        let lane = 0.5 * self.width;
        grid.fill_meters([0.6, lane - 0.4, -WALL], [self.length - 0.6, lane + 0.4, 0.0], carpet);
        grid.fill_meters([0.0; 3], [self.length, self.width, HEIGHT], MaterialId::EMPTY);
        grid.fill_meters([west, south, 0.0], [east, -WALL, HEIGHT], MaterialId::EMPTY);
        let (left, right) = (self.door - DOORWAY, self.door + DOORWAY);
        grid.fill_meters([left, -WALL, 0.0], [right, 0.0, LINTEL], MaterialId::EMPTY);
        grid.fill_meters([left, -WALL, -WALL], [right, 0.0, 0.0], floor);
        grid
    }

    /// The ends differ, so that a frame shows which one it is.
    fn furnish(&self, set: &mut MaterialSet, random: &mut ChaCha8Rng) -> Vec<Prop> {
        let mut stretched =
            |pattern, colors| set.add(Material::new(Surface::new(pattern, colors).with_tile(0.0)));
        let frame = stretched(Pattern::Plain, [0xf0ece2, 0, 0]);
        let door = stretched(Pattern::Door, [0x9c3a2c, 0xf0e8d8, 0xe8c040]);
        let other = stretched(Pattern::Door, [0x2f5d8a, 0xf0e8d8, 0xe8c040]);
        let window = stretched(Pattern::Window, [0xf6f4ee, 0x9cc8ec, 0xe4f4ff]);
        let picture = stretched(Pattern::Picture, [0x6a4428, 0x9cc4e8, 0x3f8a3a]);
        let books = stretched(Pattern::Books, [0xa83228, 0x2f5d8a, 0xd8a832]);
        let cloth = stretched(Pattern::Fabric, [0x4a7a94, 0x38607a, 0]);
        let wood = stretched(Pattern::Wood, [0xb98450, 0x8a5a2c, 0]);
        let leaf = stretched(Pattern::Leaves, [0x5aa848, 0x2f7030, 0x80c860]);
        let pot = stretched(Pattern::Plain, [0xc8683c, 0, 0]);
        let (length, width, middle) = (self.length, self.width, 0.5 * self.width);
        let upright = |center: Vector, size: Vector, material| Prop::block(center, size, material);
        let mut props = vec![
            upright([0.03, middle, 1.0], [0.06, 0.95, 2.0], door),
            upright([length - 0.02, middle, 1.55], [0.05, 1.0, 1.0], window),
            upright([length - 0.2, middle, 0.35], [0.35, 1.1, 0.7], wood).with_shadow(),
            upright([0.3, width - 0.25, 0.18], [0.32, 0.32, 0.36], pot).with_shape(Shape::Drum),
            upright([0.3, width - 0.25, 0.75], [0.55, 0.55, 0.9], leaf).with_shape(Shape::Ball),
            upright([self.door, width - 0.02, 1.5], [0.8, 0.04, 0.6], picture),
        ];
        for x in [0.28, 0.72] {
            let shade = if random.random_bool(0.5) { other } else { door };
            props.push(upright([x * length, width - 0.03, 1.0], [0.95, 0.06, 2.0], shade));
        }
        // The door frame protrudes a little on both sides.
        for side in [-1.0, 1.0] {
            let post = [self.door + side * (DOORWAY + 0.03), -0.5 * WALL, 0.5 * LINTEL];
            props.push(upright(post, [0.06, WALL + 0.06, LINTEL], frame));
        }
        let beam = [self.door, -0.5 * WALL, LINTEL + 0.04];
        props.push(upright(beam, [2.0 * DOORWAY + 0.12, WALL + 0.06, 0.08], frame));
        let [room_width, _] = self.room;
        let (west, east) = (self.door - 0.5 * room_width, self.door + 0.5 * room_width);
        props.push(upright([west + 0.2, -1.6, 0.95], [0.36, 1.2, 1.9], books).with_shadow());
        props.push(upright([east - 0.45, -1.5, 0.22], [0.8, 1.5, 0.44], cloth).with_shadow());
        props.push(upright([east - 0.15, -1.5, 0.45], [0.25, 1.5, 0.9], cloth).with_shadow());
        let beside = self.door + 0.5 * (DOORWAY + 0.5 * room_width);
        props.push(upright([beside, -WALL - 0.02, 1.5], [0.7, 0.04, 0.55], picture));
        props
    }
}

fn clothes(index: usize, set: &mut MaterialSet) -> PersonAppearance {
    let mut plain = |color| set.add(Material::new(Surface::new(Pattern::Plain, [color, 0, 0])));
    PersonAppearance {
        skin: plain(0xe4b490),
        hair: plain(HAIR[index % HAIR.len()]),
        shirt: plain(SHIRTS[index]),
        trousers: plain([0x2c3448, 0x4a4038, 0x303034][index % 3]),
        shoes: plain(0x201c1c),
    }
}

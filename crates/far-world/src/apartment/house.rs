//! Builds a furnished apartment from a seed: plan, materials, voxels, props, light.

use super::finish::{Finish, Kit, finishes};
use super::furnish::furnish;
use super::ground::Ground;
use super::plan::{CEILING, CELL, Door, Plan, RoomKind, Space};
use crate::{
    Color, Lamp, Light, MaterialId, Pattern, Prop, Scene, Shape, SkyLook, Stage, StagePlan,
    VoxelGrid,
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::f32::consts::TAU;
use std::sync::Arc;

/// Voxels per cell of the plan, along each axis: each side of a wall is one layer.
const PER_CELL: i32 = 2;
/// Edge of a voxel in meters.
const VOXEL: f32 = CELL / PER_CELL as f32;
/// Voxels from floor to ceiling.
const STORY: i32 = (CEILING / VOXEL) as i32;
/// Voxels below the lintel of a door (2 m).
const LINTEL: i32 = (2.0 / VOXEL) as i32;
/// Voxels of wall below and up to the top of a window (0.9 m and 2.1 m).
const WINDOW: [i32; 2] = [(0.9 / VOXEL) as i32, (2.1 / VOXEL) as i32];
/// Voxels of panel on a wall (1 m).
const PANEL: i32 = (1.0 / VOXEL) as i32;

/// A built apartment.
#[derive(Clone, Debug)]
pub struct House {
    /// The floor plan.
    pub plan: Plan,
    /// Where people can walk.
    pub ground: Ground,
    /// The rendered scene.
    pub scene: Scene,
}

impl House {
    /// Builds an apartment.
    pub fn build(mut random: ChaCha8Rng) -> Self {
        let plan = Plan::draw(&mut random);
        let mut kit = Kit::new(random.random());
        let finishes = finishes(&mut kit, &plan.rooms, &mut random);
        let (mut props, ground) = furnish(&plan, &mut kit, &mut random);
        let lamps = hang_lamps(&plan, &mut kit, &mut props);
        frame_openings(&plan, &finishes, &mut kit, &mut props);
        let grid = raise(&plan, &finishes, &mut kit);
        let lawn = kit.material(Pattern::Grass, [0x6aa84a, 0x4a8a38, 0xd8d070], 2.0, 0.0);
        let stage = StagePlan {
            grid,
            materials: kit.set,
            light: light(lamps, &mut random),
            sky: sky(&mut random),
            ground: Some((-0.6, lawn)),
            haze: 0.0,
        };
        let scene = Scene::new(Arc::new(Stage::bake(stage, &props)), props);
        Self { plan, ground, scene }
    }

    /// Walkable cells that are reachable from every doorway, row by row.
    pub fn walkable(&self) -> Vec<bool> {
        let door = self.plan.doors.first().map_or([0, 0], Door::middle);
        self.ground.reachable(door)
    }
}

/// Daylight through the windows and at least one lamp in every room.
fn light(lamps: Vec<Lamp>, random: &mut ChaCha8Rng) -> Light {
    let sun = Light::daylight(random.random_range(0.0..TAU), random.random_range(0.45..0.8));
    Light { sun_direction: sun.sun_direction, sun: sun.sun, ..Light::indoor(lamps) }
}

fn sky(random: &mut ChaCha8Rng) -> SkyLook {
    SkyLook {
        zenith: Color::hex(0x4a86d0),
        horizon: Color::hex(0xcfe2f2),
        cloud: Color::hex(0xffffff),
        cover: random.random_range(0.2..0.7),
        hill: Color::hex(0x587a58),
        hill_height: random.random_range(0.05..0.25),
        seed: random.random(),
    }
}

/// Ceiling lamps: one in the middle of a small room, a grid of them in larger ones.
fn hang_lamps(plan: &Plan, kit: &mut Kit, props: &mut Vec<Prop>) -> Vec<Lamp> {
    const EVERY: i32 = 12;
    let shade = kit.glowing(0xfff4d8);
    let mut lamps = Vec::new();
    for (room, &kind) in plan.rooms.iter().enumerate() {
        let cells: Vec<[i32; 2]> = plan.room_cells(room as u8).collect();
        let span = |axis: usize| {
            let low = cells.iter().map(|cell| cell[axis]).min().unwrap_or(0);
            let high = cells.iter().map(|cell| cell[axis]).max().unwrap_or(0) + 1;
            let parts = ((high - low + EVERY / 2) / EVERY).max(1);
            (low, high, parts)
        };
        let ((x0, x1, across), (y0, y1, along)) = (span(0), span(1));
        for part in 0..across * along {
            let middle = |low: i32, high: i32, part: i32, parts: i32| {
                low + (high - low) * (2 * part + 1) / (2 * parts)
            };
            let cell =
                [middle(x0, x1, part % across, across), middle(y0, y1, part / across, along)];
            // The bounding box of an L-shaped room includes places outside of it.
            if plan.at(cell) != Space::Room(room as u8) {
                continue;
            }
            let [x, y] = Plan::middle(cell);
            let (wide, tall) = if kind == RoomKind::Corridor { (0.3, 0.08) } else { (0.45, 0.16) };
            let lamp = Prop::block([x, y, CEILING - 0.5 * tall], [wide, wide, tall], shade);
            props.push(lamp.with_shape(Shape::Drum));
            lamps.push(Lamp { position: [x, y, CEILING - 0.3], reach: 6.0, strength: 0.55 });
        }
    }
    lamps
}

/// Frames around doorways and bars in windows.
fn frame_openings(plan: &Plan, finishes: &[Finish], kit: &mut Kit, props: &mut Vec<Prop>) {
    let frame = finishes[0].frame;
    let thick = CELL + 0.06;
    let post = 0.09;
    let mut block = |center: [f32; 3], size: [f32; 3], material: MaterialId| {
        props.push(Prop::block(center, size, material));
    };
    let oriented = |along_x: bool, a: f32, b: f32| if along_x { [a, b] } else { [b, a] };
    for door in &plan.doors {
        let along_x = door.size[0] > door.size[1];
        let axis = usize::from(!along_x);
        let [start, line] = [axis, 1 - axis].map(|axis| door.low[axis] as f32 * CELL);
        let (end, middle) = (start + door.size[axis] as f32 * CELL, line + 0.5 * CELL);
        for at in [start + 0.5 * post, end - 0.5 * post] {
            let ([x, y], [w, d]) = (oriented(along_x, at, middle), oriented(along_x, post, thick));
            block([x, y, 1.0], [w, d, 2.0], frame);
        }
        let [x, y] = oriented(along_x, 0.5 * (start + end), middle);
        let [w, d] = oriented(along_x, end - start, thick);
        block([x, y, 2.0 - 0.5 * post], [w, d, post], frame);
    }
    let white = kit.plain(0xf4f4f0);
    for window in &plan.windows {
        let along_x = window.size[0] > window.size[1];
        let axis = usize::from(!along_x);
        let [start, line] = [axis, 1 - axis].map(|axis| window.low[axis] as f32 * CELL);
        let (length, middle) = (window.size[axis] as f32 * CELL, line + 0.5 * CELL);
        let [low, high] = WINDOW.map(|voxels| voxels as f32 * VOXEL);
        let (center, height) = (0.5 * (low + high), high - low);
        for share in [0.02, 0.5, 0.98] {
            let [x, y] = oriented(along_x, start + share * length, middle);
            let [w, d] = oriented(along_x, 0.06, 0.08);
            block([x, y, center], [w, d, height], white);
        }
        let [x, y] = oriented(along_x, start + 0.5 * length, middle);
        for (z, tall, deep) in [(low, 0.05, thick), (center, 0.05, 0.08), (high, 0.05, 0.08)] {
            let [w, d] = oriented(along_x, length, deep);
            block([x, y, z], [w, d, tall], white);
        }
    }
}

/// Floor, walls and ceiling as voxels.
fn raise(plan: &Plan, finishes: &[Finish], kit: &mut Kit) -> VoxelGrid {
    let ceiling = kit.material(Pattern::Plaster, [0xf6f4ee, 0xe8e6de, 0], 3.0, 0.0);
    let facade = kit.material(Pattern::Bricks, [0xb07058, 0xd0c8bc, 0x985840], 1.0, 0.0);
    let [columns, rows] = plan.size;
    let count = [columns * PER_CELL, rows * PER_CELL, STORY + 2];
    let mut grid = VoxelGrid::new(count.map(|n| n as usize), VOXEL, [0.0, 0.0, -VOXEL]);
    for y in 0..count[1] {
        for x in 0..count[0] {
            let cell = [x / PER_CELL, y / PER_CELL];
            let space = plan.at(cell);
            // The room on this side of the wall.
            let quarter = [x % PER_CELL, y % PER_CELL];
            let room = space.room().or_else(|| beside(plan, cell, quarter));
            let finish = room.map(|room| &finishes[usize::from(room)]);
            let floor = finish.map_or(facade, |finish| finish.floor);
            grid.set([x, y, 0], floor);
            grid.set([x, y, STORY + 1], ceiling);
            let solid = match space {
                Space::Room(_) => continue,
                Space::Door(_) => LINTEL..STORY,
                Space::Wall => 0..STORY,
            };
            for level in solid {
                let material = match (finish, level) {
                    (None, _) => facade,
                    (Some(finish), 0) => finish.skirting,
                    (Some(finish), level) if level < PANEL => finish.panel,
                    (Some(finish), _) => finish.wall,
                };
                grid.set([x, y, level + 1], material);
            }
        }
    }
    for window in &plan.windows {
        let [x, y] = window.low.map(|cells| cells * PER_CELL);
        let [wide, deep] = window.size.map(|cells| cells * PER_CELL);
        let (low, high) = ([x, y, WINDOW[0] + 1], [x + wide, y + deep, WINDOW[1] + 1]);
        grid.fill(low, high, MaterialId::EMPTY);
    }
    grid
}

/// The room that the voxel at `quarter` of a wall or door cell faces: an adjacent one first, then a
/// diagonal one.
fn beside(plan: &Plan, [x, y]: [i32; 2], quarter: [i32; 2]) -> Option<u8> {
    let [dx, dy] = quarter.map(|half| 2 * half - 1);
    let around = [[dx, 0], [0, dy], [dx, dy], [dx, -dy], [-dx, dy]];
    around.into_iter().find_map(|[dx, dy]| plan.at([x + dx, y + dy]).room())
}

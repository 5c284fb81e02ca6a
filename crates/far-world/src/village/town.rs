//! Builds one village: ground, houses, plants, furniture, and the walkable map.

use std::sync::Arc;

use rand::RngExt;

use crate::color::Color;
use crate::grid::VoxelGrid;
use crate::light::Light;
use crate::material::{MaterialId, MaterialSet};
use crate::random::random;
use crate::scene::{Scene, Stage, StagePlan};
use crate::sky::SkyLook;
use crate::vector::scale;
use crate::walk_map::{Cell, WalkMap};

use super::biome::{BIOMES, Biome};
use super::change::Changeable;
use super::furniture::{clutter, fence, lamp_post, stall, well};
use super::house::{self, GROUND, PER_METER, Site};
use super::material::Palette;
use super::nature::{bush, hedge, tree};
use super::plan::{Cover, EXTENT, MARGIN, Plan, Rectangle, Side};

/// Height of the grid above the ground, in voxels.
pub(super) const HEIGHT: i32 = 26;

/// A village: its scene at the start of an episode, what can change, and where walkers can go.
pub(super) struct Town {
    pub name: String,
    pub scene: Scene,
    pub changeables: Vec<Changeable>,
    pub map: WalkMap,
    pub plan: Plan,
}

impl Town {
    /// Village `number` of a recording.
    pub fn new(seed: u64, number: u32) -> Self {
        let mut random = random(seed, "village", u64::from(number));
        let biome = &BIOMES[number as usize % BIOMES.len()];
        let plan = Plan::new(&mut random);
        let mut materials = MaterialSet::new(random.random());
        let palette = Palette::new(biome, &mut materials);
        let count = [EXTENT * PER_METER, EXTENT * PER_METER, GROUND + HEIGHT].map(|n| n as usize);
        let mut grid = VoxelGrid::new(count, 1.0 / PER_METER as f32, [0.0, 0.0, -1.0]);
        cover_ground(&mut grid, &plan, &palette);
        let (mut props, mut changeables) = (Vec::new(), Vec::new());
        let mut site = Site {
            grid: &mut grid,
            materials: &mut materials,
            palette: &palette,
            props: &mut props,
            changeables: &mut changeables,
            random: &mut random,
        };
        for lot in &plan.lots {
            house::build(&mut site, biome, lot);
        }
        furnish_plaza(&mut site, &plan);
        line_lanes(&mut site, &plan);
        gardens(&mut site, &plan);
        plant(&mut site, &plan, biome);
        let mut map = WalkMap::over(&grid, &props, 1.0, [0.1, 2.6], 0.35);
        let stage_plan = stage_plan(biome, grid, materials, palette.ground, &mut random);
        let stage = Arc::new(Stage::bake(stage_plan, &props));
        let mut scene = Scene::new(stage, props);
        for changeable in &changeables {
            changeable.apply(changeable.start, &mut scene);
        }
        let name = format!("{}_village_{:02}", biome.name, number as usize / BIOMES.len() + 1);
        keep_inside(&mut map);
        Self { name, scene, changeables, map, plan }
    }

    /// Cost of entering a cell: lanes are preferred.
    pub fn toll(&self, cell: Cell) -> u32 {
        match self.plan.cover(cell[0], cell[1]) {
            Cover::Lane | Cover::Plaza => 0,
            Cover::Field => 30,
            _ => 14,
        }
    }
}

/// The outer border is not walkable.
fn keep_inside(map: &mut WalkMap) {
    let (extent, margin) = (EXTENT as f32, MARGIN as f32);
    map.block([0.0, 0.0], [extent, margin]);
    map.block([0.0, extent - margin], [extent, extent]);
    map.block([0.0, 0.0], [margin, extent]);
    map.block([extent - margin, 0.0], [extent, extent]);
}

fn stage_plan(
    biome: &Biome,
    grid: VoxelGrid,
    materials: MaterialSet,
    ground: MaterialId,
    random: &mut rand_chacha::ChaCha8Rng,
) -> StagePlan {
    let [zenith, horizon, cloud, hill, sun] = biome.sky.map(Color::hex);
    let mut daylight = Light::daylight(
        random.random_range(0.0..std::f32::consts::TAU),
        random.random_range(0.55..1.05),
    );
    daylight.sun = scale(sun.to_light(), random.random_range(0.75..0.95));
    let tint = random.random_range(0.9..1.1);
    let sky = SkyLook {
        zenith: zenith.shade(tint),
        horizon,
        cloud,
        cover: random.random_range(0.15..0.75),
        hill,
        hill_height: random.random_range(0.05..0.16),
        seed: random.random(),
    };
    StagePlan { grid, materials, light: daylight, sky, ground: Some((0.0, ground)), haze: 0.0035 }
}

fn cover_ground(grid: &mut VoxelGrid, plan: &Plan, palette: &Palette) {
    for y in 0..EXTENT {
        for x in 0..EXTENT {
            let material = match plan.cover(x, y) {
                Cover::Lane => palette.lane,
                Cover::Plaza => palette.plaza,
                Cover::Field => palette.field,
                Cover::Wild | Cover::Green | Cover::Lot => palette.ground,
            };
            let low = [x * PER_METER, y * PER_METER, 0];
            grid.fill(low, [low[0] + PER_METER, low[1] + PER_METER, GROUND], material);
        }
    }
}

/// The well in the middle of the square, stalls around it.
fn furnish_plaza(site: &mut Site, plan: &Plan) {
    let [x, y] = plan.plaza.center();
    let [width, depth] = plan.plaza.size().map(|size| 0.5 * size as f32);
    let beside = if site.random.random_bool(0.5) { 3.5 } else { -3.5 };
    well(site, [x + beside, y + 3.5]);
    let (wide, deep) = (width - 2.2, depth - 1.6);
    let stalls = [
        (-wide, deep, 0.0),
        (wide, -deep, std::f32::consts::PI),
        (-wide, -deep, std::f32::consts::PI),
        (wide, deep, 0.0),
    ];
    for (dx, dy, yaw) in stalls {
        if site.random.random_bool(0.85) {
            stall(site, [x + dx, y + dy], yaw);
        }
    }
    for (dx, dy) in [(-1.0, 1.0), (1.0, -1.0)] {
        lamp_post(site, [x + dx * 3.0, y + dy * (depth - 0.6)]);
    }
}

/// Lamp posts along the lanes.
fn line_lanes(site: &mut Site, plan: &Plan) {
    for axis in 0..2 {
        for &line in &plan.lanes[axis] {
            let mut at = MARGIN + site.random.random_range(3..10);
            while at < EXTENT - MARGIN {
                let side = if site.random.random_bool(0.5) { 2.3 } else { -2.3 };
                let mut point = [at as f32 + 0.5; 2];
                let mut middle = point;
                (point[axis], middle[axis]) = (line as f32 + side, line as f32);
                let on_lane = |p: [f32; 2]| plan.cover(p[0] as i32, p[1] as i32) == Cover::Lane;
                let green =
                    plan.cover(point[0].floor() as i32, point[1].floor() as i32) == Cover::Green;
                if on_lane(middle) && green {
                    lamp_post(site, point);
                }
                at += site.random.random_range(9..15);
            }
        }
    }
}

/// Fences, hedges and small objects around the houses.
fn gardens(site: &mut Site, plan: &Plan) {
    for lot in &plan.lots {
        let yard = lot.house.grown(2);
        let enclosed = site.random.random_range(0..3);
        // Left and right of the house, from its front corner backward.
        for side in 0..2 {
            let strip = side_strip(lot.house, lot.front, side);
            if !plan.is_green(strip) || enclosed == 0 {
                continue;
            }
            let [x0, y0] = strip.low.map(|v| v as f32);
            let [x1, y1] = strip.high.map(|v| v as f32);
            let along_x = x1 - x0 > y1 - y0;
            let (from, to) = if along_x {
                ([x0, 0.5 * (y0 + y1)], [x1, 0.5 * (y0 + y1)])
            } else {
                ([0.5 * (x0 + x1), y0], [0.5 * (x0 + x1), y1])
            };
            if enclosed == 1 {
                fence(site, from, to);
            } else {
                let low = from.map(|v| (v * PER_METER as f32) as i32);
                let high = to.map(|v| (v * PER_METER as f32) as i32);
                let height = site.random.random_range(2..=3);
                hedge(site, low, [high[0].max(low[0] + 1), high[1].max(low[1] + 1)], height);
            }
        }
        for _ in 0..2 {
            let x = site.random.random_range(yard.low[0]..yard.high[0]);
            let y = site.random.random_range(yard.low[1]..yard.high[1]);
            if plan.cover(x, y) == Cover::Green && site.random.random_bool(0.6) {
                clutter(site, [x as f32 + 0.5, y as f32 + 0.5]);
            }
        }
    }
}

/// A strip one meter wide and four meters long that continues the front wall of a house sideways.
fn side_strip(house: Rectangle, front: Side, side: usize) -> Rectangle {
    let axis = front.axis();
    let Rectangle { low, high } = house;
    let line = if front.is_high() { high[axis] - 1 } else { low[axis] };
    let from = if side == 0 { low[1 - axis] - 4 } else { high[1 - axis] };
    Rectangle::along(1 - axis, [from, from + 4], [line, line + 1])
}

/// Trees on green cells, and a ring of them in the outer border.
fn plant(site: &mut Site, plan: &Plan, biome: &Biome) {
    let density = site.random.random_range(0.02..0.05);
    for y in (1..EXTENT - 1).step_by(2) {
        for x in (1..EXTENT - 1).step_by(2) {
            let near =
                |reach: i32| Rectangle::new(x - reach, y - reach, x + reach + 1, y + reach + 1);
            let shape = biome.trees[site.random.random_range(0..biome.trees.len())];
            match plan.cover(x, y) {
                Cover::Wild if site.random.random_bool(0.32) => {
                    tree(site, x * PER_METER, y * PER_METER, shape);
                }
                Cover::Green
                    if plan.is_green(near(2)) && site.random.random_bool(density * 4.0) =>
                {
                    tree(site, x * PER_METER, y * PER_METER, shape);
                }
                Cover::Green if plan.is_green(near(1)) && site.random.random_bool(density) => {
                    bush(site, x * PER_METER, y * PER_METER);
                }
                _ => {}
            }
        }
    }
}

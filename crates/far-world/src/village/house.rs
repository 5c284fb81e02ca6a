//! Houses: walls, windows, a door, a roof, and what can change about them.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::f32::consts::{FRAC_PI_2, PI};

use crate::grid::VoxelGrid;
use crate::material::{MaterialId, MaterialSet};
use crate::prop::{Axis, Motion, Prop};

use super::biome::{Biome, RoofShape};
use super::change::{Changeable, Look};
use super::material::Palette;
use super::plan::{Lot, Rectangle, Side};
use super::town::HEIGHT;

/// Voxels per meter.
pub(super) const PER_METER: i32 = 2;
/// First voxel layer above the ground.
pub(super) const GROUND: i32 = 2;

/// Everything that a builder adds to.
pub(super) struct Site<'a> {
    pub grid: &'a mut VoxelGrid,
    pub materials: &'a mut MaterialSet,
    pub palette: &'a Palette,
    pub props: &'a mut Vec<Prop>,
    pub changeables: &'a mut Vec<Changeable>,
    pub random: &'a mut ChaCha8Rng,
}

impl Site<'_> {
    /// Fills whole meters on the ground plan between two heights in voxels above the ground.
    fn fill(&mut self, area: Rectangle, low: i32, high: i32, material: MaterialId) {
        let at =
            |corner: [i32; 2], z: i32| [corner[0] * PER_METER, corner[1] * PER_METER, GROUND + z];
        self.grid.fill(at(area.low, low), at(area.high, high), material);
    }
}

/// One storey in voxels.
const STOREY: i32 = 5;

/// Builds a house on a lot.
pub(super) fn build(site: &mut Site, biome: &Biome, lot: &Lot) {
    let house = lot.house;
    let [width, depth] = house.size();
    let storeys = if width.min(depth) >= 6 && site.random.random_bool(0.4) { 2 } else { 1 };
    let height = STOREY * storeys + 1;
    let paint = site.random.random_range(0..site.palette.walls.len());
    let wall = site.materials.alias(site.palette.walls[paint]);
    let window = site.materials.alias(site.palette.windows[0]);
    let style = site.random.random_range(0..biome.roof_shapes.len());
    let roof = site.palette.roofs[style];
    let shape = biome.roof_shapes[style];

    site.fill(house, 0, height, wall);
    site.fill(house, 0, 1, site.palette.base);
    if site.random.random_bool(0.6) {
        corner_posts(site, house, height);
    }
    if storeys == 2 && site.random.random_bool(0.6) {
        let band = site.palette.timber;
        site.fill(house, STOREY, STOREY + 1, band);
    }
    windows(site, lot, storeys, window);
    door(site, lot);
    raise_roof(site, house, height, wall, roof, shape);
    if shape != RoofShape::Flat && site.random.random_bool(0.6) {
        chimney(site, house, height);
    }
    if width.max(depth) >= 9 && site.random.random_bool(0.5) {
        annex(site, lot, wall, roof);
    }
    site.changeables.push(Changeable {
        look: Look::Walls { wall, options: site.palette.walls.to_vec() },
        start: paint as u8,
    });
    let lit = site.random.random_bool(0.25);
    site.changeables.push(Changeable {
        look: Look::Walls { wall: window, options: site.palette.windows.to_vec() },
        start: u8::from(lit),
    });
}

fn corner_posts(site: &mut Site, house: Rectangle, height: i32) {
    let timber = site.palette.timber;
    for x in [house.low[0] * PER_METER, house.high[0] * PER_METER - 1] {
        for y in [house.low[1] * PER_METER, house.high[1] * PER_METER - 1] {
            site.grid.fill([x, y, GROUND], [x + 1, y + 1, GROUND + height], timber);
        }
    }
}

/// The axis along a side's wall, and the wall's voxel layer across it.
fn wall_of(house: Rectangle, side: Side) -> (usize, i32) {
    let axis = side.axis();
    let low = house.low[axis] * PER_METER;
    (1 - axis, if side.is_high() { house.high[axis] * PER_METER - 1 } else { low })
}

/// A world point just in front of a side's wall, `along` meters along it and `height` above the
/// ground.
fn before_wall(house: Rectangle, side: Side, along: f32, height: f32, gap: f32) -> [f32; 3] {
    let axis = side.axis();
    let (low, high) = (house.low[axis] as f32 - gap, house.high[axis] as f32 + gap);
    let mut point = [along, along, height];
    point[axis] = if side.is_high() { high } else { low };
    point
}

/// Yaw of a prop on a side's wall: its own −Y points outward.
fn outward_yaw(side: Side) -> f32 {
    match side {
        Side::East => FRAC_PI_2,
        Side::North => PI,
        Side::West => -FRAC_PI_2,
        Side::South => 0.0,
    }
}

/// Middle of a side, in meters along its wall.
fn middle_of(house: Rectangle, side: Side) -> i32 {
    let axis = wall_of(house, side).0;
    house.low[axis] + house.size()[axis] / 2
}

/// Windows on all sides, with shutters on the front and sometimes flowers below.
fn windows(site: &mut Site, lot: &Lot, storeys: i32, window: MaterialId) {
    let house = lot.house;
    let spacing = site.random.random_range(2..=3);
    let shutter = site.palette.shutters[site.random.random_range(0..4)];
    let flowers = site.palette.flowers[site.random.random_range(0..2)];
    let with_shutters = site.random.random_bool(0.65);
    let with_flowers = site.random.random_bool(0.4);
    for side in Side::ALL {
        let (axis, layer) = wall_of(house, side);
        let front = side == lot.front;
        for storey in 0..storeys {
            // Windows begin a whole number of meters above the ground, where their tile does.
            let sill = if storey == 0 { 2 } else { 2 + STOREY + 1 };
            let mut at = house.low[axis] + 1;
            while at + 1 < house.high[axis] {
                let is_door = front && storey == 0 && (at - middle_of(house, side)).abs() <= 1;
                if !is_door {
                    let mut low = [layer, layer, GROUND + sill];
                    low[axis] = at * PER_METER;
                    let mut high = [layer + 1, layer + 1, GROUND + sill + 2];
                    high[axis] = (at + 1) * PER_METER;
                    site.grid.fill(low, high, window);
                    let (middle, height) = (at as f32 + 0.5, 0.5 * sill as f32);
                    if front && with_shutters && storey == 0 {
                        shutters(site, lot, middle, height, shutter);
                    }
                    if front && with_flowers {
                        let place = before_wall(house, side, middle, height - 0.12, 0.15);
                        let pot = Prop::block(place, [1.0, 0.3, 0.28], flowers);
                        site.props.push(pot.with_yaw(outward_yaw(side)));
                    }
                }
                at += spacing;
            }
        }
    }
}

/// A pair of shutters in front of a window; closed they cover it, open they lie beside it.
fn shutters(site: &mut Site, lot: &Lot, along: f32, height: f32, material: MaterialId) {
    let yaw = outward_yaw(lot.front);
    let (sin, cos) = yaw.sin_cos();
    let first = site.props.len();
    let center = before_wall(lot.house, lot.front, along, height + 0.5, 0.06);
    for side in [-1.0f32, 1.0] {
        let place = [center[0] + 0.25 * side * cos, center[1] + 0.25 * side * sin, center[2]];
        let hinge = Motion::Hinge {
            pivot: [0.25 * side, -0.02, 0.0],
            axis: Axis::Z,
            angle: side * -0.97 * PI,
        };
        site.props
            .push(Prop::block(place, [0.5, 0.06, 1.0], material).with_yaw(yaw).with_motion(hinge));
    }
    site.changeables.push(Changeable {
        look: Look::Shutters { props: [first, first + 1] },
        start: u8::from(site.random.random_bool(0.7)),
    });
}

/// The front door with a step in front of it.
fn door(site: &mut Site, lot: &Lot) {
    let along = middle_of(lot.house, lot.front) as f32 + 0.5;
    let yaw = outward_yaw(lot.front);
    let choice = site.random.random_range(0..site.palette.doors.len());
    let material = site.palette.doors[choice];
    let place = before_wall(lot.house, lot.front, along, 1.1, 0.03);
    let index = site.props.len();
    site.props.push(Prop::block(place, [1.1, 0.12, 2.2], material).with_yaw(yaw));
    let step = before_wall(lot.house, lot.front, along, 0.08, 0.35);
    site.props.push(Prop::block(step, [1.5, 0.7, 0.16], site.palette.stone).with_yaw(yaw));
    site.changeables.push(Changeable {
        look: Look::Surface { props: vec![index], options: site.palette.doors.to_vec() },
        start: choice as u8,
    });
}

/// A roof above the walls, `height` voxels above the ground, with eaves one voxel wide.
fn raise_roof(
    site: &mut Site,
    house: Rectangle,
    height: i32,
    wall: MaterialId,
    roof: MaterialId,
    shape: RoofShape,
) {
    let [low, high] = [house.low, house.high].map(|corner| corner.map(|v| v * PER_METER));
    let base = GROUND + height;
    // The ridge runs along the longer side.
    let ridge = usize::from(high[0] - low[0] < high[1] - low[1]);
    let across = 1 - ridge;
    // The house from layer `z` on, `layers` high, without `ends` voxels at both ends of the ridge
    // and `sides` at both eaves.
    let part = |ends: i32, sides: i32, z: i32, layers: i32| {
        let mut corners = [[low[0], low[1], z], [high[0], high[1], z + layers]];
        for (corner, inward) in corners.iter_mut().zip([1, -1]) {
            corner[ridge] += inward * ends;
            corner[across] += inward * sides;
        }
        corners
    };
    let mut fill = |[low, high]: [[i32; 3]; 2], material| site.grid.fill(low, high, material);
    if shape == RoofShape::Flat {
        fill(part(0, 0, base, 2), wall);
        fill(part(1, 1, base, 1), roof);
        fill(part(1, 1, base + 1, 1), MaterialId::EMPTY);
        return;
    }
    let half = (high[across] - low[across]) / 2 + 1;
    // A steep roof that would leave the grid becomes a normal one.
    let steep = shape == RoofShape::Steep && height + 2 * half <= HEIGHT;
    let rise = if steep { 2 } else { 1 };
    for k in 0..half * rise {
        let (inset, z) = (k / rise - 1, base + k);
        if shape == RoofShape::Hip {
            fill(part(inset, inset, z, 1), roof);
            continue;
        }
        fill(part(-1, inset, z, 1), roof);
        // The part of this layer inside the slopes is visible at the gables.
        let inside = inset + 2;
        if low[across] + inside < high[across] - inside {
            fill(part(-1, inside, z, 1), MaterialId::EMPTY);
            fill(part(0, inside, z, 1), wall);
        }
    }
}

fn chimney(site: &mut Site, house: Rectangle, height: i32) {
    let [x, y] = house.low.map(|v| v * PER_METER + 3);
    let top = GROUND + height + house.size()[0].min(house.size()[1]) + 3;
    site.grid.fill([x, y, GROUND + height], [x + 2, y + 2, top], site.palette.base);
}

/// A low wing behind the house if there is room, which changes its outline from the side.
fn annex(site: &mut Site, lot: &Lot, wall: MaterialId, roof: MaterialId) {
    let axis = lot.front.axis();
    let Rectangle { low, high } = lot.house;
    let behind = if lot.front.is_high() { low[axis] - 1 } else { high[axis] };
    let along = [low[1 - axis] + 1, low[1 - axis] + 4];
    let area = Rectangle::along(1 - axis, along, [behind, behind + 1]);
    site.fill(area, 0, 4, wall);
    site.fill(area, 4, 5, roof);
}

//! Trees, hedges and bushes.

use rand::RngExt;

use crate::grid::cells;
use crate::material::MaterialId;
use crate::noise::unit;

use super::biome::TreeShape;
use super::house::{GROUND, Site};

/// Plants a tree whose trunk stands on voxel (`x`, `y`).
pub(super) fn tree(site: &mut Site, x: i32, y: i32, shape: TreeShape) {
    let leaves = site.palette.leaves[site.random.random_range(0..2)];
    let bark = site.palette.bark;
    let seed = site.random.random::<u32>();
    let stem = |site: &mut Site, height: i32| {
        site.grid.fill([x, y, GROUND], [x + 1, y + 1, GROUND + height], bark);
    };
    match shape {
        TreeShape::Round => {
            let height = site.random.random_range(6..=8);
            stem(site, height);
            let radius = site.random.random_range(3.3..4.8);
            crown(site, [x, y, GROUND + height + 1], [radius, radius, radius * 0.8], leaves, seed);
        }
        TreeShape::Slender => {
            let height = site.random.random_range(7..=9);
            stem(site, height);
            crown(site, [x, y, GROUND + height + 1], [2.4, 2.4, 5.0], leaves, seed);
        }
        TreeShape::Umbrella => {
            let height = site.random.random_range(9..=12);
            stem(site, height);
            crown(site, [x, y, GROUND + height], [5.6, 5.6, 1.7], leaves, seed);
        }
        TreeShape::Cone => {
            let height = site.random.random_range(12..=18);
            stem(site, height);
            for layer in 2..height + 2 {
                // Branches in tiers: wide at the bottom of each, narrow at its top.
                let wide = 4.6 * (1.0 - layer as f32 / (height + 3) as f32);
                let radius = wide * if layer % 3 == 2 { 1.0 } else { 0.72 };
                let radii = [radius.max(0.6), radius.max(0.6), 0.6];
                crown(site, [x, y, GROUND + layer], radii, leaves, seed);
            }
        }
        TreeShape::Palm => {
            let height = site.random.random_range(9..=13);
            stem(site, height);
            for (dx, dy) in [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1)] {
                for step in 0..4 {
                    let z = GROUND + height + [0, 1, 0, -1][step as usize];
                    site.grid.set([x + dx * step, y + dy * step, z], leaves);
                }
            }
        }
        TreeShape::Cactus => {
            let height = site.random.random_range(5..=7);
            let z = GROUND + height;
            site.grid.fill([x, y, GROUND], [x + 1, y + 1, z], leaves);
            for side in [-1, 1] {
                site.grid.set([x + side, y, z - 4], leaves);
                site.grid.fill([x + 2 * side, y, z - 4], [x + 2 * side + 1, y + 1, z - 1], leaves);
            }
        }
    }
}

/// An ellipsoid of leaves with a ragged surface; radii in voxels.
fn crown(site: &mut Site, center: [i32; 3], radii: [f32; 3], leaves: MaterialId, seed: u32) {
    let reach = radii.map(|radius| radius.ceil() as i32);
    for offset in cells(reach.map(|r| -r), reach.map(|r| r + 1)) {
        let square: f32 = (0..3).map(|axis| (offset[axis] as f32 / radii[axis]).powi(2)).sum();
        let place = std::array::from_fn(|axis| center[axis] + offset[axis]);
        let ragged = 1.0 - 0.35 * unit(place[0], place[1], place[2], seed);
        if square <= ragged && !site.grid.is_solid(place) && place[2] >= GROUND {
            site.grid.set(place, leaves);
        }
    }
}

/// A bush on voxel (`x`, `y`).
pub(super) fn bush(site: &mut Site, x: i32, y: i32) {
    let seed = site.random.random::<u32>();
    let hedge = site.palette.hedge;
    crown(site, [x, y, GROUND], [1.8, 1.8, 1.9], hedge, seed);
}

/// A hedge in whole meters from one corner to the other, `height` voxels high.
pub(super) fn hedge(site: &mut Site, low: [i32; 2], high: [i32; 2], height: i32) {
    let hedge = site.palette.hedge;
    site.grid.fill([low[0], low[1], GROUND], [high[0], high[1], GROUND + height], hedge);
}

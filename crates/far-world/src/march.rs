//! Traces several rays from one point at once through the table of empty boxes.
//!
//! All lanes take a step together in plain arithmetic on small arrays, which compilers vectorize;
//! finished lanes wait. Every lane computes exactly what it would compute alone, so the result does
//! not depend on the number of lanes.

use crate::leap::{Leaps, REACH_BITS, REACH_MASK};
use crate::vector::Vector;

/// Where rays ended, per lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival<const LANES: usize> {
    /// Multiples of the rays' directions.
    pub distance: [f32; LANES],
    /// Cells that stopped the rays: x, y, z.
    pub cell: [[f32; LANES]; 3],
    /// Axes across which the cells were entered.
    pub axis: [u8; LANES],
}

/// Rays that start in cells of the grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure<const LANES: usize> {
    /// The rays' common origin in cell units.
    pub origin: Vector,
    /// Directions in cell units, none exactly zero: x, y, z.
    pub direction: [[f32; LANES]; 3],
    /// Cells in which the rays start, and how they were entered.
    pub start: Arrival<LANES>,
}

/// Follows the rays to the first cell that stops each; `row` and `layer` are the distances between
/// neighboring cells along Y and Z in the table.
pub(crate) fn march<const LANES: usize>(
    leaps: &Leaps,
    [row, layer]: [i32; 2],
    departure: &Departure<LANES>,
) -> Arrival<LANES> {
    #[cfg(target_arch = "x86_64")]
    if LANES >= 4 && is_x86_feature_detected!("avx2") {
        // SAFETY: AVX2 was just detected.
        return unsafe { march_avx2(leaps, [row, layer], departure) };
    }
    march_lanes(leaps, [row, layer], departure)
}

/// [`march_lanes`] compiled for wider vectors; the arithmetic and its results are the same.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn march_avx2<const LANES: usize>(
    leaps: &Leaps,
    strides: [i32; 2],
    departure: &Departure<LANES>,
) -> Arrival<LANES> {
    march_lanes(leaps, strides, departure)
}

#[inline(always)]
fn march_lanes<const LANES: usize>(
    leaps: &Leaps,
    [row, layer]: [i32; 2],
    departure: &Departure<LANES>,
) -> Arrival<LANES> {
    let Departure { origin: [ox, oy, oz], direction: [dx, dy, dz], start } = *departure;
    let Arrival { mut distance, cell: [mut x, mut y, mut z], mut axis } = start;
    let inverse = |d: [f32; LANES]| d.map(|slope| 1.0 / slope);
    let (ix, iy, iz) = (inverse(dx), inverse(dy), inverse(dz));
    // 1 where the ray goes up the axis, 0 where it goes down.
    let forward = |d: [f32; LANES]| d.map(|slope| if slope > 0.0 { 1.0f32 } else { 0.0 });
    let (ex, ey, ez) = (forward(dx), forward(dy), forward(dz));
    let table = ez.map(|up| if up > 0.0 { 0 } else { leaps.falling });
    let (row, layer) = (row as f32, layer as f32);
    loop {
        let mut entry = [0u8; LANES];
        for lane in 0..LANES {
            // Exact: a table has at most 2²⁴ entries.
            let index = x[lane] + y[lane] * row + z[lane] * layer;
            entry[lane] = leaps.entries[table[lane] + index as usize];
        }
        if entry.iter().all(|leap| leap & REACH_MASK == 0) {
            return Arrival { distance, cell: [x, y, z], axis };
        }
        for lane in 0..LANES {
            let moves = entry[lane] & REACH_MASK != 0;
            let side = f32::from(entry[lane] & REACH_MASK) - 1.0;
            // 2ⁿ by its bits: layers ahead of the cell's own.
            let power = u32::from(entry[lane] >> REACH_BITS);
            let layers = f32::from_bits((127 + power) << 23) - 1.0;
            // Last cell of the empty box, the plane behind it, and when the ray gets there.
            let end = |at: f32, ahead: f32, by: f32| at + (2.0 * ahead - 1.0) * by;
            let (end_x, end_y, end_z) = (
                end(x[lane], ex[lane], side),
                end(y[lane], ey[lane], side),
                end(z[lane], ez[lane], layers),
            );
            let along_x = (end_x + ex[lane] - ox) * ix[lane];
            let along_y = (end_y + ey[lane] - oy) * iy[lane];
            let along_z = (end_z + ez[lane] - oz) * iz[lane];
            let is_x = along_x <= along_y && along_x <= along_z;
            let is_y = !is_x && along_y <= along_z;
            let reached = if is_x {
                along_x
            } else if is_y {
                along_y
            } else {
                along_z
            };
            // The coordinates there; a ray never turns back, whatever the rounding.
            let next = |crosses: bool, origin: f32, slope: f32, from: f32, end: f32, ahead: f32| {
                let at = whole(origin + slope * reached);
                let (low, high) = if from < end { (from, end) } else { (end, from) };
                let at = if at < low { low } else { at };
                let at = if at > high { high } else { at };
                if crosses { end + 2.0 * ahead - 1.0 } else { at }
            };
            let next_x = next(is_x, ox, dx[lane], x[lane], end_x, ex[lane]);
            let next_y = next(is_y, oy, dy[lane], y[lane], end_y, ey[lane]);
            let next_z = next(!is_x && !is_y, oz, dz[lane], z[lane], end_z, ez[lane]);
            let crossed = if is_x {
                0
            } else if is_y {
                1
            } else {
                2
            };
            x[lane] = if moves { next_x } else { x[lane] };
            y[lane] = if moves { next_y } else { y[lane] };
            z[lane] = if moves { next_z } else { z[lane] };
            axis[lane] = if moves { crossed } else { axis[lane] };
            distance[lane] = if moves { reached } else { distance[lane] };
        }
    }
}

/// The integer part of a coordinate of the grid.
#[inline(always)]
fn whole(value: f32) -> f32 {
    // Adding 2²³ leaves no bits for a fraction; what rounding added is subtracted.
    const LARGE: f32 = 8_388_608.0;
    let rounded = (value + LARGE) - LARGE;
    if rounded > value { rounded - 1.0 } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn whole_is_the_floor_of_positive_coordinates() {
        for step in 0..4000 {
            let value = step as f32 * 0.171;
            assert_eq!(whole(value), value.floor(), "{value}");
        }
        assert_eq!(whole(5.0), 5.0);
        assert_eq!(whole(4.999_999_5), 4.0);
    }
}

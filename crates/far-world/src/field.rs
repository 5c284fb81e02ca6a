//! Fast traversal of the voxels: one byte per cell gives the size of an empty box ahead.
//!
//! There is one table for rising and one for falling rays. An entry is a box of empty cells around
//! its cell: `h − 1` cells to every side and `v` layers in the ray's vertical direction. A ray
//! crosses it in one step; the smallest box, `h = v = 1`, is the ordinary step to the next cell.
//! Solids behind a ray never shorten its step, so low rays over open ground are as cheap as rays
//! into the sky. Plane crossings are always computed from the ray's origin, so that errors do not
//! accumulate.

use crate::grid::{VoxelGrid, cells};
use crate::leap::Leaps;
use crate::march::{Arrival, Departure, march};
use crate::material::MaterialId;
use crate::vector::Vector;

/// Marks the layer of cells around the grid, where a ray leaves the scene.
pub(crate) const BORDER: u8 = 255;

/// The faces of a box by number: −X, +X, −Y, +Y, −Z, +Z.
pub const FACE_NORMALS: [Vector; 6] = [
    [-1.0, 0.0, 0.0],
    [1.0, 0.0, 0.0],
    [0.0, -1.0, 0.0],
    [0.0, 1.0, 0.0],
    [0.0, 0.0, -1.0],
    [0.0, 0.0, 1.0],
];

/// The cells of a field of `count` cells without its border.
pub(crate) fn inner_cells(count: [i32; 3]) -> impl Iterator<Item = [i32; 3]> {
    cells([1; 3], count.map(|n| n - 1))
}

/// Where a ray hit a voxel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VoxelHit {
    /// Multiple of the ray's direction.
    pub distance: f32,
    /// The voxel, in the grid's own numbering.
    pub voxel: [i32; 3],
    /// Face that was hit: −X, +X, −Y, +Y, −Z, +Z.
    pub face: u8,
    /// Its material.
    pub material: MaterialId,
}

/// The grid prepared for rays.
#[derive(Clone, Debug)]
pub struct Field {
    /// Material of each cell: 0 empty, [`BORDER`] outside.
    cells: Vec<u8>,
    leaps: Leaps,
    /// Cells per axis with the border.
    pub(crate) count: [i32; 3],
    /// Distance from one cell to its neighbor along each axis in arrays laid out like this field.
    pub(crate) stride: [i32; 3],
    /// Edge of a voxel in meters.
    pub(crate) voxel: f32,
    per_meter: f32,
    /// World position of the corner of cell (0, 0, 0), which is a border cell.
    origin: Vector,
}

impl Field {
    /// Prepares a grid; `extra` may mark empty voxels that also stop rays (with material 1), as
    /// baking does for furniture.
    ///
    /// # Panics
    /// For grids of 2²⁴ voxels or more, which is a bug in the scene's code.
    pub fn new(grid: &VoxelGrid, extra: impl Fn([i32; 3]) -> bool) -> Self {
        let count = grid.count().map(|n| n as i32 + 2);
        let stride = [1, count[0], count[0] * count[1]];
        let total = count.iter().map(|&n| n as usize).product::<usize>();
        assert!(total < 1 << 24, "a grid has fewer than 2^24 voxels with its border");
        let mut cells = vec![BORDER; total];
        for [x, y, z] in inner_cells(count) {
            let voxel = [x - 1, y - 1, z - 1];
            let material = grid.get(voxel).0;
            let filled = material == 0 && extra(voxel);
            let index = (x + y * stride[1] + z * stride[2]) as usize;
            cells[index] = if filled { 1 } else { material };
        }
        let leaps = Leaps::new(&cells, count);
        let voxel = grid.voxel();
        let origin = grid.origin().map(|corner| corner - voxel);
        Self { cells, leaps, count, stride, voxel, per_meter: 1.0 / voxel, origin }
    }

    /// Whether a cell (by index) stops rays; the border does not.
    #[inline]
    pub(crate) fn is_solid(&self, index: usize) -> bool {
        !matches!(self.cells[index], 0 | BORDER)
    }

    /// A world point in cell units.
    #[inline]
    pub(crate) fn to_cells(&self, point: Vector) -> Vector {
        std::array::from_fn(|axis| (point[axis] - self.origin[axis]) * self.per_meter)
    }

    /// Index of a cell; coordinates are clamped into the array.
    #[inline]
    pub(crate) fn index(&self, cell: [i32; 3]) -> usize {
        let clamped: [i32; 3] = std::array::from_fn(|a| cell[a].clamp(0, self.count[a] - 1));
        (clamped[0] + clamped[1] * self.stride[1] + clamped[2] * self.stride[2]) as usize
    }

    /// The first voxel along `origin + t·direction` with `0 ≤ t < limit`; `None` when the ray leaves
    /// the grid. Rays from outside of the grid start where they enter it. Ties between axes go to
    /// X, then Y.
    pub fn cast(&self, origin: Vector, direction: Vector, limit: f32) -> Option<VoxelHit> {
        self.cast_cells(self.to_cells(origin), direction.map(|d| d * self.per_meter), limit)
    }

    /// [`Field::cast`] with origin and direction in cell units.
    pub(crate) fn cast_cells(
        &self,
        origin: Vector,
        direction: Vector,
        limit: f32,
    ) -> Option<VoxelHit> {
        let [hit] = self.cast_lanes(origin, &direction.map(|slope| [slope]));
        hit.filter(|hit| hit.distance < limit)
    }

    /// [`Field::cast_cells`] for several rays from one origin; directions by axis, then lane.
    #[inline]
    pub(crate) fn cast_lanes<const LANES: usize>(
        &self,
        origin: Vector,
        direction: &[[f32; LANES]; 3],
    ) -> [Option<VoxelHit>; LANES] {
        let mut hits = [None; LANES];
        // Directions of exactly zero would give 0·∞; a tiny slope changes no cell.
        let sloped = |d: f32| if d.abs() < 1e-9 { 1e-9f32.copysign(d) } else { d };
        let direction = direction.map(|lanes| lanes.map(sloped));
        let last = self.count.map(|n| (n - 1) as f32);
        let start = if (0..3).all(|a| origin[a] >= 1.0 && origin[a] < last[a]) {
            Arrival {
                distance: [0.0; LANES],
                cell: origin.map(|at| [at.floor(); LANES]),
                axis: [2; LANES],
            }
        } else {
            self.enter(origin, &direction)
        };
        let strides = [self.stride[1], self.stride[2]];
        let arrival = march(&self.leaps, strides, &Departure { origin, direction, start });
        for (lane, hit) in hits.iter_mut().enumerate() {
            let cell = arrival.cell.map(|at| at[lane] as i32);
            let material = self.cells[self.index(cell)];
            if material != BORDER {
                let axis = usize::from(arrival.axis[lane]);
                let backward = direction[axis][lane] <= 0.0;
                *hit = Some(VoxelHit {
                    distance: arrival.distance[lane],
                    voxel: cell.map(|at| at - 1),
                    face: (2 * axis + usize::from(backward)) as u8,
                    material: MaterialId(material),
                });
            }
        }
        hits
    }

    /// Where rays from outside enter the grid; rays that miss it start in a border cell.
    #[cold]
    fn enter<const LANES: usize>(
        &self,
        origin: Vector,
        direction: &[[f32; LANES]; 3],
    ) -> Arrival<LANES> {
        let mut arrival =
            Arrival { distance: [0.0; LANES], cell: [[0.0; LANES]; 3], axis: [2; LANES] };
        for lane in 0..LANES {
            let slopes = direction.map(|lanes| lanes[lane]);
            let (mut near, mut far, mut axis) = (0.0f32, f32::INFINITY, 2);
            for a in 0..3 {
                let (low, high) = (1.0, (self.count[a] - 1) as f32);
                let slope = slopes[a];
                let (first, last) = if slope > 0.0 { (low, high) } else { (high, low) };
                let entry = (first - origin[a]) / slope;
                if entry > near {
                    (near, axis) = (entry, a);
                }
                far = far.min((last - origin[a]) / slope);
            }
            if near < far && near.is_finite() {
                arrival.distance[lane] = near;
                arrival.axis[lane] = axis as u8;
                for a in 0..3 {
                    let at = (origin[a] + slopes[a] * near).floor();
                    // A pose with NaN starts at the lowest cell and leaves from there.
                    arrival.cell[a][lane] = at.max(1.0).min((self.count[a] - 2) as f32);
                }
            }
        }
        arrival
    }
}

//! Fast traversal of the voxels: one byte per cell says how large an empty box lies ahead.
//!
//! For rays that rise and for rays that fall there is a table each. An entry is a box of cells around
//! the entry's cell: `h − 1` cells to every side and `v` layers in the ray's vertical direction, all
//! empty. A ray crosses it in one leap; the smallest box, `h = v = 1`, is the ordinary step to the
//! next cell. What lies behind a ray never shortens its leap, so low rays over open ground are as
//! cheap as rays into the sky. Plane crossings are always computed from the ray's origin, so that
//! errors do not add up.

use crate::grid::VoxelGrid;
use crate::leap::{Leaps, REACH_BITS, REACH_MASK};
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

/// Where a ray met a voxel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VoxelHit {
    /// Multiple of the ray's direction.
    pub distance: f32,
    /// The voxel, in the grid's own numbering.
    pub voxel: [i32; 3],
    /// Face that was met: −X, +X, −Y, +Y, −Z, +Z.
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
    count: [i32; 3],
    stride: [i32; 3],
    voxel: f32,
    per_meter: f32,
    /// World position of the corner of cell (0, 0, 0), which is a border cell.
    origin: Vector,
}

impl Field {
    /// Prepares a grid; `extra` may mark empty voxels that stop rays as well (with material 1), as
    /// baking does for furniture.
    pub fn new(grid: &VoxelGrid, extra: impl Fn([i32; 3]) -> bool) -> Self {
        let count = grid.count().map(|n| n as i32 + 2);
        let stride = [1, count[0], count[0] * count[1]];
        let mut cells = vec![BORDER; (count[0] * count[1] * count[2]) as usize];
        for z in 1..count[2] - 1 {
            for y in 1..count[1] - 1 {
                for x in 1..count[0] - 1 {
                    let voxel = [x - 1, y - 1, z - 1];
                    let material = grid.get(voxel).0;
                    let filled = material == 0 && extra(voxel);
                    let index = (x + y * stride[1] + z * stride[2]) as usize;
                    cells[index] = if filled { 1 } else { material };
                }
            }
        }
        let leaps = Leaps::new(&cells, count);
        let voxel = grid.voxel();
        let origin = grid.origin().map(|corner| corner - voxel);
        Self { cells, leaps, count, stride, voxel, per_meter: 1.0 / voxel, origin }
    }

    /// Cells per axis with the border.
    pub(crate) fn count(&self) -> [i32; 3] {
        self.count
    }

    /// Distance from one cell to its neighbor along each axis in arrays laid out like this field.
    pub(crate) fn stride(&self) -> [i32; 3] {
        self.stride
    }

    /// Edge of a voxel in meters.
    pub(crate) fn voxel(&self) -> f32 {
        self.voxel
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

    /// Whether a world point lies inside the grid.
    pub fn holds(&self, point: Vector) -> bool {
        let cell = self.to_cells(point);
        (0..3).all(|axis| cell[axis] >= 1.0 && cell[axis] < (self.count[axis] - 1) as f32)
    }

    /// The first voxel along `origin + t·direction` with `0 ≤ t < limit`; `None` when the ray leaves
    /// the grid. Rays from outside of the grid start where they enter it. Ties between axes go to
    /// X, then Y.
    pub fn cast(&self, origin: Vector, direction: Vector, limit: f32) -> Option<VoxelHit> {
        self.cast_cells(self.to_cells(origin), direction.map(|d| d * self.per_meter), limit)
    }

    /// [`Field::cast`] with origin and direction in cell units.
    #[inline]
    pub(crate) fn cast_cells(
        &self,
        origin: Vector,
        direction: Vector,
        limit: f32,
    ) -> Option<VoxelHit> {
        // Directions of exactly zero would make 0·∞; a tiny slope changes no cell.
        let direction = direction.map(|d| if d.abs() < 1e-9 { 1e-9f32.copysign(d) } else { d });
        let inverse = direction.map(|d| 1.0 / d);
        let ahead = direction.map(|d| i32::from(d > 0.0));
        let mut distance = 0.0f32;
        let mut axis = 2usize;
        let mut cell: [i32; 3];
        let inside = (0..3).all(|a| origin[a] >= 1.0 && origin[a] < (self.count[a] - 1) as f32);
        if inside {
            cell = [origin[0] as i32, origin[1] as i32, origin[2] as i32];
        } else {
            (distance, axis, cell) = self.enter(origin, direction, inverse)?;
        }
        let leaps = if ahead[2] == 1 { &self.leaps.rising } else { &self.leaps.falling };
        loop {
            let index = (cell[0] + cell[1] * self.stride[1] + cell[2] * self.stride[2]) as usize;
            let leap = leaps[index];
            let reach = i32::from(leap & REACH_MASK);
            if reach == 0 {
                let material = self.cells[index];
                return (material != BORDER && distance < limit).then(|| VoxelHit {
                    distance,
                    voxel: [cell[0] - 1, cell[1] - 1, cell[2] - 1],
                    face: (2 * axis + 1 - ahead[axis] as usize) as u8,
                    material: MaterialId(material),
                });
            }
            // The empty box reaches this many cells beyond the own one, per axis.
            let (side, layers) = (reach - 1, (1 << (leap >> REACH_BITS)) - 1);
            let beyond = [side, side, layers];
            let plane = |a: usize| {
                if ahead[a] == 1 { cell[a] + 1 + beyond[a] } else { cell[a] - beyond[a] }
            };
            let along = |a: usize| (plane(a) as f32 - origin[a]) * inverse[a];
            let (x, y, z) = (along(0), along(1), along(2));
            (axis, distance) = if x <= y && x <= z {
                (0, x)
            } else if y <= z {
                (1, y)
            } else {
                (2, z)
            };
            let next = plane(axis) + ahead[axis] - 1;
            for a in 0..3 {
                let at = (origin[a] + direction[a] * distance) as i32;
                let (low, high) = if ahead[a] == 1 {
                    (cell[a], cell[a] + beyond[a])
                } else {
                    (cell[a] - beyond[a], cell[a])
                };
                // A ray never turns back, whatever rounding says.
                cell[a] = at.max(low).min(high);
            }
            cell[axis] = next;
        }
    }

    /// Where a ray from outside enters the grid: distance, axis crossed, first cell.
    #[cold]
    fn enter(
        &self,
        origin: Vector,
        direction: Vector,
        inverse: Vector,
    ) -> Option<(f32, usize, [i32; 3])> {
        let (mut near, mut far, mut axis) = (0.0f32, f32::INFINITY, 2);
        for a in 0..3 {
            let (low, high) = (1.0, (self.count[a] - 1) as f32);
            let (first, last) = if direction[a] > 0.0 { (low, high) } else { (high, low) };
            let entry = (first - origin[a]) * inverse[a];
            if entry > near {
                (near, axis) = (entry, a);
            }
            far = far.min((last - origin[a]) * inverse[a]);
        }
        (near < far).then(|| {
            let cell = std::array::from_fn(|a| {
                ((origin[a] + direction[a] * near) as i32).clamp(1, self.count[a] - 2)
            });
            (near, axis, cell)
        })
    }
}

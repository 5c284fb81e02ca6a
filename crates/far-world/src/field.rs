//! Fast traversal of the voxels: one byte per cell says how far the next solid is.
//!
//! A cell is either solid (its material) or holds the Chebyshev distance to the nearest solid or
//! border cell. A ray in a cell of distance `d` crosses the empty cube of half width `d − 1` around
//! it in one jump; for `d = 1` this is the ordinary step to the next cell. Plane crossings are always
//! computed from the ray's origin, so that errors do not add up.

use crate::grid::VoxelGrid;
use crate::material::MaterialId;
use crate::vector::Vector;

/// Cells at or above this are solid; the material's number is what is added to it.
const SOLID: u8 = 64;
/// The layer of cells around the grid, where a ray leaves the scene.
const BORDER: u8 = 255;

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
    cells: Vec<u8>,
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
                    let material = grid.get(voxel);
                    cells[(x + y * stride[1] + z * stride[2]) as usize] =
                        if material != MaterialId::EMPTY {
                            SOLID + material.0
                        } else if extra(voxel) {
                            SOLID + 1
                        } else {
                            SOLID - 1
                        };
                }
            }
        }
        spread(&mut cells, count, stride);
        let voxel = grid.voxel();
        let origin = grid.origin().map(|corner| corner - voxel);
        Self { cells, count, stride, voxel, per_meter: 1.0 / voxel, origin }
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

    /// Whether a cell (by index, border included) stops rays.
    #[inline]
    pub(crate) fn is_solid(&self, index: usize) -> bool {
        let cell = self.cells[index];
        cell >= SOLID && cell != BORDER
    }

    /// Whether an empty cell touches a solid or the border.
    #[inline]
    pub(crate) fn is_beside_solid(&self, index: usize) -> bool {
        self.cells[index] == 1
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
        loop {
            let index = cell[0] + cell[1] * self.stride[1] + cell[2] * self.stride[2];
            let value = self.cells[index as usize];
            if value >= SOLID {
                return (value != BORDER && distance < limit).then(|| VoxelHit {
                    distance,
                    voxel: [cell[0] - 1, cell[1] - 1, cell[2] - 1],
                    face: (2 * axis + 1 - ahead[axis] as usize) as u8,
                    material: MaterialId(value - SOLID),
                });
            }
            let reach = i32::from(value) - 1;
            // The plane through which the ray leaves the empty cube, per axis.
            let plane = |a: usize| cell[a] + ahead[a] + if ahead[a] == 1 { reach } else { -reach };
            let along = |a: usize| (plane(a) as f32 - origin[a]) * inverse[a];
            let (x, y, z) = (along(0), along(1), along(2));
            (axis, distance) = if x <= y && x <= z {
                (0, x)
            } else if y <= z {
                (1, y)
            } else {
                (2, z)
            };
            if reach == 0 {
                cell[axis] += 2 * ahead[axis] - 1;
            } else {
                let next = plane(axis) + ahead[axis] - 1;
                for a in 0..3 {
                    let at = (origin[a] + direction[a] * distance) as i32;
                    cell[a] = at.clamp(cell[a] - reach, cell[a] + reach);
                }
                cell[axis] = next;
            }
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

/// Writes Chebyshev distances into the empty cells: two passes over half of the neighbors each.
fn spread(cells: &mut [u8], count: [i32; 3], stride: [i32; 3]) {
    let mut before = Vec::with_capacity(13);
    for dz in -1..=1 {
        for dy in -1..=1 {
            for dx in -1..=1 {
                let offset = dx + dy * stride[1] + dz * stride[2];
                if (dz, dy, dx) < (0, 0, 0) {
                    before.push(offset);
                }
            }
        }
    }
    let relax = |cells: &mut [u8], index: i32, sign: i32| {
        let own = cells[index as usize];
        if own >= SOLID {
            return;
        }
        let mut best = own;
        for offset in &before {
            let other = cells[(index + sign * offset) as usize];
            let distance = if other >= SOLID { 0 } else { other };
            best = best.min(distance + 1);
        }
        cells[index as usize] = best;
    };
    let inner = |axis: usize| 1..count[axis] - 1;
    for z in inner(2) {
        for y in inner(1) {
            for x in inner(0) {
                relax(cells, x + y * stride[1] + z * stride[2], 1);
            }
        }
    }
    for z in inner(2).rev() {
        for y in inner(1).rev() {
            for x in inner(0).rev() {
                relax(cells, x + y * stride[1] + z * stride[2], -1);
            }
        }
    }
}

//! The static part of a scene: one material per voxel.

use crate::material::MaterialId;
use crate::vector::Vector;

/// The cells of `low..high` (upper bounds excluded), X fastest.
pub(crate) fn cells(low: [i32; 3], high: [i32; 3]) -> impl Iterator<Item = [i32; 3]> {
    (low[2]..high[2]).flat_map(move |z| {
        (low[1]..high[1]).flat_map(move |y| (low[0]..high[0]).map(move |x| [x, y, z]))
    })
}

/// The place of a cell among `count` cells, row by row; `None` outside of them.
pub(crate) fn index_in(count: [i32; 2], [x, y]: [i32; 2]) -> Option<usize> {
    let inside = x >= 0 && y >= 0 && x < count[0] && y < count[1];
    inside.then(|| (y * count[0] + x) as usize)
}

/// A box of cubic voxels, each empty or of one material.
///
/// Voxel `[i, j, k]` covers `origin + size·[i, i+1) × [j, j+1) × [k, k+1)`.
#[derive(Clone, Debug)]
pub struct VoxelGrid {
    count: [usize; 3],
    voxel: f32,
    origin: Vector,
    cells: Vec<MaterialId>,
}

impl VoxelGrid {
    /// An empty grid of `count` voxels per axis, each `voxel` meters wide, whose lowest corner lies
    /// at `origin`.
    pub fn new(count: [usize; 3], voxel: f32, origin: Vector) -> Self {
        let cells = vec![MaterialId::EMPTY; count.iter().product()];
        Self { count, voxel, origin, cells }
    }

    /// Voxels along each axis.
    pub fn count(&self) -> [usize; 3] {
        self.count
    }

    /// Edge of one voxel in meters.
    pub fn voxel(&self) -> f32 {
        self.voxel
    }

    /// World position of the lowest corner.
    pub fn origin(&self) -> Vector {
        self.origin
    }

    /// Lowest corner of a voxel in the world.
    pub fn corner(&self, voxel: [i32; 3]) -> Vector {
        std::array::from_fn(|axis| self.origin[axis] + voxel[axis] as f32 * self.voxel)
    }

    /// The voxel that holds a world point (it may lie outside of the grid).
    pub fn voxel_at(&self, point: Vector) -> [i32; 3] {
        std::array::from_fn(|axis| ((point[axis] - self.origin[axis]) / self.voxel).floor() as i32)
    }

    fn index(&self, voxel: [i32; 3]) -> Option<usize> {
        let inside = (0..3).all(|a| voxel[a] >= 0 && (voxel[a] as usize) < self.count[a]);
        let [x, y, z] = voxel.map(|v| v as usize);
        inside.then(|| x + self.count[0] * (y + self.count[1] * z))
    }

    /// Material of a voxel; empty outside of the grid.
    pub fn get(&self, voxel: [i32; 3]) -> MaterialId {
        self.index(voxel).map_or(MaterialId::EMPTY, |index| self.cells[index])
    }

    /// Whether a voxel is filled.
    pub fn is_solid(&self, voxel: [i32; 3]) -> bool {
        self.get(voxel) != MaterialId::EMPTY
    }

    /// Fills (or empties) one voxel; does nothing outside of the grid, so that shapes may cross the
    /// border.
    pub fn set(&mut self, voxel: [i32; 3], material: MaterialId) {
        if let Some(index) = self.index(voxel) {
            self.cells[index] = material;
        }
    }

    /// Fills the voxels of `low..high` (upper bounds excluded), clipped to the grid.
    pub fn fill(&mut self, low: [i32; 3], high: [i32; 3], material: MaterialId) {
        let [low, high] = [low, high]
            .map(|corner| [0, 1, 2].map(|axis| corner[axis].clamp(0, self.count[axis] as i32)));
        for voxel in cells(low, high) {
            self.set(voxel, material);
        }
    }

    /// Fills the box between two world points, each rounded to the nearest voxel border.
    pub fn fill_meters(&mut self, low: Vector, high: Vector, material: MaterialId) {
        let border = |point: Vector| {
            std::array::from_fn(|axis| {
                ((point[axis] - self.origin[axis]) / self.voxel).round() as i32
            })
        };
        self.fill(border(low), border(high), material);
    }
}

//! Light per voxel, computed once per scene: ambient occlusion, sun and lamps with shadows.
//!
//! Values are stored for empty cells next to solids; a face blends the four cells of the layer in
//! front of it that are nearest to the point. Solid cells hold the darkest of their empty
//! neighbors, which darkens inner corners.

use crate::field::{Field, inner_cells};
use crate::grid::cells;
use crate::light::Light;
use crate::vector::{Vector, add, dot, scale, subtract};

/// Openness, sun and lamp light of one cell, each 0 to 255.
pub(crate) type CellLight = [u8; 4];

/// Largest number of steps of an ambient occlusion ray.
const STEPS: i32 = 8;

/// The baked light of all cells, laid out like the field's cells.
#[derive(Clone, Debug)]
pub(crate) struct BakedLight {
    cells: Vec<CellLight>,
    stride: [i32; 3],
}

impl BakedLight {
    /// Bakes the light; `field` is the geometry that casts shadows, furniture included.
    pub fn new(field: &Field, light: &Light) -> Self {
        let (count, stride) = (field.count, field.stride);
        // The border is open sky, so that the ground does not darken where the grid ends.
        let mut cells = vec![[255u8, 255, 0, 0]; (count[0] * count[1] * count[2]) as usize];
        let baker = Baker { field, light, directions: neighbors() };
        let beside = beside_solid(field);
        for [x, y, z] in inner_cells(count) {
            let index = (x + y * stride[1] + z * stride[2]) as usize;
            if field.is_solid(index) {
                continue;
            }
            cells[index] = if beside[index] {
                baker.light([x, y, z])
            } else {
                // Free air takes the value of the cell below; few things are there.
                cells[index - stride[2] as usize]
            };
        }
        fill_solids(&mut cells, field);
        Self { cells, stride }
    }

    /// Openness, sun and lamp light (0 to 1) at a point of a voxel face, blended between the cells
    /// in front of it. `point` is in cell units, `cell` the solid cell.
    #[inline]
    pub fn at_face(&self, point: Vector, cell: [i32; 3], face: usize) -> Vector {
        let axis = face >> 1;
        let (first, second) = [(1, 2), (0, 2), (0, 1)][axis];
        let mut base = cell;
        base[axis] += if face & 1 == 1 { 1 } else { -1 };
        // Position between the centers of two cells; rounding may put it slightly outside.
        let between = |at: f32, cell: i32| {
            let from = at - (cell as f32 + 0.5);
            if from < 0.0 { (cell - 1, (from + 1.0).max(0.0)) } else { (cell, from.min(1.0)) }
        };
        let u;
        let v;
        (base[first], u) = between(point[first], cell[first]);
        (base[second], v) = between(point[second], cell[second]);
        let start = (base[0] + base[1] * self.stride[1] + base[2] * self.stride[2]) as usize;
        let (right, up) = (self.stride[first] as usize, self.stride[second] as usize);
        let weights = [(1.0 - u) * (1.0 - v), u * (1.0 - v), (1.0 - u) * v, u * v];
        let mut sum = [0.0f32; 3];
        for (offset, weight) in [0, right, up, right + up].into_iter().zip(weights) {
            let value = self.cells[start + offset];
            for channel in 0..3 {
                sum[channel] += weight * f32::from(value[channel]);
            }
        }
        scale(sum, 1.0 / 255.0)
    }

    /// Openness, sun and lamp light (0 to 1) at a point in cell units, blended between the eight
    /// cells around it.
    pub fn at_point(&self, point: Vector, field: &Field) -> Vector {
        let low = point.map(|p| (p - 0.5).floor());
        let share: Vector = std::array::from_fn(|axis| point[axis] - 0.5 - low[axis]);
        let mut sum = [0.0f32; 3];
        for corner in 0..8usize {
            let bit = |axis: usize| corner >> axis & 1;
            let cell = std::array::from_fn(|axis| low[axis] as i32 + bit(axis) as i32);
            let weight: f32 = (0..3)
                .map(|axis| if bit(axis) == 1 { share[axis] } else { 1.0 - share[axis] })
                .product();
            let value = self.cells[field.index(cell)];
            for channel in 0..3 {
                sum[channel] += weight * f32::from(value[channel]);
            }
        }
        scale(sum, 1.0 / 255.0)
    }
}

struct Baker<'a> {
    field: &'a Field,
    light: &'a Light,
    directions: Vec<[i32; 3]>,
}

impl Baker<'_> {
    fn light(&self, cell: [i32; 3]) -> CellLight {
        let byte = |value: f32| (value.clamp(0.0, 1.0) * 255.0 + 0.5) as u8;
        [byte(self.openness(cell)), byte(self.sun(cell)), byte(self.lamps(cell)), 255]
    }

    /// Fraction of the 26 directions that are free, doubled: half of them hit the surface itself.
    fn openness(&self, cell: [i32; 3]) -> f32 {
        let voxel = self.field.voxel;
        let reach = ((self.light.occlusion_reach / voxel).ceil() as i32).clamp(1, STEPS);
        let mut free = 0.0;
        for direction in &self.directions {
            let mut open = 1.0;
            for step in 1..=reach {
                let at: [i32; 3] = std::array::from_fn(|a| cell[a] + step * direction[a]);
                if (0..3).any(|a| at[a] <= 0 || at[a] >= self.field.count[a] - 1) {
                    break;
                }
                if self.field.is_solid(self.field.index(at)) {
                    open = 0.8 * (step - 1) as f32 / reach as f32;
                    break;
                }
            }
            free += open;
        }
        (free / 26.0 * 1.75).min(1.0)
    }

    fn sun(&self, cell: [i32; 3]) -> f32 {
        if self.light.sun == [0.0; 3] {
            return 0.0;
        }
        let center = cell.map(|c| c as f32 + 0.5);
        let blocked = self.field.cast_cells(center, self.light.sun_direction, f32::INFINITY);
        if blocked.is_some() { 0.0 } else { 1.0 }
    }

    fn lamps(&self, cell: [i32; 3]) -> f32 {
        let center = cell.map(|c| c as f32 + 0.5);
        let mut total = 0.0;
        for lamp in &self.light.lamps {
            let toward = subtract(self.field.to_cells(lamp.position), center);
            let reach = lamp.reach / self.field.voxel;
            let square = dot(toward, toward);
            if square >= reach * reach {
                continue;
            }
            // Stop short of the lamp, which may hang inside its own shade.
            let end = 1.0 - 1.5 / square.sqrt().max(1.5);
            if self.field.cast_cells(center, toward, end).is_none() {
                let near = 1.0 - square / (reach * reach);
                total += lamp.strength * near * near;
            }
        }
        total
    }
}

/// Cells that are solid or have a solid among their 26 neighbors.
fn beside_solid(field: &Field) -> Vec<bool> {
    let count = field.count;
    let mut mark: Vec<bool> =
        (0..count.iter().product::<i32>() as usize).map(|index| field.is_solid(index)).collect();
    let mut wider = mark.clone();
    // Dilating by one along each axis in turn reaches all neighbors.
    for stride in field.stride.map(|s| s as usize) {
        let inner = mark.len() - 2 * stride;
        for (offset, wide) in wider[stride..][..inner].iter_mut().enumerate() {
            *wide = mark[offset] | mark[offset + stride] | mark[offset + 2 * stride];
        }
        mark.copy_from_slice(&wider);
    }
    mark
}

/// The 26 steps to the neighbors of a cell.
fn neighbors() -> Vec<[i32; 3]> {
    cells([-1; 3], [2; 3]).filter(|step| *step != [0; 3]).collect()
}

fn fill_solids(cells: &mut [CellLight], field: &Field) {
    let (count, stride) = (field.count, field.stride);
    for [x, y, z] in inner_cells(count) {
        let index = x + y * stride[1] + z * stride[2];
        if !field.is_solid(index as usize) {
            continue;
        }
        let mut darkest = [255u8; 4];
        let mut found = false;
        for offset in stride.iter().flat_map(|&s| [s, -s]) {
            let other = (index + offset) as usize;
            if cells[other][3] == 255 && !field.is_solid(other) {
                found = true;
                for (least, value) in darkest.iter_mut().zip(cells[other]) {
                    *least = (*least).min(value);
                }
            }
        }
        let [openness, sun, lamp, _] = if found { darkest } else { [0; 4] };
        cells[index as usize] = [openness / 2, sun, lamp, 0];
    }
}

/// Linear light on a face: ambient, sun and lamps, each weighted by how much of it arrives.
#[inline]
pub(crate) fn illuminate(light: &Light, normal: Vector, arriving: Vector) -> Vector {
    let exposure = crate::light::exposure(normal);
    let facing = dot(normal, light.sun_direction).max(0.0);
    add(
        add(scale(light.ambient, arriving[0] * exposure), scale(light.sun, arriving[1] * facing)),
        scale(light.lamp_color, arriving[2] * exposure),
    )
}

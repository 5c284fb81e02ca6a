//! A scene: the baked static stage, shared and never changed, and its movable objects.

use std::sync::Arc;

use crate::bake::BakedLight;
use crate::field::Field;
use crate::grid::{VoxelGrid, cells};
use crate::light::Light;
use crate::material::{MaterialId, MaterialSet};
use crate::person::Person;
use crate::prop::Prop;
use crate::sky::{Sky, SkyLook};

/// The inputs of a stage.
#[derive(Clone, Debug)]
pub struct StagePlan {
    /// Walls, ground, roofs.
    pub grid: VoxelGrid,
    /// Materials of grid and props.
    pub materials: MaterialSet,
    /// Sun, ambient light and lamps.
    pub light: Light,
    /// The sky.
    pub sky: SkyLook,
    /// Endless ground outside of the grid: its height in meters and its material.
    pub ground: Option<(f32, MaterialId)>,
    /// Fraction of the horizon's color that is mixed in per meter of distance (0 for none).
    pub haze: f32,
}

/// The static part of a scene, ready to render; shared by all episodes that take place in it.
#[derive(Debug)]
pub struct Stage {
    pub(crate) field: Field,
    pub(crate) baked: BakedLight,
    pub(crate) materials: MaterialSet,
    pub(crate) light: Light,
    pub(crate) sky: Sky,
    pub(crate) ground: Option<(f32, MaterialId)>,
    pub(crate) haze: f32,
    grid: VoxelGrid,
}

impl Stage {
    /// Bakes light and sky. Props with `shadow` set cast shadows.
    pub fn bake(plan: StagePlan, props: &[Prop]) -> Self {
        let StagePlan { grid, materials, light, sky, ground, haze } = plan;
        let field = Field::new(&grid, |_| false);
        let shading: Vec<&Prop> = props.iter().filter(|p| p.shadow && p.visible).collect();
        let baked = if shading.is_empty() {
            BakedLight::new(&field, &light)
        } else {
            let covered = covered(&grid, &shading);
            let [nx, ny, _] = grid.count();
            let at =
                |[x, y, z]: [i32; 3]| covered[x as usize + nx * (y as usize + ny * z as usize)];
            BakedLight::new(&Field::new(&grid, at), &light)
        };
        let sky = Sky::bake(&sky, light.sun_direction, light.sun);
        Self { field, baked, materials, light, sky, ground, haze, grid }
    }

    /// The voxels.
    pub fn grid(&self) -> &VoxelGrid {
        &self.grid
    }

    /// The voxels prepared for rays, for line-of-sight tests.
    pub fn field(&self) -> &Field {
        &self.field
    }

    /// The materials.
    pub fn materials(&self) -> &MaterialSet {
        &self.materials
    }
}

/// Voxels whose center lies inside one of the props.
fn covered(grid: &VoxelGrid, props: &[&Prop]) -> Vec<bool> {
    let count = grid.count();
    let mut covered = vec![false; count.iter().product()];
    for prop in props {
        let center = prop.placement().center;
        let radius = 0.5 * crate::vector::length(prop.size);
        let low = grid.voxel_at(center.map(|c| c - radius)).map(|v| v.max(0));
        let high = grid.voxel_at(center.map(|c| c + radius));
        let high = std::array::from_fn(|axis| (high[axis] + 1).min(count[axis] as i32));
        for voxel in cells(low, high) {
            if prop.contains(grid.corner(voxel).map(|c| c + 0.5 * grid.voxel())) {
                let [x, y, z] = voxel.map(|v| v as usize);
                covered[x + count[0] * (y + count[1] * z)] = true;
            }
        }
    }
    covered
}

/// A stage with its movable objects at one moment. Cloning shares the stage.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The static part.
    pub stage: Arc<Stage>,
    /// Furniture, doors, objects.
    pub props: Vec<Prop>,
    /// Second agents.
    pub people: Vec<Person>,
    /// Voxel materials that are rendered as another one: (of the grid, shown instead).
    pub repaint: Vec<(MaterialId, MaterialId)>,
}

impl Scene {
    /// A scene with props and no people.
    pub fn new(stage: Arc<Stage>, props: Vec<Prop>) -> Self {
        Self { stage, props, people: Vec::new(), repaint: Vec::new() }
    }
}

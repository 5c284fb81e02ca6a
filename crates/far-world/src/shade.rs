//! The first surface that a ray hits, and its light.

use crate::bake::illuminate;
use crate::field::{FACE_NORMALS, VoxelHit};
use crate::material::{BakedMaterial, MaterialId};
use crate::noise::unit;
use crate::scene::{Scene, Stage};
use crate::solid::{Solid, SolidHit};
use crate::vector::{Vector, add, along, dot, length, mix, product, scale};

/// A ray's direction; its component along the viewing direction is 1, so distances are depths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ray {
    pub direction: Vector,
    pub length: f32,
}

impl Ray {
    #[inline]
    pub fn new(direction: Vector) -> Self {
        Self { direction, length: length(direction) }
    }
}

/// Kind of the surface that a ray hit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Kind {
    #[default]
    Sky,
    /// The endless ground outside of the grid.
    Ground,
    Voxel {
        voxel: [i32; 3],
        face: u8,
        material: MaterialId,
    },
    Solid {
        index: u16,
        hit: SolidHit,
    },
}

/// The surface element that a ray hit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Surfel {
    pub distance: f32,
    pub kind: Kind,
    /// Equal for neighbors on the same flat surface of the same appearance.
    pub edge: u32,
}

impl Surfel {
    /// Object number, 0 for none.
    pub fn object(&self, solids: &[Solid]) -> u16 {
        match self.kind {
            Kind::Solid { index, .. } => solids[index as usize].object,
            _ => 0,
        }
    }
}

/// Everything that rays need of one frame.
pub(crate) struct Shader<'a> {
    stage: &'a Stage,
    eye: Vector,
    eye_cells: Vector,
    per_meter: f32,
    /// Width of a pixel at distance 1.
    pixel_width: f32,
    /// Material shown for each material of the grid.
    paint: [MaterialId; 256],
}

impl<'a> Shader<'a> {
    pub fn new(scene: &'a Scene, eye: Vector, pixel_width: f32) -> Self {
        let stage = scene.stage.as_ref();
        let eye_cells = stage.field.to_cells(eye);
        let mut paint = std::array::from_fn(|number| MaterialId(number as u8));
        for (own, shown) in &scene.repaint {
            paint[usize::from(own.0)] = *shown;
        }
        Self { stage, eye, eye_cells, per_meter: 1.0 / stage.field.voxel, pixel_width, paint }
    }

    /// The first voxels along several rays.
    #[inline]
    pub fn voxels<const LANES: usize>(&self, rays: &[Ray; LANES]) -> [Option<VoxelHit>; LANES] {
        let direction =
            std::array::from_fn(|axis| rays.map(|ray| ray.direction[axis] * self.per_meter));
        self.stage.field.cast_lanes(self.eye_cells, &direction)
    }

    /// The first surface along a ray that hit `voxel` in the grid; `near` lists the solids that it
    /// may hit, nearest first, and `pixel` is the ray's pixel.
    #[inline]
    pub fn look(
        &self,
        ray: &Ray,
        voxel: Option<VoxelHit>,
        solids: &[Solid],
        near: &[u16],
        [x, y]: [i32; 2],
    ) -> Surfel {
        let mut surfel = match voxel {
            Some(hit) => {
                let plane = hit.voxel[hit.face as usize >> 1] as u32;
                Surfel {
                    distance: hit.distance,
                    kind: Kind::Voxel { voxel: hit.voxel, face: hit.face, material: hit.material },
                    edge: 1 + (u32::from(hit.face) | plane << 3 | u32::from(hit.material.0) << 20),
                }
            }
            None => self.beyond(ray),
        };
        for &index in near {
            let solid = &solids[index as usize];
            if solid.near >= surfel.distance {
                break;
            }
            let [left, top, right, bottom] = solid.bounds;
            if x < left || x >= right || y < top || y >= bottom {
                continue;
            }
            if let Some(hit) = solid.hit(ray.direction, surfel.distance) {
                surfel = Surfel {
                    distance: hit.distance,
                    edge: 0x8000_0000 | u32::from(index) << 3 | hit.face as u32,
                    kind: Kind::Solid { index, hit },
                };
            }
        }
        surfel
    }

    /// Ground or sky for rays that leave the grid.
    fn beyond(&self, ray: &Ray) -> Surfel {
        if let Some((height, _)) = self.stage.ground {
            let rise = ray.direction[2];
            if rise < -1e-6 && self.eye[2] > height {
                let distance = (height - self.eye[2]) / rise;
                return Surfel { distance, kind: Kind::Ground, edge: 1 };
            }
        }
        Surfel { distance: f32::INFINITY, kind: Kind::Sky, edge: 0 }
    }

    /// Linear light along a ray that hit a surface.
    #[inline]
    pub fn light(&self, ray: &Ray, surfel: &Surfel, solids: &[Solid]) -> Vector {
        let lit = match surfel.kind {
            Kind::Sky => return self.stage.sky.sample(ray.direction),
            Kind::Ground => self.ground_light(ray, surfel.distance),
            Kind::Voxel { voxel, face, material } => {
                self.voxel_light(ray, surfel.distance, voxel, face as usize, material)
            }
            Kind::Solid { index, hit } => self.solid_light(ray, &solids[index as usize], &hit),
        };
        let haze = self.stage.haze * surfel.distance * ray.length;
        mix(lit, self.stage.sky.horizon(), haze / (1.0 + haze))
    }

    /// Width of the pixel on a surface at this angle, in meters; the root is a compromise between
    /// its narrow and its wide direction.
    #[inline]
    fn footprint(&self, ray: &Ray, distance: f32, normal: Vector) -> f32 {
        let cosine = (dot(ray.direction, normal).abs() / ray.length).max(0.05);
        distance * self.pixel_width / cosine.sqrt()
    }

    fn ground_light(&self, ray: &Ray, distance: f32) -> Vector {
        let Some((_, material)) = self.stage.ground else { return [0.0; 3] };
        let point = add(self.eye, scale(ray.direction, distance));
        let baked = self.stage.materials.baked(material);
        let normal = FACE_NORMALS[5];
        let tiles = baked.tiles_per_meter;
        let footprint = self.footprint(ray, distance, normal) * tiles;
        let color = baked.texture.sample(point[0] * tiles, point[1] * tiles, footprint);
        product(color, illuminate(&self.stage.light, normal, [1.0, 1.0, 0.0]))
    }

    #[inline]
    fn voxel_light(
        &self,
        ray: &Ray,
        distance: f32,
        voxel: [i32; 3],
        face: usize,
        material: MaterialId,
    ) -> Vector {
        let baked = self.stage.materials.baked(self.paint[usize::from(material.0)]);
        let along = distance * self.per_meter;
        let cells = add(self.eye_cells, scale(ray.direction, along));
        let normal = FACE_NORMALS[face];
        let (u, v) = match face >> 1 {
            0 => (cells[1] - 1.0, 1.0 - cells[2]),
            1 => (cells[0] - 1.0, 1.0 - cells[2]),
            _ => (cells[0] - 1.0, cells[1] - 1.0),
        };
        let voxel_size = self.stage.field.voxel;
        let tiles = baked.tiles_per_meter;
        // A stretched tile covers one voxel; others start at the grid's corner.
        let per_cell = if tiles > 0.0 { tiles * voxel_size } else { 1.0 };
        let footprint = self.footprint(ray, distance, normal) * per_cell * self.per_meter;
        let mut color = baked.texture.sample(u * per_cell, v * per_cell, footprint);
        if baked.variation > 0.0 {
            let random = unit(voxel[0], voxel[1], voxel[2], 77) - 0.5;
            color = scale(color, 1.0 + 2.0 * baked.variation * random);
        }
        let cell = [voxel[0] + 1, voxel[1] + 1, voxel[2] + 1];
        let arriving = self.stage.baked.at_face(cells, cell, face);
        self.shine(baked, color, illuminate(&self.stage.light, normal, arriving))
    }

    fn solid_light(&self, ray: &Ray, solid: &Solid, hit: &SolidHit) -> Vector {
        let baked = self.stage.materials.baked(solid.materials[hit.face]);
        let normal = along(solid.placement.axes, hit.normal);
        let (first, second, down) = [(1, 2, -1.0), (0, 2, -1.0), (0, 1, 1.0)][hit.face >> 1];
        let tiles = baked.tiles_per_meter;
        let mut footprint = self.footprint(ray, hit.distance, normal);
        let (u, v) = if tiles > 0.0 {
            footprint *= tiles;
            (
                (hit.point[first] + solid.half[first]) * tiles,
                (hit.point[second] * down + solid.half[second]) * tiles,
            )
        } else {
            let (wide, tall) = (2.0 * solid.half[first], 2.0 * solid.half[second]);
            footprint /= wide.max(tall);
            // Just inside of the tile, so that the last texel does not wrap to the first.
            let inside = |value: f32| value.clamp(0.001, 0.999);
            (inside(hit.point[first] / wide + 0.5), inside(hit.point[second] * down / tall + 0.5))
        };
        let color = baked.texture.sample(u, v, footprint);
        let point = add(self.eye, scale(ray.direction, hit.distance));
        let before = add(point, scale(normal, 0.6 * self.stage.field.voxel));
        let arriving =
            self.stage.baked.at_point(self.stage.field.to_cells(before), &self.stage.field);
        self.shine(baked, color, illuminate(&self.stage.light, normal, arriving))
    }

    #[inline]
    fn shine(&self, baked: &BakedMaterial, color: Vector, light: Vector) -> Vector {
        product(color, light.map(|channel| channel + baked.glow))
    }

    /// The face's number in [`Frame::faces`](crate::Frame).
    pub fn face_number(&self, surfel: &Surfel, solids: &[Solid]) -> u32 {
        match surfel.kind {
            Kind::Sky | Kind::Ground => 0,
            Kind::Solid { index, hit } => {
                let solid = &solids[index as usize];
                solid.number | hit.face as u32
            }
            Kind::Voxel { voxel, face, .. } => {
                let patch = (self.per_meter.round() as i32).max(1);
                let count = self.stage.field.count.map(|n| (n / patch + 1) as u32);
                let [x, y, z] = voxel.map(|v| (v / patch) as u32);
                1 + 6 * (x + count[0] * (y + count[1] * z)) + u32::from(face)
            }
        }
    }
}

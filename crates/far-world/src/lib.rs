//! Built-in worlds that record episodes, rendered by one seeded voxel ray caster.
//!
//! A scene is a static [`Stage`] (voxels, materials, baked light, sky), shared between threads,
//! plus the [`Prop`]s and [`Person`]s that move in it. A [`Renderer`] turns scene, pose and camera
//! into a [`Frame`].
//!
//! ```
//! use std::sync::Arc;
//! use far_memory::{Camera, Pose};
//! use far_world::*;
//!
//! let mut materials = MaterialSet::new(1);
//! let lawn = materials.add(Material::new(Surface::new(Pattern::Grass, [0x5a9a3c, 0x3f7a2c, 0xd8d060])));
//! let red = materials.add(Material::new(Surface::new(Pattern::Plain, [0xd03020, 0, 0])));
//! let mut grid = VoxelGrid::new([16, 16, 8], 0.5, [0.0; 3]);
//! grid.fill([0, 0, 0], [16, 16, 1], lawn);
//! let plan = StagePlan {
//!     grid,
//!     materials,
//!     light: Light::daylight(0.5, 0.9),
//!     sky: SkyLook::plain(Color::hex(0x90b8e8)),
//!     ground: None,
//!     haze: 0.0,
//! };
//! let props = vec![Prop::standing([5.0, 4.0, 0.5], [0.4, 0.4, 0.4], red).with_object(1)];
//! let scene = Scene::new(Arc::new(Stage::bake(plan, &props)), props);
//!
//! let mut frame = Frame::with_channels(Channels::ALL);
//! let pose = Pose::from_yaw_pitch([2.0, 4.0, 1.0], 0.0, -0.1);
//! let camera = Camera::from_degrees(60.0, 60.0);
//! Renderer::default().render(&scene, &pose, &camera, 64, 64, &mut frame);
//! let middle = 32 * 64 + 32;
//! assert_eq!(frame.objects[middle], 1);
//! assert!((frame.depth[middle] - 2.8).abs() < 0.1);
//! ```

pub mod apartment;
mod bake;
mod color;
pub mod corridor;
mod error;
mod field;
mod frame;
mod grid;
pub mod kitchen;
mod leap;
mod light;
mod map;
mod march;
mod material;
mod noise;
mod pattern;
mod person;
mod prop;
mod random;
mod record;
mod registry;
mod renderer;
mod scene;
mod shade;
mod sight;
mod sky;
mod solid;
pub mod sound;
mod studio;
mod texture;
pub mod vector;
pub mod village;
mod walk;
mod walk_map;
mod world;

pub use color::Color;
pub use error::{Result, WorldError};
pub use field::{FACE_NORMALS, Field, VoxelHit};
pub use frame::{Channels, Frame};
pub use grid::VoxelGrid;
pub use light::{Lamp, Light};
pub use map::draw_map;
pub use material::{Material, MaterialId, MaterialSet, Surface};
pub use noise::{fractal, hash, smooth, unit};
pub use pattern::Pattern;
pub use person::{Person, PersonAppearance};
pub use prop::{Axis, Motion, Placement, Prop, Shape};
pub use random::random;
pub use record::{Progress, RecordReport, record};
pub use registry::{world, worlds};
pub use renderer::Renderer;
pub use scene::{Scene, Stage, StagePlan};
pub use sight::Sight;
pub use sky::{Sky, SkyLook};
pub use studio::Studio;
pub use walk::{WalkConfig, Walker, corners};
pub use walk_map::{Cell, WalkMap};
pub use world::{Course, Episode, Recording, World, WorldConstants, description};

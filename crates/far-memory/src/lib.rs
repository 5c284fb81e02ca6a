//! An episodic memory that recalls by learned, fused cues.

mod camera;
mod pose;

pub use camera::Camera;
pub use pose::{Displacement, Pose, wrap_angle};

//! A second agent in the scene: its state as conditioning, its prediction at the goal, and a detector
//! that finds it in latents.

pub(crate) mod detector;
pub(crate) mod detector_training;
pub(crate) mod predictor;
pub(crate) mod state;

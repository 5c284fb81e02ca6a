//! What a prediction is asked: where the camera is and where it will be. It cannot hold what will be seen.

use crate::world_model::signal::FrameSignals;
use far_memory::{Displacement, Pose};

/// The present and where it leads, without what will be seen there.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictionQuery<'a> {
    /// The time now, in seconds.
    pub time: f64,
    /// The current camera.
    pub pose: Pose,
    /// The camera at the goal.
    pub goal: Pose,
    /// Seconds to the goal.
    pub stride: f32,
    /// What else is known of the way to the goal.
    pub action: Vec<f32>,
    /// The signals of the current frame.
    pub present: FrameSignals<'a>,
    /// What the goal's viewpoint has beyond its pose.
    pub goal_viewpoint: &'a [f32],
}

impl PredictionQuery<'_> {
    /// A query without further signals.
    pub fn new(time: f64, pose: Pose, goal: Pose, stride: f32) -> Self {
        let (action, present) = (Vec::new(), FrameSignals::default());
        Self { time, pose, goal, stride, action, present, goal_viewpoint: &[] }
    }

    /// The action: the goal in the level frame of the current camera.
    pub fn action(&self) -> Displacement {
        self.goal.displacement_from(&self.pose)
    }
}

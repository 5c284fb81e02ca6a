//! What conditions one frame: where and when it lies, and what else is known of it.

use crate::POSE_FEATURES;

/// Where and when one frame of a context lies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FrameCondition {
    /// Its pose from the current frame.
    pub from_current: [f32; POSE_FEATURES],
    /// Its pose from the goal.
    pub from_goal: [f32; POSE_FEATURES],
    /// Its time after the current frame, in units of time; memories have negative ones.
    pub time: f32,
}

/// The conditioning of one context frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ContextFrame<'a> {
    pub(crate) condition: &'a FrameCondition,
    /// The offset of its viewpoint from the goal's, beyond the pose.
    pub(crate) viewpoint: &'a [f32],
    /// What was observed in it.
    pub(crate) state: &'a [f32],
}

/// The conditioning of one target, as far as it is known before it is seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Goal<'a> {
    pub(crate) condition: &'a FrameCondition,
    /// Time to it, in units of time.
    pub(crate) stride: f32,
    /// What else is known of the way there.
    pub(crate) action: &'a [f32],
}

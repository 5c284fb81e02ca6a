//! Parts of the network that serve one setting; the method does not need them.
//!
//! * [`copy_head`] and [`nearness`]: tokens of the context can be copied to the output.
//! * [`goal_warp`]: frames of the context are warped to the goal's viewpoint.
//! * [`goal_state`]: the state of another agent is observed, predicted and detected.

pub(crate) mod copy_head;
pub(crate) mod goal_state;
pub(crate) mod goal_warp;
pub(crate) mod nearness;

//! Conditioning beyond poses and times, as named channels.
//!
//! A corpus may know more of a frame than its picture: what was done, what is open, who is near. All of
//! it reaches the network through the four channels of a [`SignalLayout`]; `signal_column` declares them
//! and fills them from the columns of a dataset. A channel of width 0 is absent.

/// A named row of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channel {
    /// Names its embedder's parameters: `{name}_embedder`.
    pub name: &'static str,
    /// How many numbers it has; 0 where it is absent.
    pub width: usize,
}

impl Channel {
    /// Whether the corpus has it.
    pub fn is_present(&self) -> bool {
        self.width > 0
    }
}

/// Which channels contexts have, and how wide they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalLayout {
    /// What is known of the way to the goal, as a part of the action.
    pub action: Channel,
    /// What a viewpoint has beyond its pose, in every frame. The network is given its offset from the
    /// goal's, and it counts in how far a view lies from the goal.
    pub viewpoint: Channel,
    /// What is observed in every frame of the context.
    pub state: Channel,
    /// The first numbers of the state at the goal. Training knows them; sampling predicts them.
    pub goal_state: Channel,
}

/// The signals of one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FrameSignals<'a> {
    /// What its viewpoint has beyond its pose.
    pub viewpoint: &'a [f32],
    /// What was observed in it.
    pub state: &'a [f32],
}

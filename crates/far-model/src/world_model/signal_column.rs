//! The one place where columns of a dataset become channels of conditioning.

use crate::world_model::signal::{Channel, FrameSignals, SignalLayout};
use far_data::{AgentState, DatasetDescription, Episode, Signal};
use serde::{Deserialize, Serialize};

/// Numbers of a second agent's state: in view or not, and where, now and a little earlier.
const AGENT_STATE: usize = 6;
/// Meters that count as 1 in them.
const AGENT_LENGTH: f32 = 5.0;

/// What the world model is conditioned on beyond poses and times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConditioningConfig {
    /// The interactions between the present and the goal, how far the acted door is open at the goal
    /// (paper: AI2-THOR), and how far it was in every frame of the context.
    pub interactions: bool,
    /// The second agent's state in every frame of the context. Paper: AI2-THOR-dyn.
    pub agent: bool,
}

impl ConditioningConfig {
    /// The channels that the network has on such a dataset.
    pub fn layout(&self, description: &DatasetDescription) -> SignalLayout {
        let channel = |name, width, given| Channel { name, width: if given { width } else { 0 } };
        SignalLayout {
            // One number per label, and the door.
            action: channel("signal", description.labels.len() + 1, self.interactions),
            viewpoint: channel("door", 1, self.interactions),
            state: channel("state", AGENT_STATE, self.agent),
            goal_state: channel("goal_state", AGENT_STATE / 2, self.agent),
        }
    }

    /// The first signal of a dataset that is needed and not there.
    pub fn lacking(&self, description: &DatasetDescription) -> Option<Signal> {
        let mut needed = Vec::new();
        if self.interactions {
            needed.extend([Signal::Events, Signal::DoorFraction]);
        }
        if self.agent {
            needed.push(Signal::Agent);
        }
        needed.into_iter().find(|signal| !description.has(*signal))
    }
}

/// The signals of one episode.
#[derive(Default)]
pub(crate) struct EpisodeSignals {
    layout: SignalLayout,
    /// Interactions by frame, as numbers of labels.
    events: Vec<Vec<u16>>,
    /// [frames, viewpoint].
    viewpoints: Vec<f32>,
    /// [frames, state].
    states: Vec<f32>,
    /// Frames between the two halves of a state.
    pub(crate) state_lag: usize,
}

impl EpisodeSignals {
    pub(crate) fn of(config: ConditioningConfig, episode: &Episode) -> Self {
        let layout = config.layout(episode.description());
        let state_lag = episode.description().agent_lag as usize;
        let mut signals = Self { layout, state_lag, ..Self::default() };
        if layout.viewpoint.is_present() {
            signals.events =
                (0..episode.len()).map(|frame| episode.events(frame).to_vec()).collect();
            let door = |frame| episode.door_fraction(frame).unwrap_or(0.0);
            signals.viewpoints = (0..episode.len()).map(door).collect();
        }
        if layout.state.is_present() {
            let states = |frame| {
                let both = [episode.agent(frame), episode.agent_before(frame)];
                both.into_iter().flat_map(agent_features)
            };
            signals.states = (0..episode.len()).flat_map(states).collect();
        }
        signals
    }

    /// The interactions after frame `now` up to frame `goal`, one number per label that is 1 where
    /// something of the kind happened, and how far the acted door is open at the goal.
    pub(crate) fn action(&self, now: usize, goal: usize) -> Vec<f32> {
        let mut action = vec![0.0; self.layout.action.width];
        if let Some(door) = action.last_mut() {
            *door = self.viewpoints[goal];
            for event in self.events[(now + 1).min(goal)..=goal].iter().flatten() {
                action[usize::from(*event)] = 1.0;
            }
        }
        action
    }

    /// The signals of these frames of episodes, as those of one episode.
    pub(crate) fn gathered<'a>(&self, frames: impl Iterator<Item = (&'a Self, usize)>) -> Self {
        let (layout, state_lag) = (self.layout, self.state_lag);
        let mut gathered = Self { layout, state_lag, ..Self::default() };
        for (signals, frame) in frames {
            let FrameSignals { viewpoint, state } = signals.frame(frame);
            gathered.viewpoints.extend_from_slice(viewpoint);
            gathered.states.extend_from_slice(state);
            gathered.events.extend(signals.events.get(frame).cloned());
        }
        gathered
    }

    /// The signals of a frame.
    pub(crate) fn frame(&self, frame: usize) -> FrameSignals<'_> {
        let row = |channel: Channel| frame * channel.width..(frame + 1) * channel.width;
        FrameSignals {
            viewpoint: &self.viewpoints[row(self.layout.viewpoint)],
            state: &self.states[row(self.layout.state)],
        }
    }
}

/// Whether it is seen, and where: to the right and ahead. An agent out of sight is nowhere.
fn agent_features(agent: AgentState) -> [f32; 3] {
    if !agent.visible {
        return [0.0; 3];
    }
    let [right, ahead] = agent.position.map(|meters| meters / AGENT_LENGTH);
    [1.0, right, ahead]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interactions_are_those_after_now_up_to_the_goal() {
        let mut description = DatasetDescription::new("corpus", 10.0, [8, 8], [90.0, 90.0]);
        description.labels = ["open", "close", "carry"].map(String::from).to_vec();
        let config = ConditioningConfig { interactions: true, agent: false };
        let signals = EpisodeSignals {
            layout: config.layout(&description),
            events: vec![vec![0], vec![1], vec![], vec![2, 1]],
            viewpoints: vec![0.0, 0.2, 0.5, 1.0],
            ..EpisodeSignals::default()
        };
        assert_eq!(signals.action(0, 2), [0.0, 1.0, 0.0, 0.5]);
        assert_eq!(signals.action(1, 3), [0.0, 1.0, 1.0, 1.0]);
        assert_eq!(signals.action(3, 3), [0.0, 1.0, 1.0, 1.0]);
        assert_eq!(signals.frame(2), FrameSignals { viewpoint: &[0.5], state: &[] });
    }

    #[test]
    fn an_episode_without_channels_has_empty_signals() {
        let signals = EpisodeSignals::default();
        assert!(signals.action(0, 1).is_empty());
        assert_eq!(signals.frame(2), FrameSignals::default());
    }

    #[test]
    fn an_agent_out_of_sight_is_nowhere() {
        let seen = AgentState { visible: true, position: [-2.5, 5.0] };
        assert_eq!(agent_features(seen), [1.0, -0.5, 1.0]);
        assert_eq!(agent_features(AgentState { visible: false, ..seen }), [0.0; 3]);
    }
}

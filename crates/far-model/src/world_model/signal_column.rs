//! The one place where columns of a dataset become channels of conditioning.

use crate::Result;
use crate::world_model::signal::{Channel, FrameSignals, SignalLayout};
use far_data::{AgentState, DatasetDescription, Episode, NumericColumn, RobotAction, Signal};
use serde::{Deserialize, Serialize};

/// Numbers of a second agent's state: in view or not, and where, now and a little earlier.
const AGENT_STATE: usize = 6;
/// Meters that count as 1 in them.
const AGENT_LENGTH: f32 = 5.0;

/// What the world model is conditioned on beyond poses, times and the commands of a robot, which it is
/// given wherever a dataset has them.
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
        // One number per label, and the door.
        let interactions = if self.interactions { description.labels.len() + 1 } else { 0 };
        // The mean of the commands on the way, and the last.
        let commands = 2 * description.robot_action.as_ref().map_or(0, RobotAction::width);
        SignalLayout {
            action: channel("signal", interactions + commands, true),
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
    /// Commands of a robot, standardized.
    commands: Option<NumericColumn>,
    /// Frames between the two halves of a state.
    pub(crate) state_lag: usize,
}

impl EpisodeSignals {
    pub(crate) fn of(config: ConditioningConfig, episode: &Episode) -> Result<Self> {
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
        if let Some(commands) = &episode.description().robot_action {
            signals.commands = Some(commands.standardized(episode)?);
        }
        Ok(signals)
    }

    /// The interactions after frame `now` up to frame `goal`, one number per label that is 1 where
    /// something of the kind happened, and how far the acted door is open at the goal; then the mean of
    /// the commands on the way, and the last of them.
    pub(crate) fn action(&self, now: usize, goal: usize) -> Vec<f32> {
        let mut action = vec![0.0; self.layout.action.width];
        let commands = self.commands.as_ref().map_or(0, |commands| 2 * commands.width);
        let (interactions, told) = action.split_at_mut(self.layout.action.width - commands);
        if let Some((door, happened)) = interactions.split_last_mut() {
            *door = self.viewpoints[goal];
            for event in self.events[(now + 1).min(goal)..=goal].iter().flatten() {
                happened[usize::from(*event)] = 1.0;
            }
        }
        if let Some(commands) = &self.commands {
            let (mean, last) = told.split_at_mut(commands.width);
            // The command of a frame leads to the next one.
            let way = now.min(goal)..goal.max(now + 1);
            let share = 1.0 / way.len() as f32;
            for frame in way.clone() {
                let row = commands.row(frame);
                mean.iter_mut().zip(row).for_each(|(mean, number)| *mean += share * number);
            }
            last.copy_from_slice(commands.row(way.end - 1));
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
    fn commands_are_those_that_lead_from_now_to_the_goal() {
        let mut description = DatasetDescription::new("corpus", 10.0, [8, 8], [90.0, 90.0]);
        description.labels = vec!["open".into()];
        let commands = RobotAction { mean: vec![0.0; 2], deviation: vec![1.0; 2] };
        let description = description.with_robot_action(commands);
        let plain = ConditioningConfig::default().layout(&description);
        assert_eq!((plain.action.width, plain.viewpoint.width), (4, 0));
        let values = vec![0.0, 1.0, 2.0, -1.0, 4.0, 3.0, 9.0, 9.0];
        let commands = Some(NumericColumn { width: 2, values });
        let signals = EpisodeSignals { layout: plain, commands, ..EpisodeSignals::default() };
        assert_eq!(signals.action(0, 1), [0.0, 1.0, 0.0, 1.0]);
        assert_eq!(signals.action(0, 2), [1.0, 0.0, 2.0, -1.0]);
        assert_eq!(signals.action(1, 3), [3.0, 1.0, 4.0, 3.0]);
        assert_eq!(signals.action(3, 3), [9.0; 4], "staying is what is commanded now");
        let config = ConditioningConfig { interactions: true, agent: false };
        let signals = EpisodeSignals {
            layout: config.layout(&description),
            events: vec![vec![], vec![0]],
            viewpoints: vec![0.0, 0.25],
            ..signals
        };
        assert_eq!(signals.action(0, 1), [1.0, 0.25, 0.0, 1.0, 0.0, 1.0]);
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

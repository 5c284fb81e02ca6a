//! What a corpus tells the world model of an episode beyond poses and times.

use far_data::{AgentState, DatasetDescription, Episode, Signal};
use serde::{Deserialize, Serialize};

/// Numbers that say where a second agent is in one frame and was a little earlier.
pub const AGENT_STATE: usize = 6;
/// Meters that count as 1 in them.
const AGENT_LENGTH: f32 = 5.0;

/// What the world model is told beyond poses and times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToldConfig {
    /// The interactions between the present and the goal, how far the acted door is open at the goal
    /// (paper: AI2-THOR), and how far it was in every frame of the context.
    pub interactions: bool,
    /// The second agent's state in every frame of the context. Paper: AI2-THOR-dyn.
    pub agent: bool,
}

impl ToldConfig {
    /// Numbers of [`crate::PredictionQuery::signals`]: one per label, and the door.
    pub fn signals(&self, description: &DatasetDescription) -> usize {
        if self.interactions { description.labels.len() + 1 } else { 0 }
    }

    /// Numbers of the state of a frame.
    pub fn states(&self) -> usize {
        if self.agent { AGENT_STATE } else { 0 }
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

/// What is told of one episode, frame by frame.
#[derive(Default)]
pub(crate) struct Told {
    /// Labels of the vocabulary; 0 when interactions are not told.
    labels: usize,
    events: Vec<Vec<u16>>,
    doors: Vec<f32>,
    /// [frames, 6]; empty when agents are not told of.
    states: Vec<f32>,
    /// Frames between the two halves of a state.
    pub(crate) lag: usize,
}

impl Told {
    pub(crate) fn of(config: ToldConfig, episode: &Episode) -> Self {
        let lag = episode.description().agent_lag as usize;
        let mut told = Self { lag, ..Self::default() };
        if config.interactions {
            told.labels = episode.description().labels.len();
            told.events = (0..episode.len()).map(|frame| episode.events(frame).to_vec()).collect();
            let door = |frame| episode.door_fraction(frame).unwrap_or(0.0);
            told.doors = (0..episode.len()).map(door).collect();
        }
        if config.agent {
            let states = |frame| {
                let both = [episode.agent(frame), episode.agent_before(frame)];
                both.into_iter().flat_map(agent_features)
            };
            told.states = (0..episode.len()).flat_map(states).collect();
        }
        told
    }

    /// The interactions after frame `current` up to frame `goal`, one number per label that is 1
    /// where something of the kind happened, and how far the acted door is open at the goal.
    pub(crate) fn signals(&self, current: usize, goal: usize) -> Vec<f32> {
        if self.events.is_empty() {
            return Vec::new();
        }
        let mut signals = vec![0.0; self.labels + 1];
        for event in self.events[(current + 1).min(goal)..=goal].iter().flatten() {
            signals[usize::from(*event)] = 1.0;
        }
        signals[self.labels] = self.doors[goal];
        signals
    }

    /// How far the acted door is open in a frame; 0 when interactions are not told.
    pub(crate) fn door(&self, frame: usize) -> f32 {
        self.doors.get(frame).copied().unwrap_or(0.0)
    }

    /// The second agent in a frame and a little earlier; empty when agents are not told of.
    pub(crate) fn state(&self, frame: usize) -> &[f32] {
        self.states.get(frame * AGENT_STATE..(frame + 1) * AGENT_STATE).unwrap_or_default()
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
        let told = Told {
            labels: 3,
            events: vec![vec![0], vec![1], vec![], vec![2, 1]],
            doors: vec![0.0, 0.2, 0.5, 1.0],
            ..Told::default()
        };
        assert_eq!(told.signals(0, 2), [0.0, 1.0, 0.0, 0.5]);
        assert_eq!(told.signals(1, 3), [0.0, 1.0, 1.0, 1.0]);
        assert_eq!(told.signals(3, 3), [0.0, 1.0, 1.0, 1.0]);
        assert_eq!((told.door(2), Told::default().door(2)), (0.5, 0.0));
        assert!(told.state(2).is_empty() && Told::default().signals(0, 1).is_empty());
    }

    #[test]
    fn an_agent_out_of_sight_is_nowhere() {
        let seen = AgentState { visible: true, position: [-2.5, 5.0] };
        assert_eq!(agent_features(seen), [1.0, -0.5, 1.0]);
        assert_eq!(agent_features(AgentState { visible: false, ..seen }), [0.0; 3]);
    }
}

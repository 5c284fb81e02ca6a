//! What a dataset may say about a frame beside picture, time and pose: events, doors, changes, a second agent, states.

use super::Episode;
use crate::frame_schema::column;
use crate::{AgentState, Change, ChangeKind, Mask, Result};
use arrow_array::types::{Float32Type, Int32Type, UInt16Type, UInt32Type, UInt64Type};

impl Episode {
    /// What happened since the previous frame, as numbers into the labels.
    pub fn events(&self, frame: usize) -> &[u16] {
        self.columns.list::<UInt16Type>(column::EVENTS, frame)
    }

    /// How far the acted door or container is open.
    pub fn door_fraction(&self, frame: usize) -> Option<f32> {
        self.columns.number::<Float32Type>(column::DOOR_FRACTION, frame)
    }

    /// How the frame differs from an older state.
    pub fn change(&self, frame: usize) -> Result<Option<Change>> {
        let Some(kind) = self.columns.text(column::CHANGE_KIND, frame) else { return Ok(None) };
        let wrong_kind = || {
            let reason = format!("\"{kind}\" is not surface or container");
            self.wrong(frame, column::CHANGE_KIND, reason)
        };
        let kind = ChangeKind::from_name(kind).ok_or_else(wrong_kind)?;
        let missing = || {
            let reason = "is null where change_kind is not".to_string();
            self.wrong(frame, column::CHANGE_MASK, reason)
        };
        let mask = self.mask(column::CHANGE_MASK, frame)?.ok_or_else(missing)?;
        let stale_frame = self.columns.unsigned(column::STALE_FRAME, frame);
        Ok(Some(Change { kind, mask, stale_frame }))
    }

    /// Whether the frame differs from an older state, without decoding the mask.
    pub fn is_changed(&self, frame: usize) -> bool {
        self.columns.text(column::CHANGE_KIND, frame).is_some()
    }

    /// The second agent in a frame.
    pub fn agent(&self, frame: usize) -> AgentState {
        self.agent_from(column::AGENT_VISIBLE, column::AGENT_POSITION, frame)
    }

    /// The second agent `agent_lag` frames before a frame, as it was seen then.
    pub fn agent_before(&self, frame: usize) -> AgentState {
        self.agent_from(column::AGENT_VISIBLE_BEFORE, column::AGENT_POSITION_BEFORE, frame)
    }

    /// The second agent's pixels; `None` when it is not in view.
    pub fn silhouette(&self, frame: usize) -> Result<Option<Mask>> {
        self.mask(column::SILHOUETTE, frame)
    }

    /// Ids of the surfaces in view, ascending.
    pub fn visible_faces(&self, frame: usize) -> &[u32] {
        self.columns.list::<UInt32Type>(column::VISIBLE_FACES, frame)
    }

    /// Number of the canonical viewpoint, −1 between viewpoints.
    pub fn pose_key(&self, frame: usize) -> i32 {
        self.columns.number::<Int32Type>(column::POSE_KEY, frame).unwrap_or(-1)
    }

    /// States that can be told from the frame, ascending.
    pub fn visible_states(&self, frame: usize) -> &[u64] {
        self.columns.list::<UInt64Type>(column::VISIBLE_STATES, frame)
    }

    /// Visible states that an interaction of this episode made, ascending.
    pub fn changed_states(&self, frame: usize) -> &[u64] {
        self.columns.list::<UInt64Type>(column::CHANGED_STATES, frame)
    }

    /// For each state that the frame shows changed, the memories that show it as it is then or being
    /// made so.
    pub fn witnesses(&self, frame: usize) -> Vec<Vec<usize>> {
        let shows = |memory: usize, state: &u64| {
            let seen = [self.visible_states(memory), self.made_states(memory)];
            seen.iter().any(|states| states.contains(state))
        };
        let of = |state| (0..self.boundary).filter(|&memory| shows(memory, state)).collect();
        self.changed_states(frame).iter().map(of).collect()
    }

    /// States made by an interaction that can be watched in the frame, ascending.
    pub fn made_states(&self, frame: usize) -> &[u64] {
        self.columns.list::<UInt64Type>(column::MADE_STATES, frame)
    }

    fn agent_from(&self, visible: &str, position: &str, frame: usize) -> AgentState {
        AgentState {
            visible: self.columns.flag(visible, frame),
            position: self.columns.vector(position, frame).unwrap_or_default(),
        }
    }

    fn mask(&self, column: &'static str, frame: usize) -> Result<Option<Mask>> {
        let bytes = self.columns.bytes(column, frame);
        bytes
            .map(|bytes| Mask::from_png(bytes, self.description.resolution))
            .transpose()
            .map_err(|reason| self.wrong(frame, column, reason))
    }
}

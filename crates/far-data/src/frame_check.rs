//! The rules that every frame keeps, checked when it is written and when it is verified.

use far_memory::Pose;

use crate::frame_schema::column;
use crate::{DataError, DatasetDescription, Frame, Mask, Phase, Result, Signal};

/// How far from the origin a camera may be, in meters: beyond it a 32-bit float holds no decimeters.
const FARTHEST: f32 = 1e6;

/// Follows an episode frame by frame and refuses the first one that breaks a rule.
pub(crate) struct FrameCheck<'a> {
    description: &'a DatasetDescription,
    episode: u32,
    row: usize,
    time: f64,
    phase: Phase,
}

impl<'a> FrameCheck<'a> {
    /// A check for the frames of one episode, from its first.
    pub fn new(description: &'a DatasetDescription, episode: u32) -> Self {
        let (row, time, phase) = (0, f64::NEG_INFINITY, Phase::Explore);
        Self { description, episode, row, time, phase }
    }

    /// Checks the next frame. Its picture and sound are checked where they are encoded.
    pub fn next(&mut self, frame: &Frame) -> Result<()> {
        self.pose(frame)?;
        if self.description.has(Signal::Events) {
            self.ascending(column::EVENTS, &frame.events)?;
            let labels = self.description.labels.len();
            if let Some(event) = frame.events.iter().find(|&&event| usize::from(event) >= labels) {
                return self
                    .wrong(column::EVENTS, format!("{event} is not one of {labels} labels"));
            }
        }
        if let Some(fraction) = frame.door_fraction
            && !(0.0..=1.0).contains(&fraction)
        {
            return self.wrong(column::DOOR_FRACTION, format!("{fraction} is not in 0..1"));
        }
        if let Some(change) = &frame.change {
            self.mask(column::CHANGE_MASK, &change.mask)?;
            if let Some(stale) = change.stale_frame
                && stale as usize >= self.row
            {
                return self.wrong(column::STALE_FRAME, format!("{stale} is not an earlier frame"));
            }
        }
        if frame.agent.position.iter().any(|x| !x.is_finite()) {
            let position = frame.agent.position;
            return self.wrong(column::AGENT_POSITION, format!("{position:?} is not finite"));
        }
        if let Some(mask) = &frame.silhouette {
            self.mask(column::SILHOUETTE, mask)?;
        }
        self.ascending(column::VISIBLE_FACES, &frame.visible_faces)?;
        self.ascending(column::VISIBLE_STATES, &frame.states.visible)?;
        self.ascending(column::CHANGED_STATES, &frame.states.changed)?;
        self.ascending(column::MADE_STATES, &frame.states.made)?;
        let visible = &frame.states.visible;
        if let Some(state) = frame.states.changed.iter().find(|s| visible.binary_search(s).is_err())
        {
            let reason = format!("{state:#x} is not among the frame's visible_states");
            return self.wrong(column::CHANGED_STATES, reason);
        }
        self.row += 1;
        Ok(())
    }

    /// Checks time, pose, action and phase only: what every reader relies on.
    pub fn next_pose(&mut self, frame: &Frame) -> Result<()> {
        self.pose(frame)?;
        self.row += 1;
        Ok(())
    }

    fn pose(&mut self, frame: &Frame) -> Result<()> {
        if !frame.time.is_finite() || frame.time <= self.time {
            let reason = format!("{} does not come after {}", frame.time, self.time);
            return self.wrong(column::TIME, reason);
        }
        match frame.pose {
            Some(_) if !self.description.poses => {
                let reason = "is there, but dataset.json says `poses`: false".into();
                return self.wrong(column::POSITION, reason);
            }
            Some(Pose { position, .. }) if position.iter().any(|x| !x.is_finite()) => {
                return self.wrong(column::POSITION, format!("{position:?} is not finite"));
            }
            Some(Pose { position, .. }) if position.iter().any(|x| x.abs() > FARTHEST) => {
                let reason = format!(
                    "{position:?} is more than 1,000 km from the origin, where a 32-bit float holds no \
                     decimeters: subtract a common origin; the unit is meters"
                );
                return self.wrong(column::POSITION, reason);
            }
            Some(pose) if !pose.is_valid() => {
                let reason = format!("{:?} is not a unit quaternion", pose.rotation);
                return self.wrong(column::ROTATION, reason);
            }
            None if self.description.poses => {
                let reason = "is missing; a dataset without poses says `poses`: false".into();
                return self.wrong(column::POSITION, reason);
            }
            Some(_) | None => {}
        }
        if let Some(action) = frame.action
            && ![action.forward, action.left, action.up, action.turn, action.tilt]
                .iter()
                .all(|x| x.is_finite())
        {
            return self.wrong(column::ACTION, format!("{action:?} is not finite"));
        }
        if self.phase == Phase::Return && frame.phase == Phase::Explore {
            return self.wrong(column::PHASE, "\"explore\" comes after \"return\"".into());
        }
        (self.time, self.phase) = (frame.time, frame.phase);
        Ok(())
    }

    fn mask(&self, column: &'static str, mask: &Mask) -> Result<()> {
        let (found, wanted) = ([mask.width, mask.height], self.description.resolution);
        if found != wanted || mask.pixels.len() != (wanted[0] as usize * wanted[1] as usize) {
            return self.wrong(column, format!("is {found:?} pixels where {wanted:?} were due"));
        }
        Ok(())
    }

    fn ascending<T: PartialOrd + Copy + std::fmt::Display>(
        &self,
        column: &'static str,
        values: &[T],
    ) -> Result<()> {
        match values.windows(2).find(|pair| pair[0] >= pair[1]) {
            Some(pair) => self.wrong(
                column,
                format!("{} comes after {}: values ascend, each once", pair[1], pair[0]),
            ),
            None => Ok(()),
        }
    }

    fn wrong<T>(&self, column: &'static str, reason: String) -> Result<T> {
        Err(DataError::Row { episode: Some(self.episode), row: self.row, column, reason })
    }
}

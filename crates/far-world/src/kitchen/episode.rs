//! One planned kitchen episode, frame by frame.

use far_data::{Change, ChangeKind, Frame, FrameImage, Mask, Phase, Picture, VisibleStates};
use far_memory::Camera;

use super::scene::KitchenScene;
use super::script::Script;
use super::sight::Sight;
use super::state::{SpotNumber, state_number};
use super::track::Moment;
use crate::error::Result;
use crate::{Course, Episode, Scene, Studio};

/// A kitchen, a script and the scene of the last rendered frame.
pub(crate) struct KitchenEpisode {
    pub kitchen: KitchenScene,
    pub script: Script,
    pub course: Course,
    pub camera: Camera,
    pub scene: Scene,
}

impl KitchenEpisode {
    fn moment(&self, index: usize) -> &Moment {
        &self.script.moments[index]
    }

    /// Sets the scene to the state of a moment, or to that moment with the contents of another
    /// version.
    fn arrange(&mut self, index: usize, version: usize) {
        let contents = self.script.chronicle.contents(version);
        let open = self.script.moments[index].open;
        self.kitchen.arrange(&mut self.scene, contents, open);
    }

    /// Number of the viewpoint: a closed and an open view of a station count as two, so that frames
    /// of the same number show the same things unless something was moved.
    fn pose_key(moment: &Moment) -> i32 {
        match (moment.viewpoint, moment.open) {
            (Some(station), None | Some((_, 0.0))) => 2 * station as i32,
            (Some(station), Some((_, 1.0))) => 2 * station as i32 + 1,
            _ => -1,
        }
    }

    /// The states visible in the frame rendered last.
    fn states(&self, index: usize, visible: &[SpotNumber]) -> VisibleStates {
        let moment = self.moment(index);
        let chronicle = &self.script.chronicle;
        let contents = chronicle.contents(moment.version);
        let number = |spot: SpotNumber| state_number(spot, contents[spot]);
        let touched =
            |spot: &SpotNumber| chronicle.last_interaction(*spot, moment.version).is_some();
        // An interaction is visible in the frame right after it.
        let before = index.checked_sub(1).map_or(0, |earlier| self.moment(earlier).version);
        let made = |spot: &SpotNumber| {
            chronicle
                .last_interaction(*spot, moment.version)
                .is_some_and(|interaction| interaction >= before)
        };
        VisibleStates {
            pose_key: Self::pose_key(moment),
            visible: visible.iter().map(|&spot| number(spot)).collect(),
            changed: visible.iter().copied().filter(touched).map(number).collect(),
            made: visible.iter().copied().filter(made).map(number).collect(),
        }
    }

    /// How a return frame differs from the world before the earliest interaction whose effect it
    /// shows.
    fn change(
        &mut self,
        index: usize,
        visible: &[SpotNumber],
        picture: &Picture,
        studio: &mut Studio,
    ) -> Option<Change> {
        let moment = *self.moment(index);
        let changed: Vec<(SpotNumber, usize)> = visible
            .iter()
            .filter_map(|&spot| {
                Some((spot, self.script.chronicle.last_interaction(spot, moment.version)?))
            })
            .collect();
        let first = changed.iter().map(|&(_, interaction)| interaction).min()?;
        self.arrange(index, first);
        let old = studio.render(&self.scene, &moment.pose);
        let mask = Mask::from_fn(picture.width, picture.height, |x, y| {
            let at = 3 * (y * picture.width + x) as usize;
            old.rgb[at..at + 3] != picture.pixels[at..at + 3]
        });
        self.arrange(index, moment.version);
        if mask.is_empty() {
            return None;
        }
        let inside = changed.iter().any(|&(spot, _)| self.kitchen.is_inside(spot));
        let kind = if inside { ChangeKind::Container } else { ChangeKind::Surface };
        let stale_frame = self.stale_frame(index, &changed);
        Some(Change { kind, mask, stale_frame })
    }

    /// Newest memory from the same viewpoint, equally open, in which a changed spot held something
    /// else.
    fn stale_frame(&self, index: usize, changed: &[(SpotNumber, usize)]) -> Option<u32> {
        let key = Self::pose_key(self.moment(index));
        if key < 0 {
            return None;
        }
        let chronicle = &self.script.chronicle;
        let now = chronicle.contents(self.moment(index).version);
        let differs = |moment: &Moment| {
            let then = chronicle.contents(moment.version);
            changed.iter().any(|&(spot, _)| then[spot] != now[spot])
        };
        self.script.moments[..self.script.boundary]
            .iter()
            .rposition(|moment| Self::pose_key(moment) == key && differs(moment))
            .map(|frame| frame as u32)
    }
}

impl Episode for KitchenEpisode {
    fn course(&self) -> &Course {
        &self.course
    }

    fn frame(&mut self, index: usize, studio: &mut Studio) -> Result<Frame> {
        let moment = *self.moment(index);
        self.arrange(index, moment.version);
        let mut row = self.course.shoot(index, &self.scene, studio);
        let sight = Sight { kitchen: &self.kitchen, camera: self.camera };
        let contents = self.script.chronicle.contents(moment.version);
        let visible = sight.visible(studio.frame(), &moment.pose, contents, moment.open);
        row.events = moment.event.map(|event| event as u16).into_iter().collect();
        row.door_fraction = moment.open.map(|(_, fraction)| fraction);
        row.states = self.states(index, &visible);
        if row.phase == Phase::Return
            && let FrameImage::Pixels(picture) = &row.image
        {
            row.change = self.change(index, &visible, picture, studio);
        }
        Ok(row)
    }

    fn scene(&mut self, index: usize) -> &Scene {
        let version = self.moment(index).version;
        self.arrange(index, version);
        &self.scene
    }
}

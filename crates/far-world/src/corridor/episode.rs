//! One planned corridor episode, frame by frame.

use far_data::{AgentState, Frame, Mask, VisibleStates};
use far_memory::Pose;

use super::hall::{End, Hall};
use super::plan::Plan;
use crate::error::Result;
use crate::{Course, Episode, Person, PersonAppearance, Scene, Studio};

/// Number of the agent in object masks.
const AGENT: u16 = 1;

/// A hall, a plan and the scene of the last rendered frame.
pub(crate) struct CorridorEpisode {
    pub hall: Hall,
    pub plan: Plan,
    pub course: Course,
    pub appearance: PersonAppearance,
    pub scene: Scene,
}

/// Number of a state: an end with the agent, or without.
fn state_number(end: End, agent: bool) -> u64 {
    (end as u64 + 1) << 32 | u64::from(agent)
}

impl CorridorEpisode {
    fn arrange(&mut self, frame: usize) {
        self.scene.people.clear();
        if let Some(stance) = self.plan.patrol.stance(&self.hall, frame) {
            self.scene.people.push(Person {
                foot: [stance.foot[0], stance.foot[1], 0.0],
                yaw: stance.yaw,
                height: 1.75,
                phase: stance.phase,
                look: self.appearance,
                object: AGENT,
                visible: true,
            });
        }
    }

    /// Post, west end, east end: 0, 1, 2; −1 elsewhere.
    fn pose_key(&self, frame: usize) -> i32 {
        let pose = self.course.poses[frame];
        if pose == self.plan.post {
            return 0;
        }
        let end = End::BOTH.into_iter().find(|&end| pose == Plan::end_view(&self.hall, end));
        end.map_or(-1, |end| end as i32 + 1)
    }

    fn states(&self, frame: usize, seen: bool) -> VisibleStates {
        let pose_key = self.pose_key(frame);
        let place = self.plan.patrol.place(frame);
        let number = |end: End| state_number(end, place == Some(end));
        let viewed = End::BOTH.into_iter().find(|&end| pose_key == end as i32 + 1);
        // A view of an end shows whether the agent is there, and the agent standing there is
        // recognized from any pose.
        let standing = place.filter(|_| seen && frame >= self.plan.watch.end);
        let mut visible: Vec<u64> = viewed.or(standing).map(number).into_iter().collect();
        let patrol = &self.plan.patrol;
        let crossed =
            !patrol.absent && patrol.crossings.iter().any(|crossing| crossing.start <= frame);
        let changed = if crossed { visible.clone() } else { Vec::new() };
        // A visible crossing determines both ends: one has the agent now, the other does not.
        let crossing = self.plan.patrol.stance(&self.hall, frame).and_then(|s| s.crossing);
        let made =
            if seen && crossing.is_some() { End::BOTH.map(number).to_vec() } else { Vec::new() };
        visible.dedup();
        VisibleStates { pose_key, visible, changed, made }
    }
}

impl Episode for CorridorEpisode {
    fn course(&self) -> &Course {
        &self.course
    }

    fn frame(&mut self, index: usize, studio: &mut Studio) -> Result<Frame> {
        self.arrange(index);
        let pose = self.course.poses[index];
        let mut row = self.course.shoot(index, &self.scene, studio);
        if self.plan.transit.contains(&index) {
            row.events.push(0);
        }
        let picture = studio.frame();
        let (width, height) = (picture.width as u32, picture.height as u32);
        let mask =
            Mask::from_fn(width, height, |x, y| picture.objects[(y * width + x) as usize] == AGENT);
        let seen = !mask.is_empty();
        if let (true, Some(person)) = (seen, self.scene.people.first()) {
            let [x, y, _] = person.foot;
            let step = Pose { position: [x, y, pose.position[2]], ..pose }.displacement_from(&pose);
            row.agent = AgentState { visible: true, position: [-step.left, step.forward] };
            row.silhouette = Some(mask);
        }
        row.states = self.states(index, seen);
        Ok(row)
    }

    fn scene(&mut self, index: usize) -> &Scene {
        self.arrange(index);
        &self.scene
    }
}

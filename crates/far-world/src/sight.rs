//! Whether walls stand between two points of a recorded episode.

use std::sync::Arc;

use far_data::DatasetDescription;

use crate::error::Result;
use crate::registry::worlds;
use crate::scene::Stage;
use crate::vector::Vector;
use crate::world::Recording;

/// The walls of one episode's scene. Furniture, doors and people do not block the line of sight
/// here.
#[derive(Clone, Debug)]
pub struct Sight {
    stage: Arc<Stage>,
}

impl Sight {
    /// Rebuilds the scene of an episode of a dataset; `None` if no built-in world of this version
    /// recorded it.
    ///
    /// # Errors
    /// If the world rejects the dataset's description.
    pub fn of_episode(description: &DatasetDescription, episode: u32) -> Result<Option<Self>> {
        let generator = &description.generator;
        let known = worlds().iter().find(|world| {
            world.name() == generator.name && world.constants().version == generator.version
        });
        let Some(world) = known else { return Ok(None) };
        let (variant, size) = (description.variant.as_str(), description.resolution[0]);
        let scenes = generator.scenes.unwrap_or(world.constants().scenes);
        let recording = Recording::new(*world, Some(variant), generator.seed, size)?
            .with_scenes(*world, scenes)?;
        let mut planned = world.episode(&recording, episode)?;
        Ok(Some(Self { stage: planned.scene(0).stage.clone() }))
    }

    /// Whether a wall stands on the straight line between two points in meters.
    pub fn is_blocked(&self, from: Vector, to: Vector) -> bool {
        let way = std::array::from_fn(|axis| to[axis] - from[axis]);
        way != [0.0; 3] && self.stage.field().cast(from, way, 1.0).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apartment::Apartment;
    use crate::{Channels, Frame, Renderer, World, description};
    use far_memory::{Camera, Pose};

    fn recording() -> Recording {
        Recording::new(&Apartment, Some("v1"), 5, 64).unwrap()
    }

    /// Compares with the renderer: the depth at the center of a frame toward the other point,
    /// without furniture, is either beyond the point or before it.
    #[test]
    fn walls_are_those_that_the_renderer_sees() {
        let description = description(&Apartment, &recording());
        let (mut seen, mut renderer) = ([0; 2], Renderer::default());
        for index in [0, 3] {
            let sight = Sight::of_episode(&description, index).unwrap().unwrap();
            let mut episode = Apartment.episode(&recording(), index).unwrap();
            let mut scene = episode.scene(0).clone();
            scene.props.clear();
            let frames = episode.course().poses.len();
            for (from, to) in (0..frames).step_by(11).zip((0..frames).step_by(23)) {
                let [from, to] = [from, to].map(|frame| episode.course().poses[frame].position);
                let distance = crate::vector::length([to[0] - from[0], to[1] - from[1], 0.0]);
                if distance < 0.5 {
                    continue;
                }
                let yaw = (to[1] - from[1]).atan2(to[0] - from[0]);
                let pose = Pose::from_yaw_pitch(from, yaw, 0.0);
                let mut frame = Frame::with_channels(Channels::ALL);
                // An odd width has a pixel at the exact center.
                let camera = Camera::from_degrees(2.0, 2.0);
                renderer.render(&scene, &pose, &camera, 3, 3, &mut frame);
                let blocked = frame.depth[4] < distance;
                assert_eq!(sight.is_blocked(from, to), blocked, "{from:?} to {to:?}");
                seen[usize::from(blocked)] += 1;
            }
        }
        assert!(seen[0] > 3 && seen[1] > 3, "{seen:?}");
    }

    #[test]
    fn sight_is_mutual_and_a_place_sees_itself() {
        let description = description(&Apartment, &recording());
        let sight = Sight::of_episode(&description, 1).unwrap().unwrap();
        let episode = Apartment.episode(&recording(), 1).unwrap();
        let eye = |frame: usize| episode.course().poses[frame].position;
        for frame in (1..episode.course().poses.len()).step_by(17) {
            assert_eq!(sight.is_blocked(eye(0), eye(frame)), sight.is_blocked(eye(frame), eye(0)));
            assert!(!sight.is_blocked(eye(frame), eye(frame)));
        }
    }

    #[test]
    fn recordings_of_others_have_no_walls_to_ask_for() {
        let mut foreign = description(&Apartment, &recording());
        foreign.generator.version += 1;
        assert!(Sight::of_episode(&foreign, 0).unwrap().is_none());
        foreign.generator.name = "habitat".into();
        assert!(Sight::of_episode(&foreign, 0).unwrap().is_none());
    }

    /// A recording of fewer scenes has other walls in its later episodes.
    #[test]
    fn scenes_are_those_of_the_recording() {
        let few = recording().with_scenes(&Apartment, 27).unwrap();
        let [own, few] = [recording(), few].map(|recording| description(&Apartment, &recording));
        let cut = |description: &DatasetDescription, episode: u32| {
            let sight = Sight::of_episode(description, episode).unwrap().unwrap();
            let ends = (0..400).map(|end| [0.5 * (end % 20) as f32, 0.5 * (end / 20) as f32, 1.5]);
            ends.map(|end| sight.is_blocked([4.0, 4.0, 1.5], end)).collect::<Vec<bool>>()
        };
        assert_eq!(cut(&few, 28), cut(&own, 1));
        assert_ne!(cut(&few, 28), cut(&own, 28));
    }
}

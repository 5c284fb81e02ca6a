//! Which states are visible in a frame.

use far_memory::{Camera, Pose};

use super::scene::{FIRST_OBJECT, KitchenScene};
use super::state::{Contents, SpotNumber};
use crate::Frame;
use crate::vector::Vector;

/// Fraction of the frame that an object must cover to be visible: 5 of 64 × 64 pixels.
const OBJECT_SHARE: f32 = 0.0012;
/// Beyond this distance in meters an empty spot is not visible.
const EMPTY_REACH: f32 = 2.4;
/// A point is visible if nothing is more than this many meters in front of it.
const TOLERANCE: f32 = 0.03;

/// Determines visible states of one kitchen.
pub(crate) struct Sight<'a> {
    pub kitchen: &'a KitchenScene,
    pub camera: Camera,
}

impl Sight<'_> {
    /// The spots whose content is visible in a rendered frame, ascending.
    pub fn visible(
        &self,
        frame: &Frame,
        pose: &Pose,
        contents: &Contents,
        open: Option<(usize, f32)>,
    ) -> Vec<SpotNumber> {
        let mut pixels = vec![0usize; usize::from(FIRST_OBJECT) + self.kitchen.objects.len()];
        for &object in &frame.objects {
            pixels[usize::from(object)] += 1;
        }
        let enough = (OBJECT_SHARE * frame.objects.len() as f32).max(3.0) as usize;
        (0..contents.len())
            .filter(|&spot| match contents[spot] {
                Some(object) => pixels[usize::from(FIRST_OBJECT) + object] >= enough,
                None => self.sees_empty(frame, pose, spot, open),
            })
            .collect()
    }

    /// Whether the space above an empty spot is visible: most of six points that an object would
    /// fill.
    fn sees_empty(
        &self,
        frame: &Frame,
        pose: &Pose,
        spot: SpotNumber,
        open: Option<(usize, f32)>,
    ) -> bool {
        let (station, index) = self.kitchen.spots[spot];
        let fraction = open.filter(|&(acted, _)| acted == station).map_or(0.0, |(_, f)| f);
        let foot = self.kitchen.stations[station].spots[index].foot(fraction);
        if pose.distance(&Pose { position: foot, ..*pose }) > EMPTY_REACH {
            return false;
        }
        let right = pose.right();
        let seen = [-0.05, 0.0, 0.05]
            .into_iter()
            .flat_map(|aside| [0.05, 0.11].map(|up| (aside, up)))
            .filter(|&(aside, up)| {
                let point = [foot[0] + aside * right[0], foot[1] + aside * right[1], foot[2] + up];
                self.sees_point(frame, pose, point)
            })
            .count();
        seen >= 5
    }

    fn sees_point(&self, frame: &Frame, pose: &Pose, point: Vector) -> bool {
        let Some([x, y]) = self.camera.project(pose, point) else { return false };
        if x.abs() >= 1.0 || y.abs() >= 1.0 {
            return false;
        }
        let pixel = |image: f32, count: usize| {
            (((image + 1.0) * 0.5 * count as f32) as usize).min(count - 1)
        };
        let at = pixel(y, frame.height) * frame.width + pixel(x, frame.width);
        frame.depth[at] >= pose.to_camera(point)[2] - TOLERANCE
    }
}

//! The picture test of poses: a neighboring frame, turned by the stored rotations, must look more
//! like this one than it does unturned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use far_memory::{Camera, Pose};
use serde::Serialize;

use crate::{Picture, Result};

/// Pairs of frames that are compared at most.
const PAIRS: usize = 48;

/// Fewer pairs say nothing.
pub(crate) const LEAST_PAIRS: usize = 8;

/// Frames turn at least this much between the two of a pair, in radians: less moves no pixel.
const LEAST_TURN: f32 = 0.05;

/// Frames of a pair are at most this far apart, so that walking moves little.
const FARTHEST: usize = 12;

/// Longer side of the compared pictures in pixels: small turns show, noise does not.
const SIDE: u32 = 64;

/// How well neighboring frames match under one reading of the poses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WarpResult {
    /// Pairs that were compared.
    pub pairs: usize,
    /// Likeness of the frames as they are, in dB (PSNR).
    pub unwarped_db: f64,
    /// Likeness after turning by the poses as they are read.
    pub warped_db: f64,
}

/// Pairs of frames with their pictures, in shades of gray from 0 to 1.
pub(crate) struct WarpTest {
    camera: Camera,
    pairs: Vec<Pair>,
}

struct Pair {
    frames: [usize; 2],
    gray: [Arc<Gray>; 2],
}

struct Gray {
    width: usize,
    height: usize,
    values: Vec<f32>,
}

impl WarpTest {
    /// Chooses pairs spread over the recording. The angle of a turn is the same under every reading of
    /// the poses, so `poses` may be wrong.
    pub fn new(
        poses: &[Pose],
        camera: Camera,
        picture: &mut dyn FnMut(usize) -> Result<Picture>,
    ) -> Result<Self> {
        // A third of the narrower view: enough of both pictures shows the same.
        let most = camera.horizontal_field_of_view.min(camera.vertical_field_of_view) / 3.0;
        let partner = |frame: usize| {
            let last = poses.len().min(frame + 1 + FARTHEST);
            (frame + 1..last)
                .find(|&other| (LEAST_TURN..most).contains(&angle(&poses[frame], &poses[other])))
                .map(|other| [frame, other])
        };
        let all: Vec<[usize; 2]> = (0..poses.len()).filter_map(partner).collect();
        let count = all.len().min(PAIRS);
        let chosen: Vec<[usize; 2]> =
            (0..count).map(|index| all[index * all.len() / count]).collect();
        // In the order of a video, each frame once.
        let frames: BTreeSet<usize> = chosen.iter().flatten().copied().collect();
        let mut grays = BTreeMap::new();
        for frame in frames {
            grays.insert(frame, Arc::new(Gray::of(&picture(frame)?)));
        }
        let pair =
            |frames: [usize; 2]| Pair { frames, gray: frames.map(|frame| grays[&frame].clone()) };
        let pairs = chosen.into_iter().map(pair).collect();
        Ok(Self { camera, pairs })
    }

    /// Whether there is enough to compare.
    pub fn speaks(&self) -> bool {
        self.pairs.len() >= LEAST_PAIRS
    }

    /// The result under `poses`, one per frame of the recording.
    pub fn result(&self, poses: &[Pose]) -> WarpResult {
        let mean = |warped: bool| {
            let of = |pair: &Pair| pair.error(warped.then_some(poses), &self.camera);
            let sum: f64 = self.pairs.iter().map(of).sum();
            -10.0 * (sum / self.pairs.len().max(1) as f64).max(1e-9).log10()
        };
        WarpResult { pairs: self.pairs.len(), unwarped_db: mean(false), warped_db: mean(true) }
    }
}

impl Pair {
    /// Mean squared difference between the second picture and the first, turned by `poses`. What lies
    /// outside the first picture is compared unturned, so every reading is judged on all pixels.
    fn error(&self, poses: Option<&[Pose]>, camera: &Camera) -> f64 {
        let [first, second] = &self.gray;
        // Turned on the spot: only rotations are compared.
        let here = |pose: Pose| Pose { position: [0.0; 3], ..pose };
        let turned = poses.map(|poses| self.frames.map(|frame| here(poses[frame])));
        let mut sum = 0.0;
        for y in 0..second.height {
            for x in 0..second.width {
                let middle = |at: usize, size: usize| (2 * at + 1) as f32 / size as f32 - 1.0;
                let place = [middle(x, second.width), middle(y, second.height)];
                let seen = turned.and_then(|[from, to]| {
                    first.sample(camera.project(&from, camera.ray(&to, place))?)
                });
                let value = seen.unwrap_or(first.values[y * first.width + x]);
                let difference = f64::from(value - second.values[y * second.width + x]);
                sum += difference * difference;
            }
        }
        sum / (second.width * second.height) as f64
    }
}

/// The angle between two rotations in radians.
pub(crate) fn angle(a: &Pose, b: &Pose) -> f32 {
    let cosine: f32 = a.rotation.iter().zip(b.rotation).map(|(a, b)| a * b).sum();
    2.0 * cosine.abs().min(1.0).acos()
}

impl Gray {
    fn of(picture: &Picture) -> Self {
        let longer = picture.width.max(picture.height).max(1);
        let side = |side: u32| (side * SIDE.min(longer) / longer).max(1);
        let small = picture.resized([side(picture.width), side(picture.height)]);
        let gray = |color: &[u8]| {
            (0.299 * f32::from(color[0])
                + 0.587 * f32::from(color[1])
                + 0.114 * f32::from(color[2]))
                / 255.0
        };
        let values = small.pixels.chunks_exact(3).map(gray).collect();
        Self { width: small.width as usize, height: small.height as usize, values }
    }

    /// The shade at a place from −1 to 1 in both directions, between pixels by their distance.
    fn sample(&self, place: [f32; 2]) -> Option<f32> {
        let at = |place: f32, size: usize| {
            let at = 0.5 * (place + 1.0) * size as f32 - 0.5;
            let last = (size - 1) as f32;
            (-0.5..=last + 0.5).contains(&at).then(|| at.clamp(0.0, last))
        };
        let (x, y) = (at(place[0], self.width)?, at(place[1], self.height)?);
        let (left, top) = (x as usize, y as usize);
        let (right, bottom) = ((left + 1).min(self.width - 1), (top + 1).min(self.height - 1));
        let (dx, dy) = (x - left as f32, y - top as f32);
        let row = |y: usize| {
            let line = &self.values[y * self.width..];
            line[left] * (1.0 - dx) + line[right] * dx
        };
        Some(row(top) * (1.0 - dy) + row(bottom) * dy)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A picture of a sky with soft spots, seen from `pose`: what a camera far from everything sees.
    pub(crate) fn sky(pose: &Pose, camera: Camera, [width, height]: [u32; 2]) -> Picture {
        let mut picture = Picture::filled(width, height, [0; 3]);
        for y in 0..height {
            for x in 0..width {
                let middle = |at: u32, size: u32| (2 * at + 1) as f32 / size as f32 - 1.0;
                let there = Pose { position: [0.0; 3], ..*pose };
                let [a, b, c] = camera.ray(&there, [middle(x, width), middle(y, height)]);
                let wave =
                    (9.0 * a + 2.0 * b).sin() + (8.0 * b - 3.0 * c).sin() + (11.0 * c + a).sin();
                let shade = (128.0 + 40.0 * wave) as u8;
                picture.set_pixel(x, y, [shade; 3]);
            }
        }
        picture
    }

    #[test]
    fn right_rotations_match_and_wrong_ones_do_not() {
        let camera = Camera::from_degrees(80.0, 60.0);
        let poses: Vec<Pose> = (0..60)
            .map(|step| {
                let step = step as f32;
                Pose::from_yaw_pitch([0.0; 3], 0.06 * step, 0.4 * (0.2 * step).sin())
            })
            .collect();
        let mut picture = |frame: usize| Ok(sky(&poses[frame], camera, [48, 36]));
        let test = WarpTest::new(&poses, camera, &mut picture).expect("pictures are there");
        assert!(test.speaks());
        let right = test.result(&poses);
        assert!(right.warped_db > right.unwarped_db + 6.0, "{right:?}");
        let inverse: Vec<Pose> = poses
            .iter()
            .map(|pose| {
                let [w, x, y, z] = pose.rotation;
                Pose { rotation: [w, -x, -y, -z], ..*pose }
            })
            .collect();
        let wrong = test.result(&inverse);
        assert!(wrong.warped_db < right.unwarped_db, "{wrong:?}");
        assert_eq!(wrong.unwarped_db, right.unwarped_db);
    }

    #[test]
    fn one_who_never_turns_says_nothing() {
        let camera = Camera::from_degrees(80.0, 60.0);
        let poses = vec![Pose::identity(); 40];
        let mut picture = |_| unreachable!("no pair is chosen");
        assert!(!WarpTest::new(&poses, camera, &mut picture).expect("nothing to read").speaks());
    }
}

//! Poses are checked, not believed: along which axis one walks, what is up, jumps, scale, and whether
//! the pictures agree. The report says which other reading would fit better.

use far_memory::{Camera, Pose};
use serde::Serialize;

use crate::import::{Convention, RigidPose};
use crate::pose_candidate::{Candidate, candidates};
use crate::pose_warp::{WarpResult, WarpTest, angle};
use crate::{Episode, Picture, Result};

/// A step this many times as long as the median one is a jump.
const JUMP: f64 = 12.0;

/// A turn between neighbors beyond this is a jump, in radians.
const LARGEST_TURN: f32 = 1.2;

/// Median speeds outside this range are not those of a camera that explores, in m/s.
const SPEEDS: std::ops::Range<f64> = 0.002..40.0;

/// Another reading is named when it is better by this much, in dB or its worth.
const BETTER: f64 = 1.0;

/// What there is to check.
pub struct PoseCheck<'a> {
    /// Poses as the source stores them.
    pub poses: &'a [RigidPose],
    /// How they are read.
    pub convention: Convention,
    /// Seconds of each frame.
    pub times: &'a [f64],
    /// The camera.
    pub camera: Camera,
}

/// What the check found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoseReport {
    /// Frames that were looked at.
    pub frames: usize,
    /// Share of the way that leads along the camera's forward axis: 1 walking ahead, −1 backward.
    pub forward_share: f64,
    /// Mean cosine between the camera's up and the world's: 1 level, −1 upside down.
    pub upright: f64,
    /// Frames to which the camera jumps.
    pub jumps: Vec<usize>,
    /// Median speed in m/s, of the steps that move at all.
    pub speed: f64,
    /// Diagonal of the box around all positions, in meters.
    pub extent: f64,
    /// The picture test; `None` when there are no pictures or the camera hardly turns.
    pub warp: Option<WarpResult>,
    /// Every reading that was tried with its likeness in dB, the one in use first.
    pub readings: Vec<(String, f64)>,
    /// The reading that fits better than the one in use, if one does.
    pub better: Option<String>,
    /// The options of `far data import` for it.
    pub options: String,
    /// Whether the pictures themselves contradict the poses.
    pub contradicted: bool,
}

impl PoseCheck<'_> {
    /// Checks all of it. `picture` decodes the picture of a frame; `None` without pictures.
    ///
    /// # Errors
    /// If a picture cannot be read, or the poses come out mirrored.
    pub fn run(
        &self,
        picture: Option<&mut dyn FnMut(usize) -> Result<Picture>>,
    ) -> Result<PoseReport> {
        let tried = candidates(self.poses, &self.convention);
        let Some(stored) = tried.first().filter(|first| first.options.is_empty()) else {
            let reason = self.convention.convert(self.poses).err().unwrap_or_default();
            let (recording, better) = ("the poses".into(), String::new());
            return Err(crate::DataError::Poses { recording, reason, better });
        };
        let test = picture.map(|picture| WarpTest::new(&stored.poses, self.camera, picture));
        let test = test.transpose()?.filter(WarpTest::speaks);
        let judged: Vec<(f64, f64)> = tried
            .iter()
            .map(|candidate| {
                let likeness =
                    test.as_ref().map_or(0.0, |test| test.result(&candidate.poses).warped_db);
                (
                    likeness,
                    likeness
                        + 2.0 * upright(&candidate.poses)
                        + 0.5 * forward_share(&candidate.poses),
                )
            })
            .collect();
        // The first of nearly equals: readings that change less come first.
        let best = (1..judged.len())
            .fold(0, |best, at| if judged[at].1 > judged[best].1 + 0.05 { at } else { best });
        let fits = judged[best].1 > judged[0].1 + BETTER && judged[best].0 > judged[0].0 - 0.1;
        let (speed, extent) = (self.speed(&stored.poses), crate::import::extent(&stored.poses));
        let readings = tried.iter().zip(&judged).map(|(one, worth)| (one.name.clone(), worth.0));
        let mut report = PoseReport {
            frames: self.poses.len(),
            forward_share: forward_share(&stored.poses),
            upright: upright(&stored.poses),
            jumps: jumps(&stored.poses),
            speed,
            extent,
            warp: test.as_ref().map(|test| test.result(&stored.poses)),
            readings: readings.filter(|_| test.is_some()).collect(),
            better: None,
            options: String::new(),
            contradicted: fits && judged[best].0 > judged[0].0 + BETTER,
        };
        if fits {
            report.name(&tried[best]);
        }
        report.name_unit(self.convention.unit);
        Ok(report)
    }

    /// Median speed of the steps that move at all.
    fn speed(&self, poses: &[Pose]) -> f64 {
        let steps = poses.windows(2).zip(self.times.windows(2));
        let mut speeds: Vec<f64> = steps
            .map(|(pair, times)| f64::from(pair[1].distance(&pair[0])) / (times[1] - times[0]))
            .filter(|speed| speed.is_finite() && *speed > 0.0)
            .collect();
        speeds.sort_by(f64::total_cmp);
        speeds.get(speeds.len() / 2).copied().unwrap_or(0.0)
    }
}

impl PoseReport {
    /// Checks an episode of a dataset, whose poses are in our axes; `None` without poses.
    ///
    /// # Errors
    /// If a picture cannot be read.
    pub fn of_episode(episode: &Episode) -> Result<Option<Self>> {
        let description = episode.description();
        if !description.poses {
            return Ok(None);
        }
        let raw: Vec<RigidPose> = episode
            .poses()
            .iter()
            .filter_map(|pose| {
                let rotation = pose.rotation.map(f64::from);
                RigidPose::from_quaternion(rotation, pose.position.map(f64::from)).ok()
            })
            .collect();
        let check = PoseCheck {
            poses: &raw,
            convention: Convention::OURS,
            times: episode.times(),
            camera: description.camera(),
        };
        let picture: &mut dyn FnMut(usize) -> Result<Picture> = &mut |frame| episode.picture(frame);
        check.run(description.images.in_episodes().then_some(picture)).map(Some)
    }

    fn name(&mut self, candidate: &Candidate) {
        self.better = Some(candidate.name.clone());
        self.options.clone_from(&candidate.options);
    }

    /// Names another unit of length when the speed is absurd.
    fn name_unit(&mut self, unit: f64) {
        if self.speed == 0.0 || SPEEDS.contains(&self.speed) {
            return;
        }
        let units = [("m", 1.0), ("cm", 0.01), ("mm", 0.001)];
        let slowness = |one: f64| (self.speed / unit * one).ln().abs();
        let fitting = units.iter().min_by(|a, b| slowness(a.1).total_cmp(&slowness(b.1)));
        let Some((name, _)) = fitting.filter(|(_, one)| *one != unit) else { return };
        let speed = self.speed;
        let named = format!("positions in {name} (the median speed is {speed:.3} m/s as read)");
        self.better = Some(match self.better.take() {
            Some(other) => format!("{other}, {named}"),
            None => named,
        });
        self.options = [self.options.as_str(), &format!("--unit {name}")].join(" ").trim().into();
        self.contradicted = true;
    }

    /// What is worth a look, in sentences.
    pub fn warnings(&self) -> Vec<String> {
        let mut lines = self.reading_warnings();
        if let Some(first) = self.jumps.first() {
            lines.push(format!(
                "{} jumps of the camera, the first to frame {first}",
                self.jumps.len()
            ));
        }
        lines
    }

    /// What suggests that the poses are read in another convention than they were written in.
    pub(crate) fn reading_warnings(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(better) = &self.better {
            lines.push(match self.options.as_str() {
                "" => format!("the poses would fit better as: {better}"),
                options => format!("the poses would fit better as: {better} ({options})"),
            });
        } else if let Some(warp) = &self.warp
            && warp.warped_db < warp.unwarped_db
        {
            lines.push(format!(
                "turning neighboring frames by the poses makes them less alike ({:.1} dB, unturned {:.1} dB), \
                 and no other reading fits",
                warp.warped_db, warp.unwarped_db
            ));
        }
        if self.upright < 0.3 && self.better.is_none() {
            lines.push(format!(
                "the camera's up is not the world's: mean cosine {:.2}",
                self.upright
            ));
        }
        lines
    }
}

/// Σ step · forward / Σ |step|.
fn forward_share(poses: &[Pose]) -> f64 {
    let (mut along, mut way) = (0.0, 0.0);
    for pair in poses.windows(2) {
        let ahead = pair[0].forward();
        let step: [f32; 3] =
            std::array::from_fn(|axis| pair[1].position[axis] - pair[0].position[axis]);
        along += f64::from(step.iter().zip(ahead).map(|(a, b)| a * b).sum::<f32>());
        way += f64::from(pair[1].distance(&pair[0]));
    }
    if way > 0.0 { along / way } else { 0.0 }
}

fn upright(poses: &[Pose]) -> f64 {
    poses.iter().map(|pose| f64::from(-pose.down()[2])).sum::<f64>() / poses.len().max(1) as f64
}

fn jumps(poses: &[Pose]) -> Vec<usize> {
    let mut steps: Vec<f64> =
        poses.windows(2).map(|pair| f64::from(pair[1].distance(&pair[0]))).collect();
    let raw = steps.clone();
    steps.retain(|step| *step > 0.0);
    steps.sort_by(f64::total_cmp);
    let median = steps.get(steps.len() / 2).copied().unwrap_or(0.0);
    let is_jump = |frame: &usize| {
        raw[frame - 1] > JUMP * median || angle(&poses[frame - 1], &poses[*frame]) > LARGEST_TURN
    };
    (1..poses.len()).filter(is_jump).collect()
}

#[cfg(test)]
mod tests;

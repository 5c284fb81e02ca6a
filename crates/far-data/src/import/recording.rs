//! What every format comes down to: frames with a time, a pose and a place of the picture.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Lens, RigidPose};
use crate::Split;

/// Where the picture of a frame is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PictureSource {
    /// A PNG or JPEG file.
    File(PathBuf),
    /// A frame of a video, counted from 0.
    Video {
        /// The video file.
        path: Arc<Path>,
        /// The number of the frame.
        frame: u64,
    },
    /// The bytes of a PNG or JPEG file that lies inside a table.
    Bytes(Arc<[u8]>),
}

/// One frame as it was recorded.
#[derive(Clone, Debug)]
pub struct RecordedFrame {
    /// Seconds, on any clock that all frames of the recording share.
    pub time: f64,
    /// The pose in the source's own axes; `None` where nobody knows it.
    pub pose: Option<RigidPose>,
    /// The picture.
    pub picture: PictureSource,
    /// What else was measured, the [columns](Recording::columns) one after another.
    pub numbers: Vec<f32>,
}

impl RecordedFrame {
    /// A frame without further numbers.
    pub fn new(time: f64, pose: impl Into<Option<RigidPose>>, picture: PictureSource) -> Self {
        Self { time, pose: pose.into(), picture, numbers: Vec::new() }
    }
}

/// One continuous recording.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Its name in the source, for messages: a folder, an episode.
    pub name: String,
    /// The place it was recorded in; recordings of one scene share their world.
    pub scene: String,
    /// The part that the source itself gives it to.
    pub split: Option<Split>,
    /// Frames per second, when the source says so; otherwise the times tell.
    pub fps: Option<f64>,
    /// What the camera sees, when the source says so.
    pub lens: Option<Lens>,
    /// Frames by ascending time.
    pub frames: Vec<RecordedFrame>,
    /// Columns of numbers that every frame has besides, with their widths.
    pub columns: Vec<(String, usize)>,
    /// The first frame of the return, when the source says so.
    pub boundary: Option<usize>,
    /// Shape of the way, such as "ABA"; "" when that means nothing.
    pub route: String,
    /// Range tier in meters, when the source has tiers.
    pub tier: Option<u32>,
    /// What the person who imports should know: frames without a pose that were left out, lens
    /// distortion.
    pub notes: Vec<String>,
}

impl Recording {
    /// A recording of which the source says nothing but its frames.
    pub fn new(
        name: impl Into<String>,
        scene: impl Into<String>,
        frames: Vec<RecordedFrame>,
    ) -> Self {
        Self {
            name: name.into(),
            scene: scene.into(),
            split: None,
            fps: None,
            lens: None,
            frames,
            columns: Vec::new(),
            boundary: None,
            route: String::new(),
            tier: None,
            notes: Vec::new(),
        }
    }

    /// Frames per second as declared, or by the median distance of times.
    pub fn rate(&self) -> Option<f64> {
        if self.fps.is_some() {
            return self.fps;
        }
        let mut steps: Vec<f64> =
            self.frames.windows(2).map(|pair| pair[1].time - pair[0].time).collect();
        steps.sort_by(f64::total_cmp);
        steps.get(steps.len() / 2).filter(|step| **step > 0.0).map(|step| 1.0 / step)
    }

    /// Where a column lies in the [numbers](RecordedFrame::numbers) of a frame.
    pub fn place_of(&self, column: &str) -> Option<Range<usize>> {
        let at = self.columns.iter().position(|(name, _)| name == column)?;
        let begin: usize = self.columns[..at].iter().map(|(_, width)| width).sum();
        Some(begin..begin + self.columns[at].1)
    }

    /// Keeps frames as far apart as `fps` frames per second are: of every tick the frame nearest in
    /// time, each frame once. More than the recording has cannot be had.
    pub fn resample(&mut self, fps: f64) {
        let Some(first) = self.frames.first().map(|frame| frame.time) else { return };
        if self.rate().is_none_or(|rate| rate <= fps * 1.001) {
            return;
        }
        // Frames that fall to the same tick stand beside each other; the nearest of them stays.
        let tick = |index: usize| ((self.frames[index].time - first) * fps).round();
        let away = |index: usize| (self.frames[index].time - first - tick(index) / fps).abs();
        let mut kept: Vec<usize> = vec![0];
        for index in 1..self.frames.len() {
            match kept.last_mut() {
                Some(last) if tick(*last) == tick(index) => {
                    if away(index) < away(*last) {
                        *last = index;
                    }
                }
                _ => kept.push(index),
            }
        }
        // The boundary stays with the first kept frame at or after it.
        self.boundary = self.boundary.map(|old| kept.partition_point(|&index| index < old));
        self.frames = kept.iter().map(|&index| self.frames[index].clone()).collect();
        self.fps = Some(fps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(times: &[f64]) -> Recording {
        let pose = RigidPose::from_quaternion([1.0, 0.0, 0.0, 0.0], [0.0; 3]).expect("a pose");
        let frame = |(index, &time): (usize, &f64)| {
            let path = Path::new("v").into();
            RecordedFrame::new(time, pose, PictureSource::Video { path, frame: index as u64 })
        };
        Recording::new("a", "a", times.iter().enumerate().map(frame).collect())
    }

    #[test]
    fn resampling_takes_the_nearest_frames() {
        let times: Vec<f64> = (0..31).map(|frame| 5.0 + f64::from(frame) / 30.0).collect();
        let mut walk = recording(&times);
        walk.boundary = Some(20);
        assert!((walk.rate().expect("a rate") - 30.0).abs() < 1e-6);
        walk.resample(10.0);
        let kept: Vec<f64> = walk.frames.iter().map(|frame| (frame.time - 5.0) * 30.0).collect();
        assert!(kept.iter().enumerate().all(|(at, frame)| (frame - 3.0 * at as f64).abs() < 1e-6));
        assert_eq!((walk.frames.len(), walk.boundary), (11, Some(7)));
        walk.resample(25.0);
        assert_eq!(walk.frames.len(), 11, "frames are never made up");
    }

    #[test]
    fn a_pause_gives_no_frame_twice() {
        let mut walk = recording(&[0.0, 0.1, 0.2, 3.0, 3.1, 3.2]);
        walk.resample(5.0);
        let times: Vec<f64> = walk.frames.iter().map(|frame| frame.time).collect();
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
        assert_eq!(times.first().zip(times.last()), Some((&0.0, &3.2)));
    }
}

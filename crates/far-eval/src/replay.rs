//! Clips kept for the report: what each arm generated, what it recalled for that, and why.

use crate::arm::{Arm, Control};
use crate::encoded_clip::EncodedClip;
use crate::frame_quality::{FrameQuality, FrameValues, Truth};
use crate::pool_utility::PoolUtility;
use crate::prediction::Ask;
use crate::results::{RecalledFrame, Replay, ReplayStep};
use crate::spectrogram::heard;
use crate::utility::UtilityMeter;
use crate::{EvaluationPlan, Result, Rollout};
use far_data::{Dataset, Picture};
use far_memory::Recall;
use std::collections::{BTreeMap, BTreeSet};

impl Replay {
    /// A clip before any arm was added.
    pub(crate) fn new(clip: &EncodedClip, truths: &[Truth]) -> Self {
        let episode = clip.episode();
        let path = episode.poses().iter().map(|pose| {
            let [east, north, _] = pose.position;
            [east, north, pose.yaw()]
        });
        let recorded = |truth: &Truth| truth.raw.as_ref().unwrap_or(&truth.decoded).clone();
        Self {
            episode: episode.id(),
            boundary: episode.boundary(),
            path: path.collect(),
            frames: clip.frames()[1..=truths.len()].to_vec(),
            truth: truths.iter().map(recorded).collect(),
            decoded: truths.iter().map(|truth| truth.decoded.clone()).collect(),
            memories: BTreeMap::new(),
            sounds: BTreeMap::new(),
            arms: BTreeMap::new(),
        }
    }

    /// The frame that a step starts from: the first of the return is given.
    pub fn present(&self, step: usize) -> usize {
        step.checked_sub(1).map_or(self.boundary, |before| self.frames[before])
    }

    /// Adds what was heard at the present of each step and at every memory so far, if the dataset
    /// has sound.
    ///
    /// # Errors
    /// If the sound cannot be read.
    pub(crate) fn hear(&mut self, dataset: &Dataset) -> Result<()> {
        let presents = (0..self.frames.len()).map(|step| self.present(step));
        let frames: BTreeSet<usize> = presents.chain(self.memories.keys().copied()).collect();
        let frames: Vec<usize> = frames.into_iter().collect();
        let pictures = heard(dataset, self.episode, &frames)?.unwrap_or_default();
        self.sounds = frames.into_iter().zip(pictures).collect();
        Ok(())
    }

    /// Adds an arm's rollout, except the control `tokenizer`, which [`Replay::decoded`] already is.
    ///
    /// # Errors
    /// If the picture of a recalled frame cannot be read.
    pub(crate) fn add(
        &mut self,
        arm: &Arm,
        clip: &EncodedClip,
        quality: &FrameQuality<'_>,
        rollout: &Rollout,
        pictures: Vec<Picture>,
        values: &[FrameValues],
    ) -> Result<()> {
        if arm.is(Control::Tokenizer) {
            return Ok(());
        }
        let recalled = rollout.recalls.iter().flat_map(Recall::indices);
        let new: BTreeSet<usize> =
            recalled.filter(|frame| !self.memories.contains_key(frame)).collect();
        let new: Vec<usize> = new.into_iter().collect();
        let shown = quality.memories(clip, &new)?;
        self.memories.extend(new.into_iter().zip(shown));
        let steps = pictures.into_iter().zip(&rollout.recalls).zip(values);
        let steps = steps.map(|((picture, recall), values)| ReplayStep {
            picture,
            psnr: values[0].unwrap_or(f64::NAN),
            recalled: reasons(recall),
            weights: weights(recall),
        });
        self.arms.insert(arm.id().to_owned(), steps.collect());
        Ok(())
    }
}

impl Replay {
    /// Measures what was recalled, by the common world model and from the true present, so that the
    /// memories of all arms compare. One question per step, whose passes `progress` hears of.
    ///
    /// # Errors
    /// If the world model refuses a context.
    pub(crate) fn measure(
        &mut self,
        clip: &EncodedClip,
        meter: &UtilityMeter<'_>,
        plan: &EvaluationPlan,
        mut progress: impl FnMut(),
    ) -> Result<()> {
        for (step, query) in clip.steps(Some(self.frames.len())).into_iter().enumerate() {
            let ask = Ask::recorded(clip, query);
            let recalled = self.arms.values().flat_map(|steps| &steps[step].recalled);
            let besides = recalled.map(|memory| memory.frame);
            let measured = PoolUtility::measure(meter, plan, &ask, besides)?;
            for memory in self.arms.values_mut().flat_map(|steps| &mut steps[step].recalled) {
                memory.utility = measured.gain(memory.frame).map(|gain| gain as f32);
            }
            progress();
        }
        Ok(())
    }
}

fn weights(recall: &Recall) -> Vec<(String, f32)> {
    recall.cues().iter().cloned().zip(recall.weights().iter().copied()).collect()
}

fn reasons(recall: &Recall) -> Vec<RecalledFrame> {
    let number = |value: f32| value.is_finite().then_some(value);
    let frames = recall.iter().map(|memory| {
        let cues = memory.raw.iter().zip(memory.standardized);
        RecalledFrame {
            frame: memory.id.index(),
            score: number(memory.score),
            cues: cues.map(|(raw, standardized)| [number(*raw), number(*standardized)]).collect(),
            utility: None,
            repeats: memory.repeats.map(|id| (id.index(), memory.repeated)),
        }
    });
    frames.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::replay;
    use far_data::{
        DatasetDescription, DatasetWriter, EpisodeFacts, Frame, FrameImage, Phase, Split,
    };
    use far_memory::{MemoryId, Pose};
    use std::path::Path;

    /// Episode 7 of eight frames, each with a tone of its own in the left ear if there is sound.
    fn recording(folder: &Path, rate: Option<u32>) -> Dataset {
        let mut description = DatasetDescription::new("test", 10.0, [4, 4], [90.0, 90.0]);
        description.audio_rate = rate;
        let writer = DatasetWriter::create(folder, description).unwrap();
        let mut episode = writer.episode(7, EpisodeFacts::new("room", Split::Test, 0)).unwrap();
        for frame in 0..8usize {
            let pose = Pose::from_yaw_pitch([frame as f32, 0.0, 1.6], 0.0, 0.0);
            let phase = if frame < 4 { Phase::Explore } else { Phase::Return };
            let image = FrameImage::Pixels(Picture::filled(4, 4, [9; 3]));
            let mut row = Frame::new(frame as f64 / 10.0, pose, phase, image);
            let tone = |at: usize| [(0.1 * (frame + 1) as f32 * at as f32).sin(), 0.0];
            row.audio = (0..rate.map_or(0, |rate| rate as usize / 10)).map(tone).collect();
            episode.push(row).unwrap();
        }
        episode.finish().unwrap();
        writer.finish().unwrap();
        Dataset::open(folder).unwrap()
    }

    #[test]
    fn what_was_heard_is_kept_for_every_present_and_every_memory() {
        let folder = tempfile::tempdir().unwrap();
        let mut silent = replay();
        silent.hear(&recording(&folder.path().join("silent"), None)).unwrap();
        assert!(silent.sounds.is_empty());
        let mut heard = replay();
        heard.hear(&recording(&folder.path().join("loud"), Some(8000))).unwrap();
        // Steps lead from 4 to 5, to 6, to 7; memories are 1 to 3.
        assert_eq!(heard.sounds.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
        assert_eq!((heard.present(0), heard.present(2)), (4, 6));
        let pictures: BTreeSet<&[u8]> =
            heard.sounds.values().map(|picture| picture.pixels.as_slice()).collect();
        assert_eq!(pictures.len(), 6, "no two seconds sound alike");
    }

    #[test]
    fn reasons_are_those_of_the_recall() {
        let mut recall = Recall::new();
        recall.begin(&vec!["meta".to_owned(), "vision".to_owned()].into());
        recall.set_weight(0, 0.75);
        recall.set_weight(1, 0.25);
        recall.push(MemoryId(7), 1.5, Some(0), &[0.5, f32::NAN], &[2.0, 0.0]);
        let expected = RecalledFrame {
            frame: 7,
            score: Some(1.5),
            cues: vec![[Some(0.5), Some(2.0)], [None, Some(0.0)]],
            utility: None,
            repeats: None,
        };
        assert_eq!(reasons(&recall), [expected]);
        assert_eq!(weights(&recall), [("meta".to_owned(), 0.75), ("vision".to_owned(), 0.25)]);
    }
}

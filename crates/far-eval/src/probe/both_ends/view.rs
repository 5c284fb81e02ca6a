//! The both-ends probe as the report shows it.

use super::question::EndsQuestion;
use crate::Result;
use crate::encoded_clip::EncodedClip;
use crate::frame_quality::{FrameQuality, Truth};
use far_data::Picture;
use far_memory::Recall;
use std::collections::BTreeMap;

/// One trajectory: from one present and one noise each arm generated both ends of the corridor, and
/// a detector says at which of them the second agent is.
///
/// Files: `probes/both-ends-EPISODE.json` in the folder of the results, EPISODE in six digits, pictures
/// as base64 PNG, each stored once.
#[derive(Clone, Debug, PartialEq)]
pub struct BothEndsView {
    /// The episode.
    pub episode: u32,
    /// The present frame, from which the agent is out of view.
    pub current: usize,
    /// The present as it was recorded.
    pub present: Picture,
    /// The two ends.
    pub ends: [EndView; 2],
    /// Every memory frame that any arm recalled.
    pub memories: BTreeMap<usize, Picture>,
    /// What each arm generated, by end.
    pub arms: BTreeMap<String, [EndAnswer; 2]>,
}

/// One end of a corridor.
#[derive(Clone, Debug, PartialEq)]
pub struct EndView {
    /// The frame that looks at it.
    pub goal: usize,
    /// Whether the second agent is there.
    pub agent: bool,
    /// The truth as it was recorded.
    pub truth: Picture,
}

/// What an arm generated for one end.
#[derive(Clone, Debug, PartialEq)]
pub struct EndAnswer {
    /// The picture.
    pub picture: Picture,
    /// Whether the detector finds the agent in it.
    pub fires: bool,
    /// The memory frames that were recalled for it, best first.
    pub recalled: Vec<usize>,
}

impl BothEndsView {
    /// The trajectory of a clip before any arm was added; `None` if the tokenizer cannot decode.
    ///
    /// # Errors
    /// If a recorded frame cannot be read.
    pub(crate) fn new(
        ends: &EndsQuestion,
        clip: &EncodedClip,
        quality: &FrameQuality<'_>,
    ) -> Result<Option<Self>> {
        let [west, east] = ends.looks;
        let truths = quality.truths(clip, &[ends.current, west, east])?;
        let pictures = truths.into_iter().flatten();
        let mut pictures = pictures.map(|Truth { raw, decoded }| raw.unwrap_or(decoded));
        let (Some(present), Some(first), Some(second)) =
            (pictures.next(), pictures.next(), pictures.next())
        else {
            return Ok(None);
        };
        let end = |place: usize, truth| EndView {
            goal: ends.looks[place],
            agent: ends.there == Some(place),
            truth,
        };
        Ok(Some(Self {
            episode: clip.episode().id(),
            current: ends.current,
            present,
            ends: [end(0, first), end(1, second)],
            memories: BTreeMap::new(),
            arms: BTreeMap::new(),
        }))
    }

    /// Adds what an arm generated for each end: the latent, whether the detector fires, and what was
    /// recalled, which is nothing for arms without memory.
    ///
    /// # Errors
    /// If the picture of a recalled frame cannot be read.
    pub(crate) fn add(
        &mut self,
        arm: &str,
        clip: &EncodedClip,
        quality: &FrameQuality<'_>,
        answers: [(&[f32], bool); 2],
        recalls: &[Recall],
    ) -> Result<()> {
        let frames = |end: usize| recalls.get(end).into_iter().flat_map(Recall::indices);
        let recalled = [0, 1].map(|end| frames(end).collect::<Vec<_>>());
        let mut new = recalled.concat();
        new.retain(|frame| !self.memories.contains_key(frame));
        let shown = quality.memories(clip, &new)?;
        self.memories.extend(new.into_iter().zip(shown));
        let pictures = quality.pictures(&answers.map(|(latent, _)| latent)).unwrap_or_default();
        let Ok([first, second]) = <[Picture; 2]>::try_from(pictures) else { return Ok(()) };
        let [mine, other] = recalled;
        let answers = [
            EndAnswer { picture: first, fires: answers[0].1, recalled: mine },
            EndAnswer { picture: second, fires: answers[1].1, recalled: other },
        ];
        self.arms.insert(arm.to_owned(), answers);
        Ok(())
    }

    /// Whether the detector says of one end what is true there.
    pub fn is_right(&self, end: usize, answer: &EndAnswer) -> bool {
        answer.fires == self.ends[end].agent
    }
}

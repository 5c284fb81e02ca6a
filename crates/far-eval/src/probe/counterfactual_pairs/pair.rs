//! One counterfactual pair: the same present, the same action, another history.
//!
//! Two episodes differ in one interaction, so that what they record is the same from the return on
//! until a container opens. From the last frame before it opens, with the same noise and
//! each with its own memory, an arm predicts the first view inside. It is right when, on a crop around
//! the difference of the two truths, each prediction is nearer its own truth than the other's.

use super::view::{CounterfactualAnswer, CounterfactualView};
use crate::Result;
use crate::encoded_clip::EncodedClip;
use crate::frame_quality::{FrameQuality, Truth};
use crate::plan::EvaluationPlan;
use crate::prediction::{Ask, Predictor};
use crate::probe::crop::Crop;
use far_data::{Dataset, Divergence, Picture};
use far_memory::Recall;
use far_model::EncodedDataset;
use std::collections::BTreeMap;

/// The role, in a dataset's index, of the episode with the interaction.
const FACTUAL: &str = "factual";

/// One pair of episodes.
pub struct CounterfactualPair {
    clips: [EncodedClip; 2],
    /// From the last common frame to the reveal.
    frames: [usize; 2],
    /// The memories that the two histories do not share.
    telling: Vec<usize>,
    crop: Crop,
    present: Picture,
    truths: [Picture; 2],
}

/// What an arm predicted of a pair, and whether each was nearer its own truth.
pub struct PairAnswer {
    recalls: [Recall; 2],
    predictions: [Picture; 2],
    right: [bool; 2],
    distinguished: [bool; 2],
}

impl PairAnswer {
    /// Whether on both sides a memory was recalled that the other history has otherwise; `None` where
    /// nothing was recalled at all.
    pub fn is_told(&self) -> Option<bool> {
        let remembers = self.recalls.iter().any(|recall| !recall.is_empty());
        remembers.then_some(self.distinguished == [true; 2])
    }

    /// Whether both histories were distinguished.
    pub fn is_right(&self) -> bool {
        self.right == [true; 2]
    }
}

impl CounterfactualPair {
    /// The pairs of which both episodes are among `episodes`, at most `most`, evenly spread: first the
    /// episode with the interaction, then the one without.
    ///
    /// # Errors
    /// If an episode is not in the dataset's index.
    pub fn find(dataset: &Dataset, episodes: &[u32], most: usize) -> Result<Vec<[u32; 2]>> {
        let mut pairs = Vec::new();
        for &id in episodes {
            let pair = dataset.summary(id)?.facts.pair;
            let partner = pair.filter(|pair| pair.role == FACTUAL).map(|pair| pair.episode);
            pairs.extend(partner.filter(|other| episodes.contains(other)).map(|other| [id, other]));
        }
        let kept = pairs.len().min(most);
        Ok((0..kept).map(|place| pairs[place * pairs.len() / kept]).collect())
    }

    /// Opens a pair; `None` if the two never look different, or only from the beginning of the return,
    /// or if the tokenizer cannot decode.
    ///
    /// # Errors
    /// If an episode cannot be read.
    pub fn open(
        dataset: &EncodedDataset,
        ids: [u32; 2],
        plan: &EvaluationPlan,
        quality: &FrameQuality<'_>,
    ) -> Result<Option<Self>> {
        let [first, second] = ids.map(|id| EncodedClip::open(dataset, id, &plan.walk));
        let (Some(first), Some(second)) = (first?, second?) else { return Ok(None) };
        let [factual, other] = ids.map(|id| dataset.dataset().episode(id));
        let (factual, other) = (factual?, other?);
        let Some(divergence) = Divergence::of(&factual, &other) else { return Ok(None) };
        let frames = [divergence.current, divergence.goal];
        let clips = [first, second];
        let [seen, other] = [0, 1].map(|side| quality.truths(&clips[side], &frames));
        let (Some(mut seen), Some(mut other)) = (seen?, other?) else { return Ok(None) };
        let picture = |truths: &mut Vec<Truth>| {
            let truth = truths.pop().expect("two frames were asked for");
            truth.raw.unwrap_or(truth.decoded)
        };
        let truths = [picture(&mut seen), picture(&mut other)];
        let present = picture(&mut seen);
        let crop = Crop::of_difference(&truths[0], &truths[1]);
        let telling = divergence.remembered;
        Ok(crop.map(|crop| Self { clips, frames, telling, crop, present, truths }))
    }

    /// What an arm predicts of each pair.
    ///
    /// # Errors
    /// If a policy or the world model refuses its input, or the distance a crop.
    pub fn answer(
        pairs: &[Self],
        predictor: &Predictor<'_>,
        quality: &FrameQuality<'_>,
    ) -> Result<Vec<PairAnswer>> {
        let asks: Vec<Ask<'_>> = pairs.iter().flat_map(Self::asks).collect();
        let recalls = predictor.recall(&asks)?;
        // Both histories get the noise of the first, so that memory is all that differs.
        let firsts: Vec<Ask<'_>> =
            asks.chunks_exact(2).flat_map(|pair| [pair[0].clone(), pair[0].clone()]).collect();
        let noise = predictor.noise(&firsts, |ask| ask.query.goal());
        let states: Vec<Vec<f32>> = asks.iter().map(|ask| ask.recorded_state().to_vec()).collect();
        let latents = predictor.imagine(&asks, &recalls, &states, &noise)?.latents;
        let frames: Vec<&[f32]> = latents.chunks(latents.len() / asks.len().max(1)).collect();
        let mut pictures = quality.pictures(&frames).unwrap_or_default().into_iter();
        let mut recalls = recalls.into_iter();
        let mut answers = Vec::with_capacity(pairs.len());
        for pair in pairs {
            let (Some(first), Some(second)) = (pictures.next(), pictures.next()) else { break };
            let (Some(mine), Some(other)) = (recalls.next(), recalls.next()) else { break };
            let predictions = [first, second];
            let right = [
                pair.is_nearer(&predictions[0], 0, quality)?,
                pair.is_nearer(&predictions[1], 1, quality)?,
            ];
            let recalls = [mine, other];
            let tells = |recall: &Recall| {
                recall.ids().any(|id| pair.telling.binary_search(&id.index()).is_ok())
            };
            let distinguished = recalls.each_ref().map(tells);
            answers.push(PairAnswer { recalls, predictions, right, distinguished });
        }
        Ok(answers)
    }

    fn asks(&self) -> [Ask<'_>; 2] {
        let [now, goal] = self.frames;
        self.clips.each_ref().map(|clip| Ask::recorded(clip, clip.query(now, goal)))
    }

    /// Whether a prediction is nearer the truth of its side than that of the other; a tie is not.
    fn is_nearer(
        &self,
        picture: &Picture,
        side: usize,
        quality: &FrameQuality<'_>,
    ) -> Result<bool> {
        let distance = quality.crop_distance();
        let predicted = self.crop.cut(picture);
        let [own, other] = [side, 1 - side]
            .map(|side| distance.of(&self.crop.cut(&self.truths[side]), &predicted));
        Ok(own? < other?)
    }

    /// The pair as the report shows it, before any arm was added.
    pub fn view(&self) -> CounterfactualView {
        CounterfactualView {
            episodes: self.clips.each_ref().map(|clip| clip.episode().id()),
            current: self.frames[0],
            goal: self.frames[1],
            crop: self.crop.edges,
            present: self.present.clone(),
            truths: self.truths.clone(),
            memories: [BTreeMap::new(), BTreeMap::new()],
            arms: BTreeMap::new(),
        }
    }

    /// Adds an arm's answer to the view of this pair.
    ///
    /// # Errors
    /// If the picture of a recalled frame cannot be read.
    pub fn show(
        &self,
        view: &mut CounterfactualView,
        arm: &str,
        answer: PairAnswer,
        quality: &FrameQuality<'_>,
    ) -> Result<()> {
        let mut recalled = [Vec::new(), Vec::new()];
        for (side, recall) in answer.recalls.iter().enumerate() {
            recalled[side] = recall.indices().collect();
            let memories = &mut view.memories[side];
            let known = |frame: &&usize| !memories.contains_key(*frame);
            let new: Vec<usize> = recalled[side].iter().filter(known).copied().collect();
            let pictures = quality.memories(&self.clips[side], &new)?;
            memories.extend(new.into_iter().zip(pictures));
        }
        let PairAnswer { predictions, right, .. } = answer;
        let answer = CounterfactualAnswer { predictions, recalled, right };
        view.arms.insert(arm.to_owned(), answer);
        Ok(())
    }
}

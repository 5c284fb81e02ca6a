//! State accuracy: where something was moved, does the rollout show how it is now, or how it was?
//!
//! A changed state is a return frame at a canonical viewpoint that shows what an interaction changed
//! and for which memory holds an outdated frame from the same viewpoint. It is right when
//! d(truth, rollout) < d(truth, outdated) on a crop around what changed, with d LPIPS; a tie is wrong.
//! Each viewpoint of a return counts once, at the first frame generated there: the agent stands still,
//! so further frames would only say the same again.
//!
//! That is the paper's question, and a rollout that shows the outdated state answers it by luck: its distance
//! from the truth is about that of the outdated frame, a little more or a little less. So a second,
//! harder question asks whether it also is nearer to the truth than to the outdated frame. What pasting
//! the outdated frame scores in the first is counted for the control `tokenizer`.
//!
//! Beside it stands whether the present state was recalled at all: whether each thing that changed is
//! seen, as it is now or being made so, in one of the memories that this frame was generated from. What
//! was recalled and is still shown as it was, the world model did not read.

use super::crop::{Crop, CropDistance};
use crate::Result;
use crate::encoded_clip::EncodedClip;
use crate::frame_quality::{FrameQuality, Truth};
use crate::tally::Tally;
use far_data::{ChangeKind, Dataset, Picture, Signal};
use far_memory::Recall;
use rayon::prelude::*;
use std::collections::BTreeSet;

/// How large a change is, by the distance of truth and outdated frame.
const MAGNITUDES: [&str; 3] = ["small", "medium", "large"];

/// The kinds of changes that are told apart.
const KINDS: [ChangeKind; 2] = [ChangeKind::Surface, ChangeKind::Container];

/// The changed states of one clip.
pub(crate) struct ChangedStates {
    states: Vec<ChangedState>,
}

/// One changed state.
struct ChangedState {
    /// Its place among the generated frames.
    step: usize,
    kind: ChangeKind,
    crop: Crop,
    /// The crops of the true and of the outdated frame.
    truth: Picture,
    outdated: Picture,
    /// How far apart they are.
    magnitude: f64,
    /// How far from the true frame the outdated one is once the tokenizer has decoded it.
    pasted: f64,
    /// For each thing that changed, the memories that show it as it is now.
    witnesses: Vec<Vec<usize>>,
}

impl ChangedStates {
    /// Finds the changed states among the frames of a rollout; `truths` are those frames. A dataset
    /// without changes has none.
    ///
    /// # Errors
    /// If a frame or a mask cannot be read, or the distance refuses a crop.
    pub fn of(
        dataset: &Dataset,
        clip: &EncodedClip,
        truths: &[Truth],
        quality: &FrameQuality<'_>,
    ) -> Result<Self> {
        let mut states = Vec::new();
        if !dataset.description().has(Signal::Change) {
            return Ok(Self { states });
        }
        let episode = dataset.episode(clip.episode().id())?;
        let mut viewpoints = BTreeSet::new();
        for (step, (&frame, truth)) in clip.frames()[1..].iter().zip(truths).enumerate() {
            if !episode.is_changed(frame) || viewpoints.contains(&episode.pose_key(frame)) {
                continue;
            }
            let Some(change) = episode.change(frame)? else { continue };
            let truth = truth.raw.as_ref().unwrap_or(&truth.decoded);
            let crop = Crop::of_mask(&change.mask, [truth.width, truth.height]);
            let (Some(stale), Some(crop)) = (change.stale_frame, crop) else { continue };
            viewpoints.insert(episode.pose_key(frame));
            let stale = quality.truths(clip, &[stale as usize])?.into_iter().flatten().next();
            let Truth { raw, decoded } = stale.expect("who decodes the truth decodes every frame");
            let (truth, pasted) = (crop.cut(truth), crop.cut(&decoded));
            let outdated = crop.cut(raw.as_ref().unwrap_or(&decoded));
            let distance = quality.crop_distance();
            states.push(ChangedState {
                step,
                kind: change.kind,
                crop,
                magnitude: distance.of(&truth, &outdated)?,
                pasted: distance.of(&truth, &pasted)?,
                truth,
                outdated,
                witnesses: episode.witnesses(frame),
            });
        }
        Ok(Self { states })
    }

    /// Counts how many of them an arm's rollout shows as they are, and for how many it recalled them.
    ///
    /// # Errors
    /// If the distance refuses a crop.
    pub fn tally(
        &self,
        tally: &mut Tally,
        arm: &str,
        clip: usize,
        (pictures, recalls): (&[Picture], &[Recall]),
        distance: CropDistance<'_>,
    ) -> Result<()> {
        let answers = self.states.par_iter().map(|state| {
            let predicted = state.crop.cut(&pictures[state.step]);
            let away = distance.of(&state.truth, &predicted)?;
            let right = away < state.magnitude;
            Ok((right, right && away < distance.of(&state.outdated, &predicted)?))
        });
        let answers: Vec<(bool, bool)> = answers.collect::<Result<_>>()?;
        let (right, now): (Vec<bool>, Vec<bool>) = answers.into_iter().unzip();
        let known = |state: &ChangedState| {
            let recalled: Vec<usize> = recalls[state.step].ids().map(|id| id.index()).collect();
            let seen = |frames: &Vec<usize>| frames.iter().any(|frame| recalled.contains(frame));
            state.witnesses.iter().all(seen)
        };
        let known: Vec<bool> = self.states.iter().map(known).collect();
        let remembers = recalls.iter().any(|recall| !recall.is_empty());
        for kind in KINDS {
            let name = format!("state_{}", kind.name());
            let of_kind = |state: &ChangedState| state.kind == kind;
            if remembers {
                self.share(tally, arm, clip, &format!("{name}_recalled"), &known, of_kind);
            }
            self.share(tally, arm, clip, &distance.metric(&name), &right, of_kind);
            let which = distance.metric(&format!("{name}_now"));
            self.share(tally, arm, clip, &which, &now, of_kind);
            for (stratum, magnitude) in MAGNITUDES.into_iter().enumerate() {
                let name = format!("{name}_{magnitude}");
                let among = |state: &ChangedState| {
                    let bounds = distance.magnitudes();
                    let place = bounds.iter().filter(|bound| state.magnitude >= **bound).count();
                    state.kind == kind && place == stratum
                };
                self.share(tally, arm, clip, &distance.metric(&name), &right, among);
            }
        }
        Ok(())
    }

    /// Counts how many outdated frames would be right themselves, once the tokenizer has decoded them.
    pub fn tally_outdated(
        &self,
        tally: &mut Tally,
        arm: &str,
        clip: usize,
        distance: CropDistance<'_>,
    ) {
        let lucky = |state: &ChangedState| state.pasted < state.magnitude;
        let lucky: Vec<bool> = self.states.iter().map(lucky).collect();
        for kind in KINDS {
            let name = distance.metric(&format!("state_{}_outdated", kind.name()));
            self.share(tally, arm, clip, &name, &lucky, |state| state.kind == kind);
        }
    }

    /// The share of right ones among some states; a clip without any says nothing.
    fn share(
        &self,
        tally: &mut Tally,
        arm: &str,
        clip: usize,
        metric: &str,
        right: &[bool],
        among: impl Fn(&ChangedState) -> bool,
    ) {
        let chosen = self.states.iter().zip(right).filter(|(state, _)| among(state));
        let (mut hits, mut all) = (0.0, 0.0);
        for (_, right) in chosen {
            hits += f64::from(u8::from(*right));
            all += 1.0;
        }
        if all > 0.0 {
            tally.share(arm, metric, clip, hits, all);
        }
    }
}

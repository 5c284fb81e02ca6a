//! State accuracy: where something was moved, does the rollout show how it is now, or how it was?
//!
//! A changed state is a return frame at a canonical viewpoint that shows what an interaction changed
//! and for which memory holds an outdated frame from the same viewpoint. It is right when
//! d(truth, rollout) < d(truth, outdated) on a crop around what changed, with d LPIPS; a tie is wrong.
//! Each viewpoint of a return counts once, at the first frame generated there: the agent stands still,
//! so further frames would only say the same again.
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
    /// The crop of the true frame.
    truth: Picture,
    /// How far the outdated frame is from it.
    magnitude: f64,
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
            let stale = quality.memories(clip, &[stale as usize])?;
            let truth = crop.cut(truth);
            let magnitude = quality.crop_distance().of(&truth, &crop.cut(&stale[0]))?;
            let (kind, witnesses) = (change.kind, episode.witnesses(frame));
            states.push(ChangedState { step, kind, crop, truth, magnitude, witnesses });
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
        let shown = self.states.par_iter().map(|state| {
            let predicted = state.crop.cut(&pictures[state.step]);
            Ok(distance.of(&state.truth, &predicted)? < state.magnitude)
        });
        let right: Vec<bool> = shown.collect::<Result<_>>()?;
        let known = |state: &ChangedState| {
            let recalled: Vec<usize> = recalls[state.step].ids().map(|id| id.index()).collect();
            let seen = |frames: &Vec<usize>| frames.iter().any(|frame| recalled.contains(frame));
            state.witnesses.iter().all(seen)
        };
        let known: Vec<bool> = self.states.iter().map(known).collect();
        let remembers = recalls.iter().any(|recall| !recall.is_empty());
        for kind in [ChangeKind::Surface, ChangeKind::Container] {
            let name = format!("state_{}", kind.name());
            let of_kind = |state: &ChangedState| state.kind == kind;
            if remembers {
                self.share(tally, arm, clip, &format!("{name}_recalled"), &known, of_kind);
            }
            self.share(tally, arm, clip, &distance.metric(&name), &right, of_kind);
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

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
//! A rollout comes out of the tokenizer's decoder and the recorded frames do not, so part of what lies
//! between them is the decoder's. The same question is therefore asked of decoded frames alone:
//! d(decoded truth, rollout) < d(decoded truth, decoded outdated frame), in which pasting the outdated
//! frame is a tie, and so wrong.
//!
//! Beside it stands whether the present state was recalled at all: whether each thing that changed is
//! seen, as it is now or being made so, in one of the memories that this frame was generated from. What
//! was recalled and is still shown as it was, the world model did not read.

use super::crop::{Crop, CropDistance};
use super::{ClipGroup, Measured, Observed, Probe};
use crate::arm::Control;
use crate::encoded_clip::EncodedClip;
use crate::evaluation::EvaluationContext;
use crate::frame_quality::{FrameQuality, Truth};
use crate::{Metric, MetricTable, Result};
use far_data::{ChangeKind, Dataset, Picture, Signal};
use far_memory::Recall;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// The kinds of changes that are distinguished: their name in tables, what is asked of them.
const KINDS: [(ChangeKind, &str, &str); 2] = [
    (ChangeKind::Surface, "changed surfaces", "things moved in plain sight"),
    (ChangeKind::Container, "changed containers", "insides of containers"),
];

/// How large a change is, by the distance of truth and outdated frame.
const MAGNITUDES: [&str; 3] = ["small", "medium", "large"];

/// The figures of each kind, in the order in which they are shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Figure {
    Right,
    Decoded,
    Now,
    Outdated,
    Recalled,
    /// The right ones of one of the [`MAGNITUDES`].
    OfMagnitude(usize),
}

impl Figure {
    /// How it is shown, of one of the [`KINDS`].
    fn metric(self, kind: usize, distance: CropDistance<'_>) -> Metric {
        let (kind, name, things) = KINDS[kind];
        let detail = |part: &str, note: &str| {
            Metric::share(format!("state_{}_{part}", kind.name()), format!("{name}, {part}"))
                .in_table(MetricTable::Detail)
                .noted(format!("{things}: {RIGHT}; {note}"))
        };
        match self {
            Self::Right => {
                let metric = Metric::share(format!("state_{}", kind.name()), name).titled(name);
                distance.measuring(metric.noted(format!("{things}: {RIGHT}")))
            }
            Self::Decoded => {
                let note = "all three as the tokenizer decodes them";
                distance.measuring(detail("decoded", note).in_table(MetricTable::Probe))
            }
            Self::Now => distance
                .measuring(detail("now", "and nearer to how they are than to how they were")),
            Self::Outdated => distance.measuring(detail(
                "outdated",
                "here of the outdated view itself, encoded and decoded: what luck scores",
            )),
            Self::Recalled => {
                detail("recalled", "here whether memories that show them so were recalled")
            }
            Self::OfMagnitude(magnitude) => {
                let part = MAGNITUDES[magnitude];
                let metric = detail(part, &format!("{part} changes, about a third of all"));
                distance.measuring(metric.in_table(MetricTable::Size))
            }
        }
    }
}

/// What makes a state right.
const RIGHT: &str = "the rollout is nearer to how they are than the outdated view is";

/// The probe. It needs changes that were recorded, and frames that can be decoded.
#[derive(Default)]
pub struct ChangedStates {
    /// The changed states of each clip of the group under way.
    clips: Vec<ClipStates>,
    /// By place among the [`KINDS`].
    measured: BTreeMap<(usize, Figure), Measured>,
}

impl ChangedStates {
    /// Counts how many of the states of each kind are `right`; a clip without any says nothing.
    fn count(
        &mut self,
        (figure, distance): (Figure, CropDistance<'_>),
        seen: &Observed<'_>,
        right: &[bool],
        among: impl Fn(&ChangedState) -> bool,
    ) {
        for (place, (kind, ..)) in KINDS.iter().enumerate() {
            let states = self.clips[seen.place].states.iter().zip(right);
            let chosen = states.filter(|(state, _)| state.kind == *kind && among(state));
            let chosen: Vec<bool> = chosen.map(|(_, right)| *right).collect();
            if !chosen.is_empty() {
                let hits = chosen.iter().filter(|right| **right).count();
                let measured = self.measured.entry((place, figure));
                let new = || Measured::new(figure.metric(place, distance));
                measured.or_insert_with(new).share(seen.arm.id(), seen.row, hits, chosen.len());
            }
        }
    }
}

impl Probe for ChangedStates {
    fn prepare(
        &mut self,
        context: &EvaluationContext<'_>,
        group: &ClipGroup,
        truths: &[Vec<Truth>],
    ) -> Result<()> {
        let dataset = context.dataset.dataset();
        let clips = group.clips.iter().zip(truths);
        let clips =
            clips.map(|(clip, truths)| ClipStates::of(dataset, clip, truths, context.quality));
        self.clips = clips.collect::<Result<_>>()?;
        Ok(())
    }

    fn observe(&mut self, context: &EvaluationContext<'_>, seen: &Observed<'_>) -> Result<()> {
        let Some(pictures) = seen.pictures else { return Ok(()) };
        let distance = context.quality.crop_distance();
        let states = &self.clips[seen.place];
        let Shown { right, decoded, now } = states.shown(pictures, distance)?;
        let recalled = states.recalled(seen.recalls);
        let lucky = states.lucky();
        let all = |_: &ChangedState| true;
        self.count((Figure::Right, distance), seen, &right, all);
        self.count((Figure::Decoded, distance), seen, &decoded, all);
        self.count((Figure::Now, distance), seen, &now, all);
        if seen.recalls.iter().any(|recall| !recall.is_empty()) {
            self.count((Figure::Recalled, distance), seen, &recalled, all);
        }
        for magnitude in 0..MAGNITUDES.len() {
            let among = |state: &ChangedState| {
                let bounds = distance.magnitudes();
                bounds.iter().filter(|bound| state.magnitude >= **bound).count() == magnitude
            };
            self.count((Figure::OfMagnitude(magnitude), distance), seen, &right, among);
        }
        if seen.arm.is(Control::Tokenizer) {
            self.count((Figure::Outdated, distance), seen, &lucky, all);
        }
        Ok(())
    }

    fn finish(&mut self, _: &EvaluationContext<'_>) -> Result<Vec<Measured>> {
        Ok(std::mem::take(&mut self.measured).into_values().collect())
    }
}

/// Of which changed states a rollout shows how they are: by recorded frames, by decoded ones, and
/// nearer to the recorded truth than to the outdated frame.
struct Shown {
    right: Vec<bool>,
    decoded: Vec<bool>,
    now: Vec<bool>,
}

/// The changed states of one clip.
struct ClipStates {
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
    /// The crop of the true frame once the tokenizer has decoded it.
    decoded: Picture,
    /// How far apart both are then.
    decoded_magnitude: f64,
    /// For each thing that changed, the memories that show it as it is now.
    witnesses: Vec<Vec<usize>>,
}

impl ClipStates {
    /// Finds the changed states among the frames of a rollout; `truths` are those frames. A dataset
    /// without changes has none.
    ///
    /// # Errors
    /// If a frame or a mask cannot be read, or the distance refuses a crop.
    fn of(
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
            let (truth, decoded_truth) =
                (truth.raw.as_ref().unwrap_or(&truth.decoded), &truth.decoded);
            let crop = Crop::of_mask(&change.mask, [truth.width, truth.height]);
            let (Some(stale), Some(crop)) = (change.stale_frame, crop) else { continue };
            viewpoints.insert(episode.pose_key(frame));
            let stale = quality.truths(clip, &[stale as usize])?.into_iter().flatten().next();
            let Truth { raw, decoded } = stale.expect("who decodes the truth decodes every frame");
            let (truth, pasted) = (crop.cut(truth), crop.cut(&decoded));
            let outdated = crop.cut(raw.as_ref().unwrap_or(&decoded));
            let decoded = crop.cut(decoded_truth);
            let distance = quality.crop_distance();
            states.push(ChangedState {
                step,
                kind: change.kind,
                crop,
                magnitude: distance.of(&truth, &outdated)?,
                pasted: distance.of(&truth, &pasted)?,
                decoded_magnitude: distance.of(&decoded, &pasted)?,
                decoded,
                truth,
                outdated,
                witnesses: episode.witnesses(frame),
            });
        }
        Ok(Self { states })
    }

    /// Of which states a rollout shows how they are.
    ///
    /// # Errors
    /// If the distance refuses a crop.
    fn shown(&self, pictures: &[Picture], distance: CropDistance<'_>) -> Result<Shown> {
        let answers = self.states.par_iter().map(|state| {
            let predicted = state.crop.cut(&pictures[state.step]);
            let away = distance.of(&state.truth, &predicted)?;
            let right = away < state.magnitude;
            let decoded = distance.of(&state.decoded, &predicted)? < state.decoded_magnitude;
            Ok([right, decoded, right && away < distance.of(&state.outdated, &predicted)?])
        });
        let answers: Vec<[bool; 3]> = answers.collect::<Result<_>>()?;
        let part = |part: usize| answers.iter().map(|answer| answer[part]).collect();
        Ok(Shown { right: part(0), decoded: part(1), now: part(2) })
    }

    /// For which states everything that changed was recalled as it is.
    fn recalled(&self, recalls: &[Recall]) -> Vec<bool> {
        let known = |state: &ChangedState| {
            let recalled: Vec<usize> = recalls[state.step].indices().collect();
            let seen = |frames: &Vec<usize>| frames.iter().any(|frame| recalled.contains(frame));
            state.witnesses.iter().all(seen)
        };
        self.states.iter().map(known).collect()
    }

    /// Of which states the outdated frame itself would be right, once the tokenizer has decoded it.
    fn lucky(&self) -> Vec<bool> {
        self.states.iter().map(|state| state.pasted < state.magnitude).collect()
    }
}

//! All arms on the same clips, questions and noise.

mod context;
mod session;
#[cfg(test)]
mod tests;

pub use context::EvaluationContext;

use crate::arm::{Arm, ArmDescription};
use crate::cost::Cost;
use crate::encoded_clip::EncodedClip;
use crate::frame_quality::{FrameQuality, Perceptual};
use crate::prediction::Predictor;
use crate::probe::{ClipGroup, Probe, Probes};
use crate::scores::{Protocol, Scores};
use crate::tally::{Pooled, Tally};
use crate::{Error, EvaluationPlan, Result, Results, Shown};
use far_data::EvaluationClip;
use far_model::{EncodedDataset, WorldModel};
use session::Session;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// How far an evaluation is, in forward passes of a world model (see [`Cost`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Passes made.
    pub done: u64,
    /// Passes due.
    pub total: u64,
}

/// Everything that is judged, and by what.
pub struct Evaluation<'a> {
    /// The dataset with the tokenizer and the encoders of every arm.
    pub dataset: &'a EncodedDataset,
    /// Episodes to take clips from.
    pub episodes: &'a [u32],
    /// The common world model: it measures recall quality and generates for every arm that has no
    /// world model of its own.
    pub judge: &'a dyn WorldModel,
    /// The arms, each with a name of its own.
    pub arms: &'a [Arm],
    /// What every arm gets alike.
    pub plan: &'a EvaluationPlan,
    /// LPIPS and DreamSim, if their weights are present.
    pub perceptual: Perceptual<'a>,
    /// What the built-in probes need besides.
    pub probes: Probes<'a>,
    /// What the world models run on, for the results.
    pub device: &'a str,
}

impl Evaluation<'_> {
    /// Judges every arm, with the built-in probes. Questions give one-step PSNR and recall quality,
    /// rollouts the rest; where the tokenizer cannot decode, only recall quality is left.
    ///
    /// `none` and `tokenizer` recall nothing and `copy` what another arm does, so they have no recall
    /// quality; `tokenizer` is its own reference, so it has no value but `psnr_raw`.
    ///
    /// # Errors
    /// If the plan or the arms make no sense, there is no clip, or a network or a policy refuses
    /// its input.
    pub fn run(&self, progress: &mut dyn FnMut(Progress)) -> Result<(Results, Shown)> {
        self.run_with(self.probes.all(), progress)
    }

    /// Judges every arm with these probes instead of the built-in ones, which [`Probes::all`] gives.
    ///
    /// # Errors
    /// As [`Evaluation::run`].
    pub fn run_with(
        &self,
        probes: Vec<Box<dyn Probe + '_>>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Results, Shown)> {
        self.plan.check()?;
        let clips = self.clips()?;
        let (predictors, quality) =
            (self.predictors()?, FrameQuality::new(self.dataset, self.perceptual));
        let state = RefCell::new((Progress { done: 0, total: 0 }, progress));
        let advance = |passes: u64| {
            let mut state = state.borrow_mut();
            let (progress, listener) = &mut *state;
            progress.done += passes;
            listener(*progress);
        };
        let context = EvaluationContext {
            dataset: self.dataset,
            episodes: self.episodes,
            judge: self.judge,
            arms: self.arms,
            plan: self.plan,
            predictors: &predictors,
            quality: &quality,
            progress: &advance,
        };
        let tally = Tally::new(self.arms.iter().map(Arm::id)).with_tiers(self.tiers(&clips)?);
        let mut session = Session { context, tally, probes, shown: Shown::default() };
        let asked = session.begin()?;
        state.borrow_mut().0.total = self.total(&clips)? + asked;
        for (number, ids) in clips.chunks(self.plan.batch).enumerate() {
            let opened = ids.iter().map(|id| EncodedClip::open(self.dataset, *id, &self.plan.walk));
            let clips = opened.filter_map(Result::transpose).collect::<Result<_>>()?;
            let group = ClipGroup { first: number * self.plan.batch, clips };
            session.answer(&group)?;
            if self.plan.steps != Some(0) {
                session.roll(&group)?;
            }
            session.ask(&group)?;
        }
        let (tally, mut shown) = session.finish()?;
        let results = self.results(clips.len(), &tally);
        shown.scores = self.scores(clips, &results, &tally);
        Ok((results, shown))
    }

    fn predictors(&self) -> Result<Vec<Predictor<'_>>> {
        let mut ids = BTreeSet::new();
        if let Some(arm) = self.arms.iter().find(|arm| !ids.insert(arm.id())) {
            return Err(Error::Setting {
                setting: format!("arm {}", arm.id()),
                reason: "two arms have this name".to_owned(),
            });
        }
        let encoders = self.dataset.encoders();
        let arms = self.arms.iter();
        arms.map(|arm| Predictor::new(arm, self.arms, self.judge, encoders, self.plan)).collect()
    }

    /// Episodes with a clip, at most as many as planned, evenly spread.
    fn clips(&self) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        for id in self.episodes {
            let clip = EvaluationClip::new(self.dataset.dataset(), *id, &self.plan.walk)?;
            ids.extend(clip.map(|clip| clip.episode));
        }
        if ids.is_empty() {
            let reason = "no episode has explore frames and a return to generate".to_owned();
            return Err(Error::Nothing(reason));
        }
        let kept = ids.len().min(self.plan.clips.unwrap_or(usize::MAX));
        Ok((0..kept).map(|place| ids[place * ids.len() / kept]).collect())
    }

    /// How far the return of each clip leads, as the dataset sorts them.
    fn tiers(&self, clips: &[u32]) -> Result<Vec<Option<u32>>> {
        let dataset = self.dataset.dataset();
        clips.iter().map(|id| Ok(dataset.summary(*id)?.facts.tier)).collect()
    }

    fn total(&self, episodes: &[u32]) -> Result<u64> {
        let (dataset, cost) = (self.dataset.dataset(), Cost { plan: self.plan });
        let mut total = 0;
        for (number, id) in episodes.iter().enumerate() {
            let (frames, boundary) = dataset.lengths(*id)?;
            let questions = self.plan.questions.min((frames - boundary) as usize - 1);
            if let Some(clip) = EvaluationClip::new(dataset, *id, &self.plan.walk)? {
                total += cost.clip(self.arms, &clip, questions);
                total += if number < self.plan.replays { cost.replay(&clip) } else { 0 };
            }
        }
        Ok(total)
    }

    fn results(&self, clips: usize, tally: &Tally) -> Results {
        let own = self.arms.iter().any(|arm| arm.model().is_some());
        let pooled = Pooled::new(vec![tally], self.plan.seed);
        // Several arms may be fit to lead; a comparison is about one.
        let leading = self.arms.iter().position(Arm::is_leading);
        let described = self.arms.iter().enumerate().map(|(place, arm)| {
            let leads = leading == Some(place);
            (arm.id().to_owned(), ArmDescription { leads, ..arm.description() })
        });
        Results {
            corpus: self.dataset.dataset().description().corpus.clone(),
            clips,
            seed: self.plan.seed,
            seeds: Vec::new(),
            left_out: BTreeMap::new(),
            device: self.device.to_owned(),
            train_seconds: None,
            judge: if own { "own" } else { "common" }.to_owned(),
            slots: self.plan.slots,
            descriptions: tally.descriptions(),
            arm_descriptions: described.collect(),
            arms: pooled.arms(),
            by_seed: BTreeMap::new(),
            paired: pooled.paired(),
            curves: pooled.curves(),
        }
    }

    /// What each arm scored, clip by clip.
    fn scores(&self, episodes: Vec<u32>, results: &Results, tally: &Tally) -> Vec<Scores> {
        let description = self.dataset.dataset().description();
        let generator = &description.generator;
        let [width, height] = description.resolution;
        let protocol = Protocol {
            seed: self.plan.seed,
            dataset: format!(
                "{} {} by {} {} of seed {} with {} scenes at {width} × {height}",
                description.corpus,
                description.variant,
                generator.name,
                generator.version,
                generator.seed,
                generator.scenes.map_or("its".to_owned(), |scenes| scenes.to_string()),
            ),
            corpus: results.corpus.clone(),
            episodes,
            judge: results.judge.clone(),
            slots: results.slots,
            device: results.device.clone(),
        };
        let arms = results.arm_descriptions.iter();
        arms.map(|(arm, described)| Scores::new(arm, described.clone(), tally, &protocol)).collect()
    }
}

//! All arms on the same clips, questions and noise.

mod session;
#[cfg(test)]
mod tests;

use crate::arm::Arm;
use crate::cost::Cost;
use crate::encoded_clip::EncodedClip;
use crate::frame_quality::{Distance, FrameQuality};
use crate::prediction::Predictor;
use crate::probe::{CounterfactualPair, CueTrust, Probes};
use crate::tally::{Draws, Tally};
use crate::{Error, EvaluationPlan, Result, Results, Shown};
use far_data::EvaluationClip;
use far_model::{EncodedDataset, WorldModel};
use session::{Group, Pace, Session};
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
    /// LPIPS, if its weights are at hand.
    pub lpips: Option<&'a Distance<'a>>,
    /// What probes need besides.
    pub probes: Probes<'a>,
    /// What the world models run on, for the results.
    pub device: &'a str,
}

impl Evaluation<'_> {
    /// Judges every arm. Questions give one-step PSNR and recall quality, rollouts the rest; where
    /// the tokenizer cannot decode, only recall quality is left.
    ///
    /// `none` and `tokenizer` recall nothing and `copy` what another arm does, so they have no recall
    /// quality; `tokenizer` is its own reference, so it has no value but `psnr_raw`.
    ///
    /// # Errors
    /// If the plan or the arms make no sense, there is no clip, or a network or a policy refuses
    /// its input.
    pub fn run(&self, progress: &mut dyn FnMut(Progress)) -> Result<(Results, Shown)> {
        self.plan.check()?;
        let clips = self.clips()?;
        let pairs = self.pairs()?;
        let mut session = Session {
            evaluation: self,
            predictors: self.predictors()?,
            quality: FrameQuality::new(self.dataset, self.lpips),
            tally: Tally::new(self.arms.iter().map(Arm::id), clips.len().max(pairs.len()))
                .with_tiers(self.tiers(&clips)?),
            cue_trust: CueTrust::default(),
            answers: BTreeMap::new(),
            shown: Shown::default(),
            pace: Pace {
                state: Progress { done: 0, total: self.total(&clips, &pairs)? },
                listener: progress,
            },
        };
        for (number, ids) in clips.chunks(self.plan.batch).enumerate() {
            let opened = ids.iter().map(|id| EncodedClip::open(self.dataset, *id, &self.plan.walk));
            let clips = opened.filter_map(Result::transpose).collect::<Result<_>>()?;
            let group = Group { first: number * self.plan.batch, clips };
            session.answer(&group)?;
            if self.plan.steps != Some(0) {
                session.roll(&group)?;
            }
            session.weigh(&group);
            session.look_at_ends(&group)?;
        }
        session.compare_histories(&pairs)?;
        let Session { tally, shown, .. } = session;
        Ok((self.results(clips.len(), &tally), shown))
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

    /// Pairs of episodes that the counterfactual probe asks of, where frames are generated at all.
    fn pairs(&self) -> Result<Vec<[u32; 2]>> {
        if self.plan.steps == Some(0) {
            return Ok(Vec::new());
        }
        let most = self.plan.clips.unwrap_or(usize::MAX);
        CounterfactualPair::find(self.dataset.dataset(), self.episodes, most)
    }

    /// How far the return of each clip leads, as the dataset sorts them.
    fn tiers(&self, clips: &[u32]) -> Result<Vec<Option<u32>>> {
        let dataset = self.dataset.dataset();
        clips.iter().map(|id| Ok(dataset.summary(*id)?.facts.tier)).collect()
    }

    fn total(&self, episodes: &[u32], pairs: &[[u32; 2]]) -> Result<u64> {
        let (dataset, cost) = (self.dataset.dataset(), Cost::new(self.plan));
        let mut total = 0;
        for (number, id) in episodes.iter().enumerate() {
            let (frames, boundary) = dataset.lengths(*id)?;
            let questions = self.plan.questions.min((frames - boundary) as usize - 1);
            if let Some(clip) = EvaluationClip::new(dataset, *id, &self.plan.walk)? {
                total += cost.clip(self.arms, &clip, questions);
                total += if number < self.plan.replays { cost.replay(&clip) } else { 0 };
            }
        }
        for [id, _] in pairs {
            let clip = EvaluationClip::new(dataset, *id, &self.plan.walk)?;
            total += cost.pair(self.arms, clip.map_or(0, |clip| clip.memory.len()));
        }
        Ok(total)
    }

    fn results(&self, clips: usize, tally: &Tally) -> Results {
        let own = self.arms.iter().any(|arm| arm.model().is_some());
        let draws = &mut Draws::new(self.plan.seed);
        Results {
            corpus: self.dataset.dataset().description().corpus.clone(),
            clips,
            seed: self.plan.seed,
            device: self.device.to_owned(),
            train_seconds: None,
            judge: if own { "own" } else { "common" }.to_owned(),
            slots: self.plan.slots,
            arms: tally.arms(draws),
            paired: tally.paired(draws),
            curves: tally.curves(draws),
        }
    }
}

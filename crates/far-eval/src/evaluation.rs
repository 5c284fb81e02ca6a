//! All arms on the same clips, questions and noise.

use crate::arm::{Arm, Choice, Control};
use crate::cost::Cost;
use crate::encoded_clip::EncodedClip;
use crate::frame_quality::{Distance, FrameQuality, Truth};
use crate::one_step::one_step_psnr;
use crate::prediction::{Ask, Predictor};
use crate::recall_quality::RecallJudgment;
use crate::rollout::Rollout;
use crate::tally::{Draws, Tally};
use crate::utility::UtilityMeter;
use crate::{Error, EvaluationPlan, Replay, Result, Results};
use far_data::EvaluationClip;
use far_memory::Recall;
use far_model::{EncodedDataset, WorldModel};
use std::collections::BTreeSet;
use std::ops::Range;

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
    /// What the world models run on, for the results.
    pub device: &'a str,
}

/// Clips that are judged together.
struct Group {
    /// The number of the first among all clips.
    first: usize,
    clips: Vec<EncodedClip>,
}

/// What is gathered while clips are judged.
struct Gathered<'p> {
    tally: Tally,
    replays: Vec<Replay>,
    progress: &'p mut dyn FnMut(Progress),
    state: Progress,
}

impl Gathered<'_> {
    fn advance(&mut self, passes: u64) {
        self.state.done += passes;
        (self.progress)(self.state);
    }
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
    pub fn run(&self, progress: &mut dyn FnMut(Progress)) -> Result<(Results, Vec<Replay>)> {
        self.plan.check()?;
        let predictors = self.predictors()?;
        let quality = FrameQuality::new(self.dataset, self.lpips);
        let clips = self.clips()?;
        let tally = Tally::new(self.arms.iter().map(Arm::id), clips.len());
        let state = Progress { done: 0, total: self.total(&clips)? };
        let mut gathered = Gathered { tally, replays: Vec::new(), progress, state };
        for (number, group) in clips.chunks(self.plan.batch).enumerate() {
            let group = Group {
                first: number * self.plan.batch,
                clips: group
                    .iter()
                    .map(|id| EncodedClip::open(self.dataset, *id, &self.plan.walk))
                    .filter_map(Result::transpose)
                    .collect::<Result<_>>()?,
            };
            self.answer(&group, &predictors, &quality, &mut gathered)?;
            if self.plan.steps != Some(0) {
                self.roll(&group, &predictors, &quality, &mut gathered)?;
            }
        }
        Ok((self.results(clips.len(), &gathered.tally), gathered.replays))
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

    fn total(&self, episodes: &[u32]) -> Result<u64> {
        let (dataset, cost) = (self.dataset.dataset(), Cost::new(self.plan));
        let mut total = 0;
        for id in episodes {
            let (frames, boundary) = dataset.lengths(*id)?;
            let questions = self.plan.questions.min((frames - boundary) as usize - 1);
            let clip = EvaluationClip::new(dataset, *id, &self.plan.walk)?;
            total += clip.map_or(0, |clip| cost.clip(self.arms, &clip, questions));
        }
        Ok(total)
    }

    /// Asks all questions of a group of clips: recall quality under the judge, one-step PSNR.
    fn answer(
        &self,
        group: &Group,
        predictors: &[Predictor<'_>],
        quality: &FrameQuality<'_>,
        gathered: &mut Gathered<'_>,
    ) -> Result<()> {
        let (mut asks, mut places) = (Vec::new(), Vec::new());
        for clip in &group.clips {
            let questions = clip.questions(self.plan);
            places.push(asks.len()..asks.len() + questions.len());
            asks.extend(questions.into_iter().map(|question| Ask {
                clip,
                question,
                latent: clip.episode().latent(question.current),
            }));
        }
        // The oracle recalls below, where everything that the others recalled is measured as well.
        let recalled = predictors.iter().map(|predictor| match predictor.arm().choice() {
            Choice::Control(Control::Oracle) => Ok(Vec::new()),
            _ => predictor.recall(&asks),
        });
        let mut recalls: Vec<Vec<Recall>> = recalled.collect::<Result<_>>()?;
        let cost = Cost::new(self.plan);
        let judgments = asks.iter().enumerate().map(|(place, ask)| {
            let policies = predictors.iter().zip(&recalls);
            let policies = policies.filter(|(predictor, _)| predictor.arm().as_policy().is_some());
            let own: Vec<&Recall> = policies.map(|(_, recalls)| &recalls[place]).collect();
            let meter = UtilityMeter::new(self.judge, self.plan);
            let judged = RecallJudgment::new(&meter, self.plan, ask, &own);
            gathered.advance(cost.question_utilities(ask.clip.memory().len()));
            judged
        });
        let judgments: Vec<RecallJudgment> = judgments.collect::<Result<_>>()?;
        for (place, range) in places.iter().enumerate() {
            let clip = group.first + place;
            self.tally_gains(clip, &judgments[range.clone()], range, &recalls, gathered);
        }
        for (predictor, recalls) in predictors.iter().zip(&mut recalls) {
            if predictor.arm().is(Control::Oracle) {
                *recalls = judgments.iter().map(|judged| judged.oracle.clone()).collect();
            }
        }
        let mut truths: Vec<Truth> = Vec::new();
        for ask in &asks {
            truths.extend(quality.truths(ask.clip, &[ask.question.goal])?.unwrap_or_default());
        }
        for (predictor, recalls) in predictors.iter().zip(&recalls) {
            let arm = predictor.arm();
            if truths.len() == asks.len() && !arm.is(Control::Tokenizer) {
                let values = one_step_psnr(predictor, quality, self.plan, &asks, recalls, &truths)?;
                for (place, range) in places.iter().enumerate() {
                    let clip = group.first + place;
                    gathered.tally.one_step(arm.id(), clip, &values[range.clone()]);
                }
            }
            gathered.advance(asks.len() as u64 * cost.sampled(arm));
        }
        Ok(())
    }

    /// Sums gains over the questions of a clip, which stand at `range` among all.
    fn tally_gains(
        &self,
        clip: usize,
        judgments: &[RecallJudgment],
        range: &Range<usize>,
        recalls: &[Vec<Recall>],
        gathered: &mut Gathered<'_>,
    ) {
        let oracle: f64 = judgments.iter().map(|judged| judged.oracle_gain).sum();
        gathered.tally.oracle_gain(clip, oracle);
        let mut judged = 0;
        for (arm, recalls) in self.arms.iter().zip(recalls) {
            if arm.as_policy().is_some() {
                let gain: f64 = judgments.iter().map(|judgment| judgment.gains[judged]).sum();
                judged += 1;
                // A rule that recalled nothing at all has nothing to judge.
                if recalls[range.clone()].iter().any(|recall| !recall.is_empty()) {
                    gathered.tally.recall_gain(arm.id(), clip, gain);
                }
            } else if arm.is(Control::Oracle) && !judgments.is_empty() {
                gathered.tally.recall_gain(arm.id(), clip, oracle);
            }
        }
    }

    /// Rolls out a group of clips by every arm.
    fn roll(
        &self,
        group: &Group,
        predictors: &[Predictor<'_>],
        quality: &FrameQuality<'_>,
        gathered: &mut Gathered<'_>,
    ) -> Result<()> {
        let mut truths: Vec<Vec<Truth>> = Vec::new();
        for clip in &group.clips {
            let steps = clip.steps(self.plan.steps);
            let frames: Vec<usize> = steps.iter().map(|step| step.goal).collect();
            truths.extend(quality.truths(clip, &frames)?);
        }
        let cost = Cost::new(self.plan);
        if truths.len() < group.clips.len() {
            let due = group.clips.iter().map(|clip| {
                let steps = clip.steps(self.plan.steps).len();
                cost.rollouts(self.arms, clip.memory().len(), steps)
            });
            gathered.advance(due.sum());
            return Ok(());
        }
        let shown = self.plan.replays.saturating_sub(group.first).min(group.clips.len());
        let pairs = group.clips.iter().zip(&truths).take(shown);
        let mut replays: Vec<Replay> =
            pairs.map(|(clip, truth)| Replay::new(clip, truth)).collect();
        for predictor in predictors {
            let arm = predictor.arm();
            let rollouts = Rollout::all(predictor, &group.clips, self.plan.steps, |active| {
                let memories = active.iter().map(|clip| group.clips[*clip].memory().len());
                gathered.advance(memories.map(|count| cost.rollout_frame(arm, count)).sum());
            })?;
            for (place, (clip, rollout)) in group.clips.iter().zip(&rollouts).enumerate() {
                let latents: Vec<&[f32]> = rollout.frames().collect();
                let pictures = quality.pictures(&latents).unwrap_or_default();
                let mut values = quality.compare(&pictures, &truths[place])?;
                if let Some(replay) = replays.get_mut(place) {
                    replay.add(arm, clip, quality, rollout, pictures, &values)?;
                }
                if arm.is(Control::Tokenizer) {
                    values =
                        values.into_iter().map(|[_, raw, ..]| [None, raw, None, None]).collect();
                }
                let (clip_number, due) = (group.first + place, clip.return_steps());
                gathered.tally.rollout(arm.id(), clip_number, &values, due);
            }
        }
        gathered.replays.append(&mut replays);
        Ok(())
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

#[cfg(test)]
mod tests;

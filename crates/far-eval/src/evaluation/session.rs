//! One evaluation under way.

mod ends;

use super::{Evaluation, Progress};
use crate::arm::{Choice, Control};
use crate::cost::Cost;
use crate::encoded_clip::EncodedClip;
use crate::frame_quality::{FrameQuality, Truth};
use crate::one_step::one_step_psnr;
use crate::prediction::{Ask, Predictor};
use crate::probe::{ChangedStates, CounterfactualPair, CueTrust};
use crate::recall_quality::RecallJudgment;
use crate::rollout::Rollout;
use crate::tally::Tally;
use crate::utility::UtilityMeter;
use crate::{Replay, Result, Shown};
use far_memory::Recall;
use std::collections::BTreeMap;
use std::ops::Range;

/// Clips that are judged together.
pub(super) struct Group {
    /// The number of the first among all clips.
    pub first: usize,
    /// The clips.
    pub clips: Vec<EncodedClip>,
}

/// Who hears how far it is.
pub(super) struct Pace<'p> {
    /// Passes made and due.
    pub state: Progress,
    /// The listener.
    pub listener: &'p mut dyn FnMut(Progress),
}

impl Pace<'_> {
    fn advance(&mut self, passes: u64) {
        self.state.done += passes;
        (self.listener)(self.state);
    }
}

/// What an evaluation works with, and what it has found so far.
pub(super) struct Session<'a, 'p> {
    pub evaluation: &'a Evaluation<'a>,
    pub predictors: Vec<Predictor<'a>>,
    pub quality: FrameQuality<'a>,
    pub tally: Tally,
    pub cue_trust: CueTrust,
    /// Answers about both ends by arm and episode, for pairs of episodes.
    pub answers: BTreeMap<(usize, u32), bool>,
    pub shown: Shown,
    pub pace: Pace<'p>,
}

impl Session<'_, '_> {
    /// Asks all questions of a group of clips: recall quality under the judge, one-step PSNR.
    pub fn answer(&mut self, group: &Group) -> Result<()> {
        let plan = self.evaluation.plan;
        let (mut asks, mut truths, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for clip in &group.clips {
            let questions = clip.questions(plan);
            let goals: Vec<usize> = questions.iter().map(|question| question.goal).collect();
            truths.extend(self.quality.truths(clip, &goals)?.unwrap_or_default());
            places.push(asks.len()..asks.len() + questions.len());
            asks.extend(questions.into_iter().map(|question| Ask {
                clip,
                question,
                latent: clip.episode().latent(question.current),
            }));
        }
        // The oracle recalls below, where everything that the others recalled is measured as well.
        let recalled = self.predictors.iter().map(|predictor| match predictor.arm().choice() {
            Choice::Control(Control::Oracle) => Ok(Vec::new()),
            _ => predictor.recall(&asks),
        });
        let mut recalls: Vec<Vec<Recall>> = recalled.collect::<Result<_>>()?;
        let judgments = self.judge(&asks, &recalls)?;
        for (place, range) in places.iter().enumerate() {
            for (arm, recalls) in self.evaluation.arms.iter().zip(&recalls) {
                for (ask, recall) in asks.iter().zip(recalls).skip(range.start).take(range.len()) {
                    self.cue_trust.note(arm, place, ask.clip, ask.question, recall);
                }
            }
            self.tally_gains(group.first + place, &judgments, &recalls, range.clone());
        }
        let cost = Cost::new(plan);
        for (predictor, recalls) in self.predictors.iter().zip(&mut recalls) {
            let arm = predictor.arm();
            if arm.is(Control::Oracle) {
                *recalls = judgments.iter().map(|judged| judged.oracle.clone()).collect();
            }
            if truths.len() == asks.len() && !arm.is(Control::Tokenizer) {
                let values =
                    one_step_psnr(predictor, &self.quality, plan, &asks, recalls, &truths)?;
                for (place, range) in places.iter().enumerate() {
                    self.tally.one_step(arm.id(), group.first + place, &values[range.clone()]);
                }
            }
            self.pace.advance(asks.len() as u64 * cost.sampled(arm));
        }
        Ok(())
    }

    /// Judges what the policies recalled for each question.
    fn judge(&mut self, asks: &[Ask<'_>], recalls: &[Vec<Recall>]) -> Result<Vec<RecallJudgment>> {
        let Evaluation { plan, arms, judge, .. } = *self.evaluation;
        let meter = UtilityMeter::new(judge, plan);
        let cost = Cost::new(plan);
        let mut judgments = Vec::with_capacity(asks.len());
        for (place, ask) in asks.iter().enumerate() {
            let policies = arms.iter().zip(recalls).filter(|(arm, _)| arm.as_policy().is_some());
            let recalled: Vec<&Recall> = policies.map(|(_, recalls)| &recalls[place]).collect();
            judgments.push(RecallJudgment::new(&meter, plan, ask, &recalled)?);
            self.pace.advance(cost.question_utilities(ask.clip.memory().len()));
        }
        Ok(judgments)
    }

    /// Sums gains over the questions of a clip, which stand at `range` among all.
    fn tally_gains(
        &mut self,
        clip: usize,
        judgments: &[RecallJudgment],
        recalls: &[Vec<Recall>],
        range: Range<usize>,
    ) {
        let judgments = &judgments[range.clone()];
        let oracle: f64 = judgments.iter().map(|judged| judged.oracle_gain).sum();
        self.tally.oracle_gain(clip, oracle);
        let mut judged = 0;
        for (arm, recalls) in self.evaluation.arms.iter().zip(recalls) {
            if arm.as_policy().is_some() {
                let gain: f64 = judgments.iter().map(|judgment| judgment.gains[judged]).sum();
                judged += 1;
                // A rule that recalled nothing at all has nothing to judge.
                if recalls[range.clone()].iter().any(|recall| !recall.is_empty()) {
                    self.tally.recall_gain(arm.id(), clip, gain);
                }
            } else if arm.is(Control::Oracle) && !judgments.is_empty() {
                self.tally.recall_gain(arm.id(), clip, oracle);
            }
        }
    }

    /// Rolls out a group of clips by every arm; nothing is generated that nobody can decode.
    pub fn roll(&mut self, group: &Group) -> Result<()> {
        let Evaluation { plan, arms, judge, .. } = *self.evaluation;
        let cost = Cost::new(plan);
        let shown = plan.replays.saturating_sub(group.first).min(group.clips.len());
        let mut truths: Vec<Vec<Truth>> = Vec::new();
        for (place, clip) in group.clips.iter().enumerate() {
            let goals: Vec<usize> = clip.steps(plan.steps).iter().map(|step| step.goal).collect();
            match self.quality.truths(clip, &goals)? {
                Some(truth) => truths.push(truth),
                None => {
                    let (memories, steps) = (clip.memory().len(), goals.len());
                    let replay = if place < shown { cost.utilities(memories) } else { 0 };
                    let due = cost.rollouts(arms, memories, steps) + steps as u64 * replay;
                    self.pace.advance(due);
                }
            }
        }
        if truths.len() < group.clips.len() {
            return Ok(());
        }
        let dataset = self.evaluation.dataset.dataset();
        let pairs = group.clips.iter().zip(&truths);
        let changed =
            pairs.map(|(clip, truth)| ChangedStates::of(dataset, clip, truth, &self.quality));
        let changed: Vec<ChangedStates> = changed.collect::<Result<_>>()?;
        let pairs = group.clips.iter().zip(&truths).take(shown);
        let mut replays: Vec<Replay> =
            pairs.map(|(clip, truth)| Replay::new(clip, truth)).collect();
        for predictor in &self.predictors {
            let arm = predictor.arm();
            let rollouts = Rollout::all(predictor, &group.clips, plan.steps, |active| {
                let memories = active.iter().map(|clip| group.clips[*clip].memory().len());
                self.pace.advance(memories.map(|count| cost.rollout_frame(arm, count)).sum());
            })?;
            for (place, (clip, rollout)) in group.clips.iter().zip(&rollouts).enumerate() {
                for (question, recall) in clip.steps(plan.steps).into_iter().zip(&rollout.recalls) {
                    self.cue_trust.note(arm, place, clip, question, recall);
                }
                let latents: Vec<&[f32]> = rollout.frames().collect();
                let pictures = self.quality.pictures(&latents).unwrap_or_default();
                let mut values = self.quality.compare(&pictures, &truths[place])?;
                let (row, distance) = (group.first + place, self.quality.crop_distance());
                let shown = (&pictures[..], &rollout.recalls[..]);
                changed[place].tally(&mut self.tally, arm.id(), row, shown, distance)?;
                if let Some(replay) = replays.get_mut(place) {
                    replay.add(arm, clip, &self.quality, rollout, pictures, &values)?;
                }
                if arm.is(Control::Tokenizer) {
                    changed[place].tally_outdated(&mut self.tally, arm.id(), row, distance);
                    // Against itself it is perfect, which says nothing.
                    values.iter_mut().for_each(|frame| *frame = [None, frame[1], None, None]);
                }
                self.tally.rollout(arm.id(), row, &values, clip.return_steps());
            }
        }
        let meter = UtilityMeter::new(judge, plan);
        for (replay, clip) in replays.iter_mut().zip(&group.clips) {
            let passes = cost.utilities(clip.memory().len());
            replay.measure(clip, &meter, plan, || self.pace.advance(passes))?;
            replay.hear(self.evaluation.dataset.dataset())?;
        }
        self.shown.replays.append(&mut replays);
        Ok(())
    }

    /// Asks every arm of the pairs of the counterfactual probe.
    pub fn compare_histories(&mut self, pairs: &[[u32; 2]]) -> Result<()> {
        let Evaluation { plan, arms, dataset, .. } = *self.evaluation;
        let cost = Cost::new(plan);
        let metric = self.quality.crop_distance().metric("counterfactual");
        let mut row = 0;
        for ids in pairs.chunks(plan.batch.div_ceil(2)) {
            let opened =
                ids.iter().map(|ids| CounterfactualPair::open(dataset, *ids, plan, &self.quality));
            let opened = opened.filter_map(Result::transpose).collect::<Result<Vec<_>>>()?;
            let shown = plan.replays.saturating_sub(row).min(opened.len());
            let mut views: Vec<_> = opened[..shown].iter().map(CounterfactualPair::view).collect();
            for predictor in self.predictors.iter().filter(|_| !opened.is_empty()) {
                let arm = predictor.arm().id();
                let answers = CounterfactualPair::answer(&opened, predictor, &self.quality)?;
                for (place, answer) in answers.into_iter().enumerate() {
                    let right = f64::from(u8::from(answer.is_right()));
                    self.tally.set(arm, &metric, row + place, right);
                    if let Some(told) = answer.is_told() {
                        let told = f64::from(u8::from(told));
                        self.tally.set(arm, "counterfactual_recalled", row + place, told);
                    }
                    if let Some(view) = views.get_mut(place) {
                        opened[place].show(view, arm, answer, &self.quality)?;
                    }
                }
            }
            for [id, _] in ids {
                let clip = EncodedClip::open(dataset, *id, &plan.walk)?;
                self.pace.advance(cost.pair(arms, clip.map_or(0, |clip| clip.memory().len())));
            }
            row += opened.len();
            self.shown.counterfactuals.append(&mut views);
        }
        Ok(())
    }

    /// Tells the weights of cues apart by whether the goal could be seen.
    pub fn weigh(&mut self, group: &Group) {
        let Self { evaluation, tally, cue_trust, .. } = self;
        cue_trust.tally(evaluation.probes.sight, group.first, &group.clips, tally);
    }
}

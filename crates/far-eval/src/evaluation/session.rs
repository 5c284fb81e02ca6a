//! One evaluation under way.

use super::EvaluationContext;
use crate::arm::{Choice, Control};
use crate::cost::Cost;
use crate::frame_quality::Truth;
use crate::one_step::one_step_psnr;
use crate::prediction::Ask;
use crate::probe::{ClipGroup, Observed, Probe};
use crate::recall_quality::RecallJudgment;
use crate::rollout::Rollout;
use crate::tally::Tally;
use crate::utility::UtilityMeter;
use crate::{Replay, Result, Shown};
use far_memory::Recall;
use far_model::Query;

/// What an evaluation works with, and what it has found so far.
pub(super) struct Session<'a> {
    pub context: EvaluationContext<'a>,
    pub tally: Tally,
    pub probes: Vec<Box<dyn Probe + 'a>>,
    pub shown: Shown,
}

impl Session<'_> {
    /// Lets the probes begin; returns how many passes their own questions will take.
    pub fn begin(&mut self) -> Result<u64> {
        self.probes.iter_mut().map(|probe| probe.begin(&self.context)).sum()
    }

    /// Asks all questions of a group of clips: recall quality under the judge, one-step PSNR.
    pub fn answer(&mut self, group: &ClipGroup) -> Result<()> {
        let (plan, predictors) = (self.context.plan, self.context.predictors);
        let (mut asks, mut truths, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for clip in &group.clips {
            let queries = clip.queries(plan);
            let goals: Vec<usize> = queries.iter().map(Query::goal).collect();
            truths.extend(self.context.quality.truths(clip, &goals)?.unwrap_or_default());
            places.push(asks.len()..asks.len() + queries.len());
            asks.extend(queries.into_iter().map(|query| Ask::recorded(clip, query)));
        }
        // The oracle recalls below, where everything that the others recalled is measured as well.
        let recalled = predictors.iter().map(|predictor| match predictor.arm().choice() {
            Choice::Control(Control::Oracle) => Ok(Vec::new()),
            _ => predictor.recall(&asks),
        });
        let mut recalls: Vec<Vec<Recall>> = recalled.collect::<Result<_>>()?;
        let judgments = self.judge(&asks, &recalls)?;
        for (place, range) in places.iter().enumerate() {
            self.tally_gains(group.first + place, &judgments[range.clone()]);
        }
        let queries: Vec<Query> = asks.iter().map(|ask| ask.query.clone()).collect();
        let cost = Cost { plan };
        for (predictor, recalls) in predictors.iter().zip(&mut recalls) {
            let arm = predictor.arm();
            if arm.is(Control::Oracle) {
                *recalls = judgments.iter().map(|judged| judged.oracle.clone()).collect();
            }
            for (place, range) in places.iter().enumerate() {
                let (clip, row) = (&group.clips[place], group.first + place);
                let (queries, recalls) = (&queries[range.clone()], &recalls[range.clone()]);
                let pictures = None;
                self.observe(&Observed { arm, clip, place, row, queries, recalls, pictures })?;
            }
            if truths.len() == asks.len() && !arm.is(Control::Tokenizer) {
                let quality = self.context.quality;
                let values = one_step_psnr(predictor, quality, plan, &asks, recalls, &truths)?;
                for (place, range) in places.iter().enumerate() {
                    self.tally.one_step(arm.id(), group.first + place, &values[range.clone()]);
                }
            }
            self.context.advance(asks.len() as u64 * cost.sampled(arm));
        }
        Ok(())
    }

    /// Judges what the policies recalled for each question.
    fn judge(&mut self, asks: &[Ask<'_>], recalls: &[Vec<Recall>]) -> Result<Vec<RecallJudgment>> {
        let EvaluationContext { plan, arms, judge, .. } = self.context;
        let meter = UtilityMeter::new(judge, plan);
        let cost = Cost { plan };
        let mut judgments = Vec::with_capacity(asks.len());
        for (place, ask) in asks.iter().enumerate() {
            let policies = arms.iter().zip(recalls).filter(|(arm, _)| arm.as_policy().is_some());
            let recalled: Vec<&Recall> = policies.map(|(_, recalls)| &recalls[place]).collect();
            judgments.push(RecallJudgment::new(&meter, plan, ask, &recalled)?);
            self.context.advance(cost.judgment(arms, ask.clip.memory().len()));
        }
        Ok(judgments)
    }

    /// Sums gains over the questions of a clip.
    fn tally_gains(&mut self, clip: usize, judgments: &[RecallJudgment]) {
        if judgments.is_empty() {
            return;
        }
        let oracle: f64 = judgments.iter().map(|judged| judged.oracle_gain).sum();
        self.tally.oracle_gain(clip, oracle);
        let policies = self.context.arms.iter().filter(|arm| arm.as_policy().is_some());
        for (place, arm) in policies.enumerate() {
            let gain: f64 = judgments.iter().map(|judged| judged.gains[place]).sum();
            self.tally.recall_gain(arm.id(), clip, gain);
        }
        let oracles = self.context.arms.iter().filter(|arm| arm.is(Control::Oracle));
        oracles.for_each(|arm| self.tally.recall_gain(arm.id(), clip, oracle));
    }

    /// Rolls out a group of clips by every arm; only if the tokenizer can decode.
    pub fn roll(&mut self, group: &ClipGroup) -> Result<()> {
        let EvaluationContext { plan, arms, judge, dataset, predictors, quality, .. } =
            self.context;
        let cost = Cost { plan };
        let shown = plan.replays.saturating_sub(group.first).min(group.clips.len());
        let mut truths: Vec<Vec<Truth>> = Vec::new();
        for (place, clip) in group.clips.iter().enumerate() {
            let goals: Vec<usize> = clip.steps(plan.steps).iter().map(Query::goal).collect();
            match quality.truths(clip, &goals)? {
                Some(truth) => truths.push(truth),
                None => {
                    let (memories, steps) = (clip.memory().len(), goals.len());
                    let replay = if place < shown { cost.utilities(memories) } else { 0 };
                    let due = cost.rollouts(arms, memories, steps) + steps as u64 * replay;
                    self.context.advance(due);
                }
            }
        }
        if truths.len() < group.clips.len() {
            return Ok(());
        }
        for probe in &mut self.probes {
            probe.prepare(&self.context, group, &truths)?;
        }
        let pairs = group.clips.iter().zip(&truths).take(shown);
        let mut replays: Vec<Replay> =
            pairs.map(|(clip, truth)| Replay::new(clip, truth)).collect();
        for predictor in predictors {
            let arm = predictor.arm();
            let rollouts = Rollout::all(predictor, &group.clips, plan.steps, |active| {
                let memories = active.iter().map(|clip| group.clips[*clip].memory().len());
                self.context.advance(memories.map(|count| cost.rollout_frame(arm, count)).sum());
            })?;
            for (place, (clip, rollout)) in group.clips.iter().zip(&rollouts).enumerate() {
                let latents: Vec<&[f32]> = rollout.frames().collect();
                let pictures = quality.pictures(&latents).unwrap_or_default();
                let mut values = quality.compare(&pictures, &truths[place])?;
                let row = group.first + place;
                self.observe(&Observed {
                    arm,
                    clip,
                    place,
                    row,
                    queries: &clip.steps(plan.steps),
                    recalls: &rollout.recalls,
                    pictures: Some(&pictures),
                })?;
                if let Some(replay) = replays.get_mut(place) {
                    replay.add(arm, clip, quality, rollout, pictures, &values)?;
                }
                if arm.is(Control::Tokenizer) {
                    // Against itself it is perfect, which says nothing.
                    values.iter_mut().for_each(|frame| *frame = [None, frame[1], None, None, None]);
                }
                self.tally.rollout(arm.id(), row, &values, clip.frames().len() - 1);
            }
        }
        let meter = UtilityMeter::new(judge, plan);
        for (replay, clip) in replays.iter_mut().zip(&group.clips) {
            let passes = cost.utilities(clip.memory().len());
            replay.measure(clip, &meter, plan, || self.context.advance(passes))?;
            replay.hear(dataset.dataset())?;
        }
        self.shown.replays.append(&mut replays);
        Ok(())
    }

    fn observe(&mut self, seen: &Observed<'_>) -> Result<()> {
        let Self { probes, context, .. } = self;
        probes.iter_mut().try_for_each(|probe| probe.observe(context, seen))
    }

    /// Lets the probes ask their own questions about a group of clips.
    pub fn ask(&mut self, group: &ClipGroup) -> Result<()> {
        let Self { probes, context, .. } = self;
        probes.iter_mut().try_for_each(|probe| probe.ask(context, group))
    }

    /// Takes what the probes have found.
    pub fn finish(mut self) -> Result<(Tally, Shown)> {
        for probe in &mut self.probes {
            for measured in probe.finish(&self.context)? {
                self.tally.take(measured)?;
            }
            self.shown.probes.extend(probe.kept());
        }
        Ok((self.tally, self.shown))
    }
}

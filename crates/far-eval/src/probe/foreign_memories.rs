//! Does recall fall silent where memory holds nothing of the place?
//!
//! The questions of every clip are asked again with other memories: those of another scene alone, and
//! five hundred foreign ones with a single own memory among them, the most useful one. Where the
//! memories are foreign the right answer is to recall nothing; where one is of use, that one alone.
//! Learned arms are asked, and `none`, whose predictions show what silence is worth; and only where an arm
//! can abstain. A dataset of one scene has no foreign memories.

use super::{ClipGroup, Measured, Probe};
use crate::arm::{Arm, Control};
use crate::cost::Cost;
use crate::encoded_clip::EncodedClip;
use crate::evaluation::EvaluationContext;
use crate::one_step::one_step_psnr;
use crate::prediction::{Ask, Predictor};
use crate::report::Better;
use crate::utility::{Draw, UtilityMeter};
use crate::{Metric, MetricTable, Result};
use far_memory::RecallPolicy;
use far_model::{EncodedEpisode, Query};
use std::sync::Arc;

/// Foreign memories around the one of use.
const CROWD: usize = 500;

/// The probe.
pub struct ForeignMemories {
    filled: Measured,
    psnr: Measured,
    found: Measured,
    beside: Measured,
}

impl Default for ForeignMemories {
    fn default() -> Self {
        let filled = Metric::share("foreign_filled", "Slots filled with foreign memories")
            .titled("foreign")
            .with_better(Better::Lower)
            .noted("slots that are filled where memory holds nothing but frames of another scene");
        let psnr = Metric::number("foreign_psnr", "PSNR with foreign memories")
            .in_table(MetricTable::Detail)
            .with_digits("dB", 2)
            .noted("one-step PSNR where memory holds nothing but frames of another scene");
        let found = Metric::share("needle_recalled", "Recall of one memory among foreign ones")
            .in_table(MetricTable::Detail)
            .noted("the most useful memory is recalled from among 500 of other scenes");
        let beside = Metric::share("needle_beside", "Foreign memories recalled beside it")
            .in_table(MetricTable::Detail)
            .with_better(Better::Lower)
            .noted("slots that foreign memories fill then");
        let [filled, psnr, found, beside] = [filled, psnr, found, beside].map(Measured::new);
        Self { filled, psnr, found, beside }
    }
}

/// Who is asked: learned arms and `none`, where one of them can abstain.
fn asked<'a>(context: &EvaluationContext<'a>) -> Vec<&'a Predictor<'a>> {
    let abstains = |arm: &Arm| arm.as_policy().is_some_and(RecallPolicy::abstains);
    let learned = |arm: &Arm| arm.as_policy().is_some_and(RecallPolicy::is_learned);
    let is_asked =
        |predictor: &&Predictor<'_>| learned(predictor.arm()) || predictor.arm().is(Control::None);
    match context.arms.iter().any(abstains) {
        true => context.predictors.iter().filter(is_asked).collect(),
        false => Vec::new(),
    }
}

/// Passes that the questions of one clip take.
fn passes(context: &EvaluationContext<'_>, predictors: &[&Predictor<'_>]) -> u64 {
    let cost = Cost { plan: context.plan };
    let sampled: u64 = predictors.iter().map(|predictor| cost.sampled(predictor.arm())).sum();
    let pool = context.plan.walk.pool as usize;
    context.plan.questions as u64 * (sampled + cost.utilities(pool))
}

impl Probe for ForeignMemories {
    fn begin(&mut self, context: &EvaluationContext<'_>) -> Result<u64> {
        let predictors = asked(context);
        if predictors.is_empty() {
            return Ok(0);
        }
        let clips = context.episodes.len().min(context.plan.clips.unwrap_or(usize::MAX));
        Ok(clips as u64 * passes(context, &predictors))
    }

    fn ask(&mut self, context: &EvaluationContext<'_>, group: &ClipGroup) -> Result<()> {
        let predictors = asked(context);
        if predictors.is_empty() {
            return Ok(());
        }
        for (place, clip) in group.clips.iter().enumerate() {
            let row = group.first + place;
            if let Some(foreign) = Foreigners::of(context, clip, context.plan.walk.pool as usize)? {
                self.ask_silence(context, &predictors, clip, &foreign, row)?;
            }
            if let Some(foreign) = Foreigners::of(context, clip, CROWD)? {
                self.ask_needle(context, &predictors, clip, &foreign, row)?;
            }
            context.advance(passes(context, &predictors));
        }
        Ok(())
    }

    fn finish(&mut self, _: &EvaluationContext<'_>) -> Result<Vec<Measured>> {
        let Self { filled, psnr, found, beside } = self;
        Ok([filled, psnr, found, beside].map(|measured| measured.clone()).into())
    }
}

impl ForeignMemories {
    /// Questions over foreign memories alone.
    fn ask_silence(
        &mut self,
        context: &EvaluationContext<'_>,
        predictors: &[&Predictor<'_>],
        clip: &EncodedClip,
        foreign: &Foreigners,
        row: usize,
    ) -> Result<()> {
        let (plan, quality) = (context.plan, context.quality);
        let elsewhere = clip.remembering(&foreign.memories)?;
        let goals: Vec<usize> = clip.queries(plan).iter().map(Query::goal).collect();
        let truths = quality.truths(clip, &goals)?.unwrap_or_default();
        let queries = elsewhere.queries(plan);
        let asks: Vec<Ask<'_>> =
            queries.into_iter().map(|query| Ask::recorded(&elsewhere, query)).collect();
        for predictor in predictors {
            let (arm, recalls) = (predictor.arm().id(), predictor.recall(&asks)?);
            if predictor.arm().as_policy().is_some() {
                let filled = recalls.iter().map(|recall| recall.len()).sum();
                self.filled.share(arm, row, filled, plan.slots * asks.len());
            }
            if truths.len() == asks.len() {
                let values = one_step_psnr(predictor, quality, plan, &asks, &recalls, &truths)?;
                let count = values.len().max(1) as f64;
                self.psnr.set(arm, row, values.iter().sum::<f64>() / count);
            }
        }
        Ok(())
    }

    /// Questions over foreign memories with one own among them: the most useful of the candidates.
    fn ask_needle(
        &mut self,
        context: &EvaluationContext<'_>,
        predictors: &[&Predictor<'_>],
        clip: &EncodedClip,
        foreign: &Foreigners,
        row: usize,
    ) -> Result<()> {
        let plan = context.plan;
        let meter = UtilityMeter::new(context.judge, plan);
        let candidates = clip.candidates(plan.utility.candidates);
        let mut clips = Vec::new();
        for (place, query) in clip.queries(plan).into_iter().enumerate() {
            let utilities =
                meter.singles(&Ask::recorded(clip, query), &candidates, Draw::Oracle)?;
            let best = (0..candidates.len()).max_by(|a, b| utilities[*a].total_cmp(&utilities[*b]));
            let Some(best) = best else { continue };
            let (frames, needle) = foreign.frames_and(clip.episode(), candidates[best]);
            clips.push((clip.remembering(&frames)?, place, needle));
        }
        let asks: Vec<Ask<'_>> = clips
            .iter()
            .map(|(clip, place, _)| Ask::recorded(clip, clip.queries(plan)[*place].clone()))
            .collect();
        for predictor in predictors.iter().filter(|one| one.arm().as_policy().is_some()) {
            let (arm, recalls) = (predictor.arm().id(), predictor.recall(&asks)?);
            let (mut found, mut beside) = (0, 0);
            for (recall, (_, _, needle)) in recalls.iter().zip(&clips) {
                let own = recall.ids().filter(|id| id.index() == *needle).count();
                found += own;
                beside += recall.len() - own;
            }
            self.found.share(arm, row, found, asks.len());
            self.beside.share(arm, row, beside, plan.slots * asks.len());
        }
        Ok(())
    }
}

/// Memories of other scenes, in the order of their times.
struct Foreigners {
    memories: Vec<(Arc<EncodedEpisode>, usize)>,
}

impl Foreigners {
    /// So many, evenly spread over the first clips of other scenes that have as many among the judged
    /// episodes, beginning after the clip's own; `None` where there is no other scene.
    fn of(
        context: &EvaluationContext<'_>,
        clip: &EncodedClip,
        count: usize,
    ) -> Result<Option<Self>> {
        let own = clip.episode().id();
        let scene = |id: u32| -> Result<String> {
            Ok(context.dataset.dataset().summary(id)?.facts.scene.clone())
        };
        let here = scene(own)?;
        let begin = context.episodes.iter().position(|id| *id == own).unwrap_or(0);
        let order = context.episodes.iter().cycle().skip(begin + 1);
        let mut memories: Vec<(Arc<EncodedEpisode>, usize)> = Vec::new();
        for id in order.take(context.episodes.len().saturating_sub(1)) {
            if memories.len() >= count {
                break;
            }
            if scene(*id)? != here {
                let episode = context.dataset.episode(*id)?;
                let whole = episode.boundary();
                let kept = whole.min(count - memories.len());
                memories.extend((0..kept).map(|place| (episode.clone(), place * whole / kept)));
            }
        }
        let time = |(episode, frame): &(Arc<EncodedEpisode>, usize)| episode.times()[*frame];
        memories.sort_by(|one, other| time(one).total_cmp(&time(other)));
        Ok((!memories.is_empty()).then_some(Self { memories }))
    }

    /// All of them with one more in its time, and where it is.
    fn frames_and(
        &self,
        episode: &Arc<EncodedEpisode>,
        frame: usize,
    ) -> (Vec<(Arc<EncodedEpisode>, usize)>, usize) {
        let mut frames = self.memories.clone();
        let time = episode.times()[frame];
        let place = frames.partition_point(|(episode, frame)| episode.times()[*frame] <= time);
        frames.insert(place, (episode.clone(), frame));
        (frames, place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{clips, in_context, plan, road};
    use far_memory::policy::Requirements;
    use far_memory::{Error, MemoryId, Recall, RecallQuery, Scratch, Snapshot};

    /// Recalls the newest memories, or where it abstains only those whose key it knows.
    struct Knowing {
        known: Option<Vec<Vec<f32>>>,
    }

    fn key(memory: &Snapshot, index: usize) -> Vec<f32> {
        let mut key = vec![0.0; 3];
        memory.key(1, index).expect("the road has keys").copy_to(&mut key);
        key
    }

    impl RecallPolicy for Knowing {
        fn id(&self) -> &str {
            "knowing"
        }

        fn requirements(&self) -> Requirements {
            Requirements::default()
        }

        fn is_learned(&self) -> bool {
            true
        }

        fn abstains(&self) -> bool {
            self.known.is_some()
        }

        fn recall(
            &self,
            snapshot: &Snapshot,
            query: &RecallQuery,
            slots: usize,
            _: &mut Scratch,
            recall: &mut Recall,
        ) -> std::result::Result<(), Error> {
            let near = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
            let pool = snapshot.pool(&query.pool, None)?;
            let mut ids: Vec<MemoryId> = pool.iter().collect();
            ids.retain(|id| {
                let own = key(snapshot, id.index());
                self.known.as_ref().is_none_or(|known| known.iter().any(|key| near(key, &own)))
            });
            *recall = Recall::new();
            ids.iter().rev().take(slots).for_each(|id| recall.push(*id, 0.0, None, &[], &[]));
            Ok(())
        }
    }

    #[test]
    fn who_knows_the_place_is_silent_elsewhere_and_finds_the_one_memory() {
        let (_folder, dataset) = road(&[9, 9, 9], None);
        let group = ClipGroup { first: 0, clips: clips(&dataset).into_iter().take(1).collect() };
        let own = group.clips[0].episode().memory();
        let known = Some((0..own.len()).map(|index| key(own, index)).collect());
        let mut all: Vec<Arm> = [("knowing", known), ("eager", None)]
            .map(|(name, known)| Arm::policy(name, Box::new(Knowing { known })))
            .into();
        all.extend(crate::testing::arms(&["temporal"]));
        all.push(Arm::control(Control::None));
        let ask = |arms: &[Arm]| {
            in_context(&dataset, arms, |context| {
                let mut probe = ForeignMemories::default();
                let due = probe.begin(context).unwrap();
                probe.ask(context, &group).unwrap();
                (due, probe.finish(context).unwrap())
            })
        };
        let (due, found) = ask(&all);
        assert!(due > 0);
        let questions = plan().questions as f64;
        let slots = plan().slots as f64 * questions;
        let value = |metric: usize, arm: &str| found[metric].value(arm, 0);
        assert_eq!(value(0, "knowing"), Some((0.0, Some(slots))));
        assert_eq!(value(0, "eager"), Some((slots, Some(slots))));
        // Who recalls nothing predicts what `none` predicts.
        assert_eq!(value(1, "knowing"), value(1, "none"));
        assert_ne!(value(1, "eager"), value(1, "none"));
        assert_eq!(value(2, "knowing"), Some((questions, Some(questions))));
        assert_eq!(value(3, "knowing"), Some((0.0, Some(slots))));
        assert_eq!(value(3, "eager").map(|(filled, _)| filled >= 2.0 * questions), Some(true));
        // A rule made by hand is not asked, and nobody is where no arm can abstain.
        assert_eq!(value(0, "temporal"), None);
        let (due, found) = ask(&all[1..]);
        assert!(due == 0 && found.iter().all(|measured| measured.values.is_empty()));
    }

    #[test]
    fn one_scene_has_no_foreign_memories() {
        let (_folder, dataset) = road(&[9], None);
        let group = ClipGroup { first: 0, clips: clips(&dataset) };
        let known = Some(Vec::new());
        let arms = [Arm::policy("knowing", Box::new(Knowing { known }))];
        let found = in_context(&dataset, &arms, |context| {
            let mut probe = ForeignMemories::default();
            probe.ask(context, &group).unwrap();
            probe.finish(context).unwrap()
        });
        assert!(found.iter().all(|measured| measured.values.is_empty()));
    }
}

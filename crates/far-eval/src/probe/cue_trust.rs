//! When a cue is trusted: the weight of a key cue where walls hide the goal, and where none do.
//!
//! For every step of a rollout of an arm that weighs several cues, all at the evaluation's stride, it is
//! asked whether a wall stands between two eyes: that of the present and that of the goal, and, where an
//! arm of metadata alone stands beside, that of its first memory and that of the goal. The latter is
//! the paper's case: the memory that poses ask for does not see what is to be predicted. A clip's
//! weights are averaged apart; the difference counts in clips that have both, so that its interval is
//! of pairs.

use super::{ClipGroup, Measured, Observed, Probe};
use crate::evaluation::EvaluationContext;
use crate::{Better, Metric, MetricTable, Result};
use far_model::METADATA_CUE;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Knows where walls stand.
pub trait Sight: Send + Sync {
    /// For each pair of points of an episode's world, whether a wall stands between them; `None` if
    /// it is not known. Called once per episode and evaluation.
    fn blocked(&self, episode: u32, lines: &[[[f32; 3]; 2]]) -> Option<Vec<bool>>;
}

/// One step of a rollout: the clip's place in its group, present and goal.
type Step = (usize, usize, usize);

/// The weight of a cue in one recall.
struct Weight {
    arm: String,
    cue: String,
    step: Step,
    weight: f64,
}

/// The probe. It needs to know where walls stand, and arms that weigh several cues.
pub struct CueTrust<'a> {
    sight: Option<&'a dyn Sight>,
    /// Weights of the group of clips under way.
    weights: Vec<Weight>,
    /// The first memory of the arm of metadata alone.
    first: BTreeMap<Step, usize>,
    /// By key.
    measured: BTreeMap<String, Measured>,
}

/// From where the goal is looked at: in a key, in a name, in a note.
const EYES: [(&str, &str, &str); 2] = [
    ("", "", "from the present"),
    ("memory_", "memory ", "from the first memory that metadata alone recalls"),
];

/// Kind of a line of sight in a key, name, note.
const KINDS: [(&str, &str, &str); 3] = [
    ("clear", "clear", "where the line of sight to the goal is clear"),
    ("blocked", "blocked", "where the line of sight to the goal is blocked"),
    ("rise", "blocked − clear", "how much larger it is where the line of sight is blocked"),
];

impl<'a> CueTrust<'a> {
    /// A probe that asks this sight; without one it measures nothing.
    pub fn new(sight: Option<&'a dyn Sight>) -> Self {
        Self { sight, weights: Vec::new(), first: BTreeMap::new(), measured: BTreeMap::new() }
    }

    fn metric(cue: &str, eye: usize, (kind, name, note): (&str, &str, &str)) -> Metric {
        let (key, from, eye) = EYES[eye];
        Metric::number(format!("weight_{cue}_{key}{kind}"), format!("λ {cue}, {from}{name}"))
            .with_better(Better::Neither)
            .in_table(MetricTable::Detail)
            .noted(format!("mean weight of the cue `{cue}`; {note}, {eye}"))
    }

    /// Whether a wall stands between present and goal, and between first memory and goal, of each step.
    fn blocked(&self, sight: &dyn Sight, group: &ClipGroup) -> BTreeMap<Step, [Option<bool>; 2]> {
        let mut steps: Vec<Step> = self.weights.iter().map(|weight| weight.step).collect();
        steps.sort_unstable();
        steps.dedup();
        let clips = group.clips.par_iter().enumerate().flat_map_iter(|(place, clip)| {
            let own: Vec<Step> = steps.iter().copied().filter(|step| step.0 == place).collect();
            let poses = clip.episode().poses();
            let line = |from: usize, goal: usize| [from, goal].map(|frame| poses[frame].position);
            let first: Vec<Step> =
                own.iter().copied().filter(|step| self.first.contains_key(step)).collect();
            let mut lines: Vec<_> = own.iter().map(|(_, now, goal)| line(*now, *goal)).collect();
            lines.extend(first.iter().map(|step| line(self.first[step], step.2)));
            let known = sight.blocked(clip.episode().id(), &lines).unwrap_or_default();
            let mut answers: BTreeMap<Step, [Option<bool>; 2]> = BTreeMap::new();
            let asked = own.iter().map(|step| (step, 0)).chain(first.iter().map(|step| (step, 1)));
            for ((step, eye), blocked) in asked.zip(known) {
                answers.entry(*step).or_default()[eye] = Some(blocked);
            }
            answers
        });
        clips.collect()
    }
}

impl Probe for CueTrust<'_> {
    /// Takes note of the weights in rollouts. Arms of one cue have none to learn, rules have fixed
    /// ones, and controls none of their own.
    fn observe(&mut self, _: &EvaluationContext<'_>, seen: &Observed<'_>) -> Result<()> {
        let posed = !seen.clip.episode().poses().is_empty();
        let known = posed && self.sight.is_some() && seen.arm.as_policy().is_some();
        if !known || seen.pictures.is_none() {
            return Ok(());
        }
        for (query, recall) in seen.queries.iter().zip(seen.recalls) {
            let step = (seen.place, query.now(), query.goal());
            let cues = recall.cues();
            if !cues.iter().any(|cue| cue == METADATA_CUE) {
                continue;
            }
            let Some(first) = recall.ids().next() else { continue };
            if cues.len() == 1 {
                self.first.entry(step).or_insert(first.index());
                continue;
            }
            for (cue, weight) in cues.iter().zip(recall.weights()) {
                if cue != METADATA_CUE {
                    let (arm, cue) = (seen.arm.id().to_owned(), cue.clone());
                    self.weights.push(Weight { arm, cue, step, weight: (*weight).into() });
                }
            }
        }
        Ok(())
    }

    fn ask(&mut self, _: &EvaluationContext<'_>, group: &ClipGroup) -> Result<()> {
        let (Some(sight), false) = (self.sight, self.weights.is_empty()) else { return Ok(()) };
        let blocked = self.blocked(sight, group);
        self.first.clear();
        // Sum and number, of clear and of blocked lines, by arm, cue, clip and eye.
        let mut sums: BTreeMap<_, [(f64, f64); 2]> = BTreeMap::new();
        for weight in std::mem::take(&mut self.weights) {
            let Some(answers) = blocked.get(&weight.step) else { continue };
            for (eye, blocked) in answers.iter().enumerate() {
                let Some(blocked) = blocked else { continue };
                let key = (weight.arm.clone(), weight.cue.clone(), weight.step.0, eye);
                let (sum, count) = &mut sums.entry(key).or_default()[usize::from(*blocked)];
                *sum += weight.weight;
                *count += 1.0;
            }
        }
        for ((arm, cue, place, eye), [clear, blocked]) in sums {
            let mean = |(sum, count): (f64, f64)| (count > 0.0).then(|| sum / count);
            let (clear, blocked) = (mean(clear), mean(blocked));
            let rise = blocked.zip(clear).map(|(blocked, clear)| blocked - clear);
            for (kind, value) in KINDS.into_iter().zip([clear, blocked, rise]) {
                if let Some(value) = value {
                    let metric = Self::metric(&cue, eye, kind);
                    let measured = self.measured.entry(metric.id.clone());
                    let measured = measured.or_insert_with(|| Measured::new(metric));
                    measured.set(&arm, group.first + place, value);
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: &EvaluationContext<'_>) -> Result<Vec<Measured>> {
        Ok(std::mem::take(&mut self.measured).into_values().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoded_clip::EncodedClip;
    use crate::testing::{arms, clips, in_context, road};
    use far_memory::{MemoryId, Recall};
    use std::sync::Arc;

    /// A wall across the road at 30 m; unknown for the last episode.
    struct Wall;

    impl Sight for Wall {
        fn blocked(&self, episode: u32, lines: &[[[f32; 3]; 2]]) -> Option<Vec<bool>> {
            let beyond = |point: [f32; 3]| point[0] > 30.0;
            let blocked = lines.iter().map(|[from, to]| beyond(*from) != beyond(*to));
            (episode < 2).then(|| blocked.collect())
        }
    }

    fn recall(cues: &[&str], weights: &[f32]) -> Recall {
        let mut recall = Recall::new();
        let names: Arc<[String]> = cues.iter().map(|cue| (*cue).to_owned()).collect();
        recall.begin(&names);
        weights.iter().enumerate().for_each(|(cue, weight)| recall.set_weight(cue, *weight));
        recall.push(MemoryId(0), 1.0, None, weights, weights);
        recall
    }

    /// What metadata alone recalls: this memory first.
    fn first(memory: u64) -> Recall {
        let mut recall = Recall::new();
        recall.begin(&Arc::from(["meta".to_owned()]));
        recall.set_weight(0, 1.0);
        recall.push(MemoryId(memory), 1.0, None, &[1.0], &[1.0]);
        recall
    }

    /// Lets the probe watch an arm of two cues, `audio` at this weight.
    fn watch(
        trust: &mut CueTrust<'_>,
        (context, clips): (&EvaluationContext<'_>, &[EncodedClip]),
        place: usize,
        [now, goal]: [usize; 2],
        recall: &Recall,
    ) {
        let seen = Observed {
            arm: &context.arms[0],
            clip: &clips[place],
            place,
            row: 1 + place,
            queries: &[clips[place].query(now, goal)],
            recalls: std::slice::from_ref(recall),
            pictures: Some(&[far_data::Picture::filled(1, 1, [0; 3])]),
        };
        trust.observe(context, &seen).unwrap();
    }

    #[test]
    fn weights_are_told_apart_by_the_wall_and_paired_by_clip() {
        let (_folder, dataset) = road(&[21, 21, 21], None);
        let group = ClipGroup { first: 1, clips: clips(&dataset) };
        // The road is walked back from 39 m, a meter per frame from frame 40 on.
        let clear = [41, 45];
        let blocked = [45, 55];
        let found = in_context(&dataset, &arms(&["temporal"]), |context| {
            let mut trust = CueTrust::new(Some(&Wall));
            let place = (context, &group.clips[..]);
            let mut note = |at, frames, weight: f32| {
                let recall = recall(&["meta", "audio"], &[1.0 - weight, weight]);
                watch(&mut trust, place, at, frames, &recall);
            };
            note(0, clear, 0.25);
            note(0, blocked, 0.5);
            note(0, blocked, 1.0);
            note(1, clear, 0.75);
            note(2, blocked, 0.125);
            // Memory 10 lies before the wall, as does the goal behind it of the blocked step alone.
            watch(&mut trust, place, 0, clear, &first(10));
            watch(&mut trust, place, 0, blocked, &first(10));
            trust.ask(context, &group).unwrap();
            trust.finish(context).unwrap()
        });
        let ids: Vec<&str> = found.iter().map(|each| each.metric().id.as_str()).collect();
        let kinds = ["blocked", "clear", "memory_blocked", "memory_clear", "memory_rise", "rise"];
        assert_eq!(ids, kinds.map(|kind| format!("weight_audio_{kind}")));
        let values = |metric: usize| [1, 2, 3].map(|row| found[metric].value("temporal", row));
        let value = |value: f64| Some((value, None));
        // Unknown lines do not count, and only the first clip has both.
        assert_eq!(values(0), [value(0.75), None, None]);
        assert_eq!(values(1), [value(0.25), value(0.75), None]);
        assert_eq!(values(5), [value(0.5), None, None]);
        assert_eq!(values(2), [value(0.25), None, None]);
        assert_eq!(values(3), [value(0.75), None, None]);
        assert_eq!(values(4), [value(-0.5), None, None]);
        assert_eq!(found[4].metric().label, "λ audio, memory blocked − clear");
        let metric = found[5].metric();
        assert_eq!(
            (metric.label.as_str(), metric.better),
            ("λ audio, blocked − clear", Better::Neither)
        );
        assert_eq!((metric.unit.as_str(), metric.text(0.4321)), ("", "0.43".to_owned()));
    }

    #[test]
    fn without_sight_nothing_is_said() {
        let (_folder, dataset) = road(&[21], None);
        let group = ClipGroup { first: 0, clips: clips(&dataset) };
        in_context(&dataset, &arms(&["temporal"]), |context| {
            let mut trust = CueTrust::new(None);
            let recall = recall(&["meta", "audio"], &[0.5; 2]);
            watch(&mut trust, (context, &group.clips), 0, [41, 55], &recall);
            trust.ask(context, &group).unwrap();
            assert!(trust.finish(context).unwrap().is_empty());
        });
    }
}

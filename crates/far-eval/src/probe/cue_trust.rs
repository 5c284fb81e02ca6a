//! When a cue is trusted: the weight of a key cue where walls hide the goal, and where none do.
//!
//! For every recall of an arm that weighs several cues, over questions and rollouts alike, it is asked
//! whether a wall stands between the eye of the present and the eye of the goal. A clip's weights are
//! averaged apart; the difference counts in clips that have both, so that its interval is of pairs.

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

/// The weight of a cue in one recall.
struct Weight {
    arm: String,
    cue: String,
    /// The clip's place in its group.
    place: usize,
    line: [[f32; 3]; 2],
    weight: f64,
}

/// The probe. It needs to know where walls stand, and arms that weigh several cues.
pub struct CueTrust<'a> {
    sight: Option<&'a dyn Sight>,
    /// Weights of the group of clips under way.
    weights: Vec<Weight>,
    /// By key.
    measured: BTreeMap<String, Measured>,
}

/// Kind of a line of sight in a key, name, note.
const KINDS: [(&str, &str, &str); 3] = [
    ("clear", "clear", "where the line of sight to the goal is clear"),
    ("blocked", "blocked", "where the line of sight to the goal is blocked"),
    ("rise", "blocked − clear", "how much larger it is where the line of sight is blocked"),
];

impl<'a> CueTrust<'a> {
    /// A probe that asks this sight; without one it measures nothing.
    pub fn new(sight: Option<&'a dyn Sight>) -> Self {
        Self { sight, weights: Vec::new(), measured: BTreeMap::new() }
    }

    fn metric(cue: &str, (kind, name, note): (&str, &str, &str)) -> Metric {
        Metric::number(format!("weight_{cue}_{kind}"), format!("λ {cue}, {name}"))
            .with_better(Better::Neither)
            .in_table(MetricTable::Detail)
            .noted(format!("mean weight of the cue `{cue}`; {note}"))
    }

    /// Whether a wall stands in the way of each weight's line, clip by clip.
    fn blocked(&self, sight: &dyn Sight, group: &ClipGroup) -> Vec<Option<Vec<bool>>> {
        let clips = group.clips.par_iter().enumerate();
        let blocked = clips.map(|(place, clip)| {
            let own = self.weights.iter().filter(|weight| weight.place == place);
            let lines: Vec<[[f32; 3]; 2]> = own.map(|weight| weight.line).collect();
            sight.blocked(clip.episode().id(), &lines)
        });
        blocked.collect()
    }
}

impl Probe for CueTrust<'_> {
    /// Takes note of the weights. Arms of one cue have none to learn, rules have fixed ones, and
    /// controls none of their own.
    fn observe(&mut self, _: &EvaluationContext<'_>, seen: &Observed<'_>) -> Result<()> {
        if self.sight.is_none() || seen.arm.as_policy().is_none() {
            return Ok(());
        }
        let poses = seen.clip.episode().poses();
        for (query, recall) in seen.queries.iter().zip(seen.recalls) {
            let cues = recall.cues();
            let gated = cues.len() > 1 && cues.iter().any(|cue| cue == METADATA_CUE);
            if !gated || recall.is_empty() {
                continue;
            }
            let line = [query.now(), query.goal()].map(|frame| poses[frame].position);
            for (cue, weight) in cues.iter().zip(recall.weights()) {
                if cue != METADATA_CUE {
                    let (arm, cue) = (seen.arm.id().to_owned(), cue.clone());
                    let (place, weight) = (seen.place, (*weight).into());
                    self.weights.push(Weight { arm, cue, place, line, weight });
                }
            }
        }
        Ok(())
    }

    fn ask(&mut self, _: &EvaluationContext<'_>, group: &ClipGroup) -> Result<()> {
        let (Some(sight), false) = (self.sight, self.weights.is_empty()) else { return Ok(()) };
        let blocked = self.blocked(sight, group);
        let mut answers: Vec<_> = blocked.iter().map(|known| known.iter().flatten()).collect();
        // Sum and number, of clear and of blocked lines, by arm, cue and clip.
        let mut sums: BTreeMap<_, [(f64, f64); 2]> = BTreeMap::new();
        for weight in std::mem::take(&mut self.weights) {
            let Some(blocked) = answers[weight.place].next() else { continue };
            let key = (weight.arm, weight.cue, weight.place);
            let (sum, count) = &mut sums.entry(key).or_default()[usize::from(*blocked)];
            *sum += weight.weight;
            *count += 1.0;
        }
        for ((arm, cue, place), [clear, blocked]) in sums {
            let mean = |(sum, count): (f64, f64)| (count > 0.0).then(|| sum / count);
            let (clear, blocked) = (mean(clear), mean(blocked));
            let rise = blocked.zip(clear).map(|(blocked, clear)| blocked - clear);
            for (kind, value) in KINDS.into_iter().zip([clear, blocked, rise]) {
                if let Some(value) = value {
                    let metric = Self::metric(&cue, kind);
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
            pictures: None,
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
            watch(&mut trust, place, 2, clear, &recall(&["meta"], &[1.0]));
            trust.ask(context, &group).unwrap();
            trust.finish(context).unwrap()
        });
        let ids: Vec<&str> = found.iter().map(|each| each.metric().id.as_str()).collect();
        assert_eq!(ids, ["weight_audio_blocked", "weight_audio_clear", "weight_audio_rise"]);
        let values = |metric: usize| [1, 2, 3].map(|row| found[metric].value("temporal", row));
        let value = |value: f64| Some((value, None));
        // Unknown lines do not count, and only the first clip has both.
        assert_eq!(values(0), [value(0.75), None, None]);
        assert_eq!(values(1), [value(0.25), value(0.75), None]);
        assert_eq!(values(2), [value(0.5), None, None]);
        let metric = found[2].metric();
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

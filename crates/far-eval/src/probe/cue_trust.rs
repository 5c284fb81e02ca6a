//! When a cue is trusted: the weight of a key cue where walls hide the goal, and where none do.
//!
//! For every recall of an arm that weighs several cues, over questions and rollouts alike, it is asked
//! whether a wall stands between the eye of the present and the eye of the goal. A clip's weights are
//! averaged apart; the difference counts in clips that have both, so that its interval is of pairs.

use crate::arm::Arm;
use crate::encoded_clip::{EncodedClip, Question};
use crate::tally::Tally;
use far_memory::Recall;
use far_model::METADATA_CUE;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Knows where walls stand.
pub trait Sight: Send + Sync {
    /// For each pair of points of an episode's world, whether a wall stands between them; `None` if
    /// nobody knows. Whoever calls asks once per episode and evaluation.
    fn blocked(&self, episode: u32, lines: &[[[f32; 3]; 2]]) -> Option<Vec<bool>>;
}

/// The weight of a cue in one recall.
struct Weight {
    arm: String,
    cue: String,
    /// The clip's place in its group.
    clip: usize,
    line: [[f32; 3]; 2],
    weight: f64,
}

/// Weights of the group of clips that is being judged.
#[derive(Default)]
pub(crate) struct CueTrust {
    weights: Vec<Weight>,
}

impl CueTrust {
    /// Takes note of a recall: `place` is the clip's in its group. Arms of one cue have no weights to
    /// learn, and controls none of their own.
    pub fn note(
        &mut self,
        arm: &Arm,
        place: usize,
        clip: &EncodedClip,
        question: Question,
        recall: &Recall,
    ) {
        let cues = recall.cues();
        if arm.as_policy().is_none() || cues.len() < 2 || recall.is_empty() {
            return;
        }
        let poses = clip.episode().poses();
        let line = [question.current, question.goal].map(|frame| poses[frame].position);
        for (cue, weight) in cues.iter().zip(recall.weights()) {
            if cue != METADATA_CUE {
                let (arm, cue) = (arm.id().to_owned(), cue.clone());
                self.weights.push(Weight { arm, cue, clip: place, line, weight: (*weight).into() });
            }
        }
    }

    /// Asks where walls stand, tallies, and forgets the group; `first` is the number of its first clip.
    pub fn tally(
        &mut self,
        sight: Option<&dyn Sight>,
        first: usize,
        clips: &[EncodedClip],
        tally: &mut Tally,
    ) {
        let weights = std::mem::take(&mut self.weights);
        let (Some(sight), false) = (sight, weights.is_empty()) else { return };
        let blocked: Vec<Option<Vec<bool>>> = clips
            .par_iter()
            .enumerate()
            .map(|(place, clip)| {
                let own = weights.iter().filter(|weight| weight.clip == place);
                let lines: Vec<[[f32; 3]; 2]> = own.map(|weight| weight.line).collect();
                sight.blocked(clip.episode().id(), &lines)
            })
            .collect();
        let mut answers: Vec<_> = blocked.iter().map(|known| known.iter().flatten()).collect();
        // Sum and number, of clear and of blocked lines, by arm, cue and clip.
        let mut sums: BTreeMap<(&str, &str, usize), [(f64, f64); 2]> = BTreeMap::new();
        for weight in &weights {
            let Some(blocked) = answers[weight.clip].next() else { continue };
            let key = (weight.arm.as_str(), weight.cue.as_str(), weight.clip);
            let (sum, count) = &mut sums.entry(key).or_default()[usize::from(*blocked)];
            *sum += weight.weight;
            *count += 1.0;
        }
        for ((arm, cue, place), [clear, blocked]) in sums {
            let clip = first + place;
            let mean = |(sum, count): (f64, f64)| (count > 0.0).then(|| sum / count);
            let (clear, blocked) = (mean(clear), mean(blocked));
            let rise = blocked.zip(clear).map(|(blocked, clear)| blocked - clear);
            for (kind, value) in [("clear", clear), ("blocked", blocked), ("rise", rise)] {
                if let Some(value) = value {
                    tally.set(arm, &format!("weight_{cue}_{kind}"), clip, value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Draws;
    use crate::testing::{arms, clips, road};
    use far_memory::MemoryId;
    use std::sync::Arc;

    /// A wall across the road at 30 m; nobody knows of the last episode.
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

    #[test]
    fn weights_are_told_apart_by_the_wall_and_paired_by_clip() {
        let (_folder, dataset) = road(&[21, 21, 21], None);
        let clips = clips(&dataset);
        let (mut trust, mut tally) = (CueTrust::default(), Tally::new(["temporal"].into_iter(), 4));
        // The road is walked back from 39 m, a meter per frame from frame 40 on.
        let clear = Question { current: 41, goal: 45 };
        let blocked = Question { current: 45, goal: 55 };
        let multi = arms(&["temporal"]).remove(0);
        let mut note = |place, question, weight: f32| {
            let recall = recall(&["meta", "audio"], &[1.0 - weight, weight]);
            trust.note(&multi, place, &clips[place], question, &recall);
        };
        note(0, clear, 0.25);
        note(0, blocked, 0.5);
        note(0, blocked, 1.0);
        note(1, clear, 0.75);
        note(2, blocked, 0.125);
        trust.note(&multi, 2, &clips[2], clear, &recall(&["meta"], &[1.0]));
        trust.tally(Some(&Wall), 1, &clips, &mut tally);
        let results = tally.arms(&mut Draws::new(0));
        let mean = |metric: &str| results["temporal"].get(metric).map(|interval| interval.mean);
        assert_eq!(mean("weight_audio_clear"), Some(0.5));
        assert_eq!(mean("weight_audio_blocked"), Some(0.75));
        // Only the first clip has both, and what is unknown counts nowhere.
        assert_eq!(mean("weight_audio_rise"), Some(0.5));
        assert!(!results["temporal"].contains_key("weight_meta_clear"));
    }

    #[test]
    fn without_sight_nothing_is_said() {
        let (_folder, dataset) = road(&[21], None);
        let clips = clips(&dataset);
        let (mut trust, mut tally) = (CueTrust::default(), Tally::new(["temporal"].into_iter(), 1));
        let question = Question { current: 41, goal: 55 };
        let multi = &arms(&["temporal"])[0];
        trust.note(multi, 0, &clips[0], question, &recall(&["meta", "audio"], &[0.5; 2]));
        trust.tally(None, 0, &clips, &mut tally);
        assert!(tally.arms(&mut Draws::new(0))["temporal"].is_empty());
        trust.tally(Some(&Wall), 0, &clips, &mut tally);
        assert!(tally.arms(&mut Draws::new(0))["temporal"].is_empty(), "the group is forgotten");
    }
}

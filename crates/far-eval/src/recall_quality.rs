//! How good what was recalled is for the world model that reads it.
//!
//! recall_quality = (U(recalled) − U(random)) / (U(oracle) − U(random)), a ratio of means over
//! questions: 1 is the oracle, 0 is chance. U of a set is measured as the set is read, whole: what it
//! lowers the loss by (see [`UtilityMeter::sets`]). U(random) is the mean of sets drawn from the pool,
//! as large as a recall. The [oracle](crate::GreedyOracle) chooses by an independent draw of noise and
//! is judged by the same draw as everybody: chosen and judged by one draw it would profit from that
//! draw's accidents.

use crate::encoded_clip::EncodedClip;
use crate::prediction::Ask;
use crate::utility::{Draw, UtilityMeter};
use crate::{EvaluationPlan, Result};
use far_memory::Recall;

/// Random sets per question, for the chance level.
pub(crate) const RANDOM_SETS: usize = 8;

/// One question judged.
#[derive(Clone, Debug, PartialEq)]
pub struct RecallJudgment {
    /// What the oracle recalled.
    pub oracle: Recall,
    /// U(oracle) − U(random), in nats.
    pub oracle_gain: f64,
    /// U(recalled) − U(random) of each recall that was judged, in nats.
    pub gains: Vec<f64>,
}

impl RecallJudgment {
    /// Judges recalls of the same question. A recall of nothing is a set too, the empty one.
    ///
    /// # Errors
    /// If the world model refuses a context.
    pub fn new(
        meter: &UtilityMeter<'_>,
        plan: &EvaluationPlan,
        ask: &Ask<'_>,
        recalls: &[&Recall],
    ) -> Result<Self> {
        let recalled: Vec<Vec<usize>> =
            recalls.iter().map(|recall| recall.indices().collect()).collect();
        let besides = recalled.iter().flatten().copied();
        let candidates = ask.clip.candidates_and(plan.utility.candidates, besides);
        let oracle = meter.oracle(ask, &candidates, &distinct(&recalled))?;
        let mut sets = random_sets(ask.clip, plan, ask.query.goal());
        let chance = sets.len();
        sets.extend(recalled);
        sets.push(oracle.indices().collect());
        let different = distinct(&sets);
        let measured = meter.sets(ask, &different, Draw::Judge)?;
        let utility = |set: &Vec<usize>| {
            let place = different.iter().position(|other| other == set);
            f64::from(measured[place.expect("every set is among the different ones")])
        };
        let random = sets[..chance].iter().map(utility).sum::<f64>() / chance as f64;
        let mut gains: Vec<f64> = sets[chance..].iter().map(|set| utility(set) - random).collect();
        let oracle_gain = gains.pop().expect("the oracle's is the last");
        Ok(Self { oracle, oracle_gain, gains })
    }
}

/// Each set once: arms often recall the same.
pub(crate) fn distinct(sets: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut different: Vec<Vec<usize>> = Vec::new();
    for set in sets {
        if !different.contains(set) {
            different.push(set.clone());
        }
    }
    different
}

/// Sets of so many memories as there are slots, drawn from the pool without a memory that comes twice as
/// long as it lasts: at least one, at most [`RANDOM_SETS`].
fn random_sets(clip: &EncodedClip, plan: &EvaluationPlan, goal: usize) -> Vec<Vec<usize>> {
    let mut pool = clip.memory().to_vec();
    let mut random = clip.stream(plan.seed, "random sets", goal);
    for place in 0..pool.len().min(RANDOM_SETS * plan.slots) {
        let other = place + random.below(pool.len() - place);
        pool.swap(place, other);
    }
    let whole = if pool.len() < plan.slots { pool.len() } else { plan.slots };
    pool.chunks_exact(whole).take(RANDOM_SETS).map(<[usize]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prediction::Predictor;
    use crate::testing::{Copier, EXPLORED, arms, clips, plan, road};
    use crate::{Arm, UtilityConfig};

    /// Everything by hand: the copier reads the memory nearest the goal, and its utility is minus the
    /// squared distance of colors.
    #[test]
    fn gains_are_differences_of_whole_sets() {
        let (_folder, dataset) = road(&[21], None);
        let clips = clips(&dataset);
        let (clip, copier) = (&clips[0], Copier::new());
        let utility = UtilityConfig { candidates: 8, ..UtilityConfig::default() };
        let plan = EvaluationPlan { utility, ..plan() };
        let episode = clip.episode();
        let ask = Ask::recorded(clip, clip.query(43, 50));
        let arms: Vec<Arm> = arms(&["temporal", "nearest-pose", "none"]);
        let recalls: Vec<Recall> = arms
            .iter()
            .map(|arm| {
                let encoders = dataset.encoders();
                let predictor = Predictor::new(arm, &arms, &copier, encoders, &plan).unwrap();
                predictor.recall(std::slice::from_ref(&ask)).unwrap().remove(0)
            })
            .collect();
        let meter = UtilityMeter::new(&copier, &plan);
        let references: Vec<&Recall> = recalls.iter().collect();
        let judged = RecallJudgment::new(&meter, &plan, &ask, &references).unwrap();

        // Frame 50 shows the place of frame 29.
        let read = |set: &[usize]| set.iter().copied().min_by_key(|frame| frame.abs_diff(29));
        let utility = |set: &[usize]| {
            let seen = episode.latent(read(set).unwrap_or(43));
            let pair = seen.iter().zip(episode.latent(50));
            -f64::from(pair.map(|(a, b)| (a - b) * (a - b)).sum::<f32>())
        };
        let random = random_sets(clip, &plan, 50);
        assert_eq!(random.len(), RANDOM_SETS);
        let random = random.iter().map(|set| utility(set)).sum::<f64>() / RANDOM_SETS as f64;
        let expected = [
            utility(&[EXPLORED - 3, EXPLORED - 2, EXPLORED - 1]),
            utility(&[28, 29, 30]),
            utility(&[]),
        ];
        for (gain, expected) in judged.gains.iter().zip(expected) {
            assert!((gain - (expected - random)).abs() < 1e-4, "{gain} {expected} {random}");
        }
        // The place itself is best, and nothing adds to it.
        let oracle: Vec<usize> = judged.oracle.indices().collect();
        assert_eq!(oracle, [29]);
        assert_eq!(judged.oracle_gain, judged.gains[1]);
    }

    #[test]
    fn random_sets_share_no_memory_and_a_small_pool_is_one_set() {
        let (_folder, dataset) = road(&[9], None);
        let clip = &clips(&dataset)[0];
        let sets = random_sets(clip, &plan(), 45);
        let mut drawn: Vec<usize> = sets.iter().flatten().copied().collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!((sets.len(), drawn.len()), (RANDOM_SETS, 3 * RANDOM_SETS));
        assert_ne!(sets, random_sets(clip, &plan(), 46));
        let large = EvaluationPlan { slots: 100, ..plan() };
        assert_eq!(random_sets(clip, &large, 45)[0].len(), EXPLORED);
    }
}

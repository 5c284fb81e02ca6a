//! Credit for sets: slot by slot, each memory given those before it, by enumeration.
//!
//! A set is recalled as a sequence with r(C) = r(i₁)·r(i₂ | i₁). In each slot r has two factors: whether it is
//! filled, σ(w) of the memory that would be taken, and by whom if it is, the softmax of scores. A nat of w is
//! four of utility ([`NATS`]).

use crate::toy::{RECORDS, Toy, divergence, drawn, largest, softmax};
use far_model::{CandidateBatch, DistillationTarget, candidate_distillation};
use far_tensor::Tensor;

/// Nats of utility that move the log odds of filling a slot by one.
const NATS: f64 = 4.0;

/// Nats for a memory of the place and against a foreign one.
const PLACE: f64 = 2.0;

/// Utilities of the empty set, of all single memories and of all pairs, with interactions; a set has the
/// same utility in any order.
struct SetUtility {
    pairs: Vec<f32>,
}

impl SetUtility {
    fn new(seed: u64) -> Self {
        Self { pairs: drawn((RECORDS + 1) * (RECORDS + 1), seed, "pair utilities") }
    }

    /// u(S); the place `RECORDS` stands for no memory.
    fn of(&self, set: &[usize]) -> f32 {
        let mut places = [RECORDS; 2];
        places[..set.len()].copy_from_slice(set);
        places.sort_unstable();
        3.0 * self.pairs[places[0] * (RECORDS + 1) + places[1]]
    }

    /// u(S ∪ {i}) − u(S) of every memory not in S, then that of the empty memory, 0.
    fn exact_marginal(&self, taken: &[usize]) -> Vec<f64> {
        let others = (0..RECORDS).filter(|place| !taken.contains(place));
        let own = f64::from(self.of(taken));
        let gain = |place: usize| {
            let mut set = taken.to_vec();
            set.push(place);
            f64::from(self.of(&set)) - own
        };
        others.map(gain).chain([0.0]).collect()
    }

    /// The same as a world model measures it.
    fn marginal(&self, taken: &[usize]) -> Vec<f32> {
        self.exact_marginal(taken).into_iter().map(|gain| gain as f32).collect()
    }
}

/// Scores of the candidates for the slot after `taken`.
fn slot_scores(toy: &Toy, taken: &[usize]) -> Vec<f64> {
    let scores = toy.scores().slot_scores(&toy.candidates(taken), 0);
    scores.into_iter().map(f64::from).collect()
}

/// What they are worth.
fn slot_worths(toy: &Toy, taken: &[usize]) -> Vec<f64> {
    let worths = toy.scores().slot_worths(&toy.candidates(taken), 0).expect("it abstains");
    worths.into_iter().map(f64::from).collect()
}

/// 1/(1 + e^−x).
fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// r over the candidates for the slot after `taken`, if it is filled.
fn prior(toy: &Toy, taken: &[usize]) -> Vec<f64> {
    softmax(&slot_scores(toy, taken))
}

/// The gradient of the retriever's loss in the slot after `taken`.
fn distilled(toy: &Toy, taken: &[usize], utilities: &[f32]) -> Vec<f64> {
    let pools = [toy.candidates(taken)];
    let candidates = CandidateBatch::new(toy.batch.mask(), &pools, &[utilities.to_vec()]);
    let candidates = candidates.expect("they fit");
    toy.gradient(|tape, scores| {
        candidate_distillation(tape, scores, &candidates, DistillationTarget::Posterior)
    })
}

/// ln Σ r(i | S)·exp(u(S ∪ {i}) − u(S)) of who fills the slot, and the mean over memories of
/// ln(σ(−w) + σ(w)·exp((û + 2)/4)) of whether each would, from numbers alone.
fn likelihood(scores: &[f64], worths: &[f64], utilities: &[f32]) -> f64 {
    let terms = softmax(scores).into_iter().zip(utilities);
    let who = terms.map(|(r, u)| r * f64::from(*u).exp()).sum::<f64>().ln();
    let whether = worths.iter().zip(utilities).map(|(worth, utility)| {
        (sigmoid(-worth) + sigmoid(*worth) * ((f64::from(*utility) + PLACE) / NATS).exp()).ln()
    });
    who + whether.sum::<f64>() / worths.len() as f64
}

#[test]
fn distilling_a_slot_follows_its_marginal_likelihood() {
    for (seed, taken) in [(0, vec![]), (1, vec![2]), (2, vec![5, 0]), (3, vec![1])] {
        let toy = Toy::with_sets(seed);
        let mut utilities = SetUtility::new(seed).marginal(&taken[..taken.len().min(1)]);
        if taken.len() > 1 {
            utilities = drawn(RECORDS - taken.len(), seed, "third");
            utilities.push(0.0);
        }
        let found = distilled(&toy, &taken, &utilities);
        assert!(largest(&found) > 1e-3);
        // Finite differences of the likelihood by every parameter, the set's among them. Worth reads cosines as
        // data, so it stays while scores move.
        let (width, begun) = (1e-2, slot_scores(&toy, &taken));
        let worths = slot_worths(&toy, &taken);
        for (place, slope) in found.iter().enumerate() {
            let moved = |by: f64| {
                let mut step = vec![0.0; found.len()];
                step[place] = -by;
                let toy = Toy::with_sets(seed).moved(&step, 1.0);
                let scores = slot_scores(&toy, &taken);
                let own = slot_worths(&toy, &taken);
                let worths = if scores == begun { &own } else { &worths };
                likelihood(&scores, worths, &utilities)
            };
            let expected = (moved(width) - moved(-width)) / (2.0 * width);
            assert!(
                (slope + expected).abs() < 2e-3 + 0.02 * expected.abs(),
                "{seed} {place}: {slope} {expected}"
            );
        }
        let set = |toy: &Toy| -> Vec<(String, Vec<f32>)> {
            let own = toy.parameters.stored().filter(|(name, ..)| name.starts_with("set."));
            own.map(|(name, _, values)| (name.to_owned(), values)).collect()
        };
        let after = set(&Toy::with_sets(seed).moved(&found, 1.0));
        for ((name, before), (_, after)) in set(&toy).iter().zip(&after) {
            let alone = taken.is_empty() && !name.starts_with("set.worth");
            assert_eq!(before == after, alone, "{name} of the set learns");
        }
    }
}

#[test]
fn memories_that_add_nothing_leave_recall_as_it_is() {
    let toy = Toy::with_sets(4);
    for taken in [vec![], vec![3]] {
        // So much harm that it outweighs the place: nothing is learned of whether, nor of who.
        let mut equal = vec![-PLACE as f32; RECORDS + 1 - taken.len()];
        *equal.last_mut().expect("the empty memory") = 0.0;
        assert!(largest(&distilled(&toy, &taken, &equal)) < 1e-6);
        // If all do more harm, all lose worth; who would be recalled stays.
        let mut harm = vec![-6.0; RECORDS + 1 - taken.len()];
        *harm.last_mut().expect("the empty memory") = 0.0;
        let step = distilled(&toy, &taken, &harm);
        let after = Toy::with_sets(4).moved(&step, 0.05);
        let worths = slot_worths(&after, &taken);
        assert!(
            worths.iter().zip(slot_worths(&toy, &taken)).all(|(after, before)| *after < before)
        );
        assert_eq!(slot_scores(&after, &taken), slot_scores(&toy, &taken));
    }
}

/// KL(q ‖ r) over all memories and the empty one, enumerated, is the sum of the two factors' divergences.
#[test]
fn the_divergence_of_a_slot_is_that_of_filling_it_and_that_of_who_fills_it() {
    let utility = SetUtility::new(9);
    for (taken, worth) in [(vec![], 0.7), (vec![4], -1.3)] {
        let toy = Toy::with_sets(9);
        let gains = utility.exact_marginal(&taken);
        let parts = |who: &[f64]| {
            let prior: Vec<f64> =
                who.iter().map(|r| sigmoid(worth) * r).chain([sigmoid(-worth)]).collect();
            let joint = prior.iter().zip(&gains).map(|(r, u)| r * u.exp());
            let total: f64 = joint.clone().sum();
            let posterior: Vec<f64> = joint.map(|joint| joint / total).collect();
            let empty = *posterior.last().expect("the empty memory");
            let given: Vec<f64> =
                posterior[..who.len()].iter().map(|q| q / (1.0 - empty)).collect();
            let filling = divergence(&[1.0 - empty, empty], &[sigmoid(worth), sigmoid(-worth)]);
            let whole = divergence(&posterior, &prior);
            (whole, filling + (1.0 - empty) * divergence(&given, who), empty)
        };
        let (whole, sum, _) = parts(&prior(&toy, &taken));
        assert!((whole - sum).abs() < 1e-12 && whole > 1e-3, "{whole} {sum}");
        // Recall takes one memory and draws none: with all of r on it, what it adds alone decides.
        for best in 0..gains.len() - 1 {
            let only: Vec<f64> =
                (0..gains.len() - 1).map(|place| f64::from(u8::from(place == best))).collect();
            let (_, _, empty) = parts(&only);
            assert!((empty - sigmoid(-worth - gains[best])).abs() < 1e-12);
        }
    }
}

/// At worth 0 the slope is −½·tanh((û ± PLACE)/2·NATS): worth settles at 0 where that is 0 on average, so a slot
/// stays empty where harm and foreign memories outweigh help, none of it counting for more than some nats.
#[test]
fn worth_is_below_zero_where_harm_outweighs_help() {
    for target in [DistillationTarget::Posterior, DistillationTarget::UtilityOnly] {
        let cases = [-6.0, -2.0, 0.0, 1.5, 9.0].map(|utility| [(utility, false), (utility, true)]);
        for (utility, foreign) in cases.into_iter().flatten() {
            // Every parameter of the worth is 0 but its offset's slope is what is read.
            let mut toy = Toy::with_sets(2);
            toy.parameters.values_mut().expect("no tensor is held").fill(0.0);
            let mut pools = toy.candidates(&[]);
            pools.ids.truncate(1);
            pools.positions.truncate(1);
            pools.relations.truncate(1);
            (pools.global, pools.competing, pools.foreign) = (vec![0], 1, foreign);
            let utilities = [vec![100.0 + utility, 100.0]];
            let candidates = CandidateBatch::new(toy.batch.mask(), &[pools], &utilities);
            let candidates = candidates.expect("they fit");
            let slopes = toy
                .gradient(|tape, scores| candidate_distillation(tape, scores, &candidates, target));
            let found: f64 = slopes.iter().sum();
            let place = if foreign { -PLACE } else { PLACE };
            let expected = -0.5 * ((f64::from(utility) + place) / (2.0 * NATS)).tanh();
            assert!((found - expected).abs() < 1e-5, "{target:?} {utility}: {found} {expected}");
            assert_eq!(
                slopes.iter().filter(|slope| **slope != 0.0).count(),
                usize::from(expected != 0.0)
            );
        }
    }
}

/// The exact posterior over sequences against the posteriors of slots.
#[test]
fn the_last_slot_is_exact_and_the_first_looks_one_slot_ahead() {
    let (toy, utility) = (Toy::with_sets(6), SetUtility::new(6));
    let posterior = |prior: &[f64], utilities: &[f64]| {
        let informed: Vec<f64> = prior.iter().zip(utilities).map(|(r, u)| r.ln() + u).collect();
        softmax(&informed)
    };
    let first = prior(&toy, &[]);
    // Sequences of two memories, without the empty one: joint ∝ r(i)·r(j | i)·exp u(i, j).
    let mut joint = vec![vec![0.0; RECORDS]; RECORDS];
    let mut ahead = [0.0; RECORDS];
    for i in 0..RECORDS {
        let second = prior(&toy, &[i]);
        let gains = utility.exact_marginal(&[i]);
        let others: Vec<usize> = (0..RECORDS).filter(|place| *place != i).collect();
        for (place, &j) in others.iter().enumerate() {
            joint[i][j] = first[i] * second[place] * f64::from(utility.of(&[i, j])).exp();
            ahead[i] += second[place] * gains[place].exp();
        }
        // Given the first memory, the exact posterior of the last slot is the slot's own.
        let total: f64 = joint[i].iter().sum();
        let own = posterior(&second[..others.len()], &gains[..others.len()]);
        for (place, &j) in others.iter().enumerate() {
            assert!((joint[i][j] / total - own[place]).abs() < 1e-9);
        }
    }
    // The exact posterior of the first slot is its own times what the next slot can still add.
    let total: f64 = joint.iter().flatten().sum();
    let gains = utility.exact_marginal(&[]);
    let own: Vec<f64> = (0..RECORDS).map(|i| first[i] * gains[i].exp()).collect();
    let informed: f64 = (0..RECORDS).map(|i| own[i] * ahead[i]).sum();
    let blind: f64 = own.iter().sum();
    let mut apart: f64 = 0.0;
    for i in 0..RECORDS {
        let exact = joint[i].iter().sum::<f64>() / total;
        assert!((exact - own[i] * ahead[i] / informed).abs() < 1e-9);
        apart = apart.max((exact - own[i] / blind).abs());
    }
    assert!(apart > 1e-2, "greedy credit is not the whole posterior: {apart}");
}

#[test]
fn candidates_are_penalized_by_the_nearest_taken_memory_alone() {
    let toy = Toy::with_sets(8);
    let scores = toy.scores();
    let of = |taken: &[usize]| scores.slot_scores(&toy.candidates(taken), 0);
    let (none, one, other, both) = (of(&[]), of(&[0]), of(&[1]), of(&[0, 1]));
    let fused: &Tensor = &scores.fused;
    for (place, score) in none.iter().enumerate() {
        assert!((score - fused.values()[place]).abs() < 1e-9);
    }
    for place in 2..RECORDS {
        let nearest = one[place - 1].min(other[place - 1]);
        assert!((both[place - 2] - nearest).abs() < 1e-5);
        assert!(both[place - 2] < none[place], "every memory repeats a little");
    }
}

//! Credit for sets: slot by slot, each memory given those before it, by enumeration.
//!
//! A set is recalled as a sequence with r(C) = r(i₁)·r(i₂ | i₁), the empty memory among the choices.

use crate::toy::{RECORDS, Toy, drawn, largest, softmax};
use far_model::{CandidateBatch, DistillationTarget, candidate_distillation};
use far_tensor::Tensor;

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

/// Scores of the candidates for the slot after `taken`, that of the empty memory last.
fn slot_scores(toy: &Toy, taken: &[usize]) -> Vec<f64> {
    let scores = toy.scores().slot_scores(&toy.candidates(taken), 0);
    scores.into_iter().map(f64::from).collect()
}

/// r over the candidates for the slot after `taken`.
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

/// ln Σ r(i | S)·exp(u(S ∪ {i}) − u(S)), from numbers alone.
fn likelihood(scores: &[f64], utilities: &[f32]) -> f64 {
    let terms = softmax(scores).into_iter().zip(utilities);
    terms.map(|(r, u)| r * f64::from(*u).exp()).sum::<f64>().ln()
}

#[test]
fn distilling_a_slot_follows_its_marginal_likelihood() {
    for (seed, taken) in [(0, vec![]), (1, vec![2]), (2, vec![5, 0]), (3, vec![1])] {
        let toy = Toy::with_sets(seed);
        let utilities = SetUtility::new(seed).marginal(&taken[..taken.len().min(1)]);
        let utilities: Vec<f32> =
            if taken.len() > 1 { drawn(RECORDS - 1, seed, "third") } else { utilities };
        let found = distilled(&toy, &taken, &utilities);
        assert!(largest(&found) > 1e-3);
        // Finite differences of the likelihood by every parameter, the set's among them. The empty
        // memory reads the statistics of scores as data, so they stay while scores move.
        let (width, begun) = (1e-2, slot_scores(&toy, &taken));
        let memories = begun.len() - 1;
        for (place, slope) in found.iter().enumerate() {
            let moved = |by: f64| {
                let mut step = vec![0.0; found.len()];
                step[place] = -by;
                let mut scores = slot_scores(&Toy::with_sets(seed).moved(&step, 1.0), &taken);
                if scores[..memories] != begun[..memories] {
                    scores[memories] = begun[memories];
                }
                likelihood(&scores, &utilities)
            };
            let expected = (moved(width) - moved(-width)) / (2.0 * width);
            assert!(
                (slope + expected).abs() < 2e-3 + 0.02 * expected.abs(),
                "{seed} {place}: {slope} {expected}"
            );
        }
        let set = |toy: &Toy| -> Vec<f32> {
            let own = toy.parameters.stored().filter(|(name, ..)| name.starts_with("set."));
            own.flat_map(|(_, _, values)| values).collect()
        };
        assert_ne!(set(&toy), set(&Toy::with_sets(seed).moved(&found, 1.0)), "the set learns too");
    }
}

#[test]
fn memories_that_add_nothing_leave_recall_as_it_is() {
    let toy = Toy::with_sets(4);
    for taken in [vec![], vec![3]] {
        let equal = vec![0.0; RECORDS + 1 - taken.len()];
        assert!(largest(&distilled(&toy, &taken, &equal)) < 1e-6);
        // If all do harm, the empty memory gains.
        let mut harm = vec![-4.0; RECORDS + 1 - taken.len()];
        *harm.last_mut().expect("the empty memory") = 0.0;
        let step = distilled(&toy, &taken, &harm);
        let before = *prior(&toy, &taken).last().expect("the empty memory");
        let after = Toy::with_sets(4).moved(&step, 0.05);
        assert!(*prior(&after, &taken).last().expect("the empty memory") > before);
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
    for (place, score) in none[..RECORDS].iter().enumerate() {
        assert!((score - fused.values()[place]).abs() < 1e-9);
    }
    for place in 2..RECORDS {
        let nearest = one[place - 1].min(other[place - 1]);
        assert!((both[place - 2] - nearest).abs() < 1e-5);
        assert!(both[place - 2] < none[place], "every memory repeats a little");
    }
}

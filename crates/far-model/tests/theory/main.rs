//! The method's theory as tests, by exact enumeration of all sets of K memories.

mod bound;
mod greedy;
mod marginal;
mod toy;

use far_memory::MemoryId;
use far_model::{
    CandidateBatch, CandidatePools, CueWeighting, DistillationTarget, RetrieverScores,
    RetrieverTrainingConfig, candidate_distillation, posterior_divergence,
};
use far_tensor::{Result, Tape, Tensor};
use toy::{
    RECORDS, Toy, assert_same, divergence, drawn, largest, recall_distribution, row, set_scores,
    sets, softmax,
};

/// Utilities of all sets with interactions: no sum over memories gives them.
fn set_utilities(seed: u64) -> Vec<f32> {
    drawn(sets().len(), seed, "set utilities").iter().map(|u| 2.0 * u).collect()
}

/// KL(q ‖ r) over all sets.
fn set_divergence(
    tape: &mut Tape,
    scores: &RetrieverScores,
    utilities: &[f32],
    target: DistillationTarget,
) -> Result<Tensor> {
    let over_sets = set_scores(tape, &scores.fused)?;
    posterior_divergence(tape, &over_sets, &row(utilities), None, target)
}

/// A global pool of memories 0, 2, 5 and a local one of 2, 3, 4.
fn candidates(toy: &Toy, utilities: [f32; 5]) -> CandidateBatch {
    let positions = vec![0, 2, 5, 3, 4];
    let pools = CandidatePools {
        ids: positions.iter().map(|place| MemoryId::from(*place)).collect(),
        positions,
        global: vec![0, 1, 2],
        local: vec![1, 3, 4],
        ..CandidatePools::default()
    };
    CandidateBatch::new(toy.batch.mask(), &[pools], &[utilities.to_vec()]).expect("they fit")
}

fn plain(seed: u64) -> Toy {
    Toy::new(2, RetrieverTrainingConfig::default(), seed)
}

#[test]
fn distilling_the_posterior_follows_the_marginal_likelihood() {
    for seed in 0..5 {
        let toy = plain(seed);
        let utilities = set_utilities(seed);
        // ∇ log Σ_C r(C)·exp u(C).
        let likelihood = toy.gradient(|tape, scores| {
            let over_sets = set_scores(tape, &scores.fused)?;
            let prior = tape.log_softmax(&over_sets, None)?;
            let joint = tape.add(&prior, &row(&utilities))?;
            tape.log_sum_exp(&joint, None)
        });
        // −∇ KL(q ‖ r) with q fixed.
        let distilled = toy.gradient(|tape, scores| {
            let loss = set_divergence(tape, scores, &utilities, DistillationTarget::Posterior)?;
            tape.affine(&loss, -1.0, 0.0)
        });
        assert_same(&distilled, &likelihood);
        // E_q[∇ log r(C)], set by set.
        let prior = recall_distribution(toy.scores().fused.values());
        let informed: Vec<f64> =
            prior.iter().zip(&utilities).map(|(r, u)| r.ln() + f64::from(*u)).collect();
        let mut expected = vec![0.0; likelihood.len()];
        for (set, weight) in softmax(&informed).into_iter().enumerate() {
            let slope = toy.gradient(|tape, scores| {
                let over_sets = set_scores(tape, &scores.fused)?;
                let prior = tape.log_softmax(&over_sets, None)?;
                tape.slice(&prior, 1, set..set + 1)
            });
            expected.iter_mut().zip(slope).for_each(|(sum, slope)| *sum += weight * slope);
        }
        assert_same(&expected, &likelihood);
    }
}

#[test]
fn distilling_candidates_follows_the_likelihood_of_their_pool() {
    let toy = plain(3);
    let utilities = [0.4, -1.0, 1.5, 0.2, -0.3];
    let found = toy.gradient(|tape, scores| {
        let pools = candidates(&toy, utilities);
        candidate_distillation(tape, scores, &pools, DistillationTarget::Posterior)
    });
    // −log Σ r·exp û over each pool.
    let expected = toy.gradient(|tape, scores| {
        let column = scores.fused.reshape([RECORDS])?;
        let mut total = Tensor::zeros([1]);
        for (places, own) in [([0, 2, 5], [0, 1, 2]), ([2, 3, 4], [1, 3, 4])] {
            let pool = tape.gather_rows(&column, places.to_vec())?.reshape([1, 3])?;
            let prior = tape.log_softmax(&pool, None)?;
            let joint = tape.add(&prior, &row(&own.map(|place| utilities[place])))?;
            let likelihood = tape.log_sum_exp(&joint, None)?;
            total = tape.subtract(&total, &likelihood)?;
        }
        Ok(total)
    });
    assert_same(&found, &expected);
}

#[test]
fn equal_utilities_leave_recall_as_it_is() {
    let change = |target, utilities: &[f32]| {
        let toy = plain(1);
        let before = recall_distribution(toy.scores().fused.values());
        let gradient = toy.gradient(|tape, scores| set_divergence(tape, scores, utilities, target));
        let after = recall_distribution(toy.moved(&gradient, 0.1).scores().fused.values());
        let moved: Vec<f64> = before.iter().zip(&after).map(|(a, b)| a - b).collect();
        (largest(&gradient), largest(&moved))
    };
    let equal = vec![-3.7; sets().len()];
    let (gradient, moved) = change(DistillationTarget::Posterior, &equal);
    assert!(gradient < 1e-6 && moved < 1e-6, "{gradient} {moved}");
    let (gradient, moved) = change(DistillationTarget::Posterior, &set_utilities(1));
    assert!(gradient > 1e-2 && moved > 1e-3, "{gradient} {moved}");
    // A target of utilities alone forgets what the retriever knew: it moves without evidence.
    let (gradient, moved) = change(DistillationTarget::UtilityOnly, &equal);
    assert!(gradient > 1e-2 && moved > 1e-3, "{gradient} {moved}");
}

#[test]
fn equal_utilities_of_candidates_leave_the_scores_as_they_are() {
    let toy = plain(2);
    let gradient = |utilities, target| {
        largest(&toy.gradient(|tape, scores| {
            let pools = candidates(&toy, utilities);
            candidate_distillation(tape, scores, &pools, target)
        }))
    };
    let equal = [-412.0; 5];
    assert!(gradient(equal, DistillationTarget::Posterior) < 1e-6);
    assert!(gradient([1.0, 0.0, 0.0, 2.0, 0.0], DistillationTarget::Posterior) > 1e-2);
    assert!(gradient(equal, DistillationTarget::UtilityOnly) > 1e-2);
}

#[test]
fn the_utility_only_target_drives_recall_toward_the_uniform() {
    let mut toy = plain(4);
    let equal = vec![0.0; sets().len()];
    let uniform = vec![1.0 / sets().len() as f64; sets().len()];
    let distance =
        |toy: &Toy| divergence(&uniform, &recall_distribution(toy.scores().fused.values()));
    let start = distance(&toy);
    for _ in 0..30 {
        let gradient = toy.gradient(|tape, scores| {
            set_divergence(tape, scores, &equal, DistillationTarget::UtilityOnly)
        });
        toy = toy.moved(&gradient, 0.05);
    }
    assert!(distance(&toy) < 0.9 * start, "{start} {}", distance(&toy));
}

/// r − q over the memories 0, 2, 5 of a pool, zero elsewhere.
fn credit(scores: &RetrieverScores, utilities: [f64; 3]) -> Vec<f64> {
    let places = [0, 2, 5];
    let pool: Vec<f64> =
        places.iter().map(|place| f64::from(scores.fused.values()[*place])).collect();
    let informed: Vec<f64> = pool.iter().zip(utilities).map(|(s, u)| s + u).collect();
    let (prior, posterior) = (softmax(&pool), softmax(&informed));
    let mut credit = vec![0.0; RECORDS];
    for (place, (r, q)) in places.into_iter().zip(prior.iter().zip(&posterior)) {
        credit[place] = r - q;
    }
    credit
}

/// The loss of that pool.
fn pool_gradient(toy: &Toy, utilities: [f64; 3]) -> Vec<f64> {
    toy.gradient(|tape, scores| {
        let column = scores.fused.reshape([RECORDS])?;
        let pool = tape.gather_rows(&column, vec![0, 2, 5])?.reshape([1, 3])?;
        let utilities = row(&utilities.map(|utility| utility as f32));
        posterior_divergence(tape, &pool, &utilities, None, DistillationTarget::Posterior)
    })
}

/// Σ_m λ_m·(E_r[∇s̃ᵐ] − E_q[∇s̃ᵐ]) and Σ_m (E_r[s̃ᵐ] − E_q[s̃ᵐ])·∇λ_m, cue by cue.
fn pathways(toy: &Toy, utilities: [f64; 3]) -> [Vec<f64>; 2] {
    let scores = toy.scores();
    let credit = credit(&scores, utilities);
    let single: Vec<f32> = credit.iter().map(|value| *value as f32).collect();
    let length = toy.parameters.values().len();
    let mut sums = [vec![0.0; length], vec![0.0; length]];
    for (cue, standardized) in scores.standardized.iter().enumerate() {
        let relevance = toy.gradient(|tape, scores| {
            let credited = tape.multiply(&scores.standardized[cue], &row(&single))?;
            tape.sum(&credited)
        });
        let reliability = toy.gradient(|tape, scores| {
            let weight = tape.slice(&scores.weights, 1, cue..cue + 1)?;
            tape.sum(&weight)
        });
        let weight = f64::from(scores.weights.values()[cue]);
        let favored: f64 =
            credit.iter().zip(standardized.values()).map(|(c, s)| c * f64::from(*s)).sum();
        for place in 0..length {
            sums[0][place] += weight * relevance[place];
            sums[1][place] += favored * reliability[place];
        }
    }
    sums
}

#[test]
fn the_two_pathways_are_the_printed_ones() {
    for (cues, weighting) in
        [(2, CueWeighting::Learned), (3, CueWeighting::Learned), (3, CueWeighting::Detached)]
    {
        let training = RetrieverTrainingConfig { weighting, ..RetrieverTrainingConfig::default() };
        let toy = Toy::new(cues, training, 7 + cues as u64);
        let utilities = [1.2, -0.7, 0.1];
        let [relevance, reliability] = pathways(&toy, utilities);
        assert!(largest(&relevance) > 1e-3 && largest(&reliability) > 1e-4);
        let both: Vec<f64> = relevance.iter().zip(&reliability).map(|(a, b)| a + b).collect();
        assert_same(&pool_gradient(&toy, utilities), &both);
    }
}

#[test]
fn with_one_cue_the_reliability_pathway_vanishes() {
    let toy = Toy::new(1, RetrieverTrainingConfig::default(), 5);
    let utilities = [1.2, -0.7, 0.1];
    assert!(toy.parameters.find("gate.weight").is_none());
    assert_eq!(toy.scores().weights.values(), [1.0]);
    let [relevance, reliability] = pathways(&toy, utilities);
    assert_eq!(largest(&reliability), 0.0);
    assert_same(&pool_gradient(&toy, utilities), &relevance);
}

#[test]
fn a_cue_that_favors_credited_memories_gains_weight() {
    // With statistics taken as data, this pathway ends in the gate alone.
    let training = RetrieverTrainingConfig {
        weighting: CueWeighting::Detached,
        ..RetrieverTrainingConfig::default()
    };
    for seed in 0..5 {
        let toy = Toy::new(2, training, seed);
        let utilities = [3.0, 0.0, 0.0];
        let scores = toy.scores();
        let credit = credit(&scores, utilities);
        // q − r weighs what each cue says of the credited memories.
        let favor = |cue: usize| -> f64 {
            let said = scores.standardized[cue].values();
            credit.iter().zip(said).map(|(credit, score)| -credit * f64::from(*score)).sum()
        };
        let difference = favor(0) - favor(1);
        let [_, reliability] = pathways(&toy, utilities);
        let after = toy.moved(&reliability, 0.1).scores().weights.values()[0];
        let gained = f64::from(after - scores.weights.values()[0]);
        assert!(difference.abs() > 0.01, "the cues must disagree, they do by {difference}");
        assert!(gained * difference > 0.0, "{gained} {difference}");
    }
}

#[test]
fn the_variational_decomposition_holds_for_any_distribution() {
    for seed in 0..5 {
        let prior = recall_distribution(plain(seed).scores().fused.values());
        let utilities: Vec<f64> = set_utilities(seed).iter().map(|u| f64::from(*u)).collect();
        let likelihood: f64 = prior.iter().zip(&utilities).map(|(r, u)| r * u.exp()).sum::<f64>();
        let posterior: Vec<f64> =
            prior.iter().zip(&utilities).map(|(r, u)| r * u.exp() / likelihood).collect();
        let bound = |q: &[f64]| {
            let expected: f64 = q.iter().zip(&utilities).map(|(q, u)| q * u).sum();
            expected - divergence(q, &prior)
        };
        for draw in 0..20 {
            let numbers = drawn(prior.len(), 100 * seed + draw, "distribution");
            let q = softmax(&numbers.iter().map(|x| 3.0 * f64::from(*x)).collect::<Vec<_>>());
            let sum = bound(&q) + divergence(&q, &posterior);
            assert!((sum - likelihood.ln()).abs() < 1e-12);
            assert!(bound(&q) <= bound(&posterior), "the posterior maximizes the bound");
        }
        assert!((bound(&posterior) - likelihood.ln()).abs() < 1e-12);
        // Utilities alone maximize another bound, one with a uniform prior.
        let alone = softmax(&utilities);
        assert!(bound(&alone) < bound(&posterior) - 1e-3);
    }
}

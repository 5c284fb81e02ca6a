//! The retriever's loss over candidate pools against plain loops, and its health numbers.

use far_memory::MemoryId;
use far_model::{
    CandidateBatch, CandidatePools, DistillationTarget, RetrieverHealth, RetrieverScores,
    candidate_distillation,
};
use far_tensor::{Device, Random, Tape, Tensor};
use proptest::prelude::*;

const TARGETS: [DistillationTarget; 2] =
    [DistillationTarget::Posterior, DistillationTarget::UtilityOnly];

/// Candidates at these positions, the first `recalled` of them in the global pool.
fn pools(positions: &[usize], recalled: usize, local: &[usize]) -> CandidatePools {
    CandidatePools {
        ids: positions.iter().map(|position| MemoryId::from(*position)).collect(),
        positions: positions.to_vec(),
        global: (0..recalled).collect(),
        local: local.to_vec(),
        ..CandidatePools::default()
    }
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let total: f64 = scores.iter().map(|score| score.exp()).sum();
    scores.iter().map(|score| score.exp() / total).collect()
}

/// KL of one pool with its gradient by the scores; `None` if there is no choice.
fn reference(
    scores: &[f64],
    utilities: &[f64],
    target: DistillationTarget,
) -> Option<(f64, Vec<f64>)> {
    if scores.len() < 2 {
        return None;
    }
    let prior = softmax(scores);
    let informed: Vec<f64> = match target {
        DistillationTarget::Posterior => scores.iter().zip(utilities).map(|(s, u)| s + u).collect(),
        DistillationTarget::UtilityOnly => utilities.to_vec(),
    };
    let target = softmax(&informed);
    let divergence = target.iter().zip(&prior).map(|(q, r)| q * (q / r).ln()).sum();
    Some((divergence, target.iter().zip(&prior).map(|(q, r)| r - q).collect()))
}

struct Found {
    loss: f32,
    gradient: Vec<f32>,
    health: RetrieverHealth,
}

fn distill(
    fused: &Tensor,
    mask: &Tensor,
    pools: &[CandidatePools],
    utilities: &[Vec<f32>],
    target: DistillationTarget,
) -> Found {
    let candidates = CandidateBatch::new(mask, pools, utilities).expect("they fit");
    let mut tape = Tape::recording(&Device::cpu());
    let fused = tape.variable(fused);
    let weights = Tensor::from_slice(&vec![1.0; pools.len()], [pools.len(), 1]).expect("ones");
    let (raw, standardized) = (Vec::new(), Vec::new());
    let scores = RetrieverScores { fused: fused.clone(), weights, raw, standardized, set: None };
    let loss = candidate_distillation(&mut tape, &scores, &candidates, target).expect("it fits");
    let value = loss.item().expect("a scalar");
    let gradients = tape.backward(&loss, 1.0, &mut []).expect("one loss");
    let gradient = gradients.of(&fused).map_or(vec![0.0; fused.values().len()], <[f32]>::to_vec);
    let health = RetrieverHealth::measure(&scores, &candidates, target).expect("it fits");
    Found { loss: value, gradient, health }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn loss_and_gradient_match_plain_loops(
        sizes in prop::collection::vec((0usize..5, 0usize..7), 1..5),
        hidden in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let (examples, slots) = (sizes.len(), 12);
        let random = Random::stream(seed, "scores", 0);
        let mut values = vec![0.0; examples * slots];
        random.fill_normal(&mut values);
        let fused = Tensor::from_slice(&values, [examples, slots]).expect("as many");
        let mut seen = vec![1.0; examples * slots];
        if hidden {
            seen.iter_mut().step_by(5).for_each(|seen| *seen = 0.0);
        }
        let mask = Tensor::from_slice(&seen, [examples, slots]).expect("as many");
        let mut draw = Random::stream(seed, "utilities", 0);
        let (mut all, mut credits) = (Vec::new(), Vec::new());
        for (recalled, chunk) in &sizes {
            // Recalled at 0, 3, 6, 9; a chunk from 3 on, sharing its first and fourth with them.
            let mut positions: Vec<usize> = (0..*recalled).map(|rank| (3 * rank) % slots).collect();
            let mut local = Vec::new();
            for position in 3..3 + chunk {
                let known = positions.iter().position(|known| *known == position);
                local.push(known.unwrap_or_else(|| {
                    positions.push(position);
                    positions.len() - 1
                }));
            }
            credits.push(
                positions.iter().map(|_| 500.0 + 4.0 * draw.uniform()).collect::<Vec<f32>>(),
            );
            all.push(pools(&positions, *recalled, &local));
        }
        for target in TARGETS {
            let found = distill(&fused, &mask, &all, &credits, target);
            let mut expected_loss = 0.0;
            let mut expected = vec![0.0; examples * slots];
            let kinds: [fn(&CandidatePools) -> &[usize]; 2] = [|p| &p.global, |p| &p.local];
            for (kind, health) in kinds.into_iter().zip([&found.health.global, &found.health.local]) {
                let mut results = Vec::new();
                for (example, pools) in all.iter().enumerate() {
                    let members: Vec<(usize, f64)> = kind(pools)
                        .iter()
                        .map(|place| (example * slots + pools.positions[*place], f64::from(credits[example][*place])))
                        .filter(|(index, _)| seen[*index] != 0.0)
                        .collect();
                    let scores: Vec<f64> = members.iter().map(|(index, _)| f64::from(values[*index])).collect();
                    let utilities: Vec<f64> = members.iter().map(|(_, utility)| utility - 500.0).collect();
                    if let Some(result) = reference(&scores, &utilities, target) {
                        results.push((members, result));
                    }
                }
                prop_assert_eq!(health.is_some(), !results.is_empty());
                let count = results.len().max(1) as f64;
                let mean: f64 = results.iter().map(|(_, (divergence, _))| divergence / count).sum();
                if let Some(health) = health {
                    prop_assert!((health.divergence - mean).abs() < 1e-4);
                    prop_assert!(health.largest <= 1.0 + 1e-6 && health.effective_size >= 1.0 - 1e-6);
                }
                expected_loss += mean;
                for (members, (_, slopes)) in &results {
                    for ((index, _), slope) in members.iter().zip(slopes) {
                        expected[*index] += slope / count;
                    }
                }
            }
            prop_assert!((f64::from(found.loss) - expected_loss).abs() < 1e-4);
            for (found, expected) in found.gradient.iter().zip(&expected) {
                prop_assert!((f64::from(*found) - expected).abs() < 1e-4, "{found} {expected}");
            }
        }
    }
}

fn ones(shape: [usize; 2]) -> Tensor {
    Tensor::from_slice(&vec![1.0; shape[0] * shape[1]], shape).expect("as many")
}

#[test]
fn health_numbers_are_those_computed_by_hand() {
    // Scores 0, 0, ln 2 over two pools of one example; λ is given as one cue of weight 1.
    let fused = Tensor::from_slice(&[0.0, 0.0, 2f32.ln()], [1, 3]).expect("three");
    let pools = [pools(&[0, 1, 2], 2, &[0, 1, 2])];
    // Global: r = 1/2, 1/2 and q = 3/4, 1/4. Local: s + û = ln 3, 0, ln 2: q = 3/6, 1/6, 2/6.
    let utilities = [vec![3f32.ln(), 0.0, 0.0]];
    let found =
        distill(&fused, &ones([1, 3]), &pools, &utilities, DistillationTarget::Posterior).health;
    let near =
        |found: f64, expected: f64| assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    let global = found.global.expect("two candidates");
    near(global.divergence, 0.75 * 1.5f64.ln() + 0.25 * 0.5f64.ln());
    near(global.effective_size, 1.0 / (0.5625 + 0.0625));
    near(global.largest, 0.75);
    near(global.utility_gap, 3f64.ln() / 2.0);
    near(global.rank_correlation, 0.0);
    let local = found.local.expect("three candidates");
    near(local.effective_size, 36.0 / 14.0);
    near(local.largest, 0.5);
    near(local.utility_gap, 3f64.ln() * 2.0 / 3.0);
    // Ranks of scores ½, ½, 2 and of utilities 2, ½, ½: covariance −¾, both variances 1.5.
    near(local.rank_correlation, -0.5);
    assert_eq!(found.weights, [1.0]);
}

#[test]
fn a_batch_without_a_choice_teaches_nothing() {
    let fused = Tensor::zeros([1, 3]);
    let single = [pools(&[1], 1, &[0])];
    let candidates = CandidateBatch::new(&ones([1, 3]), &single, &[vec![1.0]]).expect("it fits");
    assert!(candidates.is_empty());
    let found =
        distill(&fused, &ones([1, 3]), &single, &[vec![1.0]], DistillationTarget::Posterior);
    assert_eq!((found.loss, found.health.global, found.health.local), (0.0, None, None));
    assert_eq!(found.gradient, [0.0; 3]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let two = [pools(&[0, 1], 2, &[])];
    let mask = ones([1, 3]);
    assert!(CandidateBatch::new(&mask, &two, &[vec![1.0, 2.0]]).is_ok());
    assert!(CandidateBatch::new(&mask, &two, &[vec![1.0]]).is_err());
    assert!(CandidateBatch::new(&mask, &two, &[]).is_err());
    assert!(CandidateBatch::new(&ones([2, 3]), &two, &[vec![1.0, 2.0]]).is_err());
    assert!(CandidateBatch::new(&ones([1, 1]), &two, &[vec![1.0, 2.0]]).is_err());
    let error = CandidateBatch::new(&mask, &two, &[vec![1.0, f32::NAN]]).err().expect("refused");
    assert!(error.to_string().contains("NaN at place 1"), "{error}");
}

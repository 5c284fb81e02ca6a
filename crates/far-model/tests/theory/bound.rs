//! Proposition 1 on a finite world: predictive information is bounded by a world model's gain in
//! likelihood, and the gap is its divergence from the truth.

use crate::toy::{divergence, drawn, softmax};

const FUTURES: usize = 3;
const HISTORIES: usize = 4;
const QUERIES: usize = 2;
const CONTEXTS: usize = 3;

/// A joint distribution of future, context and query, [query][context][future].
type Joint = [[[f64; FUTURES]; CONTEXTS]; QUERIES];

/// A random distribution over `count` outcomes.
fn distribution(count: usize, seed: u64, purpose: &str) -> Vec<f64> {
    softmax(&drawn(count, seed, purpose).iter().map(|x| 2.0 * f64::from(*x)).collect::<Vec<_>>())
}

/// The joint distribution that data over (query, history, future) and a retriever, which sees history
/// and query but not the future, give.
fn joint(seed: u64) -> Joint {
    let data = distribution(QUERIES * HISTORIES * FUTURES, seed, "data");
    let mut joint = Joint::default();
    for (query, contexts) in joint.iter_mut().enumerate() {
        for history in 0..HISTORIES {
            let place = query * HISTORIES + history;
            let recall = distribution(CONTEXTS, seed, &format!("recall {place}"));
            for future in 0..FUTURES {
                for (context, chance) in recall.iter().enumerate() {
                    contexts[context][future] += data[place * FUTURES + future] * chance;
                }
            }
        }
    }
    joint
}

/// Σ over everything of p·term(query, context, future).
fn expectation(joint: &Joint, term: impl Fn(usize, usize, usize) -> f64) -> f64 {
    let mut sum = 0.0;
    for (query, contexts) in joint.iter().enumerate() {
        for (context, futures) in contexts.iter().enumerate() {
            for (future, chance) in futures.iter().enumerate() {
                sum += chance * term(query, context, future);
            }
        }
    }
    sum
}

/// p(future | context, query).
fn conditional(joint: &Joint, query: usize, context: usize) -> Vec<f64> {
    let futures = &joint[query][context];
    let total: f64 = futures.iter().sum();
    futures.iter().map(|chance| chance / total).collect()
}

/// p(future | query).
fn marginal(joint: &Joint, query: usize) -> Vec<f64> {
    let sum = |future: usize| joint[query].iter().map(|futures| futures[future]).sum::<f64>();
    let sums: Vec<f64> = (0..FUTURES).map(sum).collect();
    let total: f64 = sums.iter().sum();
    sums.iter().map(|sum| sum / total).collect()
}

/// I(future; context | query).
fn information(joint: &Joint) -> f64 {
    expectation(joint, |query, context, future| {
        (conditional(joint, query, context)[future] / marginal(joint, query)[future]).ln()
    })
}

/// The world model's gain in likelihood over knowing the query alone.
fn gain(joint: &Joint, model: impl Fn(usize, usize) -> Vec<f64>) -> f64 {
    expectation(joint, |query, context, future| {
        (model(query, context)[future] / marginal(joint, query)[future]).ln()
    })
}

#[test]
fn predictive_information_bounds_every_world_models_gain() {
    for seed in 0..20 {
        let joint = joint(seed);
        let information = information(&joint);
        assert!(information >= 0.0);
        for draw in 0..5 {
            let model = |query: usize, context: usize| {
                let purpose = format!("model {query} {context}");
                distribution(FUTURES, 1000 * seed + draw, &purpose)
            };
            let gap = expectation(&joint, |query, context, _| {
                divergence(&conditional(&joint, query, context), &model(query, context))
            });
            assert!(gap > 0.0);
            assert!((information - gain(&joint, model) - gap).abs() < 1e-12);
        }
        // Tight where the world model is right.
        let right = |query, context| conditional(&joint, query, context);
        assert!((information - gain(&joint, right)).abs() < 1e-12);
    }
}

#[test]
fn a_retriever_that_ignores_history_gains_nothing() {
    // One context whatever happened: nothing to learn from it beyond the query.
    let mut joint = joint(3);
    for contexts in &mut joint {
        for future in 0..FUTURES {
            let sum: f64 = contexts.iter().map(|futures| futures[future]).sum();
            contexts.iter_mut().for_each(|futures| futures[future] = sum / CONTEXTS as f64);
        }
    }
    assert!(information(&joint).abs() < 1e-12);
}

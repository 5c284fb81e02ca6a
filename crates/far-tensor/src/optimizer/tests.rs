//! The optimizer against its formula, one value at a time in double precision.

use super::*;
use crate::testing::{assert_close, normal};
use crate::{ArenaBuilder, Initialization};

/// The formula, one value at a time, in double precision.
fn reference(config: AdamWConfig, start: &[f32], gradients: &[Vec<f32>]) -> (Vec<f32>, Vec<f32>) {
    let mut theta: Vec<f64> = start.iter().map(|x| f64::from(*x)).collect();
    let mut average = theta.clone();
    let (mut m, mut v) = (vec![0.0; start.len()], vec![0.0; start.len()]);
    for (index, gradient) in gradients.iter().enumerate() {
        let t = index as i32 + 1;
        let norm = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
        let clip = config.clip.map_or(1.0, |clip| (f64::from(clip) / norm).min(1.0));
        let progress = (index as f64 / config.warm_up.max(1) as f64).min(1.0);
        let from = f64::from(config.warm_up_from);
        let mut rate = f64::from(config.learning_rate) * (from + (1.0 - from) * progress);
        if let Some(end) = config.cosine_until {
            let angle = std::f64::consts::PI * (index as f64 / end as f64).min(1.0);
            rate *= (1.0 + angle.cos()) / 2.0;
        }
        let (b1, b2) = (f64::from(config.first_decay), f64::from(config.second_decay));
        let decay =
            f64::from(config.average_decay.unwrap_or(0.0)).min((1 + t) as f64 / (10 + t) as f64);
        for i in 0..theta.len() {
            let g = clip * f64::from(gradient[i]);
            m[i] = b1 * m[i] + (1.0 - b1) * g;
            v[i] = b2 * v[i] + (1.0 - b2) * g * g;
            let size = (v[i] / (1.0 - b2.powi(t))).sqrt() + f64::from(config.epsilon);
            theta[i] *= 1.0 - rate * f64::from(config.weight_decay);
            theta[i] -= rate * (m[i] / (1.0 - b1.powi(t))) / size;
            average[i] = decay * average[i] + (1.0 - decay) * theta[i];
        }
    }
    (theta.iter().map(|x| *x as f32).collect(), average.iter().map(|x| *x as f32).collect())
}

#[test]
fn updates_match_the_reference() {
    // The second falls to zero before the last update.
    for cosine_until in [None, Some(7)] {
        updates_match(AdamWConfig {
            learning_rate: 0.01,
            weight_decay: 0.1,
            warm_up: 4,
            cosine_until,
            ..AdamWConfig::default()
        });
    }
}

fn updates_match(config: AdamWConfig) {
    let mut builder = ArenaBuilder::new("toy");
    builder.parameter("a", [32], Initialization::Normal(1.0));
    let mut parameters = builder.build(3);
    let start = parameters.values().to_vec();
    let mut optimizer = AdamW::new(config, &parameters);
    let mut gradients = parameters.gradients();
    let steps: Vec<Vec<f32>> = (0..8)
        .map(|step| normal([32], 40 + step).values().iter().map(|g| g * 0.5).collect())
        .collect();
    for step in &steps {
        gradients.completed().copy_from_slice(step);
        optimizer.update(&mut parameters, &mut gradients).unwrap();
    }
    let (theta, average) = reference(config, &start, &steps);
    assert_close(parameters.values(), &theta, 2e-6);
    assert_close(optimizer.average().unwrap(), &average, 2e-6);
}

/// Trains arenas separately with the same gradients, which no clipping couples.
fn train(mut arenas: Vec<(Parameters, f32)>, steps: u64) -> Vec<(Vec<f32>, Vec<f32>)> {
    let trained = arenas.iter_mut().map(|(parameters, learning_rate)| {
        let config = AdamWConfig {
            learning_rate: *learning_rate,
            weight_decay: 0.1,
            warm_up: 2,
            clip: None,
            ..AdamWConfig::default()
        };
        let mut optimizer = AdamW::new(config, parameters);
        let mut gradients = parameters.gradients();
        for step in 0..steps {
            let noise = normal([parameters.values().len()], step);
            gradients.completed().copy_from_slice(noise.values());
            optimizer.update(parameters, &mut gradients).unwrap();
        }
        (parameters.values().to_vec(), optimizer.average().unwrap().to_vec())
    });
    trained.collect()
}

#[test]
fn a_rate_of_its_own_is_an_optimizer_of_its_own() {
    // Longer than a piece of work, so that boundaries of both kinds are crossed.
    let lengths = [GRAIN - 37, 50, 2 * GRAIN + 5, 21];
    let arena = |rates: [f32; 4]| {
        let mut builder = ArenaBuilder::new("toy");
        for (place, (length, rate)) in lengths.into_iter().zip(rates).enumerate() {
            let begin = Initialization::Normal(1.0);
            let id = builder.parameter(format!("p{place}"), [length], begin);
            builder.set_rate(id, rate);
        }
        builder.build(3)
    };
    let mixed = arena([1.0, 20.0, 1.0, 0.0]);
    let ranges: Vec<_> = mixed.entries.iter().map(|entry| entry.range.clone()).collect();
    let start = mixed.values().to_vec();
    let found = train(vec![(mixed, 1e-3), (arena([1.0; 4]), 1e-3), (arena([1.0; 4]), 2e-2)], 5);
    let [mixed, slow, fast] = &found[..] else { unreachable!("three were trained") };
    for (range, like) in ranges.iter().zip([slow, fast, slow]) {
        assert_close(&mixed.0[range.clone()], &like.0[range.clone()], 1e-6);
        assert_close(&mixed.1[range.clone()], &like.1[range.clone()], 1e-6);
    }
    assert_eq!(mixed.0[ranges[0].clone()], slow.0[ranges[0].clone()], "untouched bits");
    assert_eq!(mixed.0[ranges[3].clone()], start[ranges[3].clone()], "rate 0 keeps");
}

#[test]
fn a_non_finite_gradient_changes_nothing() {
    let mut builder = ArenaBuilder::new("toy");
    builder.parameter("a", [4], Initialization::One);
    let mut parameters = builder.build(3);
    let mut optimizer = AdamW::new(AdamWConfig::default(), &parameters);
    let mut gradients = parameters.gradients();
    gradients.completed()[2] = f32::INFINITY;
    assert!(matches!(
        optimizer.update(&mut parameters, &mut gradients),
        Err(Error::NonFinite { .. })
    ));
    assert_eq!(parameters.values()[..4], [1.0; 4]);
    assert_eq!(optimizer.updates(), 0);
}

//! Losses against errors counted by hand, and parts of a batch against the whole.

use super::*;
use crate::testing::{ELEMENTS, SHAPE, SIGNALS, assert_near, contexts, futures, normal, shaken};
use crate::{
    ConditionScale, ContextAttention, DdimConfig, DitConfig, Perturbations, PredictionKind,
};

fn core(attention: ContextAttention) -> (DitDiffusion, Parameters) {
    let config = DitConfig { depth: 4, width: 8, heads: 2, attention, ..DitConfig::default() };
    let scale = ConditionScale { length: 2.0, time: 6.4 };
    let setting = DitSetting { config, shape: SHAPE, scale, signals: SIGNALS, view: None };
    let (core, parameters) = DitDiffusion::new(setting, 3, &Device::cpu()).unwrap();
    (core, shaken(&parameters, 3))
}

/// A device that takes everything at once gives what small parts give.
#[test]
fn the_size_of_parts_changes_nothing() {
    for attention in [ContextAttention::Joint, ContextAttention::ContextFirst] {
        let (mut core, parameters) = core(attention);
        let contexts = contexts(1, &(0..40).map(|example| example % 2).collect::<Vec<_>>(), 5);
        // Twenty futures with two contexts each.
        let futures = futures(20, 5);
        let weights: Vec<f32> = futures.latents.iter().map(|value| value.abs()).collect();
        let drawn = Perturbations::stratified(0..1000, [20, 3, ELEMENTS], 1, "draw", 0);
        let batch = TrainingBatch::new(&core, &contexts, &futures, &drawn, Some(&weights)).unwrap();
        let noise = normal(40 * ELEMENTS, "noise", 5);
        let sampler = DdimConfig { steps: 3, ..DdimConfig::default() };
        let run = |core: &DitDiffusion| {
            let losses = core.losses(&parameters, &batch).unwrap();
            (losses, core.sample(&parameters, &contexts, &noise, &sampler).unwrap())
        };
        assert_eq!(core.together(&contexts, 3, TOGETHER), 10);
        let small = run(&core);
        core.parallel = false;
        // 3 frames of 2 tokens of 8 channels each.
        assert_eq!(core.together(&contexts, 3, TOGETHER), (1 << 27) / 48 / 3);
        let large = run(&core);
        assert_near("losses", &large.0, &small.0);
        assert_near("samples", &large.1, &small.1);
    }
}

/// Errors by hand of a network that predicts zero.
#[test]
fn losses_of_a_fresh_network_are_weighted_squares() {
    let (core, _) = core(ContextAttention::Joint);
    let fresh = core.setting.network().unwrap().0.build(3);
    let (contexts, futures) = (contexts(1, &[1, 1, 1, 0], 5), futures(2, 5));
    let weights: Vec<f32> = futures.latents.iter().map(|value| value.abs()).collect();
    let drawn = Perturbations::stratified(0..1000, [2, 2, ELEMENTS], 1, "draw", 0);
    let batch = TrainingBatch::new(&core, &contexts, &futures, &drawn, Some(&weights)).unwrap();
    let found = core.losses(&fresh, &batch).unwrap();
    let expected: Vec<f32> = (0..8)
        .map(|sample| {
            let (example, draw) = (sample / 4, sample / 4 * 2 + sample % 2);
            let noise = &drawn.noise[draw * ELEMENTS..(draw + 1) * ELEMENTS];
            let weights = &weights[example * ELEMENTS..(example + 1) * ELEMENTS];
            let sum: f32 = noise.iter().zip(weights).map(|(noise, w)| w * noise * noise).sum();
            sum / ELEMENTS as f32
        })
        .collect();
    assert_near("losses", &found, &expected);
}

/// A network that predicts the future itself: noise does not enter.
#[test]
fn clean_losses_are_weighted_by_place() {
    let (core, _) = core(ContextAttention::Joint);
    let prediction = PredictionKind::Clean;
    let config = DitConfig { prediction, learned_variance: false, ..core.setting.config };
    let setting = DitSetting { config, ..core.setting.clone() };
    let (core, fresh) = DitDiffusion::new(setting, 3, &Device::cpu()).unwrap();
    let (contexts, futures) = (contexts(1, &[1, 0], 5), futures(2, 5));
    let given: Vec<f32> = futures.latents.iter().map(|value| value.abs()).collect();
    let drawn = Perturbations::stratified(0..1000, [2, 1, ELEMENTS], 1, "draw", 0);
    for weights in [None, Some(&given[..])] {
        let batch = TrainingBatch::new(&core, &contexts, &futures, &drawn, weights).unwrap();
        let expected: Vec<f32> = (0..2)
            .map(|example| {
                let span = example * ELEMENTS..(example + 1) * ELEMENTS;
                let squares =
                    span.map(|at| weights.map_or(1.0, |w| w[at]) * futures.latents[at].powi(2));
                squares.sum::<f32>() / ELEMENTS as f32
            })
            .collect();
        assert_near("losses", &core.losses(&fresh, &batch).unwrap(), &expected);
        // Training counts the same errors.
        let mut tape = Tape::inference(&core.device);
        let loss = core.frame_loss(&mut Pass::new(&mut tape, &fresh), &batch, 0..2).unwrap();
        assert_near("loss", loss.values(), &[expected.iter().sum::<f32>() / 2.0]);
    }
}

//! What the tests of the world model share: small latents, contexts, parameters without zeros.

use crate::{
    Channel, ConditionScale, ContextBatch, FrameSignals, Futures, GoalWarp, LatentShape,
    LinearPatches, PredictionQuery, Remembered, SignalLayout,
};
use far_memory::{Camera, Pose};
use far_tensor::{Parameters, PatchGrid, Random, Tensor};

pub(crate) const SHAPE: LatentShape = LatentShape { channels: 2, height: 4, width: 2, patch: 2 };
pub(crate) const ELEMENTS: usize = 16;
pub(crate) const SIGNALS: SignalLayout = SignalLayout {
    action: Channel { name: "action", width: 1 },
    viewpoint: Channel { name: "viewpoint", width: 1 },
    state: Channel { name: "state", width: 6 },
    goal_state: Channel { name: "goal_state", width: 3 },
};

/// Seeded normal values.
pub(crate) fn normal(count: usize, purpose: &str, seed: u64) -> Vec<f32> {
    let mut values = vec![0.0; count];
    Random::stream(seed, purpose, 0).fill_normal(&mut values);
    values
}

/// The parameters at random, all of a moderate size, so that everything has an effect.
pub(crate) fn shaken(parameters: &Parameters, seed: u64) -> Parameters {
    let mut values = normal(parameters.values().len(), "parameters", seed);
    values.iter_mut().for_each(|value| *value *= 0.3);
    parameters.with_values(&values).expect("as many values")
}

/// A batch of contexts with so many memories each, out of `slots`; pairs of them have their query and
/// their present in common, as candidates have.
pub(crate) fn contexts(slots: usize, filled: &[usize], seed: u64) -> ContextBatch<'static> {
    let pose = |x: f32| Pose::from_yaw_pitch([x, 0.5 * x, 1.6], 0.3 * x, 0.1);
    let mut batch =
        ContextBatch::new(SHAPE, ConditionScale { length: 2.0, time: 6.4 }, slots, SIGNALS);
    let frames: Vec<[Vec<Vec<f32>>; 2]> = (0..filled.len())
        .map(|example| {
            let rows = |purpose: &str, width: usize| {
                let row = |slot| normal(width, &format!("{purpose} {example} {slot}"), seed);
                (0..filled[example]).map(row).collect()
            };
            [rows("memory", ELEMENTS), rows("state", SIGNALS.state.width)]
        })
        .collect();
    let presents: Vec<Vec<f32>> = (0..filled.len().div_ceil(2))
        .map(|pair| normal(ELEMENTS, &format!("present {pair}"), seed))
        .collect();
    let viewpoints: Vec<f32> = (0..slots).map(|slot| 0.2 * slot as f32).collect();
    for (example, [latents, states]) in frames.iter().enumerate() {
        let pair = (example / 2) as u64;
        let query = PredictionQuery {
            time: 10.0,
            pose: pose(pair as f32),
            goal: pose(pair as f32 + 1.0),
            stride: 0.4 + pair as f32,
            action: vec![0.5 * pair as f32],
            present: FrameSignals {
                viewpoint: &[0.1],
                state: &normal(SIGNALS.state.width, &format!("state {pair}"), seed),
            },
            goal_viewpoint: &[0.3 * pair as f32],
        };
        let memories = latents.iter().enumerate().map(|(slot, latent)| Remembered {
            time: slot as f64 + 0.3 * example as f64,
            pose: Some(pose(slot as f32 - 0.7 * example as f32)),
            latent,
            signals: FrameSignals { viewpoint: &viewpoints[slot..=slot], state: &states[slot] },
        });
        batch.push(&query, &presents[example / 2], memories).unwrap();
    }
    batch.into_owned()
}

/// The futures of so many predictions.
pub(crate) fn futures(examples: usize, seed: u64) -> Futures {
    let state = |example: usize| [(example % 2) as f32, 0.3, 0.1 * example as f32];
    Futures {
        latents: normal(examples * ELEMENTS, "futures", seed),
        states: (0..examples).flat_map(state).collect(),
    }
}

/// Tokens that have the pixels of their patches, thrice as large and one more.
pub(crate) fn goal_view(grid: PatchGrid, camera: &Camera) -> GoalWarp {
    let values = grid.values();
    let diagonal = |value: f32| {
        let weight = |place| if place % (values + 1) == 0 { value } else { 0.0 };
        let weights: Vec<f32> = (0..values * values).map(weight).collect();
        Tensor::from_slice(&weights, [values, values]).expect("a square")
    };
    let offset = |value| Tensor::from_slice(&vec![value; values], [values]).expect("a row");
    let decode = [diagonal(1.0 / 3.0), offset(-1.0 / 3.0)];
    GoalWarp::new(LinearPatches { grid, decode, encode: [diagonal(3.0), offset(1.0)] }, camera)
}

/// Fails unless all values agree within rounding of the largest.
pub(crate) fn assert_near(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(1e-3f32, |most, value| most.max(value.abs()));
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        let near = (found - expected).abs() <= 2e-5 * scale;
        assert!(near, "{what} {place}: {found}, not {expected} (of {scale})");
    }
}

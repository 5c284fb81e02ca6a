//! Sharing changes nothing: the network against one that takes every frame of every sample through
//! every block, by itself.

use super::*;
use crate::PredictionKind;
use crate::layer::Pass;
use crate::testing::{ELEMENTS, SHAPE, SIGNALS, assert_near, contexts, goal_view, normal, shaken};
use crate::world_model::config::ContextAttention;
use crate::world_model::noisy_target::NoisyTargets;
use crate::world_model::reference::{self, Sample};
use crate::world_model::row_index::RowIndex;
use far_memory::Camera;
use far_tensor::{Device, Parameters, PatchGrid};
use proptest::prelude::*;

fn network(config: DitConfig, seed: u64) -> (DitNetwork, Parameters) {
    let mut builder = ArenaBuilder::new("network");
    let grid = PatchGrid { rows: 2, columns: 1, colors: 2, side: 2 };
    let view = Arc::new(goal_view(grid, &Camera::from_degrees(90.0, 90.0)));
    let view = config.seen_from_goal.map(|distance| (view, distance));
    let network = DitNetwork::new(&mut builder, config, SHAPE, SIGNALS, view).unwrap();
    let parameters = shaken(&builder.build(seed), seed);
    (network, parameters)
}

/// The values of `output` and the gradients of all parameters from a weighted sum of them.
fn values_and_gradients(
    parameters: &Parameters,
    output: impl FnOnce(&mut Tape) -> Result<Tensor>,
) -> (Vec<f32>, Vec<f32>) {
    let mut tape = Tape::recording(&Device::cpu());
    let output = output(&mut tape).unwrap();
    let weights = normal(output.shape().elements(), "weights", 1);
    let weights = Tensor::from_slice(&weights, *output.shape()).unwrap();
    let weighted = tape.multiply(&output, &weights).unwrap();
    let loss = tape.sum(&weighted).unwrap();
    let mut gradients = parameters.gradients();
    tape.backward(&loss, 1.0, &mut [&mut gradients]).unwrap();
    (output.values().to_vec(), gradients.completed().to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn sharing_changes_neither_values_nor_gradients(
        depth in 2usize..8,
        joint in any::<bool>(),
        output in 0usize..3,
        slots in 0usize..3,
        filled in prop::collection::vec(0usize..3, 1..5),
        draws in 1usize..4,
        shared in any::<bool>(),
        first in 0usize..2,
        seen in any::<bool>(),
        seed in 0u64..99,
    ) {
        let attention = if joint { ContextAttention::Joint } else { ContextAttention::ContextFirst };
        let config = DitConfig {
            depth,
            width: 8,
            heads: 2,
            attention,
            prediction: if output == 2 { PredictionKind::Clean } else { PredictionKind::Noise },
            learned_variance: output == 1,
            copy: output == 2,
            // So far that frames a few meters away are still compared.
            seen_from_goal: seen.then_some(9.0),
            ..DitConfig::default()
        };
        let (network, parameters) = network(config, seed);
        let filled: Vec<usize> = filled.iter().map(|count| (*count).min(slots)).collect();
        let contexts = contexts(slots, &filled, seed);
        let goal_states = normal(filled.len() * SIGNALS.goal_state.width, "states", seed);
        // Targets of a pair of contexts share their state, as they share everything else.
        let goal_states: Vec<f32> = (0..filled.len())
            .flat_map(|example| goal_states[example / 2 * 3..example / 2 * 3 + 3].to_vec())
            .collect();
        let range = first.min(filled.len() - 1)..filled.len();
        // Targets of a pair of contexts are one or each their own.
        let alike = |a: usize, b: usize| shared && (range.start + a) / 2 == (range.start + b) / 2;
        let (goals, of_context) = RowIndex::distinct(range.len(), 1, alike);
        let count = goals.len() * draws;
        let noisy = normal(count * ELEMENTS, "noisy", seed);
        let timesteps: Vec<f32> = (0..count).map(|draw| 37.0 * draw as f32).collect();
        let of_draws: Vec<usize> =
            of_context.rows().iter().flat_map(|goal| goal * draws..(goal + 1) * draws).collect();

        let expected = values_and_gradients(&parameters, |tape| {
            let outputs: Result<Vec<Tensor>> = of_draws
                .iter()
                .enumerate()
                .map(|(sample, target)| {
                    let noisy = &noisy[target * ELEMENTS..(target + 1) * ELEMENTS];
                    let (example, timestep) = (range.start + sample / draws, timesteps[*target]);
                    let (contexts, goal_states) = (&contexts, &goal_states[..]);
                    let sample = Sample { contexts, example, goal_states, noisy, timestep };
                    reference::forward(&network, &mut Pass::new(tape, &parameters), &sample)
                })
                .collect();
            let outputs = outputs?;
            tape.concat(&outputs.iter().collect::<Vec<_>>(), 0)
        });

        let sizes = [count, SHAPE.tokens(), SHAPE.token_width()];
        let latents = Tensor::from_slice(&noisy, sizes).unwrap();
        let predictions = (0..count).map(|draw| goals[draw / draws]).collect();
        let noisy = NoisyTargets {
            latents: &latents,
            timesteps: &timesteps,
            predictions: RowIndex::new(predictions, range.len()),
            draws: RowIndex::new(of_draws, count),
        };
        let run = |tape: &mut Tape| {
            let state = network.read_context(
                &mut Pass::new(tape, &parameters), &contexts, &goal_states, range.clone(),
            )?;
            network.target(&mut Pass::new(tape, &parameters), &state, &noisy)
        };
        let found = values_and_gradients(&parameters, run);
        assert_near("output", &found.0, &expected.0);
        assert_near("gradient", &found.1, &expected.1);
        let inference = run(&mut Tape::inference(&Device::cpu())).unwrap();
        prop_assert_eq!(inference.values(), &found.0[..]);
    }
}

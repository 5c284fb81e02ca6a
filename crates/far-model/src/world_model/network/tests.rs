//! Sharing changes nothing: the network against one that takes every frame of every sample through
//! every block, by itself.

use super::*;
use crate::PredictionKind;
use crate::testing::{ELEMENTS, SHAPE, TOLD, assert_near, contexts, goal_view, normal, shaken};
use crate::world_model::config::ContextAttention;
use crate::world_model::context::ContextBatch;
use crate::world_model::noisy_target::NoisyTargets;
use crate::world_model::row_index::Places;
use far_memory::Camera;
use far_tensor::{Attention, Device, Modulation, PatchGrid};
use proptest::prelude::*;

fn network(config: DitConfig, seed: u64) -> (DitNetwork, Parameters) {
    let mut builder = ArenaBuilder::new("network");
    let grid = PatchGrid { rows: 2, columns: 1, colors: 2, side: 2 };
    let view = Arc::new(goal_view(grid, &Camera::from_degrees(90.0, 90.0)));
    let view = config.seen_from_goal.map(|distance| (view, distance));
    let network = DitNetwork::new(&mut builder, config, SHAPE, TOLD, view).unwrap();
    let parameters = shaken(&builder.build(seed), seed);
    (network, parameters)
}

/// The output for one noisy target and one context.
fn plain(
    network: &DitNetwork,
    tape: &mut Tape,
    parameters: &Parameters,
    contexts: &ContextBatch<'_>,
    example: usize,
    noisy: &[f32],
    timestep: f32,
) -> Result<Tensor> {
    let (tokens, width) = (network.shape.tokens(), network.config.width);
    let own: Vec<usize> =
        (0..=contexts.slots()).map(|f| example * (1 + contexts.slots()) + f).collect();
    let frames = 1 + own.len();
    let target = Tensor::from_slice(noisy, [1, tokens, network.shape.token_width()])?;
    let context = network.context_tokens(tape, contexts, &own)?;
    let latents = tape.concat(&[&target, &context], 0)?;
    let x = network.embed(tape, parameters, &latents)?;
    let mut x = x.reshape([frames * tokens, width])?;
    let mut offered = None;
    let goal = network.embedding.goal(tape, parameters, contexts, example..example + 1)?;
    let target = network.embedding.target(tape, parameters, &goal, &[timestep])?;
    let context = network.embedding.context(tape, parameters, contexts, &own)?;
    let condition = tape.concat(&[&target, &context], 0)?;
    let mut seen = vec![1.0; 2 * tokens];
    for slot in 0..contexts.slots() {
        let present = contexts.present()[example * contexts.slots() + slot];
        seen.resize(seen.len() + tokens, f32::from(present));
    }
    let mask = Tensor::from_slice(&seen, [1, frames * tokens])?;
    let context_mask = Tensor::from_slice(&seen[tokens..], [1, (frames - 1) * tokens])?;
    let heads = network.config.heads;
    for (index, block) in network.blocks.iter().enumerate() {
        let modulation = block.modulate(tape, parameters, &condition)?;
        let entered = block.enter(tape, parameters, &x, modulation)?;
        let attended = if index % 2 == 0 {
            block.attend(tape, &entered, Grouping { groups: frames, key_mask: None })?
        } else if network.config.attention == ContextAttention::Joint {
            block.attend(tape, &entered, Grouping { groups: 1, key_mask: Some(&mask) })?
        } else {
            let query = tape.slice(&entered.qkv, 1, 0..width)?;
            let keys = tape.slice(&entered.qkv, 1, width..3 * width)?;
            let target = tape.slice(&query, 0, 0..tokens)?;
            let all = Attention { heads, groups: 1, key_mask: Some(&mask) };
            let target = tape.cross_attention(&target, &keys, all)?;
            let context = tape.slice(&query, 0, tokens..frames * tokens)?;
            let keys = tape.slice(&keys, 0, tokens..frames * tokens)?;
            let others = Attention { heads, groups: 1, key_mask: Some(&context_mask) };
            let context = tape.cross_attention(&context, &keys, others)?;
            tape.concat(&[&target, &context], 0)?
        };
        x = block.leave(tape, parameters, &entered, &attended)?;
        if let (0, Some(copy)) = (index, &network.copy) {
            let inside = x.reshape([frames, tokens, width])?;
            // The target is no context; nobody asks how far it lies from itself.
            let away = own.iter().map(|frame| contexts.distance_from_goal(*frame));
            let away: Vec<f32> = [0.0].into_iter().chain(away).collect();
            let all = copy.offer(tape, parameters, &inside, &latents, &away)?;
            let context = tape.slice(&all, 0, 1..frames)?;
            let newer = contexts.superseded(example..example + 1);
            let looks = contexts.looks(example..example + 1);
            let offer = copy.compare(tape, parameters, &context, &newer, &looks)?;
            let target = tape.slice(&x, 0, 0..tokens)?;
            let shown = offer.shown.reshape([tokens, width])?;
            let target = tape.add(&target, &shown)?;
            let rest = tape.slice(&x, 0, tokens..frames * tokens)?;
            x = tape.concat(&[&target, &rest], 0)?;
            offered = Some(offer);
        }
    }
    let x = tape.slice(&x, 0, 0..tokens)?;
    let vectors = network.final_modulation.forward(tape, parameters, &target)?;
    let vectors = vectors.reshape([1, 2, width])?;
    let modulation = Modulation { vectors: &vectors, shift: 0, scale: 1 };
    let x = tape.modulated_norm(&x, None, modulation, 1e-6)?;
    let y = network.output.forward(tape, parameters, &x)?;
    let y = y.reshape([1, tokens, y.shape().last()])?;
    let (Some(copy), Some(offered)) = (&network.copy, offered) else { return Ok(y) };
    let x = x.reshape([1, tokens, width])?;
    let noisy = tape.slice(&latents, 0, 0..1)?;
    let copied = copy.take(tape, parameters, &x, &noisy, &offered, Some(&context_mask))?;
    tape.add(&y, &copied)
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
        let range = first.min(filled.len() - 1)..filled.len();
        // Targets of a pair of contexts are one or each their own.
        let alike = |a: usize, b: usize| shared && (range.start + a) / 2 == (range.start + b) / 2;
        let (goals, of_context) = Places::distinct(range.len(), 1, alike);
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
                    plain(&network, tape, &parameters, &contexts, example, noisy, timestep)
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
            predictions: Places::new(predictions, range.len()),
            draws: Places::new(of_draws, count),
        };
        let run = |tape: &mut Tape| {
            let state = network.read_context(tape, &parameters, &contexts, range.clone())?;
            network.target(tape, &parameters, &state, &noisy)
        };
        let found = values_and_gradients(&parameters, run);
        assert_near("output", &found.0, &expected.0);
        assert_near("gradient", &found.1, &expected.1);
        let inference = run(&mut Tape::inference(&Device::cpu())).unwrap();
        prop_assert_eq!(inference.values(), &found.0[..]);
    }
}

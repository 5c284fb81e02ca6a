//! The whole forward pass, in the paper's order: one noisy target, one context, no fast path.
//!
//! Read this first. What the network really does (`shared_context`, `noisy_target`, `modulation_table`)
//! computes nothing twice and is tested against it.
//!
//! Shapes: F = 2 + K frames (target, current, K slots), T tokens per frame, P channels of a latent's
//! token, D the network's width.

use crate::ContextBatch;
use crate::layer::Pass;
use crate::world_model::block::{Entered, Grouping};
use crate::world_model::config::ContextAttention;
use crate::world_model::extension::copy_head::CopyCandidates;
use crate::world_model::network::DitNetwork;
use far_tensor::{Attention, Modulation, Result, Tape, Tensor};

/// One prediction of a batch, with its noisy target at one diffusion time.
pub(crate) struct Sample<'a> {
    pub(crate) contexts: &'a ContextBatch<'a>,
    /// Which prediction of the batch.
    pub(crate) example: usize,
    /// The states at the goals of all predictions, [B, goal_state].
    pub(crate) goal_states: &'a [f32],
    /// The noisy target, [T·P].
    pub(crate) noisy: &'a [f32],
    /// Its diffusion time.
    pub(crate) timestep: f32,
}

/// The network's output for the noisy target: [1, T, P], or 2·P where the variance is learned.
pub(crate) fn forward(
    network: &DitNetwork,
    pass: &mut Pass<'_>,
    sample: &Sample<'_>,
) -> Result<Tensor> {
    let Sample { contexts, example, goal_states, noisy, timestep } = *sample;
    let (slots, tokens, width) = (contexts.slots(), network.shape.tokens(), network.config.width);
    let own: Vec<usize> = (example * (1 + slots)..(example + 1) * (1 + slots)).collect();
    let frames = 1 + own.len(); // F

    // Tokens of target, current and slots, with their positions in the frame.
    let target = Tensor::from_slice(noisy, [1, tokens, network.shape.token_width()])?; // [1, T, P]
    let context = network.context_tokens(pass, contexts, &own)?; // [F − 1, T, P]
    let latents = pass.concat(&[&target, &context], 0)?; // [F, T, P]
    let x = network.embed(pass, &latents)?; // [F, T, D]
    let mut x = x.reshape([frames * tokens, width])?; // [F·T, D]

    // Conditioning c_f: diffusion time, pose, time, role, stride, signals.
    let embedding = &network.embedding;
    let one = example..example + 1;
    let goal = embedding.goal(pass, contexts, goal_states, one)?; // [1, D]
    let target = embedding.target(pass, &goal, &[timestep])?; // [1, D]
    let context = embedding.context(pass, contexts, &own)?; // [F − 1, D]
    let condition = pass.concat(&[&target, &context], 0)?; // [F, D]

    // Empty slots cannot be read.
    let present = &contexts.present()[example * slots..(example + 1) * slots];
    let filled = [true, true].iter().chain(present);
    let seen: Vec<f32> = filled.flat_map(|seen| vec![f32::from(*seen); tokens]).collect(); // [F·T]
    let mask = Tensor::from_slice(&seen, [1, frames * tokens])?;
    let context_mask = Tensor::from_slice(&seen[tokens..], [1, (frames - 1) * tokens])?;

    // Blocks attend, in turn, inside each frame and over all frames.
    let mut candidates = None;
    for (index, block) in network.blocks.iter().enumerate() {
        let modulation = block.modulate(pass, &condition)?; // [F, 6, D]
        let entered = block.enter(pass, &x, modulation)?; // qkv: [F·T, 3·D]
        let attended = match network.config.attention {
            _ if index % 2 == 0 => {
                block.attend(pass, &entered, Grouping { groups: frames, key_mask: None })?
            }
            ContextAttention::Joint => {
                block.attend(pass, &entered, Grouping { groups: 1, key_mask: Some(&mask) })?
            }
            ContextAttention::ContextFirst => {
                context_first(network, pass, &entered, [&mask, &context_mask])?
            }
        }; // [F·T, D]
        x = block.leave(pass, &entered, &attended)?; // [F·T, D]
        if index == 0 && network.copy.is_some() {
            let offered = copy_candidates(network, pass, sample, &latents, &x)?;
            let target = pass.slice(&x, 0, 0..tokens)?;
            let target = pass.add(&target, &offered.shown.reshape([tokens, width])?)?;
            let rest = pass.slice(&x, 0, tokens..frames * tokens)?;
            x = pass.concat(&[&target, &rest], 0)?;
            candidates = Some(offered);
        }
    }

    // The final layer sees the target alone.
    let x = pass.slice(&x, 0, 0..tokens)?; // [T, D]
    let vectors = network.final_modulation.forward(pass, &target)?; // [1, 2·D]
    let vectors = vectors.reshape([1, 2, width])?;
    let modulation = Modulation { vectors: &vectors, shift: 0, scale: 1 };
    let x = pass.modulated_norm(&x, None, modulation, 1e-6)?; // [T, D]
    let output = network.output.forward(pass, &x)?; // [T, P or 2·P]
    let output = output.reshape([1, tokens, output.shape().last()])?;
    let (Some(copy), Some(candidates)) = (&network.copy, candidates) else { return Ok(output) };
    let (x, noisy) = (x.reshape([1, tokens, width])?, pass.slice(&latents, 0, 0..1)?);
    let copied = copy.take(pass, &x, &noisy, &candidates, Some(&context_mask))?;
    pass.add(&output, &copied) // [1, T, P]
}

/// Attention in which the context never reads the target: [F·T, D].
fn context_first(
    network: &DitNetwork,
    tape: &mut Tape,
    entered: &Entered,
    [mask, context_mask]: [&Tensor; 2],
) -> Result<Tensor> {
    let (tokens, width, heads) =
        (network.shape.tokens(), network.config.width, network.config.heads);
    let rows = entered.qkv.shape().rows();
    let query = tape.slice(&entered.qkv, 1, 0..width)?;
    let keys = tape.slice(&entered.qkv, 1, width..3 * width)?;
    let target = tape.slice(&query, 0, 0..tokens)?;
    let all = Attention { heads, groups: 1, key_mask: Some(mask) };
    let target = tape.cross_attention(&target, &keys, all)?; // [T, D]
    let context = tape.slice(&query, 0, tokens..rows)?;
    let keys = tape.slice(&keys, 0, tokens..rows)?;
    let others = Attention { heads, groups: 1, key_mask: Some(context_mask) };
    let context = tape.cross_attention(&context, &keys, others)?; // [(F − 1)·T, D]
    tape.concat(&[&target, &context], 0)
}

/// What the copy head can take of the context, after the first block.
fn copy_candidates(
    network: &DitNetwork,
    pass: &mut Pass<'_>,
    sample: &Sample<'_>,
    latents: &Tensor,
    x: &Tensor,
) -> Result<CopyCandidates> {
    let Sample { contexts, example, .. } = *sample;
    let copy = network.copy.as_ref().expect("a network that copies");
    let (tokens, width) = (network.shape.tokens(), network.config.width);
    let frames = x.shape().rows() / tokens;
    let inside = x.reshape([frames, tokens, width])?;
    // The target is no context frame; its own distance from the goal is never used.
    let own = example * (frames - 1)..(example + 1) * (frames - 1);
    let away = own.map(|frame| contexts.distance_from_goal(frame));
    let away: Vec<f32> = [0.0].into_iter().chain(away).collect();
    let all = copy.offer(pass, &inside, latents, &away)?; // [F, T, 2·P]
    let context = pass.slice(&all, 0, 1..frames)?;
    let (newer, views) =
        (contexts.superseded(example..example + 1), contexts.views(example..example + 1));
    copy.compare(pass, &context, &newer, &views)
}

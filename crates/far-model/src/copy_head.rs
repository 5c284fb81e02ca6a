//! Copying: what a memory shows as it will be need not be drawn again.
//!
//! A token of the target attends once more to the tokens of its context, whose values are their latents
//! themselves, and adds what it finds, each channel as far as its gate is open, and as much of what
//! it shows itself through the noise:
//! x̂₀ = W·h + gate(h) ⊙ Σ_j softmax_j(q(h)·k_j / √P)·z_j + own(h) ⊙ x_t.
//! A picture that returns to the pixel then need not pass through the channels of the network, nor one
//! that is nearly drawn. Queries and keys begin with a code of where in its frame a token stands and with
//! how far from the goal its frame was seen, so that each finds its own place in the nearest frame at
//! once and only has to learn which other frame, or which other place, to look at.

use crate::LatentShape;
use crate::dit::Linear;
use far_tensor::{ArenaBuilder, Attention, Initialization, Parameters, Result, Tape, Tensor};
use std::f64::consts::PI;

/// By how many nats a token's own place is ahead of places in other rows and columns at first: enough
/// that of all tokens of a frame it has more than 98 %.
const AHEAD: f64 = 16.0;
/// By how many nats a frame falls behind for each unit that it lies away from the goal, at first.
const BEHIND: f32 = 40.0;
/// What queries have in the last channel at first, where keys have the distance: so much that what either
/// learns to add there, of the order of 1, changes little before it has learned.
const LAST: f32 = 4.0;

/// The last part of a network that copies; its parameters live in the network's arena.
pub(crate) struct CopyHead {
    /// Where tokens stand, [T, P].
    places: Tensor,
    /// The same for queries, who also weigh distance.
    asking: Tensor,
    query: Linear,
    key: Linear,
    gate: Linear,
    /// How much of the noisy target is kept.
    own: Linear,
}

impl CopyHead {
    /// Adds the parameters for tokens of `width` channels inside the network; gates begin open, so
    /// that a fresh network predicts what the nearest frame shows.
    pub(crate) fn new(
        builder: &mut ArenaBuilder,
        width: usize,
        shape: LatentShape,
    ) -> Result<Self> {
        let sizes = [width, shape.token_width()];
        let zero = Initialization::Zero;
        let mut part = |name: &str, weight, bias| Linear::new(builder, name, sizes, weight, bias);
        Ok(Self {
            places: places(shape, 0.0)?,
            asking: places(shape, LAST)?,
            query: part("copy_head.query", Initialization::Xavier, zero),
            key: part("copy_head.key", Initialization::Xavier, zero),
            gate: part("copy_head.gate", zero, Initialization::One),
            own: part("copy_head.own", zero, zero),
        })
    }

    /// What context frames offer that lie so far from the goal, `[f]`: keys of their tokens inside the
    /// network, [f, T, D], and behind them the latents that they stand for, [f, T, P]. In all
    /// [f, T, 2·P].
    pub(crate) fn offer(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        x: &Tensor,
        latents: &Tensor,
        away: &[f32],
    ) -> Result<Tensor> {
        let x = tape.layer_norm(x, None, 1e-6)?;
        let key = self.key.forward(tape, parameters, &x)?;
        let key = placed(tape, &key, &self.places)?;
        // Attention divides by √P.
        let width = key.shape().last();
        let factor = -BEHIND * (width as f32).sqrt() / LAST;
        let mut nearness = vec![0.0; away.len() * width];
        for (row, distance) in nearness.chunks_exact_mut(width).zip(away) {
            row[width - 1] = factor * distance;
        }
        let nearness = Tensor::from_slice(&nearness, [away.len(), width])?;
        let nearness = tape.repeat(&nearness, 1, self.places.shape().rows())?;
        let key = tape.add(&key, &nearness.reshape(*key.shape())?)?;
        tape.concat(&[&key, latents], 2)
    }

    /// What targets [m, T, D], which show `noisy` [m, T, P], take of it and of what their contexts offer,
    /// [m, L, 2·P]; the mask says which of those tokens there are, [m, L]. In all [m, T, P].
    pub(crate) fn take(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        x: &Tensor,
        noisy: &Tensor,
        offered: &Tensor,
        key_mask: Option<&Tensor>,
    ) -> Result<Tensor> {
        let query = self.query.forward(tape, parameters, x)?;
        let query = placed(tape, &query, &self.asking)?;
        let groups = offered.shape().extents()[0];
        let found =
            tape.cross_attention(&query, offered, Attention { heads: 1, groups, key_mask })?;
        let gate = self.gate.forward(tape, parameters, x)?;
        let found = tape.multiply(&gate, &found)?;
        let own = self.own.forward(tape, parameters, x)?;
        let own = tape.multiply(&own, noisy)?;
        tape.add(&found, &own)
    }
}

/// The tokens of frames, with where they stand.
fn placed(tape: &mut Tape, x: &Tensor, places: &Tensor) -> Result<Tensor> {
    let frames = x.shape().elements() / places.shape().elements();
    let places = tape.repeat(places, 0, frames)?.reshape(*x.shape())?;
    tape.add(x, &places)
}

/// The codes of all places of a frame, [T, P]: per axis cosines and sines of multiples of half a turn
/// per axis, whose sums of products vanish or nearly so for different places. The last number is left for
/// how far away a frame was seen.
fn places(shape: LatentShape, last: f32) -> Result<Tensor> {
    let ([rows, columns], width) = (shape.grid(), shape.token_width());
    let waves = (width - 1) / 4;
    // Attention divides by √P, and the code of a place times itself is half its width.
    let scale = (AHEAD / (2.0 * waves.max(1) as f64) * (width as f64).sqrt()).sqrt();
    let mut table = vec![0.0; rows * columns * width];
    for (place, code) in table.chunks_exact_mut(width).enumerate() {
        let at = [(place / columns, rows), (place % columns, columns)];
        for ((at, length), code) in at.into_iter().zip(code.chunks_exact_mut((2 * waves).max(1))) {
            for (wave, pair) in code.chunks_exact_mut(2).enumerate() {
                let angle = PI * ((wave + 1) * at) as f64 / length as f64;
                pair.copy_from_slice(&[angle.cos(), angle.sin()].map(|part| (scale * part) as f32));
            }
        }
        code[width - 1] = last;
    }
    Tensor::from_slice(&table, [rows * columns, width])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::normal;
    use far_tensor::Device;

    fn head(shape: LatentShape) -> (CopyHead, Parameters) {
        let mut builder = ArenaBuilder::new("copy");
        let head = CopyHead::new(&mut builder, 8, shape).unwrap();
        (head, builder.build(3))
    }

    /// With keys and queries that know nothing but their place, every token finds the mean of its own
    /// place's latents, nearly.
    #[test]
    fn a_token_finds_its_own_place_at_once() {
        for (channels, grid, patch) in [(32, 8, 1), (128, 8, 1), (8, 16, 2)] {
            let shape = LatentShape { channels, height: grid, width: grid, patch };
            let table = places(shape, 0.0).unwrap();
            let (tokens, width) = (shape.tokens(), shape.token_width());
            let code = |place: usize| &table.values()[place * width..(place + 1) * width];
            for place in [0, tokens / 2 + 1, tokens - 1] {
                let product = |other: usize| -> f64 {
                    let pairs = code(place).iter().zip(code(other));
                    pairs.map(|(a, b)| f64::from(a * b)).sum::<f64>() / (width as f64).sqrt()
                };
                let all: f64 = (0..tokens).map(|other| product(other).exp()).sum();
                let share = product(place).exp() / all;
                assert!(share > 0.985, "{share} of {tokens} tokens of width {width}");
            }
        }
    }

    /// Two frames, of ones and of twos, that lie so far from the goal: what a fresh head takes of them.
    fn taken(away: [f32; 2], mask: Option<&Tensor>) -> Vec<f32> {
        let shape = LatentShape { channels: 8, height: 2, width: 2, patch: 1 };
        let (head, parameters) = head(shape);
        let mut tape = Tape::inference(&Device::cpu());
        let tensor = |values: Vec<f32>, sizes: [usize; 3]| Tensor::from_slice(&values, sizes);
        let inside = tensor(normal(2 * 4 * 8, "inside", 1), [2, 4, 8]).unwrap();
        let latents = tensor([[1.0; 32], [2.0; 32]].concat(), [2, 4, 8]).unwrap();
        let offered = head.offer(&mut tape, &parameters, &inside, &latents, &away).unwrap();
        let offered = offered.reshape([1, 8, 16]).unwrap();
        let target = tensor(normal(4 * 8, "target", 1), [1, 4, 8]).unwrap();
        let noisy = tensor(normal(4 * 8, "noisy", 1), [1, 4, 8]).unwrap();
        let taken = head.take(&mut tape, &parameters, &target, &noisy, &offered, mask).unwrap();
        taken.values().to_vec()
    }

    /// A fresh network takes what it finds, and finds nothing in a frame that is hidden.
    #[test]
    fn open_gates_take_and_a_mask_hides_frames() {
        assert!(taken([0.1; 2], None).iter().all(|value| (1.0..=2.0).contains(value)));
        let mask = Tensor::from_slice(&[1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0], [1, 8]).unwrap();
        let first = taken([0.1; 2], Some(&mask));
        assert!(first.iter().all(|value| (value - 1.0).abs() < 1e-5));
    }

    /// Of frames that are both there it takes the one that was seen nearer the goal.
    #[test]
    fn the_nearer_frame_is_ahead() {
        let mean = |away| taken(away, None).iter().sum::<f32>() / 32.0;
        let [first, second] = [mean([0.0, 1.0]), mean([1.0, 0.0])];
        assert!(first < 1.05 && second > 1.95, "{first} {second}");
    }
}

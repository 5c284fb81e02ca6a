//! Copying: what a memory shows as it will be need not be drawn again.
//!
//! A token of the target attends once more to the tokens of its context, whose values are their latents
//! themselves, and adds what it finds as far as its gate is open, and of each channel as much as it
//! keeps of what it shows itself through the noise:
//! x̂₀ = W·h + gate(h)·c + Σ_i share_i(h)·(look_i − c) + own(h) ⊙ x_t,
//! c = Σ_j softmax_j(q(h)·k_j / √P)·(trust_j ⊙ z_j).
//! A picture that returns to the pixel then need not pass through the channels of the network, nor one
//! that is nearly drawn. Trust is a matter of distance: fine detail of a frame that was seen from
//! beside the goal is out of place there, and what was seen from the goal itself is right in every
//! channel, so trust begins as 1 and is learned as a rate per unit of distance. (A gate per channel
//! of the target would learn how much of a channel is right on average, and blur what is exact.)
//!
//! Queries and keys begin with a code of where in its frame a token stands, with how far from the goal
//! its frame was seen and by how many newer ones from as near it is superseded. So each token finds its
//! own place in the nearest and newest view at once and only has to learn where not to.
//!
//! What has changed since the nearest view another one may show. Three whole frames are therefore held
//! against each other: the nearest view, the newest from within reach and what was recalled first. The
//! target is shown all three at each of its places before its second block, so that the network can
//! compare them, and its head can take of each instead of c.

use crate::layer::Linear;
use crate::layer::Pass;
use crate::world_model::extension::nearness::VIEWS;
use crate::{Error, LatentShape};
use far_tensor::{Activation, ArenaBuilder, Attention, Initialization, Result, Tape, Tensor};
use std::f64::consts::PI;

/// By how many nats a token's own place is ahead of places in other rows and columns at first: enough
/// that of all tokens of a frame it has more than 98 %.
const AHEAD: f64 = 16.0;
/// By how many nats a frame falls behind for each unit that it lies away from the goal, at first: few
/// enough that a view from a step beside, which may be the only one that is not outdated, is still heard.
const BEHIND: f32 = 15.0;
/// By how many nats it falls behind for each newer memory from as near, at first.
const SUPERSEDED: f32 = 3.0;
/// By how many nats a change of 1 in either channel of a query changes these: of the order of what they
/// are, so that they are trusted before anything is learned, and can be unlearned where they mislead.
const STEPS: [f32; 2] = [4.0, 1.0];
/// Channels of keys that say these two, behind the code of the place.
const SAID: usize = STEPS.len();

/// The last part of a network that copies; its parameters live in the network's arena.
pub(crate) struct CopyHead {
    /// Where tokens stand, [T, P].
    places: Tensor,
    /// The same for queries, who also weigh distance and newer views.
    asking: Tensor,
    query: Linear,
    key: Linear,
    /// How fast trust in each channel of a token is lost with distance.
    rate: Linear,
    gate: Linear,
    /// How the three views are shown to the target.
    showing: Linear,
    /// How much of each is taken instead of what was found.
    share: Linear,
    /// How much of the noisy target is kept.
    own: Linear,
}

/// What the contexts of n predictions offer.
pub(crate) struct CopyCandidates {
    /// Keys and values of all tokens, [n, (1 + K)·T, 2·P].
    tokens: Tensor,
    /// The views, each [n, T, P].
    views: Vec<Tensor>,
    /// What the target is shown of them, [n, T, D].
    pub(crate) shown: Tensor,
}

impl CopyCandidates {
    /// The same after a change of all parts, which keeps what lies beyond their first axes.
    pub(crate) fn map(&self, mut change: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<Self> {
        let views = self.views.iter().map(&mut change).collect::<Result<_>>()?;
        Ok(Self { tokens: change(&self.tokens)?, views, shown: change(&self.shown)? })
    }
}

impl CopyHead {
    /// Adds the parameters for tokens of `width` channels inside the network; gates begin open, so
    /// that a fresh network predicts what the nearest frame shows.
    ///
    /// # Errors
    /// If tokens are too narrow for a code of their place.
    pub(crate) fn new(
        builder: &mut ArenaBuilder,
        width: usize,
        shape: LatentShape,
    ) -> crate::Result<Self> {
        let narrowest = SAID + 4;
        if shape.token_width() < narrowest {
            let token = shape.token_width();
            let reason = format!("tokens have {token} channels, {narrowest} are needed to copy");
            return Err(Error::Setting { setting: "world_model.copy", reason });
        }
        let sizes = [width, shape.token_width()];
        let (zero, one) = (Initialization::Zero, Initialization::One);
        let mut part = |name: &str, sizes, weight, bias| {
            Linear::new(builder, &format!("copy_head.{name}"), sizes, weight, bias)
        };
        let all = VIEWS * shape.token_width();
        Ok(Self {
            places: places(shape, [0.0; SAID])?,
            asking: places(shape, [BEHIND / STEPS[0], SUPERSEDED / STEPS[1]])?,
            // Next to nothing, so that place, distance and newness decide at first.
            query: part("query", sizes, zero, zero),
            key: part("key", sizes, Initialization::Normal(0.02), zero),
            rate: part("rate", sizes, zero, zero),
            gate: part("gate", [width, 1], zero, one),
            showing: part("showing", [all, width], Initialization::Xavier, zero),
            share: part("share", [width, VIEWS], zero, zero),
            own: part("own", sizes, zero, zero),
        })
    }

    /// What context frames offer that lie so far from the goal, `[f]`: keys of their tokens inside the
    /// network, [f, T, D], and behind them the latents that they stand for, [f, T, P], as far as they are
    /// to be trusted. In all [f, T, 2·P].
    pub(crate) fn offer(
        &self,
        pass: &mut Pass<'_>,
        x: &Tensor,
        latents: &Tensor,
        away: &[f32],
    ) -> Result<Tensor> {
        let x = pass.layer_norm(x, None, 1e-6)?;
        let key = self.key.forward(pass, &x)?;
        let key = placed(pass, &key, &self.places)?;
        let rate = self.rate.forward(pass, &x)?;
        let width = rate.shape().last();
        let said = self.said(pass, away, 0, width)?.reshape(*key.shape())?;
        let key = pass.add(&key, &said)?;
        let nearer = away.iter().flat_map(|distance| std::iter::repeat_n(-distance, width));
        let nearer = Tensor::from_slice(&nearer.collect::<Vec<_>>(), [away.len(), width])?;
        let nearer = self.of_tokens(pass, &nearer)?.reshape(*rate.shape())?;
        let lost = pass.multiply(&rate, &nearer)?;
        let half = pass.activate(&lost, Activation::Sigmoid)?;
        let trust = pass.add(&half, &half)?;
        let values = pass.multiply(&trust, latents)?;
        pass.concat(&[&key, &values], 2)
    }

    /// What the frames [n·(1 + K), T, 2·P] of n contexts offer, where each is superseded by so many newer
    /// ones, [n·(1 + K)], and the views are those frames, [n, VIEWS].
    pub(crate) fn compare(
        &self,
        pass: &mut Pass<'_>,
        frames: &Tensor,
        newer: &[f32],
        views: &[usize],
    ) -> Result<CopyCandidates> {
        let &[count, tokens, width] = frames.shape().extents() else {
            unreachable!("frames have tokens of channels")
        };
        let predictions = views.len() / VIEWS;
        let values = pass.slice(frames, 2, width / 2..width)?;
        let views = (0..VIEWS).map(|view| {
            let chosen: Vec<usize> = views.iter().skip(view).step_by(VIEWS).copied().collect();
            pass.gather_rows(&values, chosen)
        });
        let views = views.collect::<Result<Vec<_>>>()?;
        let together = pass.concat(&views.iter().collect::<Vec<_>>(), 2)?;
        let shown = self.showing.forward(pass, &together)?;
        let mut all = frames.clone();
        if newer.iter().any(|count| *count > 0.0) {
            let said = self.said(pass, newer, 1, width)?.reshape(*frames.shape())?;
            all = pass.add(frames, &said)?;
        }
        let all = all.reshape([predictions, count / predictions * tokens, width])?;
        Ok(CopyCandidates { tokens: all, views, shown })
    }

    /// One number of each frame, in the channel of keys that says it and in rows of this width.
    fn said(
        &self,
        tape: &mut Tape,
        numbers: &[f32],
        channel: usize,
        width: usize,
    ) -> Result<Tensor> {
        let keys = self.places.shape().last();
        // Attention divides by √P.
        let factor = -STEPS[channel] * (keys as f32).sqrt();
        let mut rows = vec![0.0; numbers.len() * width];
        for (row, number) in rows.chunks_exact_mut(width).zip(numbers) {
            row[keys - SAID + channel] = factor * number;
        }
        let rows = Tensor::from_slice(&rows, [numbers.len(), width])?;
        self.of_tokens(tape, &rows)
    }

    /// Rows of frames, [f, …], for each of their tokens.
    fn of_tokens(&self, tape: &mut Tape, rows: &Tensor) -> Result<Tensor> {
        tape.repeat(rows, 1, self.places.shape().rows())
    }

    /// What targets [m, T, D], which show `noisy` [m, T, P], take of it and of what their contexts offer;
    /// the mask says which of those tokens there are, [m, L]. In all [m, T, P].
    pub(crate) fn take(
        &self,
        pass: &mut Pass<'_>,
        x: &Tensor,
        noisy: &Tensor,
        offer: &CopyCandidates,
        key_mask: Option<&Tensor>,
    ) -> Result<Tensor> {
        let query = self.query.forward(pass, x)?;
        let query = placed(pass, &query, &self.asking)?;
        let groups = offer.tokens.shape().extents()[0];
        let attention = Attention { heads: 1, groups, key_mask };
        let found = pass.cross_attention(&query, &offer.tokens, attention)?;
        let gate = self.gate.forward(pass, x)?;
        let mut taken = by_token(pass, &gate, &found)?;
        let shares = self.share.forward(pass, x)?;
        for (number, view) in offer.views.iter().enumerate() {
            let share = pass.slice(&shares, 2, number..number + 1)?;
            let other = pass.subtract(view, &found)?;
            let part = by_token(pass, &share, &other)?;
            taken = pass.add(&taken, &part)?;
        }
        let own = self.own.forward(pass, x)?;
        let own = pass.multiply(&own, noisy)?;
        pass.add(&taken, &own)
    }
}

/// Values of tokens [m, T, P], all channels times the one number of their token, [m, T, 1].
fn by_token(tape: &mut Tape, factor: &Tensor, values: &Tensor) -> Result<Tensor> {
    let factor = factor.reshape([factor.shape().elements()])?;
    let factor = tape.repeat(&factor, 1, values.shape().last())?.reshape(*values.shape())?;
    tape.multiply(&factor, values)
}

/// The tokens of frames, with where they stand.
fn placed(tape: &mut Tape, x: &Tensor, places: &Tensor) -> Result<Tensor> {
    let frames = x.shape().elements() / places.shape().elements();
    let places = tape.repeat(places, 0, frames)?.reshape(*x.shape())?;
    tape.add(x, &places)
}

/// The codes of all places of a frame, [T, P]: per axis cosines and sines of multiples of half a turn
/// per axis, whose sums of products vanish or nearly so for different places. The last numbers are left for
/// where and when a frame was seen.
fn places(shape: LatentShape, last: [f32; SAID]) -> Result<Tensor> {
    let ([rows, columns], width) = (shape.grid(), shape.token_width());
    let waves = (width - SAID) / 4;
    // Attention divides by √P, and the code of a place times itself is half its width.
    let scale = (AHEAD / (2.0 * waves as f64) * (width as f64).sqrt()).sqrt();
    let mut table = vec![0.0; rows * columns * width];
    for (place, code) in table.chunks_exact_mut(width).enumerate() {
        let at = [(place / columns, rows), (place % columns, columns)];
        for ((at, length), code) in at.into_iter().zip(code.chunks_exact_mut(2 * waves)) {
            for (wave, pair) in code.chunks_exact_mut(2).enumerate() {
                let angle = PI * ((wave + 1) * at) as f64 / length as f64;
                pair.copy_from_slice(&[angle.cos(), angle.sin()].map(|part| (scale * part) as f32));
            }
        }
        code[width - SAID..].copy_from_slice(&last);
    }
    Tensor::from_slice(&table, [rows * columns, width])
}

#[cfg(test)]
mod tests;

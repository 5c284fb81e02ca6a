//! What predictions of the world model cannot do without, however they are computed.
//!
//! Some work is the same for several predictions and needs to be done once only, with the same
//! result: until the first attention over all frames no frame knows of another, so that a target is
//! the same for all its contexts and a context for all noise levels; with context-first attention a
//! context never learns of its target. After the last attention over all frames only the target is
//! read.

use super::network_shape::{CHANNELS, Sizes};
use super::yardstick::Work;
use far_model::ContextAttention;

/// How many predictions there are, and what they share.
#[derive(Clone, Copy, Debug)]
pub struct Predictions {
    /// Futures with a present of their own.
    pub examples: usize,
    /// Contexts of each: the present and memories of its own.
    pub contexts: usize,
    /// Noise levels of each.
    pub draws: usize,
    /// Memories in a context.
    pub slots: usize,
}

/// Adds up products and activations.
struct Count {
    wide: f64,
    operations: f64,
    /// Numbers of activations, each to be written and read once.
    numbers: f64,
}

impl Count {
    /// A norm and the projection to `parts` of queries, keys and values.
    fn project(&mut self, rows: f64, parts: f64) {
        self.operations += 2.0 * parts * rows * self.wide * self.wide;
        if parts > 0.0 {
            self.numbers += (1.0 + parts) * rows * self.wide;
        }
    }

    fn attend(&mut self, queries: f64, keys: f64) {
        self.operations += 4.0 * queries * keys * self.wide;
    }

    /// What attention gathered, its projection, the residual, a norm, the MLP and the residual.
    fn finish(&mut self, rows: f64) {
        self.operations += 2.0 * 9.0 * rows * self.wide * self.wide;
        self.numbers += 8.0 * rows * self.wide;
    }

    fn modulate(&mut self, frames: f64, vectors: f64) {
        self.operations += 2.0 * vectors * frames * self.wide * self.wide;
    }
}

impl Predictions {
    /// The least work of these predictions: operations, one write and one read of every activation
    /// between products, and one read of `parameters` numbers for each of `passes` passes that have
    /// to follow one another.
    pub fn work(
        &self,
        sizes: &Sizes,
        attention: ContextAttention,
        number_bytes: f64,
        parameters: usize,
        passes: usize,
    ) -> Work {
        let [examples, contexts, draws, slots] =
            [self.examples, self.contexts, self.draws, self.slots].map(|number| number as f64);
        let (tokens, depth) = (sizes.tokens() as f64, sizes.depth);
        let wide = sizes.width as f64;
        let mut count = Count { wide, operations: 0.0, numbers: 0.0 };
        let first_alone = attention == ContextAttention::ContextFirst;
        // Frames that pass a layer: while frames are alone, and once they know of each other.
        let targets_alone = examples * draws;
        let targets_met = examples * contexts * draws;
        let contexts_alone = examples * (1.0 + contexts * slots);
        let contexts_met =
            examples * contexts * (1.0 + slots) * if first_alone { 1.0 } else { draws };
        for index in 0..depth {
            let global = index % 2 == 1;
            let read_later = (index + 1..depth).any(|later| later % 2 == 1);
            let [target_in, context_in] = if index <= 1 {
                [targets_alone, contexts_alone]
            } else {
                [targets_met, contexts_met]
            };
            let [target_out, context_out] = if index == 0 {
                [targets_alone, contexts_alone]
            } else {
                [targets_met, contexts_met]
            };
            let own_keys = if first_alone { 1.0 + slots } else { 2.0 + slots };
            let [target_keys, context_keys] =
                if global { [2.0 + slots, own_keys] } else { [1.0, 1.0] };
            count.project(target_in * tokens, 3.0);
            count.attend(target_out * tokens, target_keys * tokens);
            count.finish(target_out * tokens);
            let parts = if read_later {
                3.0
            } else if global {
                2.0
            } else {
                0.0
            };
            count.project(context_in * tokens, parts);
            if read_later {
                count.attend(context_out * tokens, context_keys * tokens);
                count.finish(context_out * tokens);
            }
            count.modulate(targets_alone, 6.0);
            count.modulate(contexts_alone, if read_later { 6.0 } else { parts.min(2.0) });
        }
        count.modulate(targets_alone, 2.0);
        let ends = targets_alone + contexts_alone + targets_met;
        count.operations += 2.0 * ends * tokens * CHANNELS as f64 * wide;
        Work {
            operations: count.operations,
            bytes: number_bytes * (2.0 * count.numbers + (passes * parameters) as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { depth: 4, width: 8, heads: 2, batch: 1, frames: 3, grid: 2 };

    fn operations(predictions: Predictions, attention: ContextAttention, sizes: &Sizes) -> f64 {
        predictions.work(sizes, attention, 2.0, 0, 1).operations
    }

    /// One prediction shares nothing: all frames pass all blocks, but for the context's last way.
    #[test]
    fn one_joint_prediction_is_the_plain_count() {
        let one = Predictions { examples: 1, contexts: 1, draws: 1, slots: 1 };
        let (wide, tokens, frames) = (8.0, 4.0, 3.0);
        let block = 24.0 * frames * tokens * wide * wide + 12.0 * frames * wide * wide;
        let inside = 4.0 * frames * tokens * tokens * wide;
        let across = 4.0 * frames * tokens * frames * tokens * wide;
        let ends = 2.0 * (frames + 1.0) * tokens * 16.0 * wide + 4.0 * wide * wide;
        let plain = 4.0 * block + 2.0 * inside + 2.0 * across + ends;
        // Two frames of context in the last block: no queries, nothing after attention, and of the
        // modulation only the first shift and scale.
        let unread = 2.0 * tokens * (2.0 + 18.0) * wide * wide
            + 2.0 * 4.0 * 2.0 * wide * wide
            + 4.0 * 2.0 * tokens * frames * tokens * wide;
        let found = operations(one, ContextAttention::Joint, &SIZES);
        assert!((found - (plain - unread)).abs() < 1e-6, "{found}, not {}", plain - unread);
    }

    #[test]
    fn sharing_only_saves() {
        let kinds = [ContextAttention::Joint, ContextAttention::ContextFirst];
        let many = Predictions { examples: 2, contexts: 5, draws: 4, slots: 1 };
        for attention in kinds {
            let alone = Predictions { examples: 1, contexts: 1, draws: 1, ..many };
            let together = operations(many, attention, &SIZES);
            assert!(together < 40.0 * operations(alone, attention, &SIZES));
        }
        let [joint, first] = kinds.map(|attention| operations(many, attention, &SIZES));
        assert!(first < joint);
        // With context-first attention, more noise levels cost the target's way only.
        let steps = |draws| {
            let clips = Predictions { examples: 1, contexts: 1, draws, slots: 12 };
            operations(clips, ContextAttention::ContextFirst, &SIZES)
        };
        assert!((steps(3) - steps(2) - (steps(2) - steps(1))).abs() < 1e-6);
        assert!(steps(2) < 1.2 * steps(1));
    }
}

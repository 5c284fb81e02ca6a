//! Attention over packed heads: softmax(q·kᵀ/√d + mask)·v, for every group and head separately.
//!
//! Shapes: H heads of d channels (d from 1 to 256). Self-attention reads qkv [rows…, 3·H·d], laid
//! out (3, H, d) along the last axis, and returns [rows…, H·d]. The rows are G groups of T
//! consecutive tokens that attend to each other: with one group per frame that is frame attention,
//! with one group per sample it is global attention. Cross-attention reads q [G·T…, H·d] and
//! kv [G·S…, 2·H·d]. A mask [G, S] of zeros and ones hides keys; a query with every key hidden
//! returns zeros.
//!
//! Scores are computed for a block of queries at a time: memory grows with T, not T².
//! The forward pass keeps log Σ exp of each row; the backward recomputes the probabilities:
//! with P the probabilities, O the output and D = Σ dO·O, dV = Pᵀ·dO, dS = P∘(dO·Vᵀ − D)/√d,
//! dQ = dS·K and dK = dSᵀ·Q.

mod head;

use crate::buffer::Buffer;
use crate::gradient::{GradientBuffer, GradientStore};
use crate::parallel::{Disjoint, for_ranges};
use crate::{Error, Result, Tape, Tensor};
use head::{Head, Strided, Target};

/// Largest number of channels of a head.
const WIDEST_HEAD: usize = 256;
/// Multiplications from which another thread pays off.
const TASK: usize = 1 << 17;

/// How rows and channels are divided among heads and groups.
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a> {
    /// The number of heads H.
    pub heads: usize,
    /// The number of groups G of consecutive rows that attend to each other.
    pub groups: usize,
    /// Visible keys: [G, S], zero for hidden; `None` shows all.
    pub key_mask: Option<&'a Tensor>,
}

impl Tape {
    /// Self-attention: qkv [rows…, 3·H·d] → [rows…, H·d].
    ///
    /// # Errors
    /// If the heads do not divide the width, the groups not the rows, or the mask does not fit.
    pub fn self_attention(&mut self, qkv: &Tensor, attention: Attention<'_>) -> Result<Tensor> {
        let layout = Layout::new("self_attention", qkv, qkv, 3, attention)?;
        self.attend("self_attention", qkv, qkv, attention.key_mask, layout)
    }

    /// Cross-attention: q [rows…, H·d] against kv [key rows…, 2·H·d] → [rows…, H·d].
    ///
    /// # Errors
    /// If the heads do not divide the widths, the groups not the rows, or the mask does not fit.
    pub fn cross_attention(
        &mut self,
        query: &Tensor,
        key_value: &Tensor,
        attention: Attention<'_>,
    ) -> Result<Tensor> {
        let layout = Layout::new("cross_attention", query, key_value, 2, attention)?;
        self.attend("cross_attention", query, key_value, attention.key_mask, layout)
    }

    fn attend(
        &mut self,
        operation: &'static str,
        query: &Tensor,
        key_value: &Tensor,
        mask: Option<&Tensor>,
        layout: Layout,
    ) -> Result<Tensor> {
        if let Some(cuda) = self.cuda() {
            return self.attend_cuda(&cuda, operation, [query, key_value], mask, layout);
        }
        let width = layout.heads * layout.channels;
        let rows = layout.groups * layout.queries;
        let mut output = self.device().buffer(rows * width);
        let mut logarithms = self.device().buffer(rows * layout.heads);
        {
            let outputs = Disjoint::new(&mut output);
            let logarithms = Disjoint::new(&mut logarithms);
            layout.for_each_head(2, |group, head| {
                let head = layout.head(query, key_value, mask, group, head);
                head.forward(&outputs, &logarithms);
            });
        }
        let shape = query.shape().with_last(width);
        Ok(self.record(operation, shape, output, &[query, key_value], |output| {
            let node = AttentionBackward {
                query: query.clone(),
                key_value: key_value.clone(),
                mask: mask.cloned(),
                output: output.clone(),
                logarithms,
                layout,
            };
            move |upstream, gradients| node.backward(upstream, gradients)
        }))
    }
}

/// Sizes and offsets of one attention.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub heads: usize,
    pub channels: usize,
    pub groups: usize,
    pub queries: usize,
    pub keys: usize,
    /// 3 if q, k and v are packed together, 2 if only k and v are.
    pub packed: usize,
}

impl Layout {
    fn new(
        operation: &'static str,
        query: &Tensor,
        key_value: &Tensor,
        packed: usize,
        attention: Attention<'_>,
    ) -> Result<Self> {
        let Attention { heads, groups, key_mask } = attention;
        let width = key_value.shape().last();
        let channels = width / (packed * heads).max(1);
        let fits = heads > 0
            && channels * heads * packed == width
            && (1..=WIDEST_HEAD).contains(&channels);
        key_value.expect(operation, fits, || {
            format!(
                "{packed} × {heads} heads of 1 to {WIDEST_HEAD} channels must fill the last axis"
            )
        })?;
        let query_width = if packed == 3 { width } else { heads * channels };
        let (fit, shapes) =
            (query.shape().last() == query_width, [query.shape(), key_value.shape()]);
        Error::expect_fit(fit, operation, shapes, "queries need the width of the keys")?;
        for side in [query, key_value] {
            let rows = side.shape().rows();
            let divides = groups > 0 && rows > 0 && rows.is_multiple_of(groups);
            side.expect(operation, divides, || format!("{groups} groups must divide its rows"))?;
        }
        let layout = Self {
            heads,
            channels,
            groups,
            queries: query.shape().rows() / groups,
            keys: key_value.shape().rows() / groups,
            packed,
        };
        if let Some(mask) = key_mask {
            let requirement = "a key mask is [groups, keys]";
            mask.expect_elements(operation, groups * layout.keys, key_value, requirement)?;
        }
        Ok(layout)
    }

    /// Runs `work` for every group and head; `products` is the number of multiplications of each.
    fn for_each_head(&self, products: usize, work: impl Fn(usize, usize) + Sync) {
        let cost = products * self.queries * self.keys * self.channels;
        for_ranges(self.groups * self.heads, TASK / cost.max(1), |range| {
            for task in range {
                work(task / self.heads, task % self.heads);
            }
        });
    }

    fn places(&self, group: usize, head: usize) -> [Strided; 3] {
        let (width, start) = (self.heads * self.channels, head * self.channels);
        let (query_stride, first) = if self.packed == 3 { (3 * width, 1) } else { (width, 0) };
        let stride = self.packed * width;
        let place = |rows: usize, stride: usize, offset: usize| Strided {
            start: group * rows * stride + offset,
            stride,
        };
        [
            place(self.queries, query_stride, start),
            place(self.keys, stride, first * width + start),
            place(self.keys, stride, (first + 1) * width + start),
        ]
    }

    fn head<'a>(
        &self,
        query: &'a Tensor,
        key_value: &'a Tensor,
        mask: Option<&'a Tensor>,
        group: usize,
        head: usize,
    ) -> Head<'a> {
        let width = self.heads * self.channels;
        Head {
            query: query.values(),
            key_value: key_value.values(),
            places: self.places(group, head),
            mask: mask.map(|mask| &mask.values()[group * self.keys..][..self.keys]),
            queries: self.queries,
            keys: self.keys,
            channels: self.channels,
            output: Strided {
                start: group * self.queries * width + head * self.channels,
                stride: width,
            },
            logarithms: (group * self.heads + head) * self.queries,
        }
    }
}

struct AttentionBackward {
    query: Tensor,
    key_value: Tensor,
    mask: Option<Tensor>,
    output: Tensor,
    logarithms: Buffer,
    layout: Layout,
}

impl AttentionBackward {
    fn backward(&self, upstream: Buffer, gradients: &mut GradientStore<'_>) {
        let together = self.layout.packed == 3;
        let mut query = gradients.take(&self.query);
        let mut key_value = if together { None } else { gradients.take(&self.key_value) };
        {
            fn share<'a>(taken: &'a mut Option<GradientBuffer<'_>>) -> Option<Target<'a>> {
                let gradient = taken.as_mut()?;
                let accumulate = gradient.accumulate;
                Some(Target { values: Disjoint::new(gradient), accumulate })
            }
            let queries = share(&mut query);
            let keys = if together { queries } else { share(&mut key_value) };
            let mask = self.mask.as_ref();
            self.layout.for_each_head(5, |group, head| {
                let head = self.layout.head(&self.query, &self.key_value, mask, group, head);
                let (output, logarithms) = (self.output.values(), &self.logarithms);
                head.backward(&upstream, output, logarithms, queries, keys);
            });
        }
        if let Some(gradient) = query {
            gradients.give(&self.query, gradient);
        }
        if let Some(gradient) = key_value {
            gradients.give(&self.key_value, gradient);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        assert_close, check_gradients, compare_gradients, evaluate, mask, normal,
    };
    use proptest::prelude::*;

    /// The formula with whole score matrices, in double precision.
    fn reference(
        query: &Tensor,
        key_value: &Tensor,
        packed: usize,
        attention: Attention<'_>,
    ) -> Vec<f32> {
        let layout = Layout::new("reference", query, key_value, packed, attention).unwrap();
        let Layout { heads, channels, groups, queries, keys, .. } = layout;
        let width = heads * channels;
        let mut output = vec![0.0; groups * queries * width];
        for group in 0..groups {
            for head in 0..heads {
                let [q, k, v] = layout.places(group, head);
                let at = |tensor: &Tensor, place: Strided, row: usize, channel: usize| {
                    f64::from(tensor.values()[place.start + row * place.stride + channel])
                };
                let visible = |key: usize| {
                    attention.key_mask.is_none_or(|mask| mask.values()[group * keys + key] != 0.0)
                };
                for row in 0..queries {
                    let score = |key: usize| -> f64 {
                        let products =
                            (0..channels).map(|c| at(query, q, row, c) * at(key_value, k, key, c));
                        products.sum::<f64>() / (channels as f64).sqrt()
                    };
                    let weights: Vec<f64> = (0..keys)
                        .map(|key| if visible(key) { score(key).exp() } else { 0.0 })
                        .collect();
                    let total: f64 = weights.iter().sum();
                    for channel in 0..channels {
                        let sum: f64 = (0..keys)
                            .map(|key| weights[key] * at(key_value, v, key, channel))
                            .sum();
                        let place = (group * queries + row) * width + head * channels + channel;
                        output[place] = if total > 0.0 { (sum / total) as f32 } else { 0.0 };
                    }
                }
            }
        }
        output
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn values_match_the_reference(
            groups in 1usize..4, queries in 1usize..70, keys in 1usize..40,
            heads in 1usize..4, channels in 1usize..40, masked: bool, seed in 0u64..99,
        ) {
            let width = heads * channels;
            let qkv = normal([groups * queries, 3 * width], seed);
            let own = mask([groups, queries], seed + 1);
            let attention = Attention { heads, groups, key_mask: masked.then_some(&own) };
            let found = evaluate(|tape| tape.self_attention(&qkv, attention));
            assert_close(found.values(), &reference(&qkv, &qkv, 3, attention), 2e-5);

            let query = normal([groups, queries, width], seed + 2);
            let key_value = normal([groups, keys, 2 * width], seed + 3);
            let other = mask([groups, keys], seed + 4);
            let attention = Attention { heads, groups, key_mask: masked.then_some(&other) };
            let found = evaluate(|tape| tape.cross_attention(&query, &key_value, attention));
            assert_close(found.values(), &reference(&query, &key_value, 2, attention), 2e-5);
        }
    }

    #[test]
    fn hidden_keys_change_nothing() {
        let hide = Tensor::from_slice(&[1.0, 1.0, 0.0, 0.0, 0.0, 0.0], [2, 3]).unwrap();
        let qkv = normal([6, 3 * 2 * 16], 1);
        let attention = Attention { heads: 2, groups: 2, key_mask: Some(&hide) };
        let found = evaluate(|tape| tape.self_attention(&qkv, attention));
        let mut values = qkv.values().to_vec();
        values[2 * 96 + 32..3 * 96].fill(1e4);
        let changed = Tensor::from_slice(&values, [6, 96]).unwrap();
        let again = evaluate(|tape| tape.self_attention(&changed, attention));
        assert_eq!(found.values()[..64], again.values()[..64]);
        assert!(found.values()[96..].iter().all(|x| *x == 0.0), "all keys hidden: zeros");
    }

    #[test]
    fn gradients_match_differences() {
        let hide = Tensor::from_slice(&[1.0, 0.0, 1.0, 1.0, 1.0, 1.0], [2, 3]).unwrap();
        for key_mask in [None, Some(&hide)] {
            let attention = Attention { heads: 2, groups: 2, key_mask };
            check_gradients(&[normal([6, 30], 1)], |tape, x| tape.self_attention(&x[0], attention));
            let inputs = [normal([2, 4, 10], 2), normal([2, 3, 20], 3)];
            check_gradients(&inputs, |tape, x| tape.cross_attention(&x[0], &x[1], attention));
        }
    }

    #[test]
    fn heads_of_tensor_cores_agree() {
        // Sizes with their own GPU kernels, with tails, hidden keys and many blocks.
        for (channels, queries, keys) in
            [(32, 70, 130), (64, 130, 200), (64, 256, 256), (128, 65, 90)]
        {
            let (heads, groups) = (2, 2);
            let width = heads * channels;
            for masked in [false, true] {
                let own = mask([groups, queries], 5);
                let attention = Attention { heads, groups, key_mask: masked.then_some(&own) };
                let qkv = normal([groups * queries, 3 * width], 1);
                let found = evaluate(|tape| tape.self_attention(&qkv, attention));
                assert_close(found.values(), &reference(&qkv, &qkv, 3, attention), 2e-5);
                compare_gradients(&[qkv], |tape, x| tape.self_attention(&x[0], attention));
                let other = mask([groups, keys], 6);
                let attention = Attention { heads, groups, key_mask: masked.then_some(&other) };
                let inputs =
                    [normal([groups * queries, width], 2), normal([groups * keys, 2 * width], 3)];
                let found =
                    evaluate(|tape| tape.cross_attention(&inputs[0], &inputs[1], attention));
                assert_close(
                    found.values(),
                    &reference(&inputs[0], &inputs[1], 2, attention),
                    2e-5,
                );
                compare_gradients(&inputs, |tape, x| tape.cross_attention(&x[0], &x[1], attention));
            }
        }
    }

    #[test]
    fn long_sequences_pass_through_several_blocks() {
        let attention = Attention { heads: 1, groups: 1, key_mask: None };
        check_gradients(&[normal([37, 6], 4)], |tape, x| tape.self_attention(&x[0], attention));
    }

    /// With few queries a GPU splits the keys of each over several blocks; some of those see no key
    /// at all, and one group sees none anywhere.
    #[test]
    fn few_queries_read_many_keys() {
        for (queries, keys) in [(130, 1300), (300, 700), (3, 3000)] {
            let (query, key_value) = (normal([3 * queries, 64], 1), normal([3 * keys, 128], 2));
            let seen =
                (0..3 * keys).map(|key| f32::from(key < keys || key < 2 * keys && key % 900 < 40));
            let seen = Tensor::from_slice(&seen.collect::<Vec<_>>(), [3, keys]).unwrap();
            for key_mask in [None, Some(&seen)] {
                let attention = Attention { heads: 1, groups: 3, key_mask };
                evaluate(|tape| tape.cross_attention(&query, &key_value, attention));
            }
            let inputs = [query, key_value];
            let attention = Attention { heads: 1, groups: 3, key_mask: Some(&seen) };
            compare_gradients(&inputs, |tape, x| tape.cross_attention(&x[0], &x[1], attention));
        }
    }

    #[test]
    fn a_width_that_heads_do_not_divide_is_refused() {
        let mut tape = Tape::inference(&crate::Device::cpu());
        let attention = Attention { heads: 5, groups: 1, key_mask: None };
        let error = tape.self_attention(&normal([4, 48], 1), attention).unwrap_err();
        assert!(error.to_string().contains("self_attention: [4, 48]"), "{error}");
    }
}

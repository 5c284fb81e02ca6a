//! LayerNorm over the channels of each head: the QK-norm of attention.
//!
//! x [rows…, S·H·d] holds S slots (three for packed qkv, one for queries alone) of H heads of d
//! channels. Each slot with an affine map becomes, head by head, x̂·γ + β with γ and β [d] (see
//! `modulated_norm.rs`); a slot without one, such as the values, is copied.

use super::modulated_norm::Affine;
use super::norm_row::{backward_row, forward_row};
use crate::buffer::Buffer;
use crate::gradient::GradientStore;
use crate::parallel::{Disjoint, for_ranges, reduce_ranges, row_grain, with_scratch};
use crate::vectorize::put_row;
use crate::{Result, Tape, Tensor};

impl Tape {
    /// [`Tape::head_norm`] of a tensor passed by value: if it is not shared and no gradient is
    /// needed, a GPU overwrites it without a copy.
    ///
    /// # Errors
    /// As [`Tape::head_norm`].
    pub fn head_norm_owned(
        &mut self,
        mut x: Tensor,
        heads: usize,
        slots: &[Option<Affine<'_>>],
        epsilon: f32,
    ) -> Result<Tensor> {
        self.check_heads(&x, heads, slots)?;
        let mut small = slots.iter().flatten().flat_map(|affine| [affine.scale, affine.offset]);
        if let Some(cuda) = self.cuda()
            && !self.wants(&x)
            && !small.any(|vector| self.wants(vector))
            && self.head_norm_over_cuda(&cuda, &mut x, heads, slots, epsilon)?
        {
            return Ok(x);
        }
        self.head_norm(&x, heads, slots, epsilon)
    }

    /// Normalizes the heads of those of the S = `slots.len()` slots that have an affine map.
    ///
    /// # Errors
    /// If slots and heads do not divide the last axis or an affine map has another width.
    pub fn head_norm(
        &mut self,
        x: &Tensor,
        heads: usize,
        slots: &[Option<Affine<'_>>],
        epsilon: f32,
    ) -> Result<Tensor> {
        let channels = self.check_heads(x, heads, slots)?;
        let (rows, width) = (x.shape().rows(), x.shape().last());
        let parts = heads * slots.len();
        if let Some(cuda) = self.cuda() {
            return self.head_norm_cuda(&cuda, x, heads, slots, epsilon);
        }
        let mut output = self.device().buffer(rows * width);
        let mut statistics = self.device().buffer(rows * parts * 2);
        {
            let (output, statistics) = (Disjoint::new(&mut output), Disjoint::new(&mut statistics));
            for_ranges(rows, row_grain(width), |range| {
                for head in range.start * parts..range.end * parts {
                    let span = head * channels..(head + 1) * channels;
                    // SAFETY: each head of each row is visited once.
                    let output = unsafe { output.range(span.clone()) };
                    // SAFETY: as above.
                    let statistics = unsafe { statistics.range(head * 2..head * 2 + 2) };
                    let x = &x.values()[span];
                    match slots[head % parts / heads] {
                        Some(affine) => {
                            let vectors = [affine.scale.values(), affine.offset.values()];
                            forward_row(output, statistics, x, Some(vectors), None, epsilon);
                        }
                        None => output.copy_from_slice(x),
                    }
                }
            });
        }
        let mut inputs = vec![x];
        inputs.extend(slots.iter().flatten().flat_map(|affine| [affine.scale, affine.offset]));
        Ok(self.record("head_norm", *x.shape(), output, &inputs, |_| {
            let node = HeadNormBackward {
                x: x.clone(),
                heads,
                slots: slots
                    .iter()
                    .map(|slot| slot.map(|affine| [affine.scale.clone(), affine.offset.clone()]))
                    .collect(),
                statistics,
            };
            move |upstream, gradients| node.backward(upstream, gradients)
        }))
    }

    /// The channels of a head, if slots and heads fit.
    fn check_heads(&self, x: &Tensor, heads: usize, slots: &[Option<Affine<'_>>]) -> Result<usize> {
        let (parts, width) = (heads * slots.len(), x.shape().last());
        let divides = parts > 0 && width.is_multiple_of(parts);
        x.expect("head_norm", divides, || {
            format!("{} slots of {heads} heads must divide the last axis", slots.len())
        })?;
        let channels = width / parts;
        for affine in slots.iter().flatten() {
            for vector in [affine.scale, affine.offset] {
                let requirement = "an affine map has one element per channel of a head";
                vector.expect_elements("head_norm", channels, x, requirement)?;
            }
        }
        Ok(channels)
    }
}

struct HeadNormBackward {
    x: Tensor,
    heads: usize,
    slots: Vec<Option<[Tensor; 2]>>,
    statistics: Buffer,
}

impl HeadNormBackward {
    fn backward(&self, upstream: Buffer, gradients: &mut GradientStore<'_>) {
        let device = gradients.device().clone();
        let (rows, width) = (self.x.shape().rows(), self.x.shape().last());
        let parts = self.heads * self.slots.len();
        let channels = width / parts;
        // dγ and dβ of every slot, one after the other.
        let mut sums = device.zeroed(self.slots.len() * 2 * channels);
        gradients.with_shared(&self.x, |gradient, accumulate| {
            reduce_ranges(&device, rows, row_grain(width), &mut sums, false, |range, sums| {
                with_scratch(2 * channels, |scratch| {
                    let (scratch, unwanted) = scratch.split_at_mut(channels);
                    for head in range.start * parts..range.end * parts {
                        let span = head * channels..(head + 1) * channels;
                        let slot = head % parts / self.heads;
                        let gradient = match &gradient {
                            // SAFETY: each head of each row is visited once.
                            Some(gradient) => unsafe { gradient.range(span.clone()) },
                            None => &mut *unwanted,
                        };
                        let upstream = &upstream[span.clone()];
                        let Some([scale, offset]) = &self.slots[slot] else {
                            put_row(gradient, upstream, accumulate);
                            continue;
                        };
                        let sums = &mut sums[slot * 2 * channels..][..2 * channels];
                        let (scale_sum, offset_sum) = sums.split_at_mut(channels);
                        let affine = ([scale.values(), offset.values()], [scale_sum, offset_sum]);
                        let statistics = &self.statistics[head * 2..head * 2 + 2];
                        let x = &self.x.values()[span];
                        backward_row(
                            gradient,
                            accumulate,
                            upstream,
                            x,
                            statistics,
                            Some(affine),
                            None,
                            scratch,
                        );
                    }
                });
            });
        });
        for (slot, sums) in self.slots.iter().zip(sums.chunks_exact(2 * channels)) {
            let vectors = slot.iter().flatten().zip(sums.chunks_exact(channels));
            for (vector, sums) in vectors {
                gradients.add(vector, sums);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::testing::{
        assert_close, check_gradients, compare_gradients, evaluate, gpus, normal,
    };
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn each_head_is_a_layer_norm(
            rows in 1usize..11, heads in 1usize..13, seed in 0u64..99,
            channels in prop_oneof![1usize..20, Just(32), Just(64), Just(128)],
        ) {
            let x = normal([rows, 3 * heads * channels], seed);
            let (scale, offset) = (normal([channels], seed + 1), normal([channels], seed + 2));
            let affine = Affine { scale: &scale, offset: &offset };
            let slots = [Some(affine), None, Some(affine)];
            let found = evaluate(|tape| tape.head_norm(&x, heads, &slots, 1e-5));
            // The reference is the plain layer norm of every head on its own.
            let split = x.reshape([rows * 3 * heads, channels]).unwrap();
            let all = evaluate(|tape| tape.layer_norm(&split, Some(affine), 1e-5));
            let mut expected = all.values().to_vec();
            let each = heads * channels;
            for row in 0..rows {
                let middle = (row * 3 + 1) * each..(row * 3 + 2) * each;
                expected[middle.clone()].copy_from_slice(&x.values()[middle]);
            }
            assert_close(found.values(), &expected, 1e-6);
        }
    }

    #[test]
    fn gradients_match_differences() {
        for (rows, channels) in [(3, 4), (2, 5), (9, 16)] {
            let vector = |seed| normal([channels], seed);
            let inputs = [normal([rows, 3 * 2 * channels], 1), vector(2), vector(3), vector(4)];
            check_gradients(&inputs, |tape, x| {
                let query = Affine { scale: &x[1], offset: &x[2] };
                let key = Affine { scale: &x[3], offset: &x[2] };
                tape.head_norm(&x[0], 2, &[Some(query), Some(key), None], 1e-5)
            });
        }
    }

    /// An overwritten input gives the same bits; a shared one is left unchanged.
    #[test]
    fn giving_up_the_input_changes_no_bit() {
        for (rows, channels) in [(5, 8), (70, 64), (3, 5)] {
            let (scale, offset) = (normal([channels], 2), normal([channels], 3));
            let affine = Some(Affine { scale: &scale, offset: &offset });
            let input = normal([rows, 3 * 2 * channels], 1);
            let cpu = Device::cpu();
            for device in gpus().iter().map(|(_, device)| device).chain([&cpu]) {
                let mut tape = Tape::inference(device);
                let shared = tape.add(&input, &input).unwrap();
                for slots in [[affine, affine, None], [None, affine, affine], [None; 3]] {
                    let before = shared.values().to_vec();
                    let expected = tape.head_norm(&shared, 2, &slots, 1e-5).unwrap();
                    let other = tape.head_norm_owned(shared.clone(), 2, &slots, 1e-5).unwrap();
                    assert_eq!(other.values(), expected.values());
                    let own = tape.add(&input, &input).unwrap();
                    let own = tape.head_norm_owned(own, 2, &slots, 1e-5).unwrap();
                    assert_eq!(own.values(), expected.values());
                    assert_eq!(tape.affine(&shared, 1.0, 0.0).unwrap().values(), before);
                }
            }
        }
    }

    #[test]
    fn there_may_be_many_slots() {
        let inputs = [normal([3, 6 * 8], 1), normal([8], 2), normal([8], 3)];
        check_gradients(&inputs, |tape, x| {
            let affine = Some(Affine { scale: &x[1], offset: &x[2] });
            tape.head_norm(&x[0], 1, &[None, affine, None, None, affine, affine], 1e-5)
        });
    }

    /// What normalizes a linear map knows the gradient of its bias on a GPU, in part or as a whole, unless slots
    /// are copied in between or the map has a second reader.
    #[test]
    fn biases_of_what_is_normalized_learn_the_same_on_every_device() {
        for (rows, channels) in [(72, 8), (70, 8), (72, 128), (72, 5)] {
            let width = 3 * 2 * channels;
            let inputs = [
                normal([rows, 16], 1),
                normal([16, width], 2),
                normal([width], 3),
                normal([channels], 4),
                normal([channels], 5),
            ];
            for normed in
                [[true, true, false], [true, false, false], [true; 3], [true, false, true]]
            {
                let run = |tape: &mut Tape, x: &[Tensor], again: bool| {
                    let affine = Some(Affine { scale: &x[3], offset: &x[4] });
                    let slots = normed.map(|normed| affine.filter(|_| normed));
                    let mapped = tape.linear(&x[0], &x[1], Some(&x[2]))?;
                    let early = tape.affine(&mapped, 0.5, 0.0)?;
                    let found = tape.head_norm(&mapped, 2, &slots, 1e-5)?;
                    if again { tape.add(&found, &early) } else { Ok(found) }
                };
                compare_gradients(&inputs, |tape, x| run(tape, x, false));
                compare_gradients(&inputs, |tape, x| run(tape, x, true));
            }
        }
    }
}

//! y = x + gate·f: the residual branch of an adaLN-Zero block.
//!
//! Shapes: x and f [rows…, D], modulation [G, P, D], of which one vector gates each group of
//! consecutive rows. Backward, with d = dL/dy: dx = d, df = gate·d, dgate = Σ d·f over the group.

use super::modulated_norm::{add_to_modulation, check_modulation};
use super::row::{for_rows, row_of};
use crate::buffer::Buffer;
use crate::gradient::GradientStore;
use crate::parallel::{Disjoint, for_ranges, row_grain};
use crate::vectorize::{fused, vectorized};
use crate::{Result, Tape, Tensor};

impl Tape {
    /// x + gate·f with `gate` the given vector of `modulation` [G, P, D].
    ///
    /// # Errors
    /// If x and f differ in shape or the modulation does not fit.
    pub fn gated_residual(
        &mut self,
        x: &Tensor,
        f: &Tensor,
        modulation: &Tensor,
        gate: usize,
    ) -> Result<Tensor> {
        x.expect_same("gated_residual", f)?;
        check_modulation("gated_residual", x, modulation, gate)?;
        if let Some(cuda) = self.cuda() {
            return self.gated_residual_cuda(&cuda, x, f, modulation, gate);
        }
        let (rows, width) = (x.shape().rows(), x.shape().last());
        let gates = Gates::new(rows, modulation, gate);
        let mut output = self.device().buffer(rows * width);
        for_rows(&mut output, width, width, |row, part| {
            let [x, f] = [x, f].map(|of| row_of(of.values(), width, row));
            add_gated(part, x, f, gates.of(row));
        });
        let inputs = [x, f, modulation];
        Ok(self.record("gated_residual", *x.shape(), output, &inputs, |_| {
            let node =
                GatedBackward { x: x.clone(), f: f.clone(), modulation: modulation.clone(), gate };
            move |upstream, gradients| node.backward(upstream, gradients)
        }))
    }
}

/// The gate of each row.
struct Gates<'a> {
    vectors: &'a [f32],
    group_rows: usize,
    count: usize,
    gate: usize,
    width: usize,
}

impl<'a> Gates<'a> {
    fn new(rows: usize, modulation: &'a Tensor, gate: usize) -> Self {
        let [groups, count, width] = *modulation.shape().extents() else {
            unreachable!("a modulation was checked to have three axes")
        };
        let group_rows = (rows / groups).max(1);
        Self { vectors: modulation.values(), group_rows, count, gate, width }
    }

    fn of(&self, row: usize) -> &'a [f32] {
        let vector = row / self.group_rows * self.count + self.gate;
        &self.vectors[vector * self.width..][..self.width]
    }
}

vectorized! {
    fn add_gated(output: &mut [f32], x: &[f32], f: &[f32], gate: &[f32]) {
        for (((output, x), f), gate) in output.iter_mut().zip(x).zip(f).zip(gate) {
            *output = fused::<FUSED>(*gate, *f, *x);
        }
    }

    /// Adds d·f to the gate's sum and writes or adds gate·d to df.
    fn backward_row(
        gradient: &mut [f32],
        accumulate: bool,
        gate_sum: &mut [f32],
        upstream: &[f32],
        f: &[f32],
        gate: &[f32],
    ) {
        for ((sum, d), f) in gate_sum.iter_mut().zip(upstream).zip(f) {
            *sum = fused::<FUSED>(*d, *f, *sum);
        }
        if accumulate {
            for ((gradient, d), gate) in gradient.iter_mut().zip(upstream).zip(gate) {
                *gradient = fused::<FUSED>(*d, *gate, *gradient);
            }
        } else {
            for ((gradient, d), gate) in gradient.iter_mut().zip(upstream).zip(gate) {
                *gradient = d * gate;
            }
        }
    }
}

struct GatedBackward {
    x: Tensor,
    f: Tensor,
    modulation: Tensor,
    gate: usize,
}

impl GatedBackward {
    fn backward(&self, upstream: Buffer, gradients: &mut GradientStore<'_>) {
        let device = gradients.device().clone();
        let (rows, width) = (self.x.shape().rows(), self.x.shape().last());
        let gates = Gates::new(rows, &self.modulation, self.gate);
        let groups = self.modulation.shape().extents()[0];
        let mut sums = device.zeroed(groups * width);
        gradients.with_shared(&self.f, |gradient, accumulate| {
            let sums = Disjoint::new(&mut sums);
            for_ranges(groups, row_grain(width * gates.group_rows), |range| {
                for group in range {
                    // SAFETY: each group is visited once.
                    let sum = unsafe { sums.range(group * width..(group + 1) * width) };
                    for row in group * gates.group_rows..(group + 1) * gates.group_rows {
                        let span = row * width..(row + 1) * width;
                        let gradient = match &gradient {
                            // SAFETY: each row is visited once.
                            Some(gradient) => unsafe { gradient.range(span.clone()) },
                            None => &mut [],
                        };
                        let (d, f) = (&upstream[span.clone()], &self.f.values()[span]);
                        backward_row(gradient, accumulate, sum, d, f, gates.of(row));
                    }
                }
            });
        });
        add_to_modulation(gradients, &self.modulation, &[(self.gate, 0)], &sums);
        gradients.add_whole(&self.x, upstream);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_close, check_gradients, compare_gradients, evaluate, normal};
    use crate::{Result, Tape, Tensor};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn values_match_the_reference(
            groups in 1usize..4, each in 1usize..11, seed in 0u64..99,
            width in prop_oneof![1usize..40, Just(64), Just(768), Just(2056)],
        ) {
            let shape = [groups, each, width];
            let (x, f) = (normal(shape, seed), normal(shape, seed + 1));
            let modulation = normal([groups, 3, width], seed + 2);
            let mut expected = x.values().to_vec();
            for (index, value) in expected.iter_mut().enumerate() {
                let (group, column) = (index / width / each, index % width);
                *value += modulation.values()[(group * 3 + 1) * width + column] * f.values()[index];
            }
            let found = evaluate(|tape| tape.gated_residual(&x, &f, &modulation, 1));
            assert_close(found.values(), &expected, 1e-6);
        }
    }

    #[test]
    fn gradients_match_differences() {
        // The wider rows are whole vectors of a GPU, and exceed the threads of one block.
        for (each, width) in [(3, 5), (9, 24), (2, 2056)] {
            let inputs = [1, 2].map(|seed| normal([2, each, width], seed));
            let inputs = [&inputs[..], &[normal([2, 3, width], 3)]].concat();
            check_gradients(&inputs, |tape, x| tape.gated_residual(&x[0], &x[1], &x[2], 2));
        }
    }

    /// What gates a linear map knows the gradient of its bias on a GPU: unless GELU follows the map, or what
    /// is gated has a second reader, before or after.
    #[test]
    fn biases_of_what_is_gated_learn_the_same_on_every_device() {
        type Map = fn(&mut Tape, &[Tensor]) -> Result<Tensor>;
        let maps: [Map; 3] = [
            |tape, x| tape.linear(&x[1], &x[2], Some(&x[3])),
            |tape, x| tape.linear_gelu(&x[1], &x[2], Some(&x[3])),
            |tape, x| tape.feed_forward(&x[1], [&x[5], &x[6]], [&x[2], &x[3]]),
        ];
        for (groups, each, width) in [(2, 40, 48), (3, 3, 48), (2, 70, 33)] {
            let rows = [groups, each, width];
            let hidden = [groups, each, 24];
            let inputs = [
                normal(rows, 1),
                normal(hidden, 2),
                normal([24, width], 3),
                normal([width], 4),
                normal([groups, 3, width], 5),
                normal([24, 24], 6),
                normal([24], 7),
            ];
            for map in maps {
                compare_gradients(&inputs, |tape, x| {
                    let f = map(tape, x)?;
                    tape.gated_residual(&x[0], &f, &x[4], 1)
                });
                compare_gradients(&inputs, |tape, x| {
                    let f = map(tape, x)?;
                    let early = tape.multiply(&f, &x[0])?;
                    let gated = tape.gated_residual(&x[0], &f, &x[4], 1)?;
                    tape.add(&gated, &early)
                });
                compare_gradients(&inputs, |tape, x| {
                    let f = map(tape, x)?;
                    let gated = tape.gated_residual(&x[0], &f, &x[4], 1)?;
                    let late = tape.multiply(&f, &x[0])?;
                    tape.add(&gated, &late)
                });
            }
        }
    }
}

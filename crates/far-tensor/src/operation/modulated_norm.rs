//! LayerNorm, optionally with an affine map, optionally followed by adaLN's shift and scale.
//!
//! For each row x of D elements: x̂ = (x − μ)/√(σ² + ε); n = x̂·γ + β; y = n·(1 + scale) + shift.
//! Shapes: x [rows…, D], γ and β [D], modulation [G, P, D]: P vectors for each of G groups of
//! consecutive rows (a sample or a frame), of which one is the shift and one the scale.
//!
//! Backward, with d = dL/dy: dshift = Σ d, dscale = Σ d·n, dn = d·(1 + scale), dβ = Σ dn,
//! dγ = Σ dn·x̂, e = dn·γ, dx = (e − mean(e) − x̂·mean(e·x̂))/√(σ² + ε).

use super::norm_row::{backward_row, forward_row};
use crate::buffer::Buffer;
use crate::gradient::GradientStore;
use crate::parallel::{Disjoint, for_ranges, row_grain, with_scratch};
use crate::vectorize::{add_assign, add_rows};
use crate::{Error, Result, Tape, Tensor};
use std::ops::Range;

/// Scale γ and offset β of a norm, each `[D]`.
#[derive(Clone, Copy, Debug)]
pub struct Affine<'a> {
    /// γ.
    pub scale: &'a Tensor,
    /// β.
    pub offset: &'a Tensor,
}

/// Which of the vectors of a modulation [G, P, D] shift and scale a norm.
#[derive(Clone, Copy, Debug)]
pub struct Modulation<'a> {
    /// The vectors: [G, P, D], G dividing the number of rows.
    pub vectors: &'a Tensor,
    /// Which of the P vectors is the shift.
    pub shift: usize,
    /// Which of the P vectors is the scale.
    pub scale: usize,
}

impl Tape {
    /// LayerNorm over the last axis: x [rows…, D] → the same shape.
    ///
    /// # Errors
    /// If the affine map has another width.
    pub fn layer_norm(
        &mut self,
        x: &Tensor,
        affine: Option<Affine<'_>>,
        epsilon: f32,
    ) -> Result<Tensor> {
        self.norm("layer_norm", x, affine, None, epsilon)
    }

    /// LayerNorm followed by adaLN's shift and scale in one pass.
    ///
    /// # Errors
    /// If widths differ, a vector does not exist or the groups do not divide the rows.
    pub fn modulated_norm(
        &mut self,
        x: &Tensor,
        affine: Option<Affine<'_>>,
        modulation: Modulation<'_>,
        epsilon: f32,
    ) -> Result<Tensor> {
        self.norm("modulated_norm", x, affine, Some(modulation), epsilon)
    }

    fn norm(
        &mut self,
        operation: &'static str,
        x: &Tensor,
        affine: Option<Affine<'_>>,
        modulation: Option<Modulation<'_>>,
        epsilon: f32,
    ) -> Result<Tensor> {
        let (rows, width) = (x.shape().rows(), x.shape().last());
        if let Some(affine) = affine {
            for vector in [affine.scale, affine.offset] {
                let requirement = "an affine map has one element per column";
                vector.expect_elements(operation, width, x, requirement)?;
            }
        }
        let groups = match modulation {
            Some(modulation) => {
                let last = modulation.shift.max(modulation.scale);
                check_modulation(operation, x, modulation.vectors, last)?
            }
            None => 1,
        };
        if let Some(cuda) = self.cuda() {
            return self.norm_cuda(&cuda, operation, x, affine, modulation, epsilon);
        }
        let mut output = self.device().buffer(rows * width);
        let mut statistics = self.device().buffer(rows * 2);
        let parts = Parts::new(rows, width, groups, affine, modulation);
        {
            let (output, statistics) = (Disjoint::new(&mut output), Disjoint::new(&mut statistics));
            for_ranges(rows, row_grain(width), |range| {
                // SAFETY: the ranges of rows are disjoint, in both slices.
                let output = unsafe { output.range(range.start * width..range.end * width) };
                // SAFETY: as above.
                let statistics = unsafe { statistics.range(range.start * 2..range.end * 2) };
                let x = x.values();
                for (index, row) in range.enumerate() {
                    forward_row(
                        &mut output[index * width..(index + 1) * width],
                        &mut statistics[index * 2..(index + 1) * 2],
                        &x[row * width..(row + 1) * width],
                        parts.affine,
                        parts.modulation(row),
                        epsilon,
                    );
                }
            });
        }
        let mut inputs = vec![x];
        inputs.extend(affine.iter().flat_map(|affine| [affine.scale, affine.offset]));
        inputs.extend(modulation.iter().map(|modulation| modulation.vectors));
        Ok(self.record(operation, *x.shape(), output, &inputs, |_| {
            let node = NormBackward {
                x: x.clone(),
                affine: affine.map(|affine| [affine.scale.clone(), affine.offset.clone()]),
                modulation: modulation.map(|m| (m.vectors.clone(), m.shift, m.scale)),
                statistics,
            };
            move |upstream, gradients| node.backward(upstream, gradients)
        }))
    }
}

/// Checks a modulation [G, P, D] against x [rows…, D] and returns G.
pub(super) fn check_modulation(
    operation: &'static str,
    x: &Tensor,
    vectors: &Tensor,
    last: usize,
) -> Result<usize> {
    let (rows, width) = (x.shape().rows(), x.shape().last());
    let requirement = "a modulation is [groups, vectors, width], groups dividing the rows";
    match *vectors.shape().extents() {
        [groups, count, wide]
            if wide == width && last < count && groups > 0 && rows.is_multiple_of(groups) =>
        {
            Ok(groups)
        }
        _ => Err(Error::mismatch(operation, [x.shape(), vectors.shape()], requirement)),
    }
}

/// The small vectors of a row.
struct Parts<'a> {
    affine: Option<[&'a [f32]; 2]>,
    vectors: Option<(&'a [f32], usize, usize)>,
    count: usize,
    width: usize,
    group_rows: usize,
}

impl<'a> Parts<'a> {
    fn new(
        rows: usize,
        width: usize,
        groups: usize,
        affine: Option<Affine<'a>>,
        modulation: Option<Modulation<'a>>,
    ) -> Self {
        Self {
            affine: affine.map(|affine| [affine.scale.values(), affine.offset.values()]),
            vectors: modulation.map(|m| (m.vectors.values(), m.shift, m.scale)),
            count: modulation.map_or(0, |m| m.vectors.shape().extents()[1]),
            width,
            group_rows: (rows / groups).max(1),
        }
    }

    /// Shift and scale of a row.
    fn modulation(&self, row: usize) -> Option<[&'a [f32]; 2]> {
        self.vectors.map(|(vectors, shift, scale)| {
            let group = row / self.group_rows * self.count;
            [shift, scale].map(|which| &vectors[(group + which) * self.width..][..self.width])
        })
    }
}

struct NormBackward {
    x: Tensor,
    affine: Option<[Tensor; 2]>,
    modulation: Option<(Tensor, usize, usize)>,
    statistics: Buffer,
}

impl NormBackward {
    fn backward(&self, upstream: Buffer, gradients: &mut GradientStore<'_>) {
        let device = gradients.device().clone();
        let (rows, width) = (self.x.shape().rows(), self.x.shape().last());
        let affine = self.affine.as_ref().map(|[scale, offset]| Affine { scale, offset });
        let modulation = self.modulation.as_ref();
        let modulation =
            modulation.map(|&(ref vectors, shift, scale)| Modulation { vectors, shift, scale });
        let groups = modulation.map_or(1, |m| m.vectors.shape().extents()[0]);
        let parts = Parts::new(rows, width, groups, affine, modulation);
        // A piece holds whole groups, so that the sums of a group belong to one piece.
        let piece_rows = match modulation {
            Some(_) => parts.group_rows * row_grain(width * parts.group_rows),
            None => row_grain(width),
        };
        let pieces = rows.div_ceil(piece_rows.max(1));
        // Sums of dγ and dβ for each piece, and of shift and scale for each group.
        let mut affine_sums = device.zeroed(if affine.is_some() { pieces * 2 * width } else { 0 });
        let mut group_sums =
            device.zeroed(if modulation.is_some() { groups * 2 * width } else { 0 });
        gradients.with_shared(&self.x, |gradient, accumulate| {
            let affine_shared = Disjoint::new(&mut affine_sums);
            let group_shared = Disjoint::new(&mut group_sums);
            for_ranges(rows, piece_rows, |range: Range<usize>| {
                let piece = range.start / piece_rows;
                with_scratch(2 * width, |scratch| {
                    let (scratch, unwanted) = scratch.split_at_mut(width);
                    for row in range {
                        let span = row * width..(row + 1) * width;
                        let group = row / parts.group_rows;
                        let affine =
                            parts.affine.map(|a| (a, sums_of(&affine_shared, piece, width)));
                        let modulation = parts
                            .modulation(row)
                            .map(|m| (m, sums_of(&group_shared, group, width)));
                        let gradient = match &gradient {
                            // SAFETY: each row is visited once.
                            Some(gradient) => unsafe { gradient.range(span.clone()) },
                            None => &mut *unwanted,
                        };
                        backward_row(
                            gradient,
                            accumulate,
                            &upstream[span.clone()],
                            &self.x.values()[span],
                            &self.statistics[row * 2..row * 2 + 2],
                            affine,
                            modulation,
                            scratch,
                        );
                    }
                });
            });
        });
        if let Some(vectors) = &self.affine {
            with_scratch(2 * width, |total| {
                total.fill(0.0);
                add_rows(total, &affine_sums);
                for (vector, sums) in vectors.iter().zip(total.chunks_exact(width)) {
                    gradients.add(vector, sums);
                }
            });
        }
        if let Some((vectors, shift, scale)) = &self.modulation {
            let sums = [(*shift, 0), (*scale, 1)];
            add_to_modulation(gradients, vectors, &sums, &group_sums);
        }
    }
}

/// The two sums of a piece or a group, each of which belongs to one thread.
fn sums_of<'a>(shared: &Disjoint<'a>, index: usize, width: usize) -> [&'a mut [f32]; 2] {
    let start = index * 2 * width;
    // SAFETY: the two halves are disjoint, and no other thread has the same index.
    unsafe { [shared.range(start..start + width), shared.range(start + width..start + 2 * width)] }
}

/// Adds sums [G, n, D] to the gradient of a modulation [G, P, D]: for each (p, i) of `places`,
/// sum i belongs to vector p.
pub(super) fn add_to_modulation(
    gradients: &mut GradientStore<'_>,
    vectors: &Tensor,
    places: &[(usize, usize)],
    sums: &[f32],
) {
    let (count, width) = (vectors.shape().extents()[1], vectors.shape().last());
    gradients.with(vectors, |gradient, accumulate| {
        if !accumulate {
            gradient.fill(0.0);
        }
        let groups = gradient.chunks_exact_mut(count * width);
        for (gradient, sums) in groups.zip(sums.chunks_exact(places.len() * width)) {
            for &(vector, sum) in places {
                add_assign(&mut gradient[vector * width..][..width], &sums[sum * width..][..width]);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, check_gradients, evaluate, normal};
    use proptest::prelude::*;

    /// The formula, row by row, in double precision.
    fn reference(
        x: &Tensor,
        affine: Option<[&Tensor; 2]>,
        modulation: Option<(&Tensor, usize, usize)>,
    ) -> Vec<f32> {
        let (rows, width) = (x.shape().rows(), x.shape().last());
        let mut result = Vec::new();
        for row in 0..rows {
            let values: Vec<f64> =
                x.values()[row * width..][..width].iter().map(|x| f64::from(*x)).collect();
            let mean = values.iter().sum::<f64>() / width as f64;
            let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
            for (column, value) in values.iter().enumerate() {
                let mut y = (value - mean) / (variance + 1e-6).sqrt();
                if let Some([scale, offset]) = affine {
                    y = y * f64::from(scale.values()[column]) + f64::from(offset.values()[column]);
                }
                if let Some((vectors, shift, scale)) = modulation {
                    let [groups, count, _] = *vectors.shape().extents() else { unreachable!() };
                    let group = row / (rows / groups);
                    let at = |which| {
                        f64::from(vectors.values()[(group * count + which) * width + column])
                    };
                    y = y * (1.0 + at(scale)) + at(shift);
                }
                result.push(y as f32);
            }
        }
        result
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn values_match_the_reference(
            groups in 1usize..4, each in 1usize..11, seed in 0u64..99,
            // Rows of whole vectors, which a GPU holds in registers, and others.
            width in prop_oneof![1usize..70, Just(64), Just(256), Just(768), Just(1024), Just(2056)],
        ) {
            let x = normal([groups, each, width], seed);
            let (scale, offset) = (normal([width], seed + 1), normal([width], seed + 2));
            let vectors = normal([groups, 6, width], seed + 3);
            let affine = Affine { scale: &scale, offset: &offset };
            let modulation = Modulation { vectors: &vectors, shift: 3, scale: 4 };
            for (affine, parts) in [(None, None), (Some(affine), Some([&scale, &offset]))] {
                let found = evaluate(|tape| tape.layer_norm(&x, affine, 1e-6));
                assert_close(found.values(), &reference(&x, parts, None), 1e-4);
                let found = evaluate(|tape| tape.modulated_norm(&x, affine, modulation, 1e-6));
                assert_close(found.values(), &reference(&x, parts, Some((&vectors, 3, 4))), 1e-4);
            }
        }
    }

    #[test]
    fn gradients_match_differences() {
        fn affine(x: &[Tensor]) -> Affine<'_> {
            Affine { scale: &x[1], offset: &x[2] }
        }
        fn modulation(x: &[Tensor]) -> Modulation<'_> {
            Modulation { vectors: &x[3], shift: 0, scale: 2 }
        }
        // The wider rows exceed what a warp of a GPU holds.
        for (each, width) in [(3, 18), (5, 264)] {
            let vector = |seed| normal([width], seed);
            let inputs =
                [normal([2, each, width], 1), vector(2), vector(3), normal([2, 3, width], 4)];
            check_gradients(&inputs[..1], |tape, x| tape.layer_norm(&x[0], None, 1e-5));
            check_gradients(&inputs[..3], |tape, x| tape.layer_norm(&x[0], Some(affine(x)), 1e-5));
            check_gradients(&inputs, |tape, x| {
                tape.modulated_norm(&x[0], None, modulation(x), 1e-5)
            });
            check_gradients(&inputs, |tape, x| {
                tape.modulated_norm(&x[0], Some(affine(x)), modulation(x), 1e-5)
            });
        }
    }

    #[test]
    fn groups_must_divide_the_rows() {
        let (x, vectors) = (normal([3, 4], 1), normal([2, 2, 4], 2));
        let modulation = Modulation { vectors: &vectors, shift: 0, scale: 1 };
        let mut tape = Tape::inference(&crate::Device::cpu());
        let error = tape.modulated_norm(&x, None, modulation, 1e-6).unwrap_err();
        assert!(error.to_string().starts_with("modulated_norm: [3, 4] does not fit [2, 2, 4]"));
    }
}

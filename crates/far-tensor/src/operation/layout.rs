//! Moving elements along one axis: concatenate, slice, repeat. [`Tape::permute`] reorders axes.
//!
//! | operation | shapes | backward |
//! |---|---|---|
//! | concat | [P…, Eᵢ, Q…] → [P…, Σ Eᵢ, Q…] | each input takes its slice |
//! | slice | [P…, E, Q…] → [P…, n, Q…] | the slice goes back, zeros elsewhere |
//! | repeat | [P…, Q…] → [P…, n, Q…] | the sum over the new axis |
//!
//! The first two copy bands of columns between matrices whose rows are the P… axes.

use super::row::{for_rows, row_of};
use crate::vectorize::{add_assign, add_rows, put_row};
use crate::{Error, Result, Shape, Tape, Tensor};
use std::ops::Range;

impl Tape {
    /// Joins tensors along an axis: [P…, Eᵢ, Q…] → [P…, Σ Eᵢ, Q…].
    ///
    /// # Errors
    /// If there is nothing to join, no such axis, or the other axes differ.
    pub fn concat(&mut self, inputs: &[&Tensor], axis: usize) -> Result<Tensor> {
        let first = *inputs.first().ok_or_else(|| Error::Unsupported {
            operation: "concat",
            shape: Shape::new(&[0]),
            requirement: "at least one tensor is needed".into(),
        })?;
        expect_axis("concat", first, axis)?;
        let mut extents = first.shape().extents().to_vec();
        for other in &inputs[1..] {
            let others = other.shape().extents();
            let fits = others.len() == extents.len()
                && (0..extents.len()).all(|at| at == axis || others[at] == extents[at]);
            let shapes = [first.shape(), other.shape()];
            let requirement = "all axes but the joined one must be equal";
            Error::expect_fit(fits, "concat", shapes, requirement)?;
            extents[axis] += others[axis];
        }
        let shape = Shape::new(&extents);
        if let Some(cuda) = self.cuda() {
            return self.concat_cuda(&cuda, shape, inputs, axis);
        }
        let (_, total, inner) = shape.around(axis);
        let width = total * inner;
        let mut output = self.device().buffer(shape.elements());
        for_rows(&mut output, width, width, |row, part| {
            let mut start = 0;
            for input in inputs {
                let own = input.shape().extents()[axis] * inner;
                part[start..start + own].copy_from_slice(row_of(input.values(), own, row));
                start += own;
            }
        });
        Ok(self.record("concat", shape, output, inputs, |_| {
            let inputs: Vec<Tensor> = inputs.iter().copied().cloned().collect();
            move |upstream, gradients| {
                let mut start = 0;
                for input in &inputs {
                    let (_, extent, inner) = input.shape().around(axis);
                    let own = extent * inner;
                    gradients.with(input, |gradient, accumulate| {
                        for_rows(gradient, own, own, |row, part| {
                            let source = &row_of(&upstream, width, row)[start..start + own];
                            put_row(part, source, accumulate);
                        });
                    });
                    start += own;
                }
            }
        }))
    }

    /// The elements `range` of an axis: [P…, E, Q…] → [P…, n, Q…]. If they are contiguous and no
    /// gradient is needed, nothing is copied.
    ///
    /// # Errors
    /// If there is no such axis or it does not reach that far.
    pub fn slice(&mut self, x: &Tensor, axis: usize, range: Range<usize>) -> Result<Tensor> {
        expect_axis("slice", x, axis)?;
        let (outer, extent, inner) = x.shape().around(axis);
        x.expect("slice", range.start <= range.end && range.end <= extent, || {
            format!("elements {range:?} of axis {axis} must exist")
        })?;
        let mut extents = x.shape().extents().to_vec();
        extents[axis] = range.len();
        let shape = Shape::new(&extents);
        let band = range.start * inner..range.end * inner;
        if outer == 1 && !self.wants(x) {
            return Ok(x.part(band.start, shape));
        }
        if let Some(cuda) = self.cuda() {
            return self.slice_cuda(&cuda, shape, x, extent * inner, band);
        }
        let mut output = self.device().buffer(shape.elements());
        for_rows(&mut output, band.len(), band.len(), |row, part| {
            part.copy_from_slice(&row_of(x.values(), extent * inner, row)[band.clone()]);
        });
        Ok(self.record("slice", shape, output, &[x], |_| {
            let (x, width) = (x.clone(), extent * inner);
            move |upstream, gradients| {
                gradients.with(&x, |gradient, accumulate| {
                    for_rows(gradient, width, width, |row, part| {
                        let source = row_of(&upstream, band.len(), row);
                        if accumulate {
                            add_assign(&mut part[band.clone()], source);
                        } else {
                            part[..band.start].fill(0.0);
                            part[band.clone()].copy_from_slice(source);
                            part[band.end..].fill(0.0);
                        }
                    });
                });
            }
        }))
    }

    /// Repeats along a new axis at `axis`: [P…, Q…] → [P…, times, Q…], for example to broadcast one
    /// vector per sample [B, D] to all its tokens [B, T, D].
    ///
    /// # Errors
    /// If `axis` is beyond the rank or the result would have too many axes.
    pub fn repeat(&mut self, x: &Tensor, axis: usize, times: usize) -> Result<Tensor> {
        let rank = x.shape().rank();
        x.expect("repeat", axis <= rank && rank < crate::MAXIMUM_RANK, || {
            format!("a new axis {axis} needs a rank from {axis} to {}", crate::MAXIMUM_RANK - 1)
        })?;
        let mut extents = x.shape().extents().to_vec();
        extents.insert(axis, times);
        let shape = Shape::new(&extents);
        if let Some(cuda) = self.cuda() {
            return self.repeat_cuda(&cuda, shape, x, axis);
        }
        let (_, _, inner) = shape.around(axis);
        let mut output = self.device().buffer(shape.elements());
        for_rows(&mut output, inner, inner, |row, part| {
            part.copy_from_slice(row_of(x.values(), inner, row / times));
        });
        Ok(self.record("repeat", shape, output, &[x], |_| {
            let x = x.clone();
            move |upstream, gradients| {
                let block = times * inner;
                gradients.with(&x, |gradient, accumulate| {
                    for_rows(gradient, inner, block, |row, part| {
                        if !accumulate {
                            part.fill(0.0);
                        }
                        add_rows(part, row_of(&upstream, block, row));
                    });
                });
            }
        }))
    }
}

fn expect_axis(operation: &'static str, x: &Tensor, axis: usize) -> Result<()> {
    x.expect(operation, axis < x.shape().rank(), || format!("axis {axis} must exist"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_gradients, evaluate, normal};
    use proptest::prelude::*;

    /// The element of a rank-3 tensor.
    fn at(x: &Tensor, [i, j, k]: [usize; 3]) -> f32 {
        let extents = x.shape().extents();
        x.values()[(i * extents[1] + j) * extents[2] + k]
    }

    /// All positions of a rank-3 shape in row-major order.
    fn positions(extents: &[usize]) -> Vec<[usize; 3]> {
        let (b, c) = (extents[1], extents[2]);
        (0..extents.iter().product()).map(|n| [n / (b * c), n / c % b, n % c]).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn moves_match_the_reference(
            extents in prop::array::uniform3(1usize..6), more in 1usize..5, axis in 0usize..3,
            from in 0usize..6, length in 0usize..6, unit in prop::sample::select(vec![1, 4, 8]),
            seed in 0u64..99,
        ) {
            // Innermost extents that are multiples of a unit are moved in runs on a GPU.
            let (mut extents, more) = (extents, if axis == 2 { more * unit } else { more });
            extents[2] *= unit;
            let (from, length) = if axis == 2 { (from * unit, length * unit) } else { (from, length) };
            let x = normal(extents, seed);
            let mut other = extents;
            other[axis] = more;
            let y = normal(other, seed + 1);
            let joined = evaluate(|tape| tape.concat(&[&x, &y, &x], axis));
            prop_assert_eq!(joined.shape().extents()[axis], 2 * extents[axis] + more);
            for (n, mut place) in positions(joined.shape().extents()).into_iter().enumerate() {
                let value = joined.values()[n];
                let border = extents[axis];
                let source = if (border..border + more).contains(&place[axis]) { &y } else { &x };
                if place[axis] >= border + more {
                    place[axis] -= border + more;
                } else if place[axis] >= border {
                    place[axis] -= border;
                }
                prop_assert_eq!(value, at(source, place));
            }

            let start = from % (extents[axis] + 1);
            let range = start..(start + length).min(extents[axis]);
            let part = evaluate(|tape| tape.slice(&x, axis, range.clone()));
            for (n, mut place) in positions(part.shape().extents()).into_iter().enumerate() {
                place[axis] += range.start;
                prop_assert_eq!(part.values()[n], at(&x, place));
            }

            let repeated = evaluate(|tape| tape.repeat(&x.reshape([extents[0], extents[1] * extents[2]])?, 1, more));
            for (n, place) in positions(repeated.shape().extents()).into_iter().enumerate() {
                let width = extents[1] * extents[2];
                prop_assert_eq!(repeated.values()[n], x.values()[place[0] * width + place[2]]);
            }
        }
    }

    #[test]
    fn gradients_match_differences() {
        let inputs = [normal([2, 3, 2], 1), normal([2, 1, 2], 2)];
        check_gradients(&inputs, |tape, x| tape.concat(&[&x[0], &x[1], &x[0]], 1));
        for axis in 0..3 {
            check_gradients(&inputs[..1], |tape, x| tape.slice(&x[0], axis, 1..2));
        }
        for axis in 0..4 {
            check_gradients(&inputs[..1], |tape, x| tape.repeat(&x[0], axis, 3));
        }
        for width in [4, 8] {
            let inputs = [normal([2, 2, 2 * width], 1), normal([2, 2, width], 2)];
            check_gradients(&inputs, |tape, x| tape.concat(&[&x[0], &x[1], &x[0]], 2));
            check_gradients(&inputs[..1], |tape, x| tape.slice(&x[0], 2, width..2 * width));
            check_gradients(&inputs[..1], |tape, x| tape.repeat(&x[0], 1, 3));
        }
        // Long enough to be summed in parts on a GPU.
        check_gradients(&[normal([2, 3], 4)], |tape, x| tape.repeat(&x[0], 1, 200));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let mut tape = Tape::inference(&crate::Device::cpu());
        let (a, b) = (normal([2, 3], 1), normal([3, 3], 1));
        let error = tape.concat(&[&a, &b], 1).unwrap_err();
        assert!(error.to_string().starts_with("concat: [2, 3] does not fit [3, 3]"), "{error}");
        assert!(tape.concat(&[], 0).is_err());
        assert!(tape.slice(&a, 1, 2..4).is_err());
        assert!(tape.slice(&a, 2, 0..1).is_err());
        assert!(tape.repeat(&a, 3, 2).is_err());
    }
}

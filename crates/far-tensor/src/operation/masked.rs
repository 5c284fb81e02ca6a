//! Statistics over the valid elements of an axis, and standardization by them.
//!
//! With n valid elements (mask ≠ 0; all of them without a mask) along the axis:
//!
//! | statistic | y | dx at valid elements |
//! |---|---|---|
//! | mean μ | Σ x / n | d / n |
//! | variance | Σ (x − μ)² / n | 2d(x − μ) / n |
//! | deviation σ | √(variance + 10⁻¹²) | d(x − μ) / (nσ) |
//! | maximum | max x | d at the first of the largest |
//!
//! Standardization: y = (x − μ) / (σ + 10⁻⁴), so that equal values give zeros; its gradient flows
//! through μ and σ: dx = (d − Σd/n) / (σ + 10⁻⁴) − y·Σ(d·y) / (nσ).
//!
//! Shapes: x and mask [P…, E, Q…]; statistics [P…, Q…], standardized [P…, E, Q…]. Elements that
//! are masked out give 0 and get no gradient; a group without a valid element has statistics 0.

use super::row::{expect_mask, for_rows, put, row_of};
use crate::buffer::Buffer;
use crate::gradient::GradientStore;
use crate::vectorize::{lane_sum, vectorized};
use crate::{Result, Shape, Tape, Tensor};

/// Keeps the deviation's slope finite if all values are equal.
const VARIANCE_FLOOR: f32 = 1e-12;
/// Added to the deviation that standardization divides by.
const DEVIATION_OFFSET: f32 = 1e-4;

/// What to compute over the valid elements of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// The mean.
    Mean,
    /// The population variance: divided by the count, not by one less.
    Variance,
    /// √(variance + 10⁻¹²).
    Deviation,
    /// The largest value; its gradient goes to the first of equals.
    Maximum,
}

impl Tape {
    /// A statistic of the valid elements along an axis, which is removed: x and mask [P…, E, Q…] →
    /// [P…, Q…]; 0 if nothing is valid.
    ///
    /// ```
    /// use far_tensor::{Device, Statistic, Tape, Tensor};
    /// let x = Tensor::from_slice(&[1.0, 3.0, 99.0], [1, 3])?;
    /// let mask = Tensor::from_slice(&[1.0, 1.0, 0.0], [1, 3])?;
    /// let mut tape = Tape::inference(&Device::cpu());
    /// assert_eq!(tape.statistic(&x, Some(&mask), 1, Statistic::Mean)?.values(), [2.0]);
    /// assert_eq!(tape.statistic(&x, Some(&mask), 1, Statistic::Maximum)?.values(), [3.0]);
    /// # Ok::<(), far_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no such axis or the mask has another shape.
    pub fn statistic(
        &mut self,
        x: &Tensor,
        mask: Option<&Tensor>,
        axis: usize,
        statistic: Statistic,
    ) -> Result<Tensor> {
        expect_groups("statistic", x, mask, axis)?;
        let mut kept = x.shape().extents().to_vec();
        kept.remove(axis);
        let shape = Shape::new(&kept);
        if let Some(cuda) = self.cuda() {
            return self.statistic_cuda(&cuda, shape, x, mask, axis, statistic);
        }
        let groups = Groups::of(x, mask, axis);
        let mut output = self.device().buffer(shape.elements());
        for_rows(&mut output, groups.inner, groups.block, |block, part| {
            for (column, value) in part.iter_mut().enumerate() {
                let (x, mask) = groups.group(block, column);
                *value = groups.value(x, mask, statistic);
            }
        });
        Ok(self.record("statistic", shape, output, &[x], |_| {
            let node = StatisticBackward { x: x.clone(), mask: mask.cloned(), axis, statistic };
            move |upstream, gradients| node.backward(upstream, gradients)
        }))
    }

    /// (x − μ) / (σ + 10⁻⁴) over the valid elements along an axis, 0 elsewhere: x and mask [P…, E,
    /// Q…] → the same shape. It makes scores of different cues comparable.
    ///
    /// # Errors
    /// If there is no such axis or the mask has another shape.
    pub fn standardize(
        &mut self,
        x: &Tensor,
        mask: Option<&Tensor>,
        axis: usize,
    ) -> Result<Tensor> {
        expect_groups("standardize", x, mask, axis)?;
        if let Some(cuda) = self.cuda() {
            return self.standardize_cuda(&cuda, x, mask, axis);
        }
        let groups = Groups::of(x, mask, axis);
        let mut output = self.device().buffer(x.shape().elements());
        for_rows(&mut output, groups.block, groups.block, |block, part| {
            for column in 0..groups.inner {
                let (x, mask) = groups.group(block, column);
                standardize(&mut part[column..], x, mask, groups.extent, groups.inner);
            }
        });
        Ok(self.record("standardize", *x.shape(), output, &[x], |_| {
            let (x, mask) = (x.clone(), mask.cloned());
            move |upstream, gradients| {
                let groups = Groups::of(&x, mask.as_ref(), axis);
                let (extent, inner) = (groups.extent, groups.inner);
                gradients.with(&x, |gradient, accumulate| {
                    for_rows(gradient, groups.block, groups.block, |block, part| {
                        let upstream = row_of(&upstream, groups.block, block);
                        for column in 0..inner {
                            let (x, mask) = groups.group(block, column);
                            let (part, upstream) = (&mut part[column..], &upstream[column..]);
                            standardize_backward(
                                part, x, mask, upstream, extent, inner, accumulate,
                            );
                        }
                    });
                });
            }
        }))
    }
}

fn expect_groups(
    operation: &'static str,
    x: &Tensor,
    mask: Option<&Tensor>,
    axis: usize,
) -> Result<()> {
    x.expect(operation, axis < x.shape().rank(), || format!("axis {axis} must exist"))?;
    expect_mask(operation, x, mask)
}

/// A tensor seen as groups of `extent` elements, `inner` apart.
struct Groups<'a> {
    x: &'a [f32],
    mask: Option<&'a [f32]>,
    extent: usize,
    inner: usize,
    block: usize,
}

impl<'a> Groups<'a> {
    fn of(x: &'a Tensor, mask: Option<&'a Tensor>, axis: usize) -> Self {
        let (_, extent, inner) = x.shape().around(axis);
        let mask = mask.map(Tensor::values);
        Self { x: x.values(), mask, extent, inner, block: extent * inner }
    }

    /// The elements and the mask of one group, from its first element.
    fn group(&self, block: usize, column: usize) -> (&'a [f32], Option<&'a [f32]>) {
        let from = |values: &'a [f32]| values.get(block * self.block + column..).unwrap_or(&[]);
        (from(self.x), self.mask.map(from))
    }

    fn value(&self, x: &[f32], mask: Option<&[f32]>, statistic: Statistic) -> f32 {
        if statistic == Statistic::Maximum {
            return first_largest(x, mask, self.extent, self.inner)
                .map_or(0.0, |position| x[position * self.inner]);
        }
        let [count, mean, variance] = moments(x, mask, self.extent, self.inner);
        match statistic {
            Statistic::Mean => mean,
            Statistic::Variance => variance,
            _ if count == 0.0 => 0.0,
            _ => (variance + VARIANCE_FLOOR).sqrt(),
        }
    }
}

/// Whether an element counts.
#[inline(always)]
fn valid(mask: Option<&[f32]>, index: usize) -> bool {
    mask.is_none_or(|mask| mask[index] != 0.0)
}

/// Σ term(index) over the valid elements; inline it into a vectorized function.
#[inline(always)]
fn valid_sum(
    mask: Option<&[f32]>,
    extent: usize,
    stride: usize,
    term: impl Fn(usize) -> f32,
) -> f32 {
    lane_sum(extent, |position| {
        let index = position * stride;
        if valid(mask, index) { term(index) } else { 0.0 }
    })
}

vectorized! {
    /// Count, mean and variance of the valid elements; zeros if there are none.
    fn moments(x: &[f32], mask: Option<&[f32]>, extent: usize, stride: usize) -> [f32; 3] {
        let count = valid_sum(mask, extent, stride, |_| 1.0);
        if count == 0.0 {
            return [0.0; 3];
        }
        let mean = valid_sum(mask, extent, stride, |index| x[index]) / count;
        let square = |index: usize| (x[index] - mean) * (x[index] - mean);
        [count, mean, valid_sum(mask, extent, stride, square) / count]
    }
}

/// Index of the first of the largest valid elements; NaN counts as largest.
fn first_largest(x: &[f32], mask: Option<&[f32]>, extent: usize, stride: usize) -> Option<usize> {
    let mut best: Option<usize> = None;
    for position in (0..extent).filter(|position| valid(mask, position * stride)) {
        let value = x[position * stride];
        if best.is_none_or(|best| value > x[best * stride] || value.is_nan()) {
            best = Some(position);
        }
    }
    best
}

vectorized! {
    fn standardize(
        output: &mut [f32],
        x: &[f32],
        mask: Option<&[f32]>,
        extent: usize,
        stride: usize,
    ) {
        let [_, mean, variance] = moments(x, mask, extent, stride);
        let scale = 1.0 / ((variance + VARIANCE_FLOOR).sqrt() + DEVIATION_OFFSET);
        for index in (0..extent).map(|position| position * stride) {
            output[index] = if valid(mask, index) { (x[index] - mean) * scale } else { 0.0 };
        }
    }

    fn standardize_backward(
        gradient: &mut [f32],
        x: &[f32],
        mask: Option<&[f32]>,
        upstream: &[f32],
        extent: usize,
        stride: usize,
        accumulate: bool,
    ) {
        let [count, mean, variance] = moments(x, mask, extent, stride);
        let deviation = (variance + VARIANCE_FLOOR).sqrt();
        let scale = 1.0 / (deviation + DEVIATION_OFFSET);
        let share = 1.0 / count.max(1.0);
        let level = valid_sum(mask, extent, stride, |index| upstream[index]) * share;
        let product = |index: usize| upstream[index] * (x[index] - mean);
        let slope = valid_sum(mask, extent, stride, product) * scale * share / deviation;
        for index in (0..extent).map(|position| position * stride) {
            let value = (upstream[index] - level - (x[index] - mean) * slope) * scale;
            put(&mut gradient[index], if valid(mask, index) { value } else { 0.0 }, accumulate);
        }
    }
}

struct StatisticBackward {
    x: Tensor,
    mask: Option<Tensor>,
    axis: usize,
    statistic: Statistic,
}

impl StatisticBackward {
    /// The gradient of one group, whose statistic has the gradient `upstream`.
    fn group(
        &self,
        groups: &Groups<'_>,
        part: &mut [f32],
        (x, mask): (&[f32], Option<&[f32]>),
        upstream: f32,
        accumulate: bool,
    ) {
        let (extent, stride) = (groups.extent, groups.inner);
        let indices = (0..extent).map(|position| position * stride);
        if self.statistic == Statistic::Maximum {
            let place = first_largest(x, mask, extent, stride).map(|position| position * stride);
            for index in indices {
                let slope = if place == Some(index) { upstream } else { 0.0 };
                put(&mut part[index], slope, accumulate);
            }
            return;
        }
        let [count, mean, variance] = moments(x, mask, extent, stride);
        let share = upstream / count.max(1.0);
        let (level, factor) = match self.statistic {
            Statistic::Mean => (share, 0.0),
            Statistic::Variance => (0.0, 2.0 * share),
            _ => (0.0, share / (variance + VARIANCE_FLOOR).sqrt()),
        };
        for index in indices {
            let slope = if valid(mask, index) { level + factor * (x[index] - mean) } else { 0.0 };
            put(&mut part[index], slope, accumulate);
        }
    }

    fn backward(&self, upstream: Buffer, gradients: &mut GradientStore<'_>) {
        let groups = Groups::of(&self.x, self.mask.as_ref(), self.axis);
        gradients.with(&self.x, |gradient, accumulate| {
            for_rows(gradient, groups.block, groups.block, |block, part| {
                for column in 0..groups.inner {
                    let upstream = upstream[block * groups.inner + column];
                    let group = groups.group(block, column);
                    self.group(&groups, &mut part[column..], group, upstream, accumulate);
                }
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        assert_close, check_gradients, check_gradients_within, compare_gradients, evaluate,
    };
    use crate::testing::{mask, normal};
    use proptest::prelude::*;

    const ALL: [Statistic; 4] =
        [Statistic::Mean, Statistic::Variance, Statistic::Deviation, Statistic::Maximum];

    fn reference(values: &[f64], statistic: Statistic) -> f64 {
        if values.is_empty() {
            return 0.0;
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
        match statistic {
            Statistic::Mean => mean,
            Statistic::Variance => variance,
            Statistic::Deviation => (variance + 1e-12).sqrt(),
            Statistic::Maximum => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn values_match_the_reference(
            extents in prop::array::uniform3(1usize..8), wide in 1usize..40, axis in 0usize..3,
            masked in any::<bool>(), seed in 0u64..99,
        ) {
            let mut extents = extents;
            extents[axis] = wide;
            let x = normal(extents, seed);
            let chosen = mask(extents, seed + 1);
            let given = masked.then_some(&chosen);
            let standardized = evaluate(|tape| tape.standardize(&x, given, axis));
            let (outer, extent, inner) = x.shape().around(axis);
            for group in 0..outer * inner {
                let index = |e: usize| (group / inner * extent + e) * inner + group % inner;
                let valid = |e: &usize| !masked || chosen.values()[index(*e)] != 0.0;
                let values: Vec<f64> =
                    (0..extent).filter(valid).map(|e| f64::from(x.values()[index(e)])).collect();
                for statistic in ALL {
                    let found = evaluate(|tape| tape.statistic(&x, given, axis, statistic));
                    let expected = reference(&values, statistic) as f32;
                    assert_close(&found.values()[group..=group], &[expected], 2e-6);
                }
                let mean = reference(&values, Statistic::Mean);
                let deviation = reference(&values, Statistic::Deviation);
                for e in 0..extent {
                    let x = f64::from(x.values()[index(e)]);
                    let expected = if valid(&e) { (x - mean) / (deviation + 1e-4) } else { 0.0 };
                    // A single value has deviation 1e-6, which magnifies rounding of the mean.
                    let tolerance = if values.len() < 3 { 2e-3 } else { 2e-5 };
                    assert_close(&standardized.values()[index(e)..=index(e)], &[expected as f32], tolerance);
                }
            }
        }
    }

    #[test]
    fn gradients_match_differences() {
        let x = [normal([2, 6, 3], 4)];
        let chosen = mask([2, 6, 3], 2);
        for given in [None, Some(&chosen)] {
            for statistic in [Statistic::Mean, Statistic::Variance, Statistic::Maximum] {
                check_gradients(&x, |tape, x| tape.statistic(&x[0], given, 1, statistic));
            }
            check_gradients(&x, |tape, x| tape.statistic(&x[0], given, 1, Statistic::Deviation));
            check_gradients_within(&x, 2e-2, |tape, x| tape.standardize(&x[0], given, 1));
        }
    }

    #[test]
    fn an_empty_group_gives_zero_and_no_gradient() {
        let x = normal([2, 3], 1);
        let none = Tensor::zeros([2, 3]);
        for statistic in ALL {
            let found = evaluate(|tape| tape.statistic(&x, Some(&none), 1, statistic));
            assert_eq!(found.values(), [0.0; 2], "{statistic:?}");
            check_gradients(std::slice::from_ref(&x), |t, x| {
                t.statistic(&x[0], Some(&none), 1, statistic)
            });
        }
        check_gradients(std::slice::from_ref(&x), |tape, x| {
            tape.standardize(&x[0], Some(&none), 1)
        });
        assert_eq!(evaluate(|tape| tape.standardize(&x, Some(&none), 1)).values(), [0.0; 6]);
    }

    #[test]
    fn equal_values_standardize_to_zero() {
        // The mean of the first is rounded, that of the second is not.
        let x = Tensor::from_slice(&[0.3; 7], [1, 7]).unwrap();
        let mut tape = Tape::inference(&crate::Device::cpu());
        let found = tape.standardize(&x, None, 1).unwrap();
        assert!(found.values().iter().all(|y| y.abs() < 1e-3), "{found:?}");
        let x = Tensor::from_slice(&[0.5; 7], [1, 7]).unwrap();
        let found = evaluate(|tape| tape.standardize(&x, None, 1));
        assert_eq!(found.values(), [0.0; 7]);
    }

    #[test]
    fn a_missing_axis_and_a_wrong_mask_are_named() {
        let mut tape = Tape::inference(&crate::Device::cpu());
        let error = tape.standardize(&normal([2, 3], 1), None, 2).unwrap_err();
        assert!(error.to_string().contains("axis 2 must exist"), "{error}");
        let x = normal([2, 3], 1);
        assert!(tape.statistic(&x, Some(&mask([2, 2], 1)), 1, Statistic::Mean).is_err());
    }

    #[test]
    fn gpus_agree_on_long_groups_and_on_many_side_by_side() {
        for shape in [[2, 1500, 1], [2, 9, 70]] {
            let (x, chosen) = ([normal(shape, 1)], mask(shape, 2));
            // Integers are exact in any precision, so that the largest is the same one.
            let whole = (0..Shape::from(shape).elements()).map(|n| (n * 37 % 251) as f32);
            let whole = [Tensor::from_slice(&whole.collect::<Vec<_>>(), shape).unwrap()];
            for statistic in ALL {
                let given = Some(&chosen);
                let x = if statistic == Statistic::Maximum { &whole } else { &x };
                evaluate(|tape| tape.statistic(&x[0], given, 1, statistic));
                compare_gradients(x, |tape, x| tape.statistic(&x[0], given, 1, statistic));
            }
            evaluate(|tape| tape.standardize(&x[0], Some(&chosen), 1));
            compare_gradients(&x, |tape, x| tape.standardize(&x[0], Some(&chosen), 1));
        }
    }
}

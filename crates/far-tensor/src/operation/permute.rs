//! Reordering axes into a contiguous result.
//!
//! y[i₀, i₁, …] has the axes of x in the order `axes`: extent n of y is extent `axes[n]` of x.
//! Axes that stay adjacent are merged first, so that long runs are copied whole. The backward is
//! the inverse permutation.

use super::row::{for_rows, put};
use crate::vectorize::{put_row, vectorized};
use crate::{MAXIMUM_RANK, Result, Shape, Tape, Tensor};

impl Tape {
    /// x with its axes in another order, contiguous: extent n of the result is extent `axes[n]`
    /// of x.
    ///
    /// ```
    /// use far_tensor::{Device, Tape, Tensor};
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
    /// let turned = Tape::inference(&Device::cpu()).permute(&x, &[1, 0])?;
    /// assert_eq!(turned.values(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    /// # Ok::<(), far_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If `axes` does not contain every axis once.
    pub fn permute(&mut self, x: &Tensor, axes: &[usize]) -> Result<Tensor> {
        let rank = x.shape().rank();
        let complete = axes.len() == rank && (0..rank).all(|axis| axes.contains(&axis));
        x.expect("permute", complete, || format!("{axes:?} must name each axis once"))?;
        let extents = x.shape().extents();
        let permuted: Vec<usize> = axes.iter().map(|axis| extents[*axis]).collect();
        let mut inverse = [0; MAXIMUM_RANK];
        axes.iter().enumerate().for_each(|(place, axis)| inverse[*axis] = place);
        let shape = Shape::new(&permuted);
        if let Some(cuda) = self.cuda() {
            let ways = [(x.shape(), axes), (&shape, &inverse[..rank])];
            let ways = ways.map(|(shape, axes)| {
                let (walks, count) = walks(shape, axes);
                walks[..count].iter().map(|walk| [walk.extent, walk.stride]).collect()
            });
            return self.permute_cuda(&cuda, shape, x, ways);
        }
        let mut output = self.device().buffer(shape.elements());
        reorder(&mut output, x.values(), x.shape(), axes, false);
        Ok(self.record("permute", shape, output, &[x], |_| {
            let x = x.clone();
            move |upstream, gradients| {
                let inverse = &inverse[..shape.rank()];
                gradients.with(&x, |gradient, accumulate| {
                    reorder(gradient, &upstream, &shape, inverse, accumulate);
                });
            }
        }))
    }
}

/// One axis of the result: its extent and its stride in the source.
#[derive(Clone, Copy, Default)]
struct Walk {
    extent: usize,
    stride: usize,
}

/// The axes of the result, outermost first, merged if adjacent in the source.
fn walks(shape: &Shape, axes: &[usize]) -> ([Walk; MAXIMUM_RANK], usize) {
    let mut walks = [Walk::default(); MAXIMUM_RANK];
    let mut count = 0;
    for axis in axes {
        let (_, extent, stride) = shape.around(*axis);
        if extent == 1 {
            continue;
        }
        if count > 0 && walks[count - 1].stride == stride * extent {
            walks[count - 1] = Walk { extent: walks[count - 1].extent * extent, stride };
        } else {
            walks[count] = Walk { extent, stride };
            count += 1;
        }
    }
    if count == 0 {
        walks[0] = Walk { extent: 1, stride: 1 };
        count = 1;
    }
    (walks, count)
}

/// target ← source of `shape` with its axes in the order `axes`, added if `accumulate`.
fn reorder(target: &mut [f32], source: &[f32], shape: &Shape, axes: &[usize], accumulate: bool) {
    let (walks, count) = walks(shape, axes);
    let (outer, inner) = (&walks[..count - 1], walks[count - 1]);
    for_rows(target, inner.extent, inner.extent, |row, part| {
        let (mut rest, mut start) = (row, 0);
        for walk in outer.iter().rev() {
            start += rest % walk.extent * walk.stride;
            rest /= walk.extent;
        }
        match inner.stride {
            1 => put_row(part, &source[start..start + inner.extent], accumulate),
            stride => collect(part, &source[start..], stride, accumulate),
        }
    });
}

vectorized! {
    /// target[n] ← source[n · stride], added if `accumulate`.
    fn collect(target: &mut [f32], source: &[f32], stride: usize, accumulate: bool) {
        for (target, value) in target.iter_mut().zip(source.iter().step_by(stride)) {
            put(target, *value, accumulate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_gradients, evaluate, normal};
    use proptest::prelude::*;

    fn reference(x: &Tensor, axes: &[usize]) -> Vec<f32> {
        let extents = x.shape().extents();
        let permuted: Vec<usize> = axes.iter().map(|axis| extents[*axis]).collect();
        let total = x.values().len();
        let mut result = Vec::with_capacity(total);
        for mut rest in 0..total {
            let mut place = vec![0; extents.len()];
            for at in (0..axes.len()).rev() {
                place[axes[at]] = rest % permuted[at];
                rest /= permuted[at];
            }
            let index = place.iter().zip(extents).fold(0, |sum, (at, extent)| sum * extent + at);
            result.push(x.values()[index]);
        }
        result
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn values_match_the_reference(
            extents in proptest::collection::vec(1usize..5, 0..=6), unit in prop::sample::select(vec![1, 4, 8]), order in any::<u64>(), seed in 0u64..99,
        ) {
            // Innermost axes that are multiples of a unit and stay innermost are moved in runs on a
            // GPU.
            let mut extents = extents;
            extents.truncate(if unit > 1 { 4 } else { 6 });
            extents.iter_mut().rev().take(1).for_each(|extent| *extent *= unit);
            let x = normal(&extents[..], seed);
            let mut axes: Vec<usize> = (0..extents.len()).collect();
            let movable = axes.len() - usize::from(unit > 1 && !axes.is_empty());
            axes[..movable].sort_by_key(|axis| order.rotate_left(*axis as u32 * 11).wrapping_mul(0x9e37_79b9));
            let found = evaluate(|tape| tape.permute(&x, &axes));
            prop_assert_eq!(found.values(), &reference(&x, &axes)[..]);
        }
    }

    #[test]
    fn gradients_match_differences() {
        let x = [normal([2, 3, 1, 4], 1)];
        for axes in [[0, 1, 2, 3], [3, 1, 0, 2], [1, 2, 3, 0], [0, 2, 1, 3]] {
            check_gradients(&x, |tape, x| tape.permute(&x[0], &axes));
        }
    }

    #[test]
    fn neighbors_are_merged() {
        let shape = Shape::new(&[2, 3, 4, 5]);
        let (walks, count) = walks(&shape, &[2, 3, 0, 1]);
        assert_eq!(count, 2);
        assert_eq!(
            [walks[0].extent, walks[0].stride, walks[1].extent, walks[1].stride],
            [20, 1, 6, 20]
        );
    }

    #[test]
    fn an_incomplete_order_is_named() {
        let mut tape = Tape::inference(&crate::Device::cpu());
        let error = tape.permute(&normal([2, 3], 1), &[0, 0]).unwrap_err();
        assert!(error.to_string().starts_with("permute: [2, 3] is not accepted"), "{error}");
    }
}

//! Nearest-neighbor upsampling by an integer factor.
//!
//! y[…, r, q] = x[…, ⌊r/f⌋, ⌊q/f⌋]; shapes [P…, H, W] → [P…, fH, fW]. Backward: each element takes
//! the sum over its f×f block.

use super::row::{for_rows, put, row_of};
use crate::vectorize::vectorized;
use crate::{Result, Shape, Tape, Tensor};

impl Tape {
    /// Each element becomes a block of `factor` × `factor`: [P…, H, W] → [P…, fH, fW].
    ///
    /// # Errors
    /// If x has fewer than two axes or the factor is zero.
    pub fn upsample(&mut self, x: &Tensor, factor: usize) -> Result<Tensor> {
        let mut extents = x.shape().extents().to_vec();
        x.expect("upsample", extents.len() >= 2 && factor > 0, || {
            format!("rows, columns and a factor above zero are needed, the factor is {factor}")
        })?;
        let width = x.shape().last();
        extents.iter_mut().rev().take(2).for_each(|extent| *extent *= factor);
        let shape = Shape::new(&extents);
        if let Some(cuda) = self.cuda() {
            return self.upsample_cuda(&cuda, shape, x, factor);
        }
        let mut output = self.device().buffer(shape.elements());
        for_rows(&mut output, width * factor, width * factor, |row, part| {
            // Rows are counted through all planes: their number is a multiple of the factor in
            // each.
            widen(part, row_of(x.values(), width, row / factor), factor);
        });
        Ok(self.record("upsample", shape, output, &[x], |_| {
            let x = x.clone();
            move |upstream, gradients| {
                let (width, factor) = (x.shape().last(), factor);
                let block = width * factor * factor;
                gradients.with(&x, |gradient, accumulate| {
                    for_rows(gradient, width, block, |row, part| {
                        gather_blocks(part, row_of(&upstream, block, row), factor, accumulate);
                    });
                });
            }
        }))
    }
}

vectorized! {
    fn widen(target: &mut [f32], source: &[f32], factor: usize) {
        for (block, value) in target.chunks_exact_mut(factor).zip(source) {
            block.fill(*value);
        }
    }

    /// gradient ← Σ over the f rows of `upstream` and the f columns of each element.
    fn gather_blocks(gradient: &mut [f32], upstream: &[f32], factor: usize, accumulate: bool) {
        let width = gradient.len() * factor;
        for (column, gradient) in gradient.iter_mut().enumerate() {
            let mut sum = 0.0;
            for row in upstream.chunks_exact(width) {
                sum += row[column * factor..(column + 1) * factor].iter().sum::<f32>();
            }
            put(gradient, sum, accumulate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_gradients, evaluate, normal};
    use proptest::prelude::*;

    fn reference(x: &Tensor, factor: usize) -> Vec<f32> {
        let &[planes, height, width] = x.shape().extents() else { panic!("three axes") };
        let mut result = Vec::new();
        for plane in 0..planes {
            for r in 0..height * factor {
                for q in 0..width * factor {
                    let row = plane * height + r / factor;
                    result.push(x.values()[row * width + q / factor]);
                }
            }
        }
        result
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn values_match_the_reference(
            planes in 1usize..4, height in 1usize..7, width in 1usize..7, factor in 1usize..4,
        ) {
            let x = normal([planes, height, width], 1);
            let found = evaluate(|tape| tape.upsample(&x, factor));
            prop_assert_eq!(found.shape().extents(), &[planes, height * factor, width * factor]);
            prop_assert_eq!(found.values(), &reference(&x, factor)[..]);
        }
    }

    #[test]
    fn gradients_match_differences() {
        let x = [normal([2, 2, 3], 1)];
        for factor in 1..4 {
            check_gradients(&x, |tape, x| tape.upsample(&x[0], factor));
        }
    }

    #[test]
    fn a_factor_of_zero_is_refused() {
        let mut tape = Tape::inference(&crate::Device::cpu());
        assert!(tape.upsample(&normal([2, 2], 1), 0).is_err());
        let error = tape.upsample(&normal([2], 1), 2).unwrap_err();
        assert!(error.to_string().starts_with("upsample: [2] is not accepted"), "{error}");
    }
}

//! The MLP of a transformer block on a GPU: GELU(x·W₁ + b₁)·W₂ + b₂.
//!
//! The hidden rows are kept for the backward both before and behind GELU: behind it they are an operand of
//! dW₂, and computing them again would read and write as much memory as the slope itself.

use super::Map;
use crate::cuda::{Cuda, Element, Epilogue, Operand, Product};
use crate::gradient::RowSums;
use crate::{Result, Shape, Tape, Tensor};

impl Tape {
    /// See [`Tape::feed_forward`]: `first` and `second` are weight and bias of the two maps.
    pub(crate) fn feed_forward_cuda(
        &mut self,
        cuda: &Cuda,
        shape: Shape,
        x: &Tensor,
        first: [&Tensor; 2],
        second: [&Tensor; 2],
    ) -> Result<Tensor> {
        let (rows, hidden) = (x.shape().rows(), first[0].shape().last());
        let (input, width) = (x.shape().last(), second[0].shape().last());
        let inputs = [x, first[0], first[1], second[0], second[1]];
        let keep = inputs.iter().any(|input| self.wants(input));
        let element = cuda.element();
        let before = keep.then(|| cuda.buffer(element, rows * hidden)).transpose()?;
        let map = Map::new(cuda, [rows, input, hidden], x, first[0], Some(first[1]))?;
        let active = map.forward(cuda, true, before.as_ref())?;
        let second_map = Map {
            sizes: [rows, hidden, width],
            x: active.pointer(),
            weight: second[0].pointer(cuda, element)?,
            bias: Some(second[1].pointer(cuda, element)?),
        };
        let output = second_map.forward(cuda, false, None)?;
        Ok(self.record_cuda("feed_forward", shape, output, &inputs, |_| {
            let x = x.clone();
            let [first, second] = [first, second].map(|map| map.map(Tensor::clone));
            move |cuda, upstream, gradients| {
                let element = cuda.element();
                let before = before.as_ref().expect("it was kept for this").pointer();
                let (upstream, sums) = (upstream.pointer(), gradients.row_sums(width));
                let sizes = [rows, hidden, width];
                cuda.bias_gradient(gradients, [rows, width], upstream, sums, &second[1])?;
                cuda.weight_gradient(gradients, sizes, active.pointer(), upstream, &second[0])?;
                let inner = cuda.buffer(element, rows * hidden)?;
                let sums = cuda.hidden_gradient(
                    Product {
                        sizes: [rows, width, hidden],
                        left: Operand::plain(upstream, element),
                        right: Operand::transposed(second[0].pointer(cuda, element)?, element),
                        target: inner.pointer(),
                        target_element: element,
                        accumulate: false,
                        epilogue: Epilogue::None,
                    },
                    before,
                )?;
                let (inner, sizes) = (inner.pointer(), [rows, input, hidden]);
                cuda.bias_gradient(gradients, [rows, hidden], inner, Some(sums), &first[1])?;
                let source = x.pointer(cuda, element)?;
                cuda.weight_gradient(gradients, sizes, source, inner, &first[0])?;
                cuda.input_gradient(gradients, sizes, &x, inner, &first[0])
            }
        }))
    }
}

impl Cuda {
    /// The gradient of the hidden rows before GELU, (d·W₂ᵀ)∘GELU'(before) for the product d·W₂ᵀ, and its sums
    /// over the rows. Fused, the product is rounded once and the slope costs no pass of its own.
    fn hidden_gradient(&self, product: Product, before: u64) -> Result<RowSums> {
        let [rows, _, hidden] = product.sizes;
        self.fused_or_apart(
            product.sizes,
            || self.fused_slope(product, before),
            || {
                self.multiply(&product)?;
                self.gelu_backward(product.target, before, [rows, hidden])
            },
        )
    }

    /// [`Cuda::hidden_gradient`] by the library, where it can and rounds no more than we do: it may take its
    /// hyperbolic tangents in fewer bits than f32 has.
    fn fused_slope(&self, product: Product, before: u64) -> Result<Option<RowSums>> {
        let [rows, _, hidden] = product.sizes;
        let (target, element) = (product.target, product.target_element);
        let epilogue = Epilogue::GeluSlope(before);
        // The library reads what the slope is of in whole vectors.
        let possible = element == Element::Bf16 && hidden.is_multiple_of(8);
        if !possible || !self.try_multiply(&Product { epilogue, ..product })? {
            return Ok(None);
        }
        self.row_sums((target, element), [rows, hidden]).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, gpus, normal};

    /// Sizes with and without fused ways: hidden rows of whole vectors and not, few and many of them.
    const SIZES: [[usize; 3]; 5] =
        [[1, 8, 16], [37, 24, 72], [300, 64, 256], [50, 13, 33], [70, 16, 20]];

    /// Both ways give d·W₂ᵀ times the slope, and its sums, whatever was in the target.
    #[test]
    fn fused_and_apart_are_the_same_gradient() {
        for (precision, device) in gpus() {
            let cuda = device.gpu().expect("it is one");
            let element = cuda.element();
            for (seed, [rows, width, hidden]) in (0..).zip(SIZES) {
                let d = normal([rows, width], 3 * seed);
                let weight = normal([hidden, width], 3 * seed + 1);
                let before = normal([rows, hidden], 3 * seed + 2);
                let expected = reference(&d, &weight, &before);
                let target = cuda.buffer(element, rows * hidden).unwrap();
                let product = Product {
                    sizes: [rows, width, hidden],
                    left: Operand::plain(d.pointer(cuda, element).unwrap(), element),
                    right: Operand::transposed(weight.pointer(cuda, element).unwrap(), element),
                    target: target.pointer(),
                    target_element: element,
                    accumulate: false,
                    epilogue: Epilogue::None,
                };
                let before = before.pointer(cuda, element).unwrap();
                let large = 4.0 * (width as f32).sqrt();
                let tolerance = if element == Element::Bf16 { 0.02 } else { 4e-3 };
                let check = |way: &str, sums: RowSums| {
                    let mut found = vec![0.0; rows * hidden];
                    target.read(&mut found).unwrap();
                    let scaled = |values: &[f32]| -> Vec<f32> {
                        values.iter().map(|value| value / large).collect()
                    };
                    println!("{precision}, {way}, {rows} rows of {hidden}");
                    assert_close(&scaled(&found), &scaled(&expected), tolerance);
                    // Of what stands there, added to what was there before.
                    let mut totals = vec![1.0_f32; hidden];
                    for row in found.chunks(hidden) {
                        totals.iter_mut().zip(row).for_each(|(total, value)| *total += value);
                    }
                    let place = cuda.upload(&vec![1.0; hidden]).unwrap();
                    cuda.add_row_sums(&sums, place.pointer(), true).unwrap();
                    let mut found = vec![0.0; hidden];
                    place.read(&mut found).unwrap();
                    let large = large * (rows as f32).sqrt();
                    let scaled = |values: &[f32]| -> Vec<f32> {
                        values.iter().map(|value| value / large).collect()
                    };
                    assert_close(&scaled(&found), &scaled(&totals), tolerance);
                };
                cuda.multiply(&product).unwrap();
                let apart = cuda.gelu_backward(product.target, before, [rows, hidden]).unwrap();
                check("apart", apart);
                cuda.fill_bytes(product.target, 0xff, rows * hidden * element.size()).unwrap();
                let fused = cuda.fused_slope(product, before).unwrap();
                let must = element == Element::Bf16 && hidden == 256;
                assert!(fused.is_some() || !must, "the library has it for whole vectors of bf16");
                if let Some(fused) = fused {
                    check("fused", fused);
                }
                cuda.fill_bytes(product.target, 0xff, rows * hidden * element.size()).unwrap();
                check("chosen", cuda.hidden_gradient(product, before).unwrap());
            }
        }
    }

    fn reference(d: &Tensor, weight: &Tensor, before: &Tensor) -> Vec<f32> {
        let width = d.shape().last();
        let rows = d.values().chunks(width).zip(before.values().chunks(before.shape().last()));
        rows.flat_map(|(d, before)| {
            weight
                .values()
                .chunks(width)
                .zip(before)
                .map(|(weight, x)| {
                    let product: f32 = d.iter().zip(weight).map(|(d, w)| d * w).sum();
                    let inner = (2.0 / std::f32::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
                    let (tanh, steep) = (inner.tanh(), 1.0 + 3.0 * 0.044_715 * x * x);
                    let bend = (2.0 / std::f32::consts::PI).sqrt() * steep * (1.0 - tanh * tanh);
                    product * (0.5 * (1.0 + tanh) + 0.5 * x * bend)
                })
                .collect::<Vec<f32>>()
        })
        .collect()
    }
}

//! Fully connected layers, and two of them with GELU between: a query's adapter, and what a memory is worth.

use crate::activation::{gelu, gelu_reference};
use crate::cosine::dot_rows;
use pulp::{Arch, Simd, WithSimd};

/// One fully connected layer, weights row-major `[outputs, inputs]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Weights, `outputs × inputs`.
    pub weight: Vec<f32>,
    /// Biases, `outputs`.
    pub bias: Vec<f32>,
}

impl Layer {
    /// `weight·input + bias` in plain order.
    pub(crate) fn apply_reference(&self, input: &[f32]) -> Vec<f32> {
        let rows = self.weight.chunks_exact(input.len());
        rows.zip(&self.bias)
            .map(|(row, bias)| bias + row.iter().zip(input).map(|(w, x)| w * x).sum::<f32>())
            .collect()
    }

    #[inline(always)]
    fn apply<S: Simd>(&self, simd: S, input: &[f32], output: &mut [f32]) {
        dot_rows(simd, &self.weight, input, output);
        output.iter_mut().zip(&self.bias).for_each(|(sum, bias)| *sum += bias);
    }
}

/// `W₂·gelu(W₁·input + b₁) + b₂` in plain loops: the reference.
pub(crate) fn two_layers_reference([first, second]: &[Layer; 2], input: &[f32]) -> Vec<f32> {
    let mut hidden = first.apply_reference(input);
    hidden.iter_mut().for_each(|value| *value = gelu_reference(*value));
    second.apply_reference(&hidden)
}

/// The same into `output`, by way of `hidden`.
pub(crate) fn two_layers(
    layers: &[Layer; 2],
    input: &[f32],
    hidden: &mut Vec<f32>,
    output: &mut Vec<f32>,
) {
    hidden.resize(layers[0].bias.len(), 0.0);
    output.resize(layers[1].bias.len(), 0.0);
    Arch::new().dispatch(TwoLayers { layers, input, hidden, output });
}

struct TwoLayers<'a> {
    layers: &'a [Layer; 2],
    input: &'a [f32],
    hidden: &'a mut [f32],
    output: &'a mut [f32],
}

impl WithSimd for TwoLayers<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let [first, second] = self.layers;
        first.apply(simd, self.input, self.hidden);
        let (vectors, rest) = S::as_mut_simd_f32s(self.hidden);
        for value in vectors {
            [*value] = gelu(simd, [*value]);
        }
        let [last] = gelu(simd, [simd.partial_load_f32s(rest)]);
        simd.partial_store_f32s(rest, last);
        second.apply(simd, self.hidden, self.output);
    }
}

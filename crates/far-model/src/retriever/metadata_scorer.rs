//! The metadata cue while it learns: s = tanh(MLP(features of a memory and a query)).
//!
//! It has the same parameters under the same names as `far-memory`'s retriever file, and takes the
//! features as they are defined instead of folding the query into the first layer.

use crate::layer::Linear;
use crate::layer::Pass;
use far_memory::FEATURES;
use far_tensor::{Activation, ArenaBuilder, Initialization, Result, Tensor};

/// A metadata scorer whose parameters live in an arena.
pub(crate) struct TrainableMetadataScorer {
    hidden: Vec<Linear>,
    output: Linear,
}

impl TrainableMetadataScorer {
    /// Adds the scorer of a cue with `layers` layers, hidden ones of `width` units, to an arena.
    ///
    /// Layers begin as PyTorch's do; the last one is not zero, because standardization would
    /// divide by the deviation of equal scores.
    pub(crate) fn new(builder: &mut ArenaBuilder, cue: &str, layers: usize, width: usize) -> Self {
        let mut linear = |place: usize, inputs: usize, outputs: usize| {
            let name = format!("cue.{cue}.layer.{place}");
            let bias = Initialization::Uniform(1.0 / (inputs as f32).sqrt());
            Linear::new(builder, &name, [inputs, outputs], Initialization::FanIn, bias)
        };
        let last = layers - 1;
        let hidden = (0..last)
            .map(|place| linear(place, if place == 0 { FEATURES } else { width }, width))
            .collect();
        Self { hidden, output: linear(last, width, 1) }
    }

    /// Features [B, N, F] to raw scores [B, N] in (−1, 1).
    pub(crate) fn scores(&self, pass: &mut Pass<'_>, features: &Tensor) -> Result<Tensor> {
        let shape = *features.shape();
        let mut values = features.clone();
        for layer in &self.hidden {
            values = layer.forward_gelu(pass, &values)?;
        }
        let scores = self.output.forward(pass, &values)?;
        let scores = pass.activate(&scores, Activation::Tanh)?;
        scores.reshape(&shape.extents()[..shape.rank() - 1])
    }
}

//! The query side of a key cue while it learns: what is done to an embedding before it is compared.

use crate::layer::Linear;
use crate::layer::Pass;
use far_memory::AdapterKind;
use far_tensor::{ArenaBuilder, Initialization, Result, Tensor};

/// A query adapter whose parameters live in an arena: the identity, W₂·gelu(W₁h + b₁) + b₂, or h
/// plus that.
pub(crate) struct TrainableQueryAdapter {
    layers: Option<[Linear; 2]>,
    residual: bool,
}

impl TrainableQueryAdapter {
    /// Adds the adapter of a cue to an arena.
    ///
    /// The second layer of a residual adapter begins at zero, so that the pretrained encoder is
    /// what learning starts from. A plain network begins as PyTorch's layers do: at zero it would
    /// have no direction.
    pub(crate) fn new(
        builder: &mut ArenaBuilder,
        cue: &str,
        kind: AdapterKind,
        dimension: usize,
        width: usize,
    ) -> Self {
        let residual = kind == AdapterKind::Residual;
        let mut linear = |place: usize, sizes: [usize; 2], zero: bool| {
            let name = format!("cue.{cue}.adapter.{place}");
            let bound = Initialization::Uniform(1.0 / (sizes[0] as f32).sqrt());
            let [weight, bias] =
                if zero { [Initialization::Zero; 2] } else { [Initialization::FanIn, bound] };
            Linear::new(builder, &name, sizes, weight, bias)
        };
        let layers = (kind != AdapterKind::Identity).then(|| {
            [linear(0, [dimension, width], false), linear(1, [width, dimension], residual)]
        });
        Self { layers, residual }
    }

    /// Multiplies the adapter's learning rate; 0 keeps it as it begins.
    pub(crate) fn set_rate(&self, builder: &mut ArenaBuilder, factor: f32) {
        for layer in self.layers.iter().flatten() {
            layer.set_rate(builder, factor);
        }
    }

    /// Embeddings [B, D] to adapted ones [B, D], not yet of unit length.
    pub(crate) fn adapt(&self, pass: &mut Pass<'_>, embeddings: &Tensor) -> Result<Tensor> {
        let Some([first, second]) = self.layers else { return Ok(embeddings.clone()) };
        let hidden = first.forward_gelu(pass, embeddings)?;
        let adapted = second.forward(pass, &hidden)?;
        if self.residual { pass.add(embeddings, &adapted) } else { Ok(adapted) }
    }
}

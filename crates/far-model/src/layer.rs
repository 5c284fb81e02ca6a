//! Layers that several networks have: a linear map, and the scale and offset of a norm.

use far_tensor::{
    Affine, ArenaBuilder, Initialization, ParameterId, Parameters, Result, Tape, Tensor,
};

/// A scale and an offset by id.
#[derive(Clone, Copy)]
pub(crate) struct Scaling {
    scale: ParameterId,
    offset: ParameterId,
}

impl Scaling {
    pub(crate) fn new(builder: &mut ArenaBuilder, name: &str, width: usize) -> Self {
        Self {
            scale: builder.parameter(format!("{name}.weight"), [width], Initialization::One),
            offset: builder.parameter(format!("{name}.bias"), [width], Initialization::Zero),
        }
    }

    pub(crate) fn tensors(self, parameters: &Parameters) -> [Tensor; 2] {
        [parameters.tensor(self.scale), parameters.tensor(self.offset)]
    }

    pub(crate) fn layer_norm(
        self,
        tape: &mut Tape,
        parameters: &Parameters,
        x: &Tensor,
        epsilon: f32,
    ) -> Result<Tensor> {
        let [scale, offset] = &self.tensors(parameters);
        tape.layer_norm(x, Some(Affine { scale, offset }), epsilon)
    }
}

/// A weight and a bias by id.
#[derive(Clone, Copy)]
pub(crate) struct Linear {
    pub(crate) weight: ParameterId,
    pub(crate) bias: ParameterId,
}

impl Linear {
    pub(crate) fn new(
        builder: &mut ArenaBuilder,
        name: &str,
        [inputs, outputs]: [usize; 2],
        weight: Initialization,
        bias: Initialization,
    ) -> Self {
        Self {
            weight: builder.linear(format!("{name}.weight"), inputs, outputs, weight),
            bias: builder.parameter(format!("{name}.bias"), [outputs], bias),
        }
    }

    /// Multiplies the learning rate of both.
    pub(crate) fn set_rate(self, builder: &mut ArenaBuilder, factor: f32) {
        builder.set_rate(self.weight, factor);
        builder.set_rate(self.bias, factor);
    }

    /// Weight and bias.
    pub(crate) fn tensors(self, parameters: &Parameters) -> [Tensor; 2] {
        [parameters.tensor(self.weight), parameters.tensor(self.bias)]
    }

    pub(crate) fn forward(
        self,
        tape: &mut Tape,
        parameters: &Parameters,
        x: &Tensor,
    ) -> Result<Tensor> {
        let [weight, bias] = self.tensors(parameters);
        tape.linear(x, &weight, Some(&bias))
    }

    pub(crate) fn forward_gelu(
        self,
        tape: &mut Tape,
        parameters: &Parameters,
        x: &Tensor,
    ) -> Result<Tensor> {
        let [weight, bias] = self.tensors(parameters);
        tape.linear_gelu(x, &weight, Some(&bias))
    }
}

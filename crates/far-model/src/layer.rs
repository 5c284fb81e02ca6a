//! Layers that several networks have: a linear map, and the scale and offset of a norm.

use far_tensor::{
    Affine, ArenaBuilder, Initialization, ParameterId, Parameters, Result, Tape, Tensor,
};
use std::ops::{Deref, DerefMut};

/// A pass through a network: the tape that it is recorded on, and the parameters that it reads.
pub struct Pass<'a> {
    /// The tape.
    pub tape: &'a mut Tape,
    /// The parameters.
    pub parameters: &'a Parameters,
}

impl<'a> Pass<'a> {
    /// A pass on `tape` with `parameters`.
    pub fn new(tape: &'a mut Tape, parameters: &'a Parameters) -> Self {
        Self { tape, parameters }
    }
}

impl Deref for Pass<'_> {
    type Target = Tape;

    fn deref(&self) -> &Tape {
        self.tape
    }
}

impl DerefMut for Pass<'_> {
    fn deref_mut(&mut self) -> &mut Tape {
        self.tape
    }
}

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
        pass: &mut Pass<'_>,
        x: &Tensor,
        epsilon: f32,
    ) -> Result<Tensor> {
        let [scale, offset] = &self.tensors(pass.parameters);
        pass.layer_norm(x, Some(Affine { scale, offset }), epsilon)
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

    pub(crate) fn forward(self, pass: &mut Pass<'_>, x: &Tensor) -> Result<Tensor> {
        let [weight, bias] = self.tensors(pass.parameters);
        pass.linear(x, &weight, Some(&bias))
    }

    pub(crate) fn forward_gelu(self, pass: &mut Pass<'_>, x: &Tensor) -> Result<Tensor> {
        let [weight, bias] = self.tensors(pass.parameters);
        pass.linear_gelu(x, &weight, Some(&bias))
    }
}

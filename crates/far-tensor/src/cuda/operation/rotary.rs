//! Rotary positions on a GPU.

use crate::cuda::{Cuda, Element, Launch, Program, arguments, programs};
use crate::{Result, Tape, Tensor};

programs! {
    /// Rotary positions.
    ROTARY = "rotary": "run.cuh", "rotary.cu";
}

/// What is turned how.
#[derive(Clone)]
pub(crate) struct Rotation {
    /// (cos, sin) for [tokens, channels / 2].
    pub turns: Tensor,
    /// Rows of x, columns of each, and how many of those are turned.
    pub sizes: [usize; 3],
    pub tokens: usize,
    /// Channels of a head.
    pub channels: usize,
    /// Pairs of a part of a head.
    pub half: usize,
}

impl Rotation {
    /// target ← source turned, forward for `sign` 1 and back for −1; the two may be one.
    fn turn(
        &self,
        cuda: &Cuda,
        element: Element,
        [source, target]: [u64; 2],
        sign: f32,
    ) -> Result<()> {
        let turns = self.turns.pointer(cuda, Element::F32)?;
        let [rows, width, turned] = self.sizes;
        let (tokens, channels, half) = (self.tokens, self.channels as i32, self.half as i32);
        let arguments =
            arguments![source, target, turns, rows, width, turned, tokens, channels, half, sign];
        let kernel = ROTARY.kernel("rotary");
        cuda.launch(kernel, element, Launch::elements(rows * width / 2), arguments)
    }
}

impl Tape {
    /// See [`Tape::rotary`].
    pub(crate) fn rotary_cuda(
        &mut self,
        cuda: &Cuda,
        x: &Tensor,
        rotation: Rotation,
    ) -> Result<Tensor> {
        let element = x.element(cuda);
        let output = cuda.buffer(element, x.shape().elements())?;
        let places = [x.pointer(cuda, element)?, output.pointer()];
        rotation.turn(cuda, element, places, 1.0)?;
        Ok(self.record_cuda("rotary", *x.shape(), output, &[x], |_| {
            let x = x.clone();
            move |cuda, upstream, gradients| {
                let places = [upstream.pointer(); 2];
                rotation.turn(cuda, upstream.element(), places, -1.0)?;
                gradients.add_whole_cuda(&x, upstream)
            }
        }))
    }
}

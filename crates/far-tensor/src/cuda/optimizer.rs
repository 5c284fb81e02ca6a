//! The optimizer's passes over an arena on a GPU.

use super::program::{Program, programs};
use super::{Cuda, Element, Launch, arguments};
use crate::Result;
use crate::optimizer::Constants;

programs! {
    /// Sum of squares and AdamW.
    OPTIMIZER = "optimizer": "optimizer.cu";
}

/// Partial sums of a norm.
const PARTIALS: usize = 512;

/// Where the numbers of one update are; null where there are none.
#[derive(Clone, Copy)]
pub(crate) struct UpdatePlaces {
    pub values: u64,
    /// The copy in half precision.
    pub half: u64,
    pub first: u64,
    pub second: u64,
    pub average: u64,
    pub gradients: u64,
}

impl UpdatePlaces {
    /// The same from element `start` on.
    pub(crate) fn from(self, start: usize) -> Self {
        let at = |pointer: u64, size: usize| {
            if pointer == 0 { 0 } else { pointer + (start * size) as u64 }
        };
        Self {
            values: at(self.values, 4),
            half: at(self.half, 2),
            first: at(self.first, 4),
            second: at(self.second, 4),
            average: at(self.average, 4),
            gradients: at(self.gradients, 4),
        }
    }
}

impl Cuda {
    /// √Σ g² over f32 numbers, whose count is a multiple of 4; waits for it.
    pub(crate) fn norm(&self, pointer: u64, length: usize) -> Result<f64> {
        let partials = self.buffer(Element::F32, PARTIALS)?;
        let kernel = OPTIMIZER.kernel("sum_of_squares");
        let launch = Launch::blocks(PARTIALS, 256);
        self.launch_plain(kernel, launch, arguments![pointer, partials.pointer(), length])?;
        let mut sums = [0.0; PARTIALS];
        partials.read(&mut sums)?;
        Ok(sums.iter().map(|sum| f64::from(*sum)).sum::<f64>().sqrt())
    }

    /// One update of `length` numbers.
    pub(crate) fn adamw(
        &self,
        places: UpdatePlaces,
        length: usize,
        constants: Constants,
    ) -> Result<()> {
        let UpdatePlaces { values, half, first, second, average, gradients } = places;
        let Constants { clip, first: b1, second: b2, epsilon, step, root, decay, average: share } =
            constants;
        let kernel = OPTIMIZER.kernel("adamw");
        let kept = 1.0 - decay;
        let arguments = arguments![
            values, half, first, second, average, gradients, length, clip, b1, b2, epsilon, step,
            root, kept, share
        ];
        self.launch_plain(kernel, Launch::elements(length.div_ceil(4)), arguments)
    }
}

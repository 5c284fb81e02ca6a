//! Convolution by Hopper's own instructions, in bf16; each kernel's own file says the same sizes.

use super::Ending;
use crate::Result;
use crate::cuda::{Cuda, Kernel, Launch, Program, programs};
use crate::operation::Sliding;

programs! {
    /// Convolution by warpgroup products.
    HOPPER_CONVOLUTION = "convolution_hopper":
        "copy.cuh", "sliding.cuh", "hopper.cuh", "convolution_gather_hopper.cu";
}

/// Outputs of a block.
const OUTPUTS: usize = 64;
/// Pixels of a block that gathers, its threads and its shared memory.
const GATHER_BLOCK: [usize; 3] = [256, 256, 81_920];

fn kernel(name: &'static str) -> Kernel {
    Kernel { program: &HOPPER_CONVOLUTION, name }
}

impl Sliding {
    /// As [`Sliding::convolve_cuda`], from a packed weight [taps, outputs, channels].
    pub(super) fn convolve_hopper(
        &self,
        cuda: &Cuda,
        places: [u64; 3],
        ending: Ending,
    ) -> Result<()> {
        let [pixels, threads, shared] = GATHER_BLOCK;
        let grid = [self.pixels().div_ceil(pixels), self.outputs.div_ceil(OUTPUTS), 1];
        let launch = Launch { grid, threads, shared };
        let arguments = self.gathering(places, ending);
        cuda.launch_plain(kernel("convolve_gather_hopper"), launch, &arguments)
    }
}

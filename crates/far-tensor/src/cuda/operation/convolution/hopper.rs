//! Convolution by Hopper's own instructions, in bf16; each kernel's own file says the same sizes.

use super::Ending;
use crate::Result;
use crate::cuda::{Cuda, Element, Launch, Program, TensorMap, arguments, programs};
use crate::operation::{Placement, Sliding};

programs! {
    /// Convolution by warpgroup products.
    HOPPER_CONVOLUTION = "convolution_hopper":
        "copy.cuh", "sliding.cuh", "hopper.cuh", "convolution_gather_hopper.cu",
        "convolution_slabs_hopper.cu";
}

/// Outputs of a block, and the most channels of one that keeps the weight of all taps.
const OUTPUTS: usize = 64;
const MOST_CHANNELS: usize = 64;
/// Pixels of a block that gathers, its threads and its shared memory.
const GATHER_BLOCK: [usize; 3] = [256, 256, 81_920];
/// Threads of a block that reads slabs, and for each side of its window the kernel and shared memory.
const SLABS_THREADS: usize = 320;
const SLABS: [(usize, &str, usize); 2] =
    [(3, "convolve_slabs_3_hopper", 217_208), (2, "convolve_slabs_2_hopper", 135_256)];
/// Tiles that such a block has at once, and their rows and columns of pixels.
const TILES_AT_ONCE: usize = 2;
const TILE: [usize; 2] = [16, 8];
/// The copy engine wants addresses and rows in multiples of as many bytes, which are 8 numbers.
const ALIGNMENT: u64 = 16;
const ALIGNED: usize = 8;

impl Sliding {
    /// As [`Sliding::convolve_cuda`], from a packed weight [taps, outputs, channels].
    pub(super) fn convolve_hopper(
        &self,
        cuda: &Cuda,
        places: [u64; 3],
        ending: Ending,
    ) -> Result<()> {
        let [x, _, target] = places;
        let aligned = [x, target, ending.residual];
        let slabs = SLABS.iter().find(|(side, ..)| self.kernel == [*side; 2]);
        if let Some(&(_, name, shared)) = slabs
            && self.fits_slabs()
            && aligned.iter().all(|place| place.is_multiple_of(ALIGNMENT))
        {
            return self.convolve_slabs(cuda, name, shared, places, ending);
        }
        let [pixels, threads, shared] = GATHER_BLOCK;
        let grid = [self.pixels().div_ceil(pixels), self.outputs.div_ceil(OUTPUTS), 1];
        let launch = Launch { grid, threads, shared };
        let arguments = self.gathering(places, ending);
        cuda.launch_plain(HOPPER_CONVOLUTION.kernel("convolve_gather_hopper"), launch, &arguments)
    }

    /// Whether the window moves by a pixel over few enough channels.
    fn fits_slabs(&self) -> bool {
        let moves_by_pixels = self.stride == [1; 2] && self.gap == [1; 2] && self.repeat == 1;
        let is_aligned = [self.channels, self.outputs].iter().all(|n| n.is_multiple_of(ALIGNED));
        let has_pixels = !self.image.contains(&0);
        // Otherwise the target's images would not be a whole number of its spaced rows apart.
        let is_even = self.placement.extent[0].is_multiple_of(self.placement.apart);
        moves_by_pixels && is_aligned && has_pixels && is_even && self.channels <= MOST_CHANNELS
    }

    fn convolve_slabs(
        &self,
        cuda: &Cuda,
        name: &'static str,
        shared: usize,
        [x, weight, target]: [u64; 3],
        ending: Ending,
    ) -> Result<()> {
        let context = cuda.context();
        let Ending { bias, residual, relu } = ending;
        let (batch, [height, width], [rows, columns]) = (self.batch, self.image, self.fit);
        let slab = TILE[0] + self.kernel[0] - 1;
        let [slab, tile, whole] = [slab, TILE[0], OUTPUTS].map(|extent| extent as u32);
        let (across, channels) = (TILE[1] as u32, MOST_CHANNELS as u32);
        let map = |pointer, sizes, boxes| TensorMap::dense(context, pointer, sizes, boxes);
        let source = map(x, [self.channels, width, height, batch], [channels, across, slab, 1])?;
        let weight =
            map(weight, [self.channels, self.outputs, self.taps(), 1], [channels, whole, 1, 1])?;
        let Placement { apart, first, extent } = self.placement;
        let line = extent[1] * self.outputs;
        let start = (first[0] * line + first[1] * self.outputs) * Element::Bf16.size();
        let result = |pointer: u64| {
            let sizes = [self.outputs, columns, rows, batch];
            let strides = [apart * self.outputs, apart * line, extent[0] * line];
            let boxes = [whole, across, tile, 1];
            TensorMap::spaced(context, pointer + start as u64, sizes, strides, boxes)
        };
        let adds = residual != 0;
        let (target, residual) = (result(target)?, result(if adds { residual } else { target })?);
        let small = [batch, rows, columns].map(|extent| extent as i32);
        let [images, rows, columns] = small;
        let [top, left] = self.before.map(|extent| extent as i32);
        let tiles = self.batch * self.fit[0].div_ceil(TILE[0]) * self.fit[1].div_ceil(TILE[1]);
        let blocks = tiles.div_ceil(TILES_AT_ONCE).min(context.processors);
        let outputs = self.outputs as i32;
        let arguments = arguments![
            &source, &weight, &residual, &target, bias, adds, relu, images, rows, columns, top,
            left, outputs
        ];
        let grid = [blocks, self.outputs.div_ceil(OUTPUTS), 1];
        let launch = Launch { grid, threads: SLABS_THREADS, shared };
        cuda.launch_plain(HOPPER_CONVOLUTION.kernel(name), launch, arguments)
    }
}

//! Convolution on a GPU: a product on tensor cores whose left operand is gathered from the images as
//! it is multiplied. Few or odd channels are unfolded first, so that rows are whole chunks of 16 bytes.

mod hopper;

use crate::cuda::{
    Argument, Cuda, CudaBuffer, Element, Launch, Precision, Program, argument_groups, arguments,
    programs,
};
use crate::gradient::GradientStore;
use crate::operation::{Filter, Placement, Sliding};
use crate::{Result, Shape, Tape, Tensor};

programs! {
    /// Convolution and what surrounds it.
    CONVOLUTION = "convolution":
        "run.cuh", "team.cuh", "copy.cuh", "tensor_core.cuh", "sliding.cuh", "convolution.cu";
}

/// Threads of a block of every kernel on tensor cores.
const THREADS: usize = 128;
/// Pixels of a block, and the bytes of a row of its tiles.
const PIXELS: usize = 256;
const ROW_BYTES: usize = 128;
/// Outputs of a block, where there are many and where there are few.
const WIDE: usize = 64;
const NARROW: usize = 16;
/// Outputs, channels and pixels of a tile of the weight's gradient.
const GRADIENT_SIDE: usize = 64;
/// Blocks of the weight's gradient for each processor, and the fewest tiles of pixels that one sums.
const BLOCKS_EACH: usize = 4;
const FEWEST_TILES: usize = 8;
/// Below so many channels a window's elements are put beside each other.
const FEW_CHANNELS: usize = 16;
/// Kernels count positions along an axis in 16 bits.
const MOST_POSITIONS: usize = 32_000;

/// The kernels of one kind of product.
struct Kind {
    wide: &'static str,
    narrow: &'static str,
    gradient: &'static str,
}

impl Kind {
    fn of(cuda: &Cuda, element: Element) -> Self {
        let [wide, narrow, gradient] = match (element, cuda.precision()) {
            (Element::Bf16, _) => {
                ["convolve_wide_brain", "convolve_narrow_brain", "weight_gradient_brain"]
            }
            (Element::F32, Precision::F32) => {
                ["convolve_wide_whole", "convolve_narrow_whole", "weight_gradient_whole"]
            }
            (Element::F32, _) => {
                ["convolve_wide_rounded", "convolve_narrow_rounded", "weight_gradient_rounded"]
            }
        };
        Self { wide, narrow, gradient }
    }
}

/// Images as the kernels read them, and how the window slides over them.
struct Source {
    pointer: u64,
    sliding: Sliding,
    /// Where they are unfolded to, if they are: a window of one element slides over that.
    patches: Option<CudaBuffer>,
}

impl Source {
    fn new(cuda: &Cuda, element: Element, pointer: u64, sliding: Sliding) -> Result<Self> {
        let bytes = sliding.channels * element.size();
        let whole = bytes.is_multiple_of(16) && pointer.is_multiple_of(16);
        if whole && (sliding.channels >= FEW_CHANNELS || sliding.taps() == 1) {
            return Ok(Self { pointer, sliding, patches: None });
        }
        let width = (sliding.channels * sliding.taps()).next_multiple_of(16 / element.size());
        let patches = cuda.buffer(element, sliding.pixels() * width)?;
        let mut arguments = arguments![pointer, patches.pointer(), width as i32].to_vec();
        arguments.extend(sliding.arguments());
        let launch = Launch::elements(sliding.pixels() * width);
        cuda.launch(CONVOLUTION.kernel("unfold"), element, launch, &arguments)?;
        let unfolded = Sliding {
            channels: width,
            image: sliding.fit,
            kernel: [1; 2],
            stride: [1; 2],
            before: [0; 2],
            gap: [1; 2],
            repeat: 1,
            ..sliding
        };
        Ok(Self { pointer: patches.pointer(), sliding: unfolded, patches: Some(patches) })
    }

    /// A weight as the product reads it: [taps, outputs, channels].
    fn packed(
        &self,
        cuda: &Cuda,
        element: Element,
        weight: u64,
        of: &Sliding,
        turned: bool,
    ) -> Result<CudaBuffer> {
        let (taps, rows, width) = (self.sliding.taps(), of.outputs, self.sliding.channels);
        let window = of.taps();
        // Where a row of the packed weight and a column of it lie in the weight.
        let [down, along] = match turned {
            false => [of.channels * window, window],
            true => [window, of.outputs * window],
        };
        let (channels, packed) = (of.channels, cuda.buffer(element, taps * rows * width)?);
        let target = packed.pointer();
        if self.patches.is_some() && turned {
            // Patches hold the window's elements of a channel in order: turn each channel around.
            let arguments = arguments![weight, target, rows, channels, window, width, down, along];
            let launch = Launch::elements(rows * width);
            cuda.launch(CONVOLUTION.kernel("pack_turned_patches"), element, launch, arguments)?;
            return Ok(packed);
        }
        let (columns, along) = match self.patches {
            Some(_) => (channels * window, 1),
            None => (channels, along),
        };
        let arguments = arguments![weight, target, taps, rows, columns, width, down, along, turned];
        let launch = Launch::elements(taps * rows * width);
        cuda.launch(CONVOLUTION.kernel("pack_weight"), element, launch, arguments)?;
        Ok(packed)
    }
}

/// What follows the sums; addresses may be null.
#[derive(Clone, Copy, Default)]
struct Ending {
    bias: u64,
    residual: u64,
    relu: bool,
}

impl Sliding {
    /// As kernels are told.
    fn arguments(&self) -> Vec<Argument<'static>> {
        let pairs = [
            self.image.map(|extent| extent as i32),
            self.fit.map(|extent| extent as i32),
            self.kernel.map(|extent| extent as i32),
            self.stride.map(|extent| extent as i32),
            self.before.map(|extent| extent as i32),
            self.gap.map(|extent| extent as i32),
        ];
        let Placement { apart, first, extent } = self.placement;
        let last = [self.repeat, self.channels, self.outputs, apart].map(|number| number as i32);
        let placed = [first, extent].map(|pair| pair.map(|number| number as i32));
        let small = pairs.as_flattened().iter().chain(&last).chain(placed.as_flattened());
        let small = small.map(|number| Argument::from(*number));
        [Argument::from(self.pixels())].into_iter().chain(small).collect()
    }

    /// target ← the convolution with a weight [outputs, channels, taps], in phases where these are
    /// smaller.
    fn convolve_phases(
        &self,
        cuda: &Cuda,
        element: Element,
        [x, weight, target]: [u64; 3],
        ending: Ending,
    ) -> Result<()> {
        let Some(phases) = self.phases() else {
            return self.convolve_cuda(cuda, element, [x, weight, target], false, ending);
        };
        let phases: Vec<Self> = phases.collect();
        let (filters, taps) = (self.outputs * self.channels, phases[0].taps());
        let folded = cuda.buffer(element, phases.len() * filters * taps)?;
        let [window, kernel] =
            [self.kernel, phases[0].kernel].map(|pair| pair.map(|side| side as i32));
        let (repeat, before) = (self.repeat as i32, self.before.map(|extent| extent as i32));
        let arguments = argument_groups![
            [weight, folded.pointer()],
            [filters],
            window,
            kernel,
            [repeat],
            before
        ];
        let launch = Launch::elements(phases.len() * filters * taps);
        cuda.launch(CONVOLUTION.kernel("fold_weight"), element, launch, &arguments)?;
        for (number, phase) in phases.iter().enumerate() {
            let offset = number * filters * taps * element.size();
            let places = [x, folded.pointer() + offset as u64, target];
            phase.convolve_cuda(cuda, element, places, false, ending)?;
        }
        Ok(())
    }

    /// target's pixels ← the convolution with a weight [outputs, channels, taps], or with one of a
    /// convolution whose way back this is.
    fn convolve_cuda(
        &self,
        cuda: &Cuda,
        element: Element,
        [x, weight, target]: [u64; 3],
        turned: bool,
        ending: Ending,
    ) -> Result<()> {
        if self.pixels() * self.outputs == 0 {
            return Ok(());
        }
        let source = Source::new(cuda, element, x, *self)?;
        let packed = source.packed(cuda, element, weight, self, turned)?;
        let places = [source.pointer, packed.pointer(), target];
        if cuda.is_hopper() && element == Element::Bf16 && self.outputs > NARROW {
            return source.sliding.convolve_hopper(cuda, places, ending);
        }
        let kind = Kind::of(cuda, element);
        let (name, outputs) =
            if self.outputs > NARROW { (kind.wide, WIDE) } else { (kind.narrow, NARROW) };
        let grid = [self.pixels().div_ceil(PIXELS), self.outputs.div_ceil(outputs), 1];
        let shared = 2 * (PIXELS + outputs) * ROW_BYTES;
        let launch = Launch { grid, threads: THREADS, shared };
        let arguments = source.sliding.gathering(places, ending);
        cuda.launch_plain(CONVOLUTION.kernel(name), launch, &arguments)
    }

    /// The arguments of a kernel that gathers x and multiplies it with a packed weight.
    fn gathering(&self, [x, weight, target]: [u64; 3], ending: Ending) -> Vec<Argument<'static>> {
        let Ending { bias, residual, relu } = ending;
        let mut arguments = arguments![x, weight, bias, residual, target, relu].to_vec();
        arguments.extend(self.arguments());
        arguments
    }

    /// gradient [outputs, channels, taps] of the weight, in f32, added if `accumulate`.
    fn weight_gradient_cuda(
        &self,
        cuda: &Cuda,
        element: Element,
        [x, upstream, gradient]: [u64; 3],
        accumulate: bool,
    ) -> Result<()> {
        let source = Source::new(cuda, element, x, *self)?;
        let (stored, taps) = (source.sliding.channels, source.sliding.taps());
        let tiles =
            taps * stored.div_ceil(GRADIENT_SIDE) * self.outputs.div_ceil(GRADIENT_SIDE).max(1);
        let most = self.pixels().div_ceil(GRADIENT_SIDE * FEWEST_TILES).max(1);
        let wanted = (BLOCKS_EACH * cuda.context().processors).div_ceil(tiles);
        let splits = wanted.clamp(1, most);
        let sums = cuda.buffer(Element::F32, splits * taps * self.outputs * stored)?;
        let mut arguments = arguments![source.pointer, upstream, sums.pointer()].to_vec();
        arguments.extend(source.sliding.arguments());
        let shared = 4 * GRADIENT_SIDE * GRADIENT_SIDE * element.size();
        let launch = Launch { grid: [tiles, splits, 1], threads: THREADS, shared };
        let kernel = CONVOLUTION.kernel(Kind::of(cuda, element).gradient);
        cuda.launch_plain(kernel, launch, &arguments)?;
        // Unfolded, the window's elements are channels of a window of one.
        let channels = self.channels * self.taps() / taps;
        let (sums, outputs) = (sums.pointer(), self.outputs);
        let arguments =
            arguments![sums, gradient, splits, outputs, channels, stored, taps, accumulate];
        let launch = Launch::elements(outputs * channels * taps);
        cuda.launch_plain(CONVOLUTION.kernel("gather_weight_gradient"), launch, arguments)
    }
}

impl Tape {
    /// See [`Tape::convolution_channels_last`].
    pub(crate) fn convolution_cuda(
        &mut self,
        cuda: &Cuda,
        sliding: Sliding,
        shape: Shape,
        x: &Tensor,
        filter: &Filter<'_>,
    ) -> Result<Tensor> {
        let Filter { weight, bias, residual, relu, .. } = *filter;
        let positions = sliding.back().fit.into_iter().chain(sliding.fit);
        x.expect("convolution", positions.max() < Some(MOST_POSITIONS), || {
            format!("on a GPU an image has fewer than {MOST_POSITIONS} pixels a side")
        })?;
        let element = cuda.common_element(&[x, weight]);
        let output = cuda.buffer(element, sliding.pixels() * sliding.outputs)?;
        let ending = Ending {
            bias: bias.map_or(Ok(0), |bias| bias.pointer(cuda, Element::F32))?,
            residual: residual.map_or(Ok(0), |residual| residual.pointer(cuda, element))?,
            relu,
        };
        let places = [x.pointer(cuda, element)?, weight.pointer(cuda, element)?, output.pointer()];
        sliding.convolve_phases(cuda, element, places, ending)?;
        let inputs = [x, weight, bias.unwrap_or(weight), residual.unwrap_or(weight)];
        Ok(self.record_cuda("convolution", shape, output, &inputs, |y| {
            let node = ConvolutionBackward {
                x: x.clone(),
                weight: weight.clone(),
                bias: bias.cloned(),
                residual: residual.cloned(),
                y: relu.then(|| y.clone()),
                sliding,
            };
            move |cuda, upstream, gradients| node.backward(cuda, upstream, gradients)
        }))
    }
}

struct ConvolutionBackward {
    x: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    residual: Option<Tensor>,
    /// The result, where what was negative in it became zero.
    y: Option<Tensor>,
    sliding: Sliding,
}

impl ConvolutionBackward {
    fn image_gradient(
        &self,
        cuda: &Cuda,
        upstream: &CudaBuffer,
        target: u64,
        accumulate: bool,
    ) -> Result<()> {
        let (element, back) = (upstream.element(), self.sliding.back());
        let places = |target| Ok([upstream.pointer(), self.weight.pointer(cuda, element)?, target]);
        if self.sliding.repeat == 1 {
            // What is there is added as a residual.
            let residual = if accumulate { target } else { 0 };
            let ending = Ending { residual, ..Ending::default() };
            return back.convolve_cuda(cuda, element, places(target)?, true, ending);
        }
        let repeated = cuda.buffer(element, back.pixels() * back.outputs)?;
        let ending = Ending::default();
        back.convolve_cuda(cuda, element, places(repeated.pointer())?, true, ending)?;
        let (count, [_, width]) = (self.x.shape().elements(), self.sliding.image);
        let (channels, repeat) = (self.sliding.channels, self.sliding.repeat);
        let arguments =
            arguments![repeated.pointer(), target, count, width, channels, repeat, accumulate];
        cuda.launch(CONVOLUTION.kernel("sum_repeats"), element, Launch::elements(count), arguments)
    }

    fn backward(
        &self,
        cuda: &Cuda,
        mut upstream: CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        let element = upstream.element();
        let (pixels, outputs) = (self.sliding.pixels(), self.sliding.outputs);
        if let Some(y) = &self.y {
            let slope = cuda.buffer(element, pixels * outputs)?;
            let y = y.pointer(cuda, element)?;
            let arguments = arguments![upstream.pointer(), y, slope.pointer(), pixels * outputs];
            let launch = Launch::elements(pixels * outputs);
            cuda.launch(CONVOLUTION.kernel("keep_positive"), element, launch, arguments)?;
            upstream = slope;
        }
        if let Some(bias) = &self.bias {
            gradients.with_cuda(bias, Element::F32, |target, accumulate| {
                let source = (upstream.pointer(), element);
                cuda.column_sums(source, [pixels, outputs], target, accumulate)
            })?;
        }
        gradients.with_cuda(&self.weight, Element::F32, |target, accumulate| {
            let places = [self.x.pointer(cuda, element)?, upstream.pointer(), target];
            self.sliding.weight_gradient_cuda(cuda, element, places, accumulate)
        })?;
        gradients.with_cuda(&self.x, element, |target, accumulate| {
            self.image_gradient(cuda, &upstream, target, accumulate)
        })?;
        match &self.residual {
            Some(residual) => gradients.add_whole_cuda(residual, upstream),
            None => Ok(()),
        }
    }
}

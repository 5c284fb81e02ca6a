//! x·W + b on a GPU, alone, with GELU behind it, or as a whole MLP.

use crate::cuda::{
    Cuda, CudaBuffer, Element, Epilogue, Kernel, Launch, Operand, Product, Program, arguments,
    programs,
};
use crate::gradient::GradientStore;
use crate::tape::CudaBackward;
use crate::{Result, Shape, Tape, Tensor};
use std::sync::Arc;

programs! {
    /// Biases, GELU and sums over rows.
    LINEAR = "linear": "linear.cu";
}

/// Rows that one thread adds up in a sum over rows.
const PART_ROWS: usize = 256;

impl Tape {
    /// See [`Tape::linear`] and [`Tape::linear_gelu`]; `sizes` are rows, inputs and outputs.
    pub(crate) fn linear_cuda(
        &mut self,
        cuda: &Cuda,
        sizes: [usize; 3],
        [x, weight]: [&Tensor; 2],
        bias: Option<&Tensor>,
        gelu: bool,
    ) -> Result<Tensor> {
        let inputs = [x, weight, bias.unwrap_or(weight)];
        let keep = gelu && inputs.iter().any(|input| self.wants(input));
        let element = cuda.element();
        let [rows, _, width] = sizes;
        let before = keep.then(|| cuda.buffer(element, rows * width)).transpose()?;
        let map = Map::new(cuda, sizes, x, weight, bias)?;
        let output = map.forward(cuda, gelu, before.as_ref())?;
        let shape = x.shape().with_last(width);
        let name = if gelu { "linear_gelu" } else { "linear" };
        Ok(self.record_cuda(name, shape, output, &inputs, |_| LinearBackward {
            sizes,
            x: x.clone(),
            weight: weight.clone(),
            bias: bias.cloned(),
            before,
        }))
    }

    /// See [`Tape::feed_forward`]: `first` and `second` are weight and bias of the two maps.
    pub(crate) fn feed_forward_cuda(
        &mut self,
        cuda: &Cuda,
        shape: Shape,
        x: &Tensor,
        first: [&Tensor; 2],
        second: [&Tensor; 2],
    ) -> Result<Tensor> {
        let (rows, hidden) = (x.shape().rows(), first[0].shape().last());
        let widths = [x.shape().last(), hidden, second[0].shape().last()];
        let inputs = [x, first[0], first[1], second[0], second[1]];
        let keep = inputs.iter().any(|input| self.wants(input));
        let element = cuda.element();
        let before = keep.then(|| cuda.buffer(element, rows * hidden)).transpose()?;
        let map = Map::new(cuda, [rows, widths[0], hidden], x, first[0], Some(first[1]))?;
        let active = map.forward(cuda, true, before.as_ref())?;
        let second_map = Map {
            sizes: [rows, hidden, widths[2]],
            x: active.pointer(),
            weight: second[0].pointer(cuda, element)?,
            bias: Some(second[1].pointer(cuda, element)?),
        };
        let output = second_map.forward(cuda, false, None)?;
        Ok(self.record_cuda("feed_forward", shape, output, &inputs, |_| FeedForwardBackward {
            rows,
            widths,
            x: x.clone(),
            first: first.map(Tensor::clone),
            second: second.map(Tensor::clone),
            before: before.map(Arc::new),
        }))
    }
}

/// One map with the addresses of its operands.
struct Map {
    sizes: [usize; 3],
    x: u64,
    weight: u64,
    bias: Option<u64>,
}

impl Map {
    fn new(
        cuda: &Cuda,
        sizes: [usize; 3],
        x: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
    ) -> Result<Self> {
        let element = cuda.element();
        let bias = bias.map(|bias| bias.pointer(cuda, element)).transpose()?;
        Ok(Self {
            sizes,
            x: x.pointer(cuda, element)?,
            weight: weight.pointer(cuda, element)?,
            bias,
        })
    }

    /// The result; what GELU is applied to goes to `before`.
    fn forward(&self, cuda: &Cuda, gelu: bool, before: Option<&CudaBuffer>) -> Result<CudaBuffer> {
        let element = cuda.element();
        let [rows, _, width] = self.sizes;
        let output = cuda.buffer(element, rows * width)?;
        let kept = before.map_or(0, CudaBuffer::pointer);
        let product = Product {
            sizes: self.sizes,
            left: Operand::plain(self.x, element),
            right: Operand::plain(self.weight, element),
            target: output.pointer(),
            target_element: element,
            accumulate: false,
            epilogue: match (self.bias, gelu) {
                (None, _) => Epilogue::None,
                (Some(bias), false) => Epilogue::Bias(bias),
                (Some(bias), true) => Epilogue::BiasGelu { bias, before: kept },
            },
        };
        let fused = self.bias.is_some() || !gelu;
        if fused && cuda.try_multiply(&product)? {
            return Ok(output);
        }
        // One after the other: the sum where it is to be kept, else where the result goes.
        let target = if gelu && kept != 0 { kept } else { output.pointer() };
        cuda.multiply(&Product { target, epilogue: Epilogue::None, ..product })?;
        if let Some(bias) = self.bias {
            let arguments = arguments![target, bias, rows, width];
            cuda.launch(kernel("add_bias"), element, Launch::elements(rows * width), arguments)?;
        }
        if gelu {
            cuda.gelu(element, target, output.pointer(), rows * width)?;
        }
        Ok(output)
    }
}

fn kernel(name: &'static str) -> Kernel {
    Kernel { program: &LINEAR, name }
}

/// Threads that each take one 16-byte vector.
fn vectors(element: Element, length: usize) -> Launch {
    Launch::elements(length.div_ceil(16 / element.size()))
}

impl Cuda {
    /// target ← GELU(source).
    fn gelu(&self, element: Element, source: u64, target: u64, length: usize) -> Result<()> {
        let arguments = arguments![source, target, length];
        self.launch(kernel("gelu"), element, vectors(element, length), arguments)
    }

    /// The sum over rows of a matrix [rows, width], as f32; added to the target if `accumulate`.
    pub(crate) fn column_sums(
        &self,
        source: (u64, Element),
        [rows, width]: [usize; 2],
        target: u64,
        accumulate: bool,
    ) -> Result<()> {
        let parts = rows.div_ceil(PART_ROWS).max(1);
        let partials = self.buffer(Element::F32, parts * width)?;
        let across = width.div_ceil(128).max(1);
        let launch = Launch { grid: [across, parts, 1], threads: 128, shared: 0 };
        let arguments = arguments![source.0, partials.pointer(), rows, width, PART_ROWS];
        self.launch(kernel("column_sums"), source.1, launch, arguments)?;
        let arguments = arguments![partials.pointer(), target, parts, width, accumulate];
        self.launch_plain(kernel("add_partials"), Launch::blocks(across, 128), arguments)
    }

    /// The gradients of a weight [inputs, outputs] and its bias from x [rows, inputs] and the
    /// gradient [rows, outputs] of the result.
    fn map_gradients(
        &self,
        gradients: &mut GradientStore<'_>,
        sizes: [usize; 3],
        x: u64,
        upstream: u64,
        weight: &Tensor,
        bias: Option<&Tensor>,
    ) -> Result<()> {
        let element = self.element();
        let [rows, input, width] = sizes;
        let of_bias = match bias {
            Some(bias) => gradients.take_cuda(bias, Element::F32)?,
            None => None,
        };
        let mut summed = false;
        gradients.with_cuda(weight, Element::F32, |target, accumulate| {
            let product = Product {
                sizes: [input, rows, width],
                left: Operand::transposed(x, element),
                right: Operand::plain(upstream, element),
                target,
                target_element: Element::F32,
                accumulate,
                epilogue: Epilogue::None,
            };
            // The library overwrites the sums.
            if let Some(bias) = of_bias.as_ref().filter(|bias| !bias.accumulate && !accumulate) {
                let fused = Product { epilogue: Epilogue::RightSums(bias.pointer), ..product };
                summed = self.try_multiply(&fused)?;
            }
            if summed { Ok(()) } else { self.multiply(&product) }
        })?;
        if let (Some(tensor), Some(of_bias)) = (bias, of_bias) {
            if !summed {
                let source = (upstream, element);
                self.column_sums(source, [rows, width], of_bias.pointer, of_bias.accumulate)?;
            }
            gradients.give_cuda(tensor, of_bias)?;
        }
        Ok(())
    }

    /// The gradient of x from that of the result.
    fn input_gradient(
        &self,
        gradients: &mut GradientStore<'_>,
        sizes: [usize; 3],
        x: &Tensor,
        upstream: u64,
        weight: &Tensor,
    ) -> Result<()> {
        let element = self.element();
        let [rows, input, width] = sizes;
        let weight = weight.pointer(self, element)?;
        gradients.with_cuda(x, element, |target, accumulate| {
            self.multiply(&Product {
                sizes: [rows, width, input],
                left: Operand::plain(upstream, element),
                right: Operand::transposed(weight, element),
                target,
                target_element: element,
                accumulate,
                epilogue: Epilogue::None,
            })
        })
    }
}

struct LinearBackward {
    sizes: [usize; 3],
    x: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    /// x·W + b where GELU followed.
    before: Option<CudaBuffer>,
}

impl CudaBackward for LinearBackward {
    fn backward(
        &self,
        cuda: &Cuda,
        upstream: CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        let element = cuda.element();
        let length = upstream.length();
        let upstream = upstream.pointer();
        if let Some(before) = &self.before {
            let arguments = arguments![upstream, before.pointer(), length];
            cuda.launch(kernel("gelu_slope"), element, vectors(element, length), arguments)?;
        }
        let x = self.x.pointer(cuda, element)?;
        let (weight, bias) = (&self.weight, self.bias.as_ref());
        cuda.map_gradients(gradients, self.sizes, x, upstream, weight, bias)?;
        cuda.input_gradient(gradients, self.sizes, &self.x, upstream, weight)
    }
}

struct FeedForwardBackward {
    rows: usize,
    /// Of the input, between the two maps, and of the result.
    widths: [usize; 3],
    x: Tensor,
    first: [Tensor; 2],
    second: [Tensor; 2],
    /// x·W₁ + b₁. What GELU made of it is computed again: it is as large as four inputs.
    before: Option<Arc<CudaBuffer>>,
}

impl CudaBackward for FeedForwardBackward {
    fn backward(
        &self,
        cuda: &Cuda,
        upstream: CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        let element = cuda.element();
        let (rows, [input, hidden, output]) = (self.rows, self.widths);
        let before = self.before.as_ref().expect("it was kept for this").pointer();
        let upstream = upstream.pointer();
        let [weight, bias] = &self.second;
        let active = cuda.buffer(element, rows * hidden)?;
        cuda.gelu(element, before, active.pointer(), rows * hidden)?;
        let sizes = [rows, hidden, output];
        cuda.map_gradients(gradients, sizes, active.pointer(), upstream, weight, Some(bias))?;

        // What the first map gave, times the slope of GELU, in place of what GELU gave.
        let inner = active;
        let sums = cuda.buffer(element, hidden)?;
        let product = Product {
            sizes: [rows, output, hidden],
            left: Operand::plain(upstream, element),
            right: Operand::transposed(weight.pointer(cuda, element)?, element),
            target: inner.pointer(),
            target_element: element,
            accumulate: false,
            epilogue: Epilogue::GeluSlope { before, sums: sums.pointer() },
        };
        let summed = cuda.try_multiply(&product)?;
        if !summed {
            cuda.multiply(&Product { epilogue: Epilogue::None, ..product })?;
            let arguments = arguments![inner.pointer(), before, rows * hidden];
            let launch = vectors(element, rows * hidden);
            cuda.launch(kernel("gelu_slope"), element, launch, arguments)?;
        }
        let [weight, bias] = &self.first;
        let (x, sizes) = (self.x.pointer(cuda, element)?, [rows, input, hidden]);
        let unsummed = (!summed).then_some(bias);
        cuda.map_gradients(gradients, sizes, x, inner.pointer(), weight, unsummed)?;
        if summed {
            gradients.add_cuda(bias, &sums)?;
        }
        cuda.input_gradient(gradients, sizes, &self.x, inner.pointer(), weight)
    }
}

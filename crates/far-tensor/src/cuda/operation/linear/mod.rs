//! x·W + b on a GPU, alone, with GELU behind it, or as a whole MLP.

mod row_sum;

use crate::cuda::{
    Cuda, CudaBuffer, Element, Epilogue, Launch, Operand, Product, Program, arguments, programs,
};
use crate::gradient::GradientStore;
use crate::{Result, Shape, Tape, Tensor};

programs! {
    /// Biases, GELU and sums over rows.
    LINEAR = "linear": "linear.cu";
}

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
        Ok(self.record_cuda(name, shape, output, &inputs, |_| {
            let (x, weight, bias) = (x.clone(), weight.clone(), bias.cloned());
            move |cuda, upstream, gradients| {
                let element = cuda.element();
                let (length, upstream) = (upstream.length(), upstream.pointer());
                if let Some(before) = &before {
                    let arguments = arguments![upstream, before.pointer(), length];
                    let launch = Launch::elements(length);
                    cuda.launch(LINEAR.kernel("gelu_slope"), element, launch, arguments)?;
                }
                let source = x.pointer(cuda, element)?;
                cuda.map_gradients(gradients, sizes, source, upstream, &weight, bias.as_ref())?;
                cuda.input_gradient(gradients, sizes, &x, upstream, &weight)
            }
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
        let (input, width) = (x.shape().last(), second[0].shape().last());
        let inputs = [x, first[0], first[1], second[0], second[1]];
        let keep = inputs.iter().any(|input| self.wants(input));
        let element = cuda.element();
        let before = keep.then(|| cuda.buffer(element, rows * hidden)).transpose()?;
        let map = Map::new(cuda, [rows, input, hidden], x, first[0], Some(first[1]))?;
        let active = map.forward(cuda, true, before.as_ref())?;
        let second_map = Map {
            sizes: [rows, hidden, width],
            x: active.pointer(),
            weight: second[0].pointer(cuda, element)?,
            bias: Some(second[1].pointer(cuda, element)?),
        };
        let output = second_map.forward(cuda, false, None)?;
        Ok(self.record_cuda("feed_forward", shape, output, &inputs, |_| {
            let x = x.clone();
            let [first, second] = [first, second].map(|map| map.map(Tensor::clone));
            move |cuda, upstream, gradients| {
                let element = cuda.element();
                let before = before.as_ref().expect("it was kept for this").pointer();
                let upstream = upstream.pointer();
                let inner = cuda.buffer(element, rows * hidden)?;
                cuda.multiply(&Product {
                    sizes: [rows, width, hidden],
                    left: Operand::plain(upstream, element),
                    right: Operand::transposed(second[0].pointer(cuda, element)?, element),
                    target: inner.pointer(),
                    target_element: element,
                    accumulate: false,
                    epilogue: Epilogue::None,
                })?;
                let inner = inner.pointer();
                cuda.gelu_backward(gradients, inner, before, [rows, hidden], &first[1])?;
                // What was before GELU has now passed it.
                let (active, [weight, bias]) = (before, &second);
                let sizes = [rows, hidden, width];
                cuda.map_gradients(gradients, sizes, active, upstream, weight, Some(bias))?;
                let (source, weight) = (x.pointer(cuda, element)?, &first[0]);
                let sizes = [rows, input, hidden];
                cuda.map_gradients(gradients, sizes, source, inner, weight, None)?;
                cuda.input_gradient(gradients, sizes, &x, inner, weight)
            }
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
        let kept = before.map_or(0, |buffer| buffer.pointer());
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
            cuda.launch(
                LINEAR.kernel("add_bias"),
                element,
                Launch::elements(rows * width),
                arguments,
            )?;
        }
        if gelu {
            cuda.gelu(element, target, output.pointer(), rows * width)?;
        }
        Ok(output)
    }
}

impl Cuda {
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
        // The library can add up the rows on the way, at a higher price than this pass of their own.
        if let Some(bias) = bias {
            gradients.with_cuda(bias, Element::F32, |target, accumulate| {
                self.column_sums((upstream, element), [rows, width], target, accumulate)
            })?;
        }
        gradients.with_cuda(weight, Element::F32, |target, accumulate| {
            self.multiply(&Product {
                sizes: [input, rows, width],
                left: Operand::transposed(x, element),
                right: Operand::plain(upstream, element),
                target,
                target_element: Element::F32,
                accumulate,
                epilogue: Epilogue::None,
            })
        })
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

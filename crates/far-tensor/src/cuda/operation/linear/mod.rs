//! x·W + b on a GPU, alone or with GELU behind it.

mod feed_forward;
mod row_sum;

use crate::cuda::{
    Cuda, CudaBuffer, Element, Epilogue, Launch, Operand, Product, Program, arguments, programs,
};
use crate::gradient::{GradientStore, RowSums};
use crate::{Result, Tape, Tensor};

programs! {
    /// Biases, GELU and sums over rows.
    LINEAR = "linear": "packed.cu", "linear.cu";
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
                let mut sums = gradients.row_sums(width);
                if let Some(before) = &before {
                    sums = None;
                    let arguments = arguments![upstream, before.pointer(), length];
                    let launch = Launch::elements(length);
                    cuda.launch(LINEAR.kernel("gelu_slope"), element, launch, arguments)?;
                }
                let source = x.pointer(cuda, element)?;
                if let Some(bias) = &bias {
                    cuda.bias_gradient(gradients, [sizes[0], width], upstream, sums, bias)?;
                }
                cuda.weight_gradient(gradients, sizes, source, upstream, &weight)?;
                cuda.input_gradient(gradients, sizes, &x, upstream, &weight)
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
    /// The gradient of a bias from the gradient [rows, width] of the result, whose sums over the rows may
    /// be known. The library can add up the rows on the way, at a higher price than a pass of their own.
    fn bias_gradient(
        &self,
        gradients: &mut GradientStore<'_>,
        sizes: [usize; 2],
        upstream: u64,
        sums: Option<RowSums>,
        bias: &Tensor,
    ) -> Result<()> {
        gradients.with_cuda(bias, Element::F32, |target, accumulate| match &sums {
            Some(sums) => self.add_row_sums(sums, target, accumulate),
            None => self.column_sums((upstream, self.element()), sizes, target, accumulate),
        })
    }

    /// The gradient of a weight [inputs, outputs] from x [rows, inputs] and the gradient [rows, outputs] of
    /// the result.
    fn weight_gradient(
        &self,
        gradients: &mut GradientStore<'_>,
        [rows, input, width]: [usize; 3],
        x: u64,
        upstream: u64,
        weight: &Tensor,
    ) -> Result<()> {
        let element = self.element();
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

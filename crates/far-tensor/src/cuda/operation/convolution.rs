//! Convolution on a GPU: y = W·P with the matrix P [patch, images·pixels] of patches, some images at a
//! time.

use super::team::Team;
use crate::cuda::{
    Argument, Cuda, CudaBuffer, Element, Epilogue, Kernel, Launch, Operand, Product, Program,
    arguments, programs,
};
use crate::gradient::GradientStore;
use crate::operation::Window;
use crate::tape::CudaBackward;
use crate::{Result, Tape, Tensor};
use std::ops::Range;

programs! {
    /// Patches and what surrounds them.
    CONVOLUTION = "convolution": "run.cuh", "team.cuh", "convolution.cu";
}

/// Elements of the matrix of patches of the images that are taken together.
const CHUNK_ELEMENTS: usize = 1 << 26;

fn kernel(name: &'static str) -> Kernel {
    Kernel { program: &CONVOLUTION, name }
}

/// What slides over what.
#[derive(Clone, Copy)]
pub(crate) struct Convolution {
    pub batch: usize,
    pub channels: usize,
    /// Rows and columns of an image.
    pub image: [usize; 2],
    pub outputs: usize,
    pub window: Window,
    /// Rows and columns of the result.
    pub fit: [usize; 2],
}

impl Convolution {
    fn pixels(&self) -> usize {
        self.fit[0] * self.fit[1]
    }

    /// Elements of a patch.
    fn patch(&self) -> usize {
        self.channels * self.window.kernel[0] * self.window.kernel[1]
    }

    /// Images that are taken together.
    fn chunks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let images = CHUNK_ELEMENTS / (self.patch() * self.pixels()).max(1);
        let (images, batch) = (images.clamp(1, self.batch.max(1)), self.batch);
        (0..batch).step_by(images).map(move |first| first..(first + images).min(batch))
    }

    /// Where an image begins in x.
    fn at(&self, x: u64, image: usize, element: Element) -> u64 {
        let elements = self.channels * self.image[0] * self.image[1];
        x + (image * elements * element.size()) as u64
    }

    /// Where an image begins in y.
    fn out(&self, y: u64, image: usize, element: Element) -> u64 {
        y + (image * self.outputs * self.pixels() * element.size()) as u64
    }

    /// Two addresses and the geometry as kernels are told.
    fn arguments(&self, places: [u64; 2], images: usize) -> Vec<Argument<'static>> {
        let Window { kernel, stride, padding } = self.window;
        let ([height, width], [rows, columns]) = (self.image, self.fit);
        let sizes = [images, height, width, rows, columns].map(Argument::from);
        let small =
            [self.channels, kernel[0], kernel[1], stride[0], stride[1], padding.top, padding.left];
        let small = small.map(|number| Argument::from(number as i32));
        [&places.map(Argument::from)[..], &sizes, &small].concat()
    }

    /// The matrix of patches of some images.
    fn unfold(&self, cuda: &Cuda, element: Element, x: u64, images: usize) -> Result<CudaBuffer> {
        let elements = self.patch() * images * self.pixels();
        let patches = cuda.buffer(element, elements)?;
        let arguments = self.arguments([x, patches.pointer()], images);
        cuda.launch(kernel("unfold"), element, Launch::elements(elements), &arguments)?;
        Ok(patches)
    }

    /// [outer, inner, pixels] → [inner, outer, pixels], with a level per outer place or null.
    fn swap(
        &self,
        cuda: &Cuda,
        element: Element,
        [source, levels, target]: [u64; 3],
        [outer, inner]: [usize; 2],
    ) -> Result<()> {
        let pixels = self.pixels();
        let arguments = arguments![source, levels, target, outer, inner, pixels];
        let launch = Launch::elements(outer * inner * pixels);
        cuda.launch(kernel("swap_axes"), element, launch, arguments)
    }
}

impl Tape {
    /// See [`Tape::convolution`].
    pub(crate) fn convolution_cuda(
        &mut self,
        cuda: &Cuda,
        geometry: Convolution,
        [x, weight]: [&Tensor; 2],
        bias: Option<&Tensor>,
    ) -> Result<Tensor> {
        let element = cuda.common_element(&[x, weight]);
        let Convolution { batch, outputs, fit, .. } = geometry;
        let (pixels, patch) = (geometry.pixels(), geometry.patch());
        let output = cuda.buffer(element, batch * outputs * pixels)?;
        let (source, factors) = (x.pointer(cuda, element)?, weight.pointer(cuda, element)?);
        let levels = bias.map_or(Ok(0), |bias| bias.pointer(cuda, Element::F32))?;
        for chunk in geometry.chunks() {
            let images = chunk.len();
            let start = geometry.at(source, chunk.start, element);
            let patches = geometry.unfold(cuda, element, start, images)?;
            let result = cuda.buffer(element, outputs * images * pixels)?;
            cuda.multiply(&Product {
                sizes: [outputs, patch, images * pixels],
                left: Operand::plain(factors, element),
                right: Operand::plain(patches.pointer(), element),
                target: result.pointer(),
                target_element: element,
                accumulate: false,
                epilogue: Epilogue::None,
            })?;
            let target = geometry.out(output.pointer(), chunk.start, element);
            geometry.swap(cuda, element, [result.pointer(), levels, target], [outputs, images])?;
        }
        let shape = [batch, outputs, fit[0], fit[1]].into();
        let inputs = [x, weight, bias.unwrap_or(weight)];
        Ok(self.record_cuda("convolution", shape, output, &inputs, |_| ConvolutionBackward {
            x: x.clone(),
            weight: weight.clone(),
            bias: bias.cloned(),
            geometry,
        }))
    }
}

struct ConvolutionBackward {
    x: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
    geometry: Convolution,
}

impl ConvolutionBackward {
    /// The gradient of the result for some images, as a matrix [outputs, images·pixels].
    fn columns(
        &self,
        cuda: &Cuda,
        upstream: &CudaBuffer,
        chunk: &Range<usize>,
    ) -> Result<CudaBuffer> {
        let (geometry, element) = (&self.geometry, upstream.element());
        let (outputs, images) = (geometry.outputs, chunk.len());
        let columns = cuda.buffer(element, outputs * images * geometry.pixels())?;
        let source = geometry.out(upstream.pointer(), chunk.start, element);
        let places = [source, 0, columns.pointer()];
        geometry.swap(cuda, element, places, [images, outputs])?;
        Ok(columns)
    }

    /// dW = Σ d·Pᵀ over the images.
    fn weight_gradient(
        &self,
        cuda: &Cuda,
        upstream: &CudaBuffer,
        target: u64,
        accumulate: bool,
    ) -> Result<()> {
        let (geometry, element) = (&self.geometry, upstream.element());
        let x = self.x.pointer(cuda, element)?;
        for chunk in geometry.chunks() {
            let images = chunk.len();
            let d = self.columns(cuda, upstream, &chunk)?;
            let start = geometry.at(x, chunk.start, element);
            let patches = geometry.unfold(cuda, element, start, images)?;
            cuda.multiply(&Product {
                sizes: [geometry.outputs, images * geometry.pixels(), geometry.patch()],
                left: Operand::plain(d.pointer(), element),
                right: Operand::transposed(patches.pointer(), element),
                target,
                target_element: Element::F32,
                accumulate: accumulate || chunk.start > 0,
                epilogue: Epilogue::None,
            })?;
        }
        Ok(())
    }

    /// dx = Wᵀ·d folded back.
    fn image_gradient(
        &self,
        cuda: &Cuda,
        upstream: &CudaBuffer,
        target: u64,
        accumulate: bool,
    ) -> Result<()> {
        let (geometry, element) = (&self.geometry, upstream.element());
        let weight = self.weight.pointer(cuda, element)?;
        let elements = geometry.channels * geometry.image[0] * geometry.image[1];
        for chunk in geometry.chunks() {
            let (images, patch) = (chunk.len(), geometry.patch());
            let columns = images * geometry.pixels();
            let d = self.columns(cuda, upstream, &chunk)?;
            let patches = cuda.buffer(element, patch * columns)?;
            cuda.multiply(&Product {
                sizes: [patch, geometry.outputs, columns],
                left: Operand::transposed(weight, element),
                right: Operand::plain(d.pointer(), element),
                target: patches.pointer(),
                target_element: element,
                accumulate: false,
                epilogue: Epilogue::None,
            })?;
            let start = geometry.at(target, chunk.start, element);
            let mut arguments = geometry.arguments([patches.pointer(), start], images);
            arguments.push(accumulate.into());
            let launch = Launch::elements(images * elements);
            cuda.launch(kernel("fold"), element, launch, &arguments)?;
        }
        Ok(())
    }
}

impl CudaBackward for ConvolutionBackward {
    fn backward(
        &self,
        cuda: &Cuda,
        upstream: CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        let element = upstream.element();
        let Convolution { batch, outputs, .. } = self.geometry;
        if let Some(bias) = &self.bias {
            gradients.with_cuda(bias, Element::F32, |target, accumulate| {
                let pixels = self.geometry.pixels();
                let (d, team) = (upstream.pointer(), Team::of_rows(outputs, batch * pixels));
                let arguments =
                    arguments![d, target, batch, outputs, pixels, team.size, accumulate];
                cuda.launch(kernel("channel_sums"), element, team.launch, arguments)
            })?;
        }
        if batch == 0 {
            // Nothing was multiplied: the gradient of the weight is zero.
            return gradients.with_cuda(&self.weight, Element::F32, |target, accumulate| {
                if accumulate {
                    Ok(())
                } else {
                    cuda.zero(target, 4 * self.weight.shape().elements())
                }
            });
        }
        gradients.with_cuda(&self.weight, Element::F32, |target, accumulate| {
            self.weight_gradient(cuda, &upstream, target, accumulate)
        })?;
        gradients.with_cuda(&self.x, element, |target, accumulate| {
            self.image_gradient(cuda, &upstream, target, accumulate)
        })
    }
}

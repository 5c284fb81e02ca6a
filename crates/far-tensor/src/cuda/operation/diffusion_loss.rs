//! The loss of a diffusion network that learns its variance on a GPU. Losses are f32; targets,
//! clean data and weights are read as f32.

use super::loss::weights_of;
use crate::cuda::{Cuda, CudaBuffer, Element, Launch, Program, arguments, programs};
use crate::gradient::GradientStore;
use crate::operation::{BoundCoefficients, DiffusionLoss, DiffusionTarget};
use crate::storage::Storage;
use crate::tensor::Origin;
use crate::{Result, Shape, Tape, Tensor};
use std::sync::Arc;

programs! {
    /// Error and bound by sample.
    DIFFUSION_LOSS = "diffusion_loss": "block_total.cu", "diffusion_loss.cu";
}

/// Elements of a sample that a thread takes, about.
const ELEMENTS: usize = 4;
const THREADS: usize = 256;

struct Samples {
    output: Tensor,
    target: Tensor,
    clean: Tensor,
    weights: Option<Tensor>,
    /// Four doubles for each sample.
    coefficients: CudaBuffer,
    batch: usize,
    bound_weight: f32,
}

/// Room for doubles.
fn doubles(cuda: &Cuda, count: usize) -> Result<CudaBuffer> {
    cuda.buffer(Element::F32, 2 * count)
}

impl Tape {
    /// See [`Tape::diffusion_loss`].
    pub(crate) fn diffusion_loss_cuda(
        &mut self,
        cuda: &Cuda,
        output: &Tensor,
        target: DiffusionTarget<'_>,
        coefficients: &[BoundCoefficients],
        bound_weight: f32,
    ) -> Result<DiffusionLoss> {
        let batch = coefficients.len();
        let rows: Vec<[f64; 4]> = coefficients
            .iter()
            .map(|of| {
                let first = f64::from(u8::from(of.first));
                [of.log_variance_low, of.log_variance_high, of.mean_scale, first]
            })
            .collect();
        let table = doubles(cuda, 4 * batch)?;
        cuda.write(table.pointer(), &rows)?;
        let samples = Samples {
            output: output.clone(),
            target: target.target.detach(),
            clean: target.clean.detach(),
            weights: target.weights.map(Tensor::detach),
            coefficients: table,
            batch,
            bound_weight,
        };
        let [loss, error, bound] = samples.forward(cuda)?;
        let shape = Shape::new(&[batch]);
        let data = |buffer: CudaBuffer| {
            let storage: Arc<Storage> = Arc::new(buffer.into());
            Tensor::new(shape, storage, 0, Origin::Constant)
        };
        let loss = self.record_cuda("diffusion_loss", shape, loss, &[output], |_| {
            move |cuda, upstream, gradients| samples.backward(cuda, upstream, gradients)
        });
        Ok(DiffusionLoss { loss, error: data(error), bound: data(bound) })
    }
}

impl Samples {
    fn elements(&self) -> usize {
        self.target.shape().elements() / self.batch
    }

    /// Blocks of a sample.
    fn blocks(&self) -> usize {
        self.elements().div_ceil(THREADS * ELEMENTS)
    }

    /// Addresses of the output, the target, the clean data, the weights and the coefficients.
    fn places(&self, cuda: &Cuda, element: Element) -> Result<[u64; 5]> {
        Ok([
            self.output.pointer(cuda, element)?,
            self.target.pointer(cuda, Element::F32)?,
            self.clean.pointer(cuda, Element::F32)?,
            weights_of(cuda, self.weights.as_ref())?,
            self.coefficients.pointer(),
        ])
    }

    /// Loss, error and bound of each sample.
    fn forward(&self, cuda: &Cuda) -> Result<[CudaBuffer; 3]> {
        let element = self.output.element(cuda);
        let (batch, elements, blocks) = (self.batch, self.elements(), self.blocks());
        let partials = doubles(cuda, 2 * batch * blocks)?;
        let [output, target, clean, weights, table] = self.places(cuda, element)?;
        let sums = partials.pointer();
        let arguments = arguments![output, target, clean, weights, table, sums, elements, blocks];
        let launch = Launch::blocks(batch * blocks, THREADS);
        cuda.launch(DIFFUSION_LOSS.kernel("diffusion_partials"), element, launch, arguments)?;
        let part = || cuda.buffer(Element::F32, batch);
        let parts = [part()?, part()?, part()?];
        let [loss, error, bound] = parts.each_ref().map(|part| part.pointer());
        let weight = self.bound_weight;
        let arguments = arguments![sums, loss, error, bound, batch, elements, blocks, weight];
        let launch = Launch::elements(batch);
        cuda.launch_plain(DIFFUSION_LOSS.kernel("diffusion_finish"), launch, arguments)?;
        Ok(parts)
    }

    fn backward(
        &self,
        cuda: &Cuda,
        upstream: CudaBuffer,
        gradients: &mut GradientStore<'_>,
    ) -> Result<()> {
        let element = self.output.element(cuda);
        let (elements, blocks) = (self.elements(), self.blocks());
        let [output, target, clean, weights, table] = self.places(cuda, element)?;
        let (d, weight) = (upstream.pointer(), self.bound_weight);
        gradients.with_cuda(&self.output, element, |gradient, accumulate| {
            let arguments = arguments![
                d, output, target, clean, weights, table, gradient, elements, blocks, weight,
                accumulate
            ];
            let launch = Launch::blocks(self.batch * blocks, THREADS);
            cuda.launch(DIFFUSION_LOSS.kernel("diffusion_backward"), element, launch, arguments)
        })
    }
}

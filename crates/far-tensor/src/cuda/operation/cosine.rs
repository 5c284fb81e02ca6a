//! Rows of length one and cosines on a GPU.

use super::team::Team;
use crate::cuda::{Cuda, Element, Program, arguments, programs};
use crate::{Result, Shape, Tape, Tensor};

programs! {
    /// Rows of length one and cosines.
    COSINE = "cosine": "team.cuh", "cosine.cu";
}

impl Tape {
    /// See [`Tape::normalize_rows`].
    pub(crate) fn normalize_rows_cuda(
        &mut self,
        cuda: &Cuda,
        x: &Tensor,
        epsilon: f32,
    ) -> Result<Tensor> {
        let element = x.element(cuda);
        let (rows, width) = (x.shape().rows(), x.shape().last());
        let output = cuda.buffer(element, rows * width)?;
        let team = Team::of_rows(rows, width);
        let source = x.pointer(cuda, element)?;
        let arguments = arguments![source, output.pointer(), rows, width, epsilon, team.size];
        cuda.launch(COSINE.kernel("normalize"), element, team.launch, arguments)?;
        Ok(self.record_cuda("normalize_rows", *x.shape(), output, &[x], |_| {
            let x = x.clone();
            move |cuda, upstream, gradients| {
                let (element, d) = (upstream.element(), upstream.pointer());
                let source = x.pointer(cuda, element)?;
                let kernel = COSINE.kernel("normalize_backward");
                gradients.with_cuda(&x, element, |target, accumulate| {
                    let arguments =
                        arguments![d, source, target, rows, width, epsilon, team.size, accumulate];
                    cuda.launch(kernel, element, team.launch, arguments)
                })
            }
        }))
    }

    /// See [`Tape::cosine`]; `sizes` are batch, keys and width.
    pub(crate) fn cosine_cuda(
        &mut self,
        cuda: &Cuda,
        sizes: [usize; 3],
        [query, keys]: [&Tensor; 2],
        epsilon: f32,
    ) -> Result<Tensor> {
        let element = cuda.common_element(&[query, keys]);
        let [batch, count, width] = sizes;
        let rows = batch * count;
        let output = cuda.buffer(element, rows)?;
        let team = Team::of_rows(rows, width);
        let (q, k) = (query.pointer(cuda, element)?, keys.pointer(cuda, element)?);
        let arguments = arguments![q, k, output.pointer(), rows, count, width, epsilon, team.size];
        cuda.launch(COSINE.kernel("cosine"), element, team.launch, arguments)?;
        let shape = Shape::new(&[batch, count]);
        Ok(self.record_cuda("cosine", shape, output, &[query, keys], |_| {
            let (query, keys) = (query.clone(), keys.clone());
            move |cuda, upstream, gradients| {
                let (element, d) = (upstream.element(), upstream.pointer());
                let (q, k) = (query.pointer(cuda, element)?, keys.pointer(cuda, element)?);
                let factors = cuda.buffer(Element::F32, 2 * rows)?;
                let of_keys = gradients.take_cuda(&keys, element)?;
                let (target, accumulate) =
                    of_keys.as_ref().map_or((0, false), |keys| (keys.pointer, keys.accumulate));
                let kept = factors.pointer();
                let arguments = arguments![
                    d, q, k, target, kept, rows, count, width, epsilon, team.size, accumulate
                ];
                cuda.launch(COSINE.kernel("cosine_keys"), element, team.launch, arguments)?;
                if let Some(of_keys) = of_keys {
                    gradients.give_cuda(&keys, of_keys)?;
                }
                let team = Team::of_rows(batch, width);
                gradients.with_cuda(&query, element, |target, accumulate| {
                    let arguments = arguments![
                        q, k, kept, target, batch, count, width, epsilon, team.size, accumulate
                    ];
                    cuda.launch(COSINE.kernel("cosine_query"), element, team.launch, arguments)
                })
            }
        }))
    }
}

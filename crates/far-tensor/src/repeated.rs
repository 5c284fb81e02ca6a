//! Repeated work: on a GPU recorded once as a graph, then launched as a whole.

use crate::cuda::{Cuda, Graph};
use crate::tensor::Origin;
use crate::{Device, Result, Tape, Tensor};
use std::sync::Arc;

/// A function of tensors that is computed many times, without gradients.
///
/// With short kernels a GPU waits for the CPU: launching one takes longer than running it. Here the
/// first call records a graph, and later calls launch it as a whole. Results are the same bits. If
/// the GPU has not yet tuned its products, the first call computes normally and the second records.
/// Work that cannot be recorded, for example because it reads values, is computed normally at each
/// call; so is all work on the CPU. During recording such values are NaN.
///
/// A recording keeps its working memory until this is dropped.
///
/// ```
/// use far_tensor::{Activation, Device, Repeated, Tensor};
/// let mut step = Repeated::new(&Device::cpu(), |tape, inputs| {
///     let [x, y] = inputs else { unreachable!("two are given") };
///     let sum = tape.add(x, y)?;
///     tape.activate(&sum, Activation::Tanh)
/// });
/// let y = Tensor::from_slice(&[0.5, -0.5], [2])?;
/// let mut x = Tensor::zeros([2]);
/// for _ in 0..3 {
///     x = step.run(&[&x, &y])?;
/// }
/// assert_eq!(x.values()[0], -x.values()[1]);
/// # Ok::<(), far_tensor::Error>(())
/// ```
pub struct Repeated<W> {
    device: Device,
    work: W,
    state: State,
}

enum State {
    /// Nothing was computed yet.
    Fresh,
    /// Computed once: outside tensors are on the GPU, and an algorithm is chosen for each product.
    Known,
    Recorded(Recorded),
    /// It cannot be recorded.
    Plain,
}

/// Inputs and output of a recording; `Graph` comes first, so that it is dropped first.
struct Recorded {
    graph: Graph,
    inputs: Vec<Tensor>,
    output: Tensor,
}

impl<W: Fn(&mut Tape, &[Tensor]) -> Result<Tensor>> Repeated<W> {
    /// Work on its inputs and captured values; the same inputs must give the same result.
    pub fn new(device: &Device, work: W) -> Self {
        Self { device: device.clone(), work, state: State::Fresh }
    }

    /// The result for these inputs.
    ///
    /// # Errors
    /// Those of the work, or if the GPU is out of memory or has failed.
    pub fn run(&mut self, inputs: &[&Tensor]) -> Result<Tensor> {
        let inputs: Vec<Tensor> = inputs.iter().map(|input| input.detach()).collect();
        // Kernels that are timed one by one must be launched one by one.
        let Some(cuda) = self.device.gpu().filter(|cuda| !cuda.is_timed()).cloned() else {
            return self.compute(&inputs);
        };
        let next = match &self.state {
            State::Recorded(recorded) if recorded.fits(&cuda, &inputs) => {
                return recorded.run(&cuda, &inputs);
            }
            State::Recorded(_) | State::Plain => return self.compute(&inputs),
            State::Fresh => State::Known,
            State::Known => State::Plain,
        };
        if let Ok(recorded) = self.record(&cuda, &inputs) {
            let output = recorded.run(&cuda, &inputs);
            self.state = State::Recorded(recorded);
            return output;
        }
        let output = self.compute(&inputs)?;
        self.state = next;
        Ok(output)
    }

    fn compute(&self, inputs: &[Tensor]) -> Result<Tensor> {
        (self.work)(&mut Tape::inference(&self.device), inputs)
    }

    fn record(&self, cuda: &Cuda, inputs: &[Tensor]) -> Result<Recorded> {
        let (graph, (inputs, output)) = Graph::record(cuda, || {
            let fixed = inputs.iter().map(|input| {
                let buffer = cuda.pool.take(input.element(cuda), input.shape().elements())?;
                Ok(Tensor::new(*input.shape(), Arc::new(buffer.into()), 0, Origin::Constant))
            });
            let fixed = fixed.collect::<Result<Vec<_>>>()?;
            let output = self.compute(&fixed)?;
            // Results of the CPU would not be recomputed.
            output.pointer(cuda, output.element(cuda))?;
            Ok((fixed, output))
        })?;
        Ok(Recorded { graph, inputs, output })
    }
}

impl Recorded {
    fn fits(&self, cuda: &Cuda, inputs: &[Tensor]) -> bool {
        let like = |own: &Tensor, given: &Tensor| {
            own.shape() == given.shape() && own.element(cuda) == given.element(cuda)
        };
        self.inputs.len() == inputs.len()
            && self.inputs.iter().zip(inputs).all(|(own, given)| like(own, given))
    }

    fn run(&self, cuda: &Cuda, inputs: &[Tensor]) -> Result<Tensor> {
        for (own, given) in self.inputs.iter().zip(inputs) {
            own.copy_from(cuda, given)?;
        }
        self.graph.launch(cuda)?;
        // The next launch will write to the same address.
        let element = self.output.element(cuda);
        let buffer = cuda.pool.take(element, self.output.shape().elements())?;
        let shape = *self.output.shape();
        let output = Tensor::new(shape, Arc::new(buffer.into()), 0, Origin::Constant);
        output.copy_from(cuda, &self.output)?;
        Ok(output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gpus, normal};
    use crate::{Attention, Modulation};
    use proptest::prelude::*;

    fn devices() -> impl Iterator<Item = Device> {
        std::iter::once(Device::cpu()).chain(gpus().iter().map(|(_, device)| device.clone()))
    }

    /// A transformer block over x [2, tokens, width] with a modulation [2, 3, width].
    fn block(tape: &mut Tape, inputs: &[Tensor], weights: &[Tensor; 3]) -> Result<Tensor> {
        let [x, vectors] = inputs else { unreachable!("two are given") };
        let modulation = Modulation { vectors, shift: 0, scale: 1 };
        let y = tape.modulated_norm(x, None, modulation, 1e-5)?;
        let qkv = tape.linear(&y, &weights[0], None)?;
        let y = tape.self_attention(&qkv, Attention { heads: 1, groups: 2, key_mask: None })?;
        let x = tape.gated_residual(x, &y, vectors, 2)?;
        let y = tape.linear_gelu(&x, &weights[1], Some(&weights[2]))?;
        tape.weighted_sum(&x, 0.9, &y, 0.3)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn repeated_work_gives_the_same_bits(
            tokens in 1usize..80, eighths in 1usize..9, seed in 0u64..1000,
        ) {
            let width = 8 * eighths;
            for device in devices() {
                let weights = [
                    normal([width, 3 * width], seed),
                    normal([width, width], seed + 1),
                    normal([width], seed + 2),
                ];
                let mut step = Repeated::new(&device, |tape, inputs| block(tape, inputs, &weights));
                let mut x = normal([2, tokens, width], seed + 3);
                for round in 0..5 {
                    let vectors = normal([2, 3, width], seed + 4 + round);
                    let inputs = [x.clone(), vectors.clone()];
                    let expected = block(&mut Tape::inference(&device), &inputs, &weights).unwrap();
                    let found = step.run(&[&x, &vectors]).unwrap();
                    prop_assert_eq!(found.shape(), expected.shape());
                    prop_assert_eq!(found.values(), expected.values(), "round {} on {}", round, device);
                    x = found;
                }
                let recorded = matches!(step.state, State::Recorded(_));
                prop_assert_eq!(recorded, device.is_cuda());
            }
        }
    }

    /// Later results do not overwrite earlier ones, and inputs may change their shape.
    #[test]
    fn results_are_not_overwritten_and_shapes_may_change() {
        for device in devices() {
            let mut step = Repeated::new(&device, |tape, inputs| tape.add(&inputs[0], &inputs[1]));
            let inputs: Vec<[Tensor; 2]> = [6, 6, 6, 3, 6, 6]
                .into_iter()
                .zip(0..)
                .map(|(rows, seed)| [normal([rows, 8], seed), normal([rows, 8], 50 + seed)])
                .collect();
            let results: Vec<Tensor> =
                inputs.iter().map(|[a, b]| step.run(&[a, b]).unwrap()).collect();
            for ([a, b], found) in inputs.iter().zip(results) {
                let expected = Tape::inference(&device).add(a, b).unwrap();
                assert_eq!(found.values(), expected.values());
            }
        }
    }

    /// Work that cannot be recorded is still computed.
    #[test]
    fn work_that_looks_at_values_is_not_recorded() {
        for device in devices() {
            let reading = |tape: &mut Tape, inputs: &[Tensor]| {
                let sum = tape.add(&inputs[0], &inputs[0])?;
                tape.affine(&inputs[0], sum.values()[0], 0.0)
            };
            let uploading = |tape: &mut Tape, inputs: &[Tensor]| {
                let more = Tensor::from_slice(&[1.0, 2.0], [2])?;
                tape.add(&inputs[0], &more)
            };
            let x = Tensor::from_slice(&[1.0, 3.0], [2]).unwrap();
            let mut reading = Repeated::new(&device, reading);
            let mut uploading = Repeated::new(&device, uploading);
            for _ in 0..4 {
                assert_eq!(reading.run(&[&x]).unwrap().values(), [2.0, 6.0]);
                assert_eq!(uploading.run(&[&x]).unwrap().values(), [2.0, 5.0]);
            }
            for state in [&reading.state, &uploading.state] {
                assert!(!matches!(state, State::Recorded(_)));
            }
        }
    }

    /// Errors of the work are reported, whichever call they occur in.
    #[test]
    fn errors_of_the_work_are_told() {
        for device in devices() {
            let mut step = Repeated::new(&device, |tape, inputs| tape.add(&inputs[0], &inputs[1]));
            let (x, y) = (Tensor::zeros([2]), Tensor::zeros([3]));
            for _ in 0..4 {
                assert!(step.run(&[&x, &y]).is_err());
            }
            assert_eq!(step.run(&[&x, &x]).unwrap().values(), [0.0, 0.0]);
        }
    }
}

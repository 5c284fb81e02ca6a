//! The tape: records operations, so that gradients can be computed.
//!
//! Operations are methods of [`Tape`], one file each under `operation/`. A recording tape keeps,
//! for every operation whose inputs need a gradient, what its backward needs and nothing else; an
//! inference tape keeps nothing, so an intermediate result is freed as soon as the caller drops it.

use crate::buffer::Buffer;
use crate::cuda::{Cuda, CudaBuffer, Element};
use crate::gradient::{GradientStore, Gradients};
use crate::storage::Storage;
use crate::tensor::Origin;
use crate::{Device, Error, Result, Shape, Tensor};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Turns the gradient of a recorded operation's output into gradients of its inputs.
type HostBackward = dyn Fn(Buffer, &mut GradientStore<'_>) + Send;
/// The same on a GPU, where the gradient has the element type of the output.
type CudaBackward = dyn Fn(&Cuda, CudaBuffer, &mut GradientStore<'_>) -> Result<()> + Send;

enum NodeBackward {
    /// A variable.
    None,
    Host(Box<HostBackward>),
    Cuda(Element, Box<CudaBackward>),
}

struct Node {
    operation: &'static str,
    backward: NodeBackward,
}

/// Records operations and runs them backward.
///
/// ```
/// use far_tensor::{Device, Tape, Tensor};
/// let mut tape = Tape::recording(&Device::cpu());
/// let x = tape.variable(&Tensor::from_slice(&[1.0, -2.0, 3.0], [3])?);
/// let square = tape.multiply(&x, &x)?;
/// let loss = tape.mean(&square)?;
/// let gradients = tape.backward(&loss, 1.0, &mut [])?;
/// assert_eq!(gradients.of(&x), Some(&[2.0 / 3.0, -4.0 / 3.0, 2.0][..]));
/// # Ok::<(), far_tensor::Error>(())
/// ```
pub struct Tape {
    device: Device,
    number: u64,
    recording: bool,
    checking: bool,
    nodes: Vec<Node>,
    culprit: Option<String>,
    /// When the last operation ended, if times are recorded.
    clock: Option<Instant>,
}

/// Gradients of the variables of a tape, after [`Tape::backward`].
pub struct VariableGradients {
    tape: u64,
    nodes: Vec<Option<Buffer>>,
}

impl VariableGradients {
    /// The gradient of a variable; `None` if the loss does not depend on it.
    pub fn of(&self, variable: &Tensor) -> Option<&[f32]> {
        match variable.origin {
            Origin::Node { tape, index } if tape == self.tape => self.nodes[index].as_deref(),
            _ => None,
        }
    }
}

impl Tape {
    /// A tape that records, for training.
    pub fn recording(device: &Device) -> Self {
        Self::new(device, true, false)
    }

    /// A tape that keeps nothing, for inference.
    pub fn inference(device: &Device) -> Self {
        Self::new(device, false, false)
    }

    /// A recording tape that checks every result and gradient and remembers the first operation
    /// with one that is not finite; slower, for debugging.
    pub fn checking(device: &Device) -> Self {
        Self::new(device, true, true)
    }

    fn new(device: &Device, recording: bool, checking: bool) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let device = device.clone();
        let clock = device.profile().map(|_| Instant::now());
        Self { device, number, recording, checking, nodes: Vec::new(), culprit: None, clock }
    }

    /// The device that the operations run on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The GPU that the operations run on, if it is one.
    pub(crate) fn cuda(&self) -> Option<Arc<Cuda>> {
        self.device.gpu().cloned()
    }

    /// The first operation whose result or gradient was not finite, if this tape checks for it.
    pub fn culprit(&self) -> Option<&str> {
        self.culprit.as_deref()
    }

    /// The number of operations recorded so far.
    pub fn recorded(&self) -> usize {
        self.nodes.len()
    }

    /// A tensor with the same values whose gradient [`Tape::backward`] reports.
    pub fn variable(&mut self, values: &Tensor) -> Tensor {
        let mut buffer = self.device.buffer(values.shape().elements());
        buffer.copy_from_slice(values.values());
        let index = self.nodes.len();
        self.nodes.push(Node { operation: "variable", backward: NodeBackward::None });
        let origin = Origin::Node { tape: self.number, index };
        Tensor::of_host(*values.shape(), buffer, origin)
    }

    /// Whether a gradient should flow to `tensor` on this tape.
    pub(crate) fn wants(&self, tensor: &Tensor) -> bool {
        match tensor.origin {
            Origin::Constant => false,
            Origin::Parameter { .. } => self.recording,
            Origin::Node { tape, .. } => {
                assert_eq!(
                    tape, self.number,
                    "a tensor of one tape was given to another: detach it"
                );
                self.recording
            }
        }
    }

    /// Records an operation's result; `backward` is made only if it will be needed.
    pub(crate) fn record<B: Fn(Buffer, &mut GradientStore<'_>) + Send + 'static>(
        &mut self,
        operation: &'static str,
        shape: Shape,
        buffer: Buffer,
        inputs: &[&Tensor],
        backward: impl FnOnce(&Tensor) -> B,
    ) -> Tensor {
        if self.checking && self.culprit.is_none() && !buffer.iter().all(|x| x.is_finite()) {
            let index = self.nodes.len();
            self.culprit = Some(format!("the result of {operation} (operation {index})"));
        }
        if let (Some(profile), Some(clock)) = (self.device.profile(), &mut self.clock) {
            // The time since the last operation ended belongs to this one.
            let now = Instant::now();
            profile.add(operation, now - *clock);
            *clock = now;
        }
        let storage = Arc::new(buffer.into());
        self.keep(operation, shape, storage, inputs, |output| {
            NodeBackward::Host(Box::new(backward(output)))
        })
    }

    /// [`Tape::record`] for a result on a GPU.
    pub(crate) fn record_cuda<B>(
        &mut self,
        operation: &'static str,
        shape: Shape,
        buffer: CudaBuffer,
        inputs: &[&Tensor],
        backward: impl FnOnce(&Tensor) -> B,
    ) -> Tensor
    where
        B: Fn(&Cuda, CudaBuffer, &mut GradientStore<'_>) -> Result<()> + Send + 'static,
    {
        let element = buffer.element();
        let storage: Arc<Storage> = Arc::new(buffer.into());
        if self.checking && self.culprit.is_none() {
            let finite = storage.host().iter().all(|x| x.is_finite());
            let index = self.nodes.len();
            self.culprit =
                (!finite).then(|| format!("the result of {operation} (operation {index})"));
        }
        self.keep(operation, shape, storage, inputs, |output| {
            NodeBackward::Cuda(element, Box::new(backward(output)))
        })
    }

    fn keep(
        &mut self,
        operation: &'static str,
        shape: Shape,
        storage: Arc<Storage>,
        inputs: &[&Tensor],
        backward: impl FnOnce(&Tensor) -> NodeBackward,
    ) -> Tensor {
        let wanted = inputs.iter().any(|input| self.wants(input));
        if !wanted {
            return Tensor::new(shape, storage, 0, Origin::Constant);
        }
        let origin = Origin::Node { tape: self.number, index: self.nodes.len() };
        let output = Tensor::new(shape, storage, 0, origin);
        // The node keeps the values without their origin: it does not need its own gradient.
        let backward = backward(&output.detach());
        self.nodes.push(Node { operation, backward });
        output
    }

    /// Runs the tape backward from a one-element `loss`, whose gradient is `scale`.
    ///
    /// Gradients of parameters are added to the given `arenas`; parameters of other arenas get
    /// none. Use a `scale` of 1/n to average over n micro-batches.
    ///
    /// # Errors
    /// If `loss` does not have exactly one element, or a GPU is out of memory or has failed.
    pub fn backward(
        &mut self,
        loss: &Tensor,
        scale: f32,
        arenas: &mut [&mut Gradients],
    ) -> Result<VariableGradients> {
        loss.expect("backward", loss.shape().elements() == 1, || "a loss has one element".into())?;
        let mut store = GradientStore::new(&self.device, self.number, self.nodes.len(), arenas)?;
        store.check(self.checking && self.culprit.is_none());
        if self.wants(loss) {
            let mut seed = self.device.buffer(1);
            seed[0] = scale;
            store.add_whole(loss, seed);
        }
        for index in (0..self.nodes.len()).rev() {
            let node = &mut self.nodes[index];
            store.enter(node.operation, index);
            // A node's data is freed as soon as its backward is done.
            match std::mem::replace(&mut node.backward, NodeBackward::None) {
                NodeBackward::None => {}
                NodeBackward::Host(backward) => {
                    let Some(upstream) = store.upstream(index) else { continue };
                    let start = self.device.profile().map(|_| Instant::now());
                    backward(upstream, &mut store);
                    if let (Some(profile), Some(start)) = (self.device.profile(), start) {
                        profile.add(node.operation, start.elapsed());
                    }
                }
                NodeBackward::Cuda(element, backward) => {
                    let Some(upstream) = store.upstream_cuda(index, element)? else { continue };
                    let cuda = self.device.gpu().expect("it recorded the node");
                    backward(cuda, upstream, &mut store)?;
                }
            }
        }
        self.nodes.clear();
        let (nodes, culprit) = store.finish();
        self.culprit = self.culprit.take().or(culprit);
        Ok(VariableGradients { tape: self.number, nodes })
    }
}

impl Error {
    pub(crate) fn mismatch(
        operation: &'static str,
        [left, right]: [&Shape; 2],
        requirement: &'static str,
    ) -> Self {
        Self::Mismatch { operation, left: *left, right: *right, requirement }
    }

    /// [`Error::mismatch`] unless the shapes fit.
    pub(crate) fn expect_fit(
        fit: bool,
        operation: &'static str,
        shapes: [&Shape; 2],
        requirement: &'static str,
    ) -> Result<()> {
        if fit { Ok(()) } else { Err(Self::mismatch(operation, shapes, requirement)) }
    }

    /// What a refusal of the system becomes.
    pub fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::File { action, path: path.into(), source }
    }

    pub(crate) fn non_finite(quantity: &'static str, value: f64, culprit: Option<&str>) -> Self {
        let culprit = culprit.unwrap_or("none: the replay was finite").to_owned();
        Self::NonFinite { quantity, value, culprit }
    }
}

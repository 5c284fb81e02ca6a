//! The gradients of one backward pass, lent to each operation's backward in turn.

use super::{Gradients, ParameterSlot, SlotPlace};
use crate::buffer::Buffer;
use crate::cuda::{Cuda, CudaBuffer, Element};
use crate::parallel::Disjoint;
use crate::tensor::Origin;
use crate::{Device, Result, Tensor};
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

enum Place<'a> {
    Node(Buffer),
    Parameter(&'a mut [f32]),
    /// A copy of a parameter's gradient on a GPU.
    Staged(Buffer),
}

/// The gradient of one input, borrowed by a backward on the host.
pub(crate) struct GradientBuffer<'a> {
    place: Place<'a>,
    /// Whether to add to the existing values; otherwise every element must be written.
    pub accumulate: bool,
}

impl Deref for GradientBuffer<'_> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match &self.place {
            Place::Node(buffer) | Place::Staged(buffer) => buffer,
            Place::Parameter(values) => values,
        }
    }
}

impl DerefMut for GradientBuffer<'_> {
    fn deref_mut(&mut self) -> &mut [f32] {
        match &mut self.place {
            Place::Node(buffer) | Place::Staged(buffer) => buffer,
            Place::Parameter(values) => values,
        }
    }
}

enum CudaPlace {
    Node(CudaBuffer),
    Parameter,
    /// Of another element type than the gradient itself, to which it is added in the end.
    Temporary(CudaBuffer),
}

/// The gradient of one input, borrowed by a backward on a GPU.
pub(crate) struct CudaGradient {
    place: CudaPlace,
    /// Its address.
    pub pointer: u64,
    /// Whether to add to the existing values; otherwise every element must be written.
    pub accumulate: bool,
}

/// A gradient of a node, where it was computed.
enum NodeGradient {
    Host(Buffer),
    Cuda(CudaBuffer),
}

/// Sums over the rows of a gradient, which are the gradient of a bias, in parts [parts, width] that are
/// still to be added up; in f32.
pub(crate) struct RowSums {
    /// The parts.
    pub partials: CudaBuffer,
    /// How many there are.
    pub parts: usize,
    /// Sums of each.
    pub width: usize,
}

/// All gradients of one backward pass.
pub(crate) struct GradientStore<'a> {
    device: Device,
    tape: u64,
    nodes: Vec<Option<NodeGradient>>,
    /// Of gradients of nodes, where what made them had their sums at hand.
    row_sums: HashMap<usize, RowSums>,
    arenas: Vec<(u64, Vec<ParameterSlot<'a>>)>,
    checking: bool,
    current: (&'static str, usize),
    culprit: Option<String>,
}

impl<'a> GradientStore<'a> {
    pub(crate) fn new(
        device: &Device,
        tape: u64,
        nodes: usize,
        arenas: &'a mut [&mut Gradients],
    ) -> Result<Self> {
        let slots = arenas.iter_mut().map(|arena| match device.gpu() {
            Some(cuda) => Ok((arena.arena, arena.split_on(cuda)?)),
            None => Ok((arena.arena, arena.split())),
        });
        let arenas = slots.collect::<Result<_>>()?;
        let nodes = std::iter::repeat_with(|| None).take(nodes).collect();
        let current = ("loss", 0);
        let device = device.clone();
        let row_sums = HashMap::new();
        Ok(Self { device, tape, nodes, row_sums, arenas, checking: false, current, culprit: None })
    }

    pub(crate) fn check(&mut self, checking: bool) {
        self.checking = checking;
    }

    pub(crate) fn enter(&mut self, operation: &'static str, index: usize) {
        self.current = (operation, index);
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    fn cuda(&self) -> &Arc<Cuda> {
        self.device.gpu().expect("gradients are on a GPU only where the device is one")
    }

    fn to_host(&self, gradient: NodeGradient) -> Buffer {
        match gradient {
            NodeGradient::Host(buffer) => buffer,
            NodeGradient::Cuda(source) => {
                let mut buffer = self.device.buffer(source.length());
                source.read(&mut buffer).unwrap_or_else(|error| panic!("{error}"));
                buffer
            }
        }
    }

    fn to_cuda(&self, gradient: NodeGradient, element: Element) -> Result<CudaBuffer> {
        match gradient {
            NodeGradient::Cuda(buffer) if buffer.element() == element => Ok(buffer),
            NodeGradient::Cuda(buffer) => self.cuda().converted(&buffer, element),
            NodeGradient::Host(buffer) => {
                let uploaded = self.cuda().upload(&buffer)?;
                self.to_cuda(NodeGradient::Cuda(uploaded), element)
            }
        }
    }

    /// The gradient of a node's output, for a backward on the host.
    pub(crate) fn upstream(&mut self, index: usize) -> Option<Buffer> {
        let gradient = self.nodes[index].take()?;
        Some(self.to_host(gradient))
    }

    /// The gradient of a node's output, for a backward on a GPU.
    pub(crate) fn upstream_cuda(
        &mut self,
        index: usize,
        element: Element,
    ) -> Result<Option<CudaBuffer>> {
        let Some(gradient) = self.nodes[index].take() else { return Ok(None) };
        self.to_cuda(gradient, element).map(Some)
    }

    pub(crate) fn finish(mut self) -> (Vec<Option<Buffer>>, Option<String>) {
        let nodes = std::mem::take(&mut self.nodes);
        let nodes = nodes.into_iter().map(|node| node.map(|gradient| self.to_host(gradient)));
        (nodes.collect(), self.culprit)
    }

    /// Borrows the gradient of `input` to write or add to; `None` if it is not needed. Return it
    /// with [`GradientStore::give`].
    pub(crate) fn take(&mut self, input: &Tensor) -> Option<GradientBuffer<'a>> {
        match input.origin {
            Origin::Constant => None,
            Origin::Node { tape, index } => {
                debug_assert_eq!(tape, self.tape);
                self.row_sums.remove(&index);
                let kept = self.nodes[index].take().map(|gradient| self.to_host(gradient));
                let accumulate = kept.is_some();
                let elements = input.shape().elements();
                let buffer = kept.unwrap_or_else(|| self.device.buffer(elements));
                Some(GradientBuffer { place: Place::Node(buffer), accumulate })
            }
            Origin::Parameter { arena, index } => {
                let device = self.device.clone();
                let slot = self.parameter_slot(arena, index)?;
                let accumulate = *slot.written;
                let place = match &mut slot.place {
                    SlotPlace::Host(values) => {
                        Place::Parameter(values.take().expect("each gradient is given back"))
                    }
                    SlotPlace::Cuda { pointer, length } => {
                        let mut buffer = device.buffer(*length);
                        if accumulate {
                            let context = device.gpu().expect("the arena is on it").context();
                            let read = context.read(*pointer, &mut buffer);
                            read.unwrap_or_else(|error| panic!("{error}"));
                        }
                        Place::Staged(buffer)
                    }
                };
                Some(GradientBuffer { place, accumulate })
            }
        }
    }

    /// Returns what [`GradientStore::take`] lent.
    pub(crate) fn give(&mut self, input: &Tensor, buffer: GradientBuffer<'a>) {
        self.examine(|| buffer.iter().all(|x| x.is_finite()));
        match (input.origin, buffer.place) {
            (Origin::Node { index, .. }, Place::Node(values)) => {
                self.nodes[index] = Some(NodeGradient::Host(values));
            }
            (Origin::Parameter { arena, index }, place) => {
                let device = self.device.clone();
                let slot = self.parameter_slot(arena, index).expect("it was taken from here");
                *slot.written = true;
                match (&mut slot.place, place) {
                    (SlotPlace::Host(home), Place::Parameter(values)) => *home = Some(values),
                    (SlotPlace::Cuda { pointer, .. }, Place::Staged(values)) => {
                        let cuda = device.gpu().expect("the arena is on it");
                        let written = cuda.write(*pointer, &values);
                        written.unwrap_or_else(|error| panic!("{error}"));
                    }
                    _ => unreachable!("a gradient goes back to where it was taken from"),
                }
            }
            _ => unreachable!("a gradient goes back to the input it was taken for"),
        }
    }

    /// Records the current operation as the culprit unless its gradient is finite.
    fn examine(&mut self, is_finite: impl FnOnce() -> bool) {
        if self.checking && self.culprit.is_none() && !is_finite() {
            let (operation, index) = self.current;
            self.culprit = Some(format!("a gradient made by {operation} (operation {index})"));
        }
    }

    /// [`GradientStore::take`] for a backward on a GPU, with elements of type `element`. Return it
    /// with [`GradientStore::give_cuda`].
    pub(crate) fn take_cuda(
        &mut self,
        input: &Tensor,
        element: Element,
    ) -> Result<Option<CudaGradient>> {
        let length = input.shape().elements();
        let (own, node) = match input.origin {
            Origin::Constant => return Ok(None),
            Origin::Node { tape, index } => {
                debug_assert_eq!(tape, self.tape);
                self.row_sums.remove(&index);
                (input.element(self.cuda()), Some(index))
            }
            Origin::Parameter { arena, index } => {
                let Some(slot) = self.parameter_slot(arena, index) else { return Ok(None) };
                let SlotPlace::Cuda { pointer, .. } = slot.place else {
                    unreachable!("the arenas of a GPU's tape are on it")
                };
                let accumulate = *slot.written;
                if element == Element::F32 {
                    let place = CudaPlace::Parameter;
                    return Ok(Some(CudaGradient { place, pointer, accumulate }));
                }
                (Element::F32, None)
            }
        };
        let place = match node {
            Some(index) if own == element => {
                let kept = self.nodes[index].take();
                let accumulate = kept.is_some();
                let buffer = match kept {
                    Some(gradient) => self.to_cuda(gradient, own)?,
                    None => self.cuda().buffer(own, length)?,
                };
                let pointer = buffer.pointer();
                let place = CudaPlace::Node(buffer);
                return Ok(Some(CudaGradient { place, pointer, accumulate }));
            }
            _ => self.cuda().buffer(element, length)?,
        };
        let pointer = place.pointer();
        let place = CudaPlace::Temporary(place);
        Ok(Some(CudaGradient { place, pointer, accumulate: false }))
    }

    /// Returns what [`GradientStore::take_cuda`] lent.
    pub(crate) fn give_cuda(&mut self, input: &Tensor, gradient: CudaGradient) -> Result<()> {
        match (input.origin, gradient.place) {
            (Origin::Node { index, .. }, CudaPlace::Node(buffer)) => {
                if self.checking {
                    let mut values = vec![0.0; buffer.length()];
                    buffer.read(&mut values)?;
                    self.examine(|| values.iter().all(|x| x.is_finite()));
                }
                self.nodes[index] = Some(NodeGradient::Cuda(buffer));
            }
            (Origin::Parameter { arena, index }, CudaPlace::Parameter) => {
                let slot = self.parameter_slot(arena, index).expect("it was taken from here");
                *slot.written = true;
            }
            (_, CudaPlace::Temporary(buffer)) => self.add_cuda(input, &buffer)?,
            _ => unreachable!("a gradient goes back to the input it was taken for"),
        }
        Ok(())
    }

    /// Lends the gradient of `input` on a GPU to `work(address, accumulate)`, if it is needed.
    pub(crate) fn with_cuda(
        &mut self,
        input: &Tensor,
        element: Element,
        work: impl FnOnce(u64, bool) -> Result<()>,
    ) -> Result<()> {
        if let Some(gradient) = self.take_cuda(input, element)? {
            work(gradient.pointer, gradient.accumulate)?;
            self.give_cuda(input, gradient)?;
        }
        Ok(())
    }

    /// Whether a gradient of elements of type `element` would be the first that `input`, a node, receives.
    pub(crate) fn is_first(&self, input: &Tensor, element: Element) -> bool {
        match input.origin {
            Origin::Node { index, .. } => {
                self.nodes[index].is_none() && input.element(self.cuda()) == element
            }
            _ => false,
        }
    }

    /// Leaves the sums over the rows of the gradient that `input` has now to whoever reads it; whatever is
    /// added to that gradient discards them.
    pub(crate) fn leave_row_sums(&mut self, input: &Tensor, sums: RowSums) {
        if let Origin::Node { index, .. } = input.origin {
            self.row_sums.insert(index, sums);
        }
    }

    /// What [`GradientStore::leave_row_sums`] left for the current operation's upstream, in rows of `width`.
    pub(crate) fn row_sums(&mut self, width: usize) -> Option<RowSums> {
        self.row_sums.remove(&self.current.1).filter(|sums| sums.width == width)
    }

    /// Adds a whole gradient; if it is the first one, the buffer itself is moved in.
    pub(crate) fn add_whole_cuda(&mut self, input: &Tensor, whole: CudaBuffer) -> Result<()> {
        match input.origin {
            Origin::Node { index, .. }
                if self.nodes[index].is_none() && whole.element() == input.element(self.cuda()) =>
            {
                let (pointer, place) = (whole.pointer(), CudaPlace::Node(whole));
                self.give_cuda(input, CudaGradient { place, pointer, accumulate: false })
            }
            _ => self.add_cuda(input, &whole),
        }
    }

    /// Adds a gradient that was computed elsewhere on the GPU.
    pub(crate) fn add_cuda(&mut self, input: &Tensor, gathered: &CudaBuffer) -> Result<()> {
        let cuda = self.cuda().clone();
        let own = match input.origin {
            Origin::Parameter { .. } => Element::F32,
            _ => input.element(&cuda),
        };
        let source = (gathered.pointer(), gathered.element());
        self.with_cuda(input, own, |pointer, accumulate| {
            cuda.convert(source, (pointer, own), gathered.length(), accumulate)
        })
    }

    /// Lends the gradient of `input` to `work`, if it is needed.
    pub(crate) fn with(&mut self, input: &Tensor, work: impl FnOnce(&mut [f32], bool)) {
        if let Some(mut gradient) = self.take(input) {
            let accumulate = gradient.accumulate;
            work(&mut gradient, accumulate);
            self.give(input, gradient);
        }
    }

    /// Lends the gradient of `input` to threads that each write a part of it: `None` where it is not
    /// needed, as `work` has other sums to make.
    pub(crate) fn with_shared(
        &mut self,
        input: &Tensor,
        work: impl FnOnce(Option<Disjoint<'_>>, bool),
    ) {
        let mut taken = self.take(input);
        let accumulate = taken.as_ref().is_some_and(|gradient| gradient.accumulate);
        work(taken.as_deref_mut().map(Disjoint::new), accumulate);
        if let Some(gradient) = taken {
            self.give(input, gradient);
        }
    }

    /// Adds a whole gradient; if it is the first one, the buffer itself is moved in.
    pub(crate) fn add_whole(&mut self, input: &Tensor, whole: Buffer) {
        match input.origin {
            Origin::Node { index, .. } if self.nodes[index].is_none() => {
                let place = Place::Node(whole);
                self.give(input, GradientBuffer { place, accumulate: false });
            }
            _ => self.add(input, &whole),
        }
    }

    /// Adds a gradient that was computed elsewhere.
    pub(crate) fn add(&mut self, input: &Tensor, gathered: &[f32]) {
        self.with(input, |gradient, accumulate| {
            crate::vectorize::put_row(gradient, gathered, accumulate);
        });
    }

    fn parameter_slot(&mut self, arena: u64, index: usize) -> Option<&mut ParameterSlot<'a>> {
        let (_, slots) = self.arenas.iter_mut().find(|(number, _)| *number == arena)?;
        Some(&mut slots[index])
    }
}

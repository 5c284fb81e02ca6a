//! Gradients lent to a backward on a GPU.

use super::{GradientStore, NodeGradient};
use crate::cuda::{CudaBuffer, Element};
use crate::gradient::SlotPlace;
use crate::tensor::Origin;
use crate::{Result, Tensor};

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

impl GradientStore<'_> {
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
}

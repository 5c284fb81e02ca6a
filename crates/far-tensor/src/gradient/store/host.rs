//! Gradients lent to a backward on the host.

use super::{GradientStore, NodeGradient};
use crate::Tensor;
use crate::buffer::Buffer;
use crate::gradient::SlotPlace;
use crate::parallel::Disjoint;
use crate::tensor::Origin;
use std::ops::{Deref, DerefMut};

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

impl<'a> GradientStore<'a> {
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
}

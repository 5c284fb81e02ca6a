//! Where gradients are gathered while a tape runs backward.

use crate::buffer::Buffer;
use crate::tensor::Origin;
use crate::{Device, Tensor};
use std::ops::{Deref, DerefMut, Range};

/// The gradients of one parameter arena: a flat buffer parallel to it.
pub struct Gradients {
    pub(crate) arena: u64,
    pub(crate) values: Buffer,
    pub(crate) ranges: Vec<Range<usize>>,
    /// Which parameters have received a gradient since the last update: the first one overwrites,
    /// so that nothing needs to be zeroed.
    pub(crate) written: Vec<bool>,
}

impl Gradients {
    pub(crate) fn new(arena: u64, length: usize, ranges: Vec<Range<usize>>) -> Self {
        let written = vec![false; ranges.len()];
        Self { arena, values: Buffer::zeroed(length), ranges, written }
    }

    /// Forgets what was gathered.
    pub fn clear(&mut self) {
        self.written.fill(false);
    }

    /// The whole flat buffer, with zeros where no gradient arrived.
    pub fn completed(&mut self) -> &mut [f32] {
        for (range, written) in self.ranges.iter().zip(&mut self.written) {
            if !*written {
                self.values[range.clone()].fill(0.0);
                *written = true;
            }
        }
        &mut self.values
    }

    fn split(&mut self) -> Vec<ParameterSlot<'_>> {
        let mut rest: &mut [f32] = &mut self.values;
        let mut start = 0;
        let mut slots = Vec::with_capacity(self.ranges.len());
        for (range, written) in self.ranges.iter().zip(&mut self.written) {
            let (_, tail) = std::mem::take(&mut rest).split_at_mut(range.start - start);
            let (values, tail) = tail.split_at_mut(range.len());
            (rest, start) = (tail, range.end);
            slots.push(ParameterSlot { values: Some(values), written });
        }
        slots
    }
}

struct ParameterSlot<'a> {
    values: Option<&'a mut [f32]>,
    written: &'a mut bool,
}

enum Place<'a> {
    Node(Buffer),
    Parameter(&'a mut [f32]),
}

/// The gradient of one input, on loan to a backward.
pub(crate) struct GradientBuffer<'a> {
    place: Place<'a>,
    /// Whether to add to what is there; otherwise every element must be written.
    pub accumulate: bool,
}

impl Deref for GradientBuffer<'_> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match &self.place {
            Place::Node(buffer) => buffer,
            Place::Parameter(values) => values,
        }
    }
}

impl DerefMut for GradientBuffer<'_> {
    fn deref_mut(&mut self) -> &mut [f32] {
        match &mut self.place {
            Place::Node(buffer) => buffer,
            Place::Parameter(values) => values,
        }
    }
}

/// All gradients of one run backward.
pub(crate) struct GradientStore<'a> {
    device: Device,
    tape: u64,
    nodes: Vec<Option<Buffer>>,
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
    ) -> Self {
        let arenas = arenas.iter_mut().map(|arena| (arena.arena, arena.split())).collect();
        let nodes = std::iter::repeat_with(|| None).take(nodes).collect();
        let current = ("loss", 0);
        Self {
            device: device.clone(),
            tape,
            nodes,
            arenas,
            checking: false,
            current,
            culprit: None,
        }
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

    pub(crate) fn upstream(&mut self, index: usize) -> Option<Buffer> {
        self.nodes[index].take()
    }

    pub(crate) fn finish(self) -> (Vec<Option<Buffer>>, Option<String>) {
        (self.nodes, self.culprit)
    }

    /// Borrows the gradient of `input` to write or add to; `None` when nobody wants it. Give it
    /// back with [`GradientStore::give`].
    pub(crate) fn take(&mut self, input: &Tensor) -> Option<GradientBuffer<'a>> {
        match input.origin() {
            Origin::Constant => None,
            Origin::Node { tape, index } => {
                debug_assert_eq!(tape, self.tape);
                let kept = self.nodes[index].take();
                let accumulate = kept.is_some();
                let elements = input.shape().elements();
                let buffer = kept.unwrap_or_else(|| self.device.buffer(elements));
                Some(GradientBuffer { place: Place::Node(buffer), accumulate })
            }
            Origin::Parameter { arena, index } => {
                let slot = self.parameter_slot(arena, index)?;
                let values = slot.values.take().expect("each gradient is given back");
                let accumulate = *slot.written;
                Some(GradientBuffer { place: Place::Parameter(values), accumulate })
            }
        }
    }

    /// Returns what [`GradientStore::take`] lent.
    pub(crate) fn give(&mut self, input: &Tensor, buffer: GradientBuffer<'a>) {
        if self.checking && self.culprit.is_none() && !buffer.iter().all(|x| x.is_finite()) {
            let (operation, index) = self.current;
            self.culprit = Some(format!("a gradient made by {operation} (operation {index})"));
        }
        match (input.origin(), buffer.place) {
            (Origin::Node { index, .. }, Place::Node(values)) => self.nodes[index] = Some(values),
            (Origin::Parameter { arena, index }, Place::Parameter(values)) => {
                let slot = self.parameter_slot(arena, index).expect("it was taken from here");
                slot.values = Some(values);
                *slot.written = true;
            }
            _ => unreachable!("a gradient goes back to the input it was taken for"),
        }
    }

    /// Lends the gradient of `input` to `work`, if anybody wants it.
    pub(crate) fn with(&mut self, input: &Tensor, work: impl FnOnce(&mut [f32], bool)) {
        if let Some(mut gradient) = self.take(input) {
            let accumulate = gradient.accumulate;
            work(&mut gradient, accumulate);
            self.give(input, gradient);
        }
    }

    /// Adds a whole gradient; where it is the first one, the buffer itself moves in.
    pub(crate) fn add_whole(&mut self, input: &Tensor, whole: Buffer) {
        match input.origin() {
            Origin::Node { index, .. } if self.nodes[index].is_none() => {
                let place = Place::Node(whole);
                self.give(input, GradientBuffer { place, accumulate: false });
            }
            _ => self.add(input, &whole),
        }
    }

    /// Adds a gradient that was gathered elsewhere.
    pub(crate) fn add(&mut self, input: &Tensor, gathered: &[f32]) {
        self.with(input, |gradient, accumulate| {
            if accumulate {
                crate::vectorize::add_assign(gradient, gathered);
            } else {
                gradient.copy_from_slice(gathered);
            }
        });
    }

    fn parameter_slot(&mut self, arena: u64, index: usize) -> Option<&mut ParameterSlot<'a>> {
        let (_, slots) = self.arenas.iter_mut().find(|(number, _)| *number == arena)?;
        Some(&mut slots[index])
    }
}

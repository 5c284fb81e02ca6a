//! Gradients accumulated while a tape runs backward.

mod store;

use crate::Result;
use crate::buffer::Buffer;
use crate::cuda::Cuda;
use crate::storage::Storage;
use std::ops::Range;
use std::sync::Arc;

pub(crate) use store::{CudaGradient, GradientBuffer, GradientStore, RowSums};

/// The gradients of one parameter arena: a flat buffer parallel to it.
pub struct Gradients {
    pub(crate) arena: u64,
    pub(crate) values: Storage,
    pub(crate) ranges: Vec<Range<usize>>,
    /// Which parameters have received a gradient since the last update: the first one overwrites,
    /// so that nothing needs to be zeroed.
    pub(crate) written: Vec<bool>,
    /// The GPU that holds them.
    cuda: Option<Arc<Cuda>>,
}

impl Gradients {
    pub(crate) fn new(arena: u64, length: usize, ranges: Vec<Range<usize>>) -> Self {
        let written = vec![false; ranges.len()];
        Self { arena, values: Buffer::zeroed(length).into(), ranges, written, cuda: None }
    }

    /// Discards the accumulated gradients.
    pub fn clear(&mut self) {
        self.written.fill(false);
    }

    /// The whole flat buffer, with zeros where no gradient arrived.
    pub fn completed(&mut self) -> &mut [f32] {
        self.cuda = None;
        let values = self.values.host_mut();
        for (range, written) in self.ranges.iter().zip(&mut self.written) {
            if !*written {
                values[range.clone()].fill(0.0);
                *written = true;
            }
        }
        values
    }

    /// The GPU that holds them.
    pub(crate) fn gpu(&self) -> Option<Arc<Cuda>> {
        self.cuda.clone()
    }

    /// The whole flat buffer on a GPU, with zeros where no gradient arrived; returns its address.
    pub(crate) fn completed_on(&mut self, cuda: &Cuda) -> Result<u64> {
        let [pointer, _] = self.values.on_mut(cuda, false)?;
        for (range, written) in self.ranges.iter().zip(&mut self.written) {
            if !*written {
                cuda.zero(pointer + 4 * range.start as u64, 4 * range.len())?;
                *written = true;
            }
        }
        Ok(pointer)
    }

    fn split(&mut self) -> Vec<ParameterSlot<'_>> {
        self.cuda = None;
        let mut rest: &mut [f32] = self.values.host_mut();
        let mut start = 0;
        let mut slots = Vec::with_capacity(self.ranges.len());
        for (range, written) in self.ranges.iter().zip(&mut self.written) {
            let (_, tail) = std::mem::take(&mut rest).split_at_mut(range.start - start);
            let (values, tail) = tail.split_at_mut(range.len());
            (rest, start) = (tail, range.end);
            slots.push(ParameterSlot { place: SlotPlace::Host(Some(values)), written });
        }
        slots
    }

    fn split_on(&mut self, cuda: &Arc<Cuda>) -> Result<Vec<ParameterSlot<'_>>> {
        self.cuda = Some(cuda.clone());
        let [pointer, _] = self.values.on_mut(cuda, false)?;
        let slots = self.ranges.iter().zip(&mut self.written).map(|(range, written)| {
            let pointer = pointer + 4 * range.start as u64;
            ParameterSlot { place: SlotPlace::Cuda { pointer, length: range.len() }, written }
        });
        Ok(slots.collect())
    }
}

struct ParameterSlot<'a> {
    place: SlotPlace<'a>,
    written: &'a mut bool,
}

enum SlotPlace<'a> {
    Host(Option<&'a mut [f32]>),
    /// In f32.
    Cuda {
        pointer: u64,
        length: usize,
    },
}

//! The gradients of one backward pass, lent to each operation's backward in turn: by `host` to one on the
//! host, by `cuda` to one on a GPU.

mod cuda;
mod host;
mod row_sums;

pub(crate) use cuda::CudaGradient;
pub(crate) use host::GradientBuffer;
pub(crate) use row_sums::RowSums;

use super::{Gradients, ParameterSlot};
use crate::buffer::Buffer;
use crate::cuda::{Cuda, CudaBuffer, Element};
use crate::{Device, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// A gradient of a node, where it was computed.
enum NodeGradient {
    Host(Buffer),
    Cuda(CudaBuffer),
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

    /// Records the current operation as the culprit unless its gradient is finite.
    fn examine(&mut self, is_finite: impl FnOnce() -> bool) {
        if self.checking && self.culprit.is_none() && !is_finite() {
            let (operation, index) = self.current;
            self.culprit = Some(format!("a gradient made by {operation} (operation {index})"));
        }
    }

    fn parameter_slot(&mut self, arena: u64, index: usize) -> Option<&mut ParameterSlot<'a>> {
        let (_, slots) = self.arenas.iter_mut().find(|(number, _)| *number == arena)?;
        Some(&mut slots[index])
    }
}

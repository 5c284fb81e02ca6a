//! Parameters in flat arenas: one buffer per trained group, with named ranges.
//!
//! Clipping, the optimizer, the moving average and a checkpoint are each one pass over one buffer.
//! A program may have several arenas (world model, retriever, encoder), each with its own optimizer
//! or frozen.

use crate::buffer::{Buffer, LANE};
use crate::gradient::Gradients;
use crate::initialization::Initialization;
use crate::storage::Storage;
use crate::tensor::Origin;
use crate::{Error, Random, Result, Shape, Tensor};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Handle of a parameter in an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParameterId(usize);

/// Layout of a parameter in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileLayout {
    /// As in memory.
    Same,
    /// A matrix [I, O] in memory, [O, I] in the file, as PyTorch stores the weight of a linear
    /// layer.
    Transposed,
}

/// One named parameter of an arena.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub name: String,
    pub shape: Shape,
    pub range: Range<usize>,
    pub layout: FileLayout,
    initialization: Initialization,
    /// Factor of the learning rate.
    rate: f32,
}

impl Entry {
    /// The shape in a checkpoint.
    pub(crate) fn file_shape(&self) -> Shape {
        match (self.layout, self.shape.extents()) {
            (FileLayout::Transposed, &[inputs, outputs]) => Shape::from([outputs, inputs]),
            _ => self.shape,
        }
    }
}

/// Collects the parameters of a model before their memory is laid out.
///
/// ```
/// use far_tensor::{ArenaBuilder, Initialization};
/// let mut builder = ArenaBuilder::new("toy");
/// let weight = builder.linear("layer.weight", 3, 2, Initialization::Xavier);
/// let parameters = builder.build(7);
/// assert_eq!(parameters.tensor(weight).shape().extents(), [3, 2]);
/// ```
pub struct ArenaBuilder {
    name: String,
    entries: Vec<Entry>,
    length: usize,
}

impl ArenaBuilder {
    /// An empty arena with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), entries: Vec::new(), length: 0 }
    }

    /// Adds a parameter.
    ///
    /// # Panics
    /// If the name is taken, which is a bug in the caller's code.
    pub fn parameter(
        &mut self,
        name: impl Into<String>,
        shape: impl Into<Shape>,
        initialization: Initialization,
    ) -> ParameterId {
        self.add(name.into(), shape.into(), FileLayout::Same, initialization)
    }

    /// Adds the weight [inputs, outputs] of a linear layer; checkpoints hold it as [outputs,
    /// inputs].
    ///
    /// # Panics
    /// If the name is taken.
    pub fn linear(
        &mut self,
        name: impl Into<String>,
        inputs: usize,
        outputs: usize,
        initialization: Initialization,
    ) -> ParameterId {
        let shape = Shape::from([inputs, outputs]);
        self.add(name.into(), shape, FileLayout::Transposed, initialization)
    }

    /// Multiplies the learning rate of one parameter; 0 freezes it. Checkpoints do not store the
    /// factor.
    ///
    /// # Panics
    /// If the parameter belongs to another arena or the factor is negative or not finite, which is
    /// a bug in the caller's code.
    pub fn set_rate(&mut self, id: ParameterId, factor: f32) {
        assert!(factor >= 0.0 && factor.is_finite(), "a learning rate cannot be {factor} times");
        self.entries[id.0].rate = factor;
    }

    fn add(
        &mut self,
        name: String,
        shape: Shape,
        layout: FileLayout,
        initialization: Initialization,
    ) -> ParameterId {
        let taken = self.entries.iter().any(|entry| entry.name == name);
        assert!(!taken, "two parameters of `{}` are called `{name}`", self.name);
        // Every parameter begins on a cache line.
        let range = self.length..self.length + shape.elements();
        self.length = range.end.next_multiple_of(LANE);
        self.entries.push(Entry { name, shape, range, layout, initialization, rate: 1.0 });
        ParameterId(self.entries.len() - 1)
    }

    /// The number of parameters added so far: the size of the arena without padding.
    pub fn count(&self) -> usize {
        self.entries.iter().map(|entry| entry.range.len()).sum()
    }

    /// Names and shapes in the order they were added.
    pub fn named(&self) -> impl Iterator<Item = (&str, &Shape)> {
        self.entries.iter().map(|entry| (entry.name.as_str(), &entry.shape))
    }

    /// Allocates the arena and initializes it; each parameter draws from a random stream named
    /// after it.
    pub fn build(self, seed: u64) -> Parameters {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let mut values = Buffer::zeroed(self.length);
        for entry in &self.entries {
            let random = Random::stream(seed, &entry.name, 0);
            entry.initialization.fill(&mut values[entry.range.clone()], &entry.shape, &random);
        }
        let scaled = self.entries.iter().filter(|entry| entry.rate != 1.0);
        let rates = scaled.map(|entry| (entry.range.clone(), entry.rate)).collect();
        Parameters {
            name: self.name,
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            entries: self.entries,
            rates,
            values: Arc::new(values.into()),
            frozen: false,
        }
    }
}

/// The parameters of one group in one flat buffer.
pub struct Parameters {
    name: String,
    number: u64,
    pub(crate) entries: Vec<Entry>,
    /// The ranges with their own factor of the learning rate, in order.
    pub(crate) rates: Arc<[(Range<usize>, f32)]>,
    values: Arc<Storage>,
    frozen: bool,
}

impl Parameters {
    /// The name of the arena.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parameter as a tensor; gradients flow to it unless the arena is frozen.
    ///
    /// The tensor shares the arena's memory: drop it before the arena is changed.
    pub fn tensor(&self, id: ParameterId) -> Tensor {
        let entry = &self.entries[id.0];
        let origin = if self.frozen {
            Origin::Constant
        } else {
            Origin::Parameter { arena: self.number, index: id.0 }
        };
        Tensor::new(entry.shape, self.values.clone(), entry.range.start, origin)
    }

    /// The parameter with this name.
    pub fn find(&self, name: &str) -> Option<ParameterId> {
        self.entries.iter().position(|entry| entry.name == name).map(ParameterId)
    }

    /// Names and shapes in the order they were added.
    pub fn named(&self) -> impl Iterator<Item = (&str, &Shape)> {
        self.entries.iter().map(|entry| (entry.name.as_str(), &entry.shape))
    }

    /// Names, shapes and values as a checkpoint stores them: weights of linear layers as [outputs,
    /// inputs].
    pub fn stored(&self) -> impl Iterator<Item = (&str, Shape, Vec<f32>)> {
        self.entries.iter().map(|entry| {
            let values = &self.values()[entry.range.clone()];
            let mut stored = values.to_vec();
            if entry.layout == FileLayout::Transposed {
                crate::product::transpose(&mut stored, values, entry.shape.last());
            }
            (entry.name.as_str(), entry.file_shape(), stored)
        })
    }

    /// The number of parameters, padding not counted.
    pub fn count(&self) -> usize {
        self.entries.iter().map(|entry| entry.range.len()).sum()
    }

    /// Stops gradients from flowing to this arena.
    pub fn freeze(&mut self) {
        self.frozen = true;
    }

    /// A gradient buffer for this arena.
    pub fn gradients(&self) -> Gradients {
        let ranges = self.entries.iter().map(|entry| entry.range.clone()).collect();
        Gradients::new(self.number, self.values.length, ranges)
    }

    /// The whole arena, padding included.
    pub fn values(&self) -> &[f32] {
        self.values.host()
    }

    /// The whole arena, mutable.
    ///
    /// # Errors
    /// If a tensor still refers to it.
    pub fn values_mut(&mut self) -> Result<&mut [f32]> {
        Ok(self.storage_mut()?.host_mut())
    }

    /// How many values the arena has, padding included.
    pub(crate) fn length(&self) -> usize {
        self.values.length
    }

    pub(crate) fn storage_mut(&mut self) -> Result<&mut Storage> {
        let name = &self.name;
        Arc::get_mut(&mut self.values).ok_or_else(|| Error::Shared { arena: name.clone() })
    }

    /// Replaces the values of one parameter, in memory order.
    ///
    /// # Errors
    /// If the number of values differs, or a tensor still refers to the arena.
    pub fn set(&mut self, id: ParameterId, values: &[f32]) -> Result<()> {
        let Entry { range, shape, .. } = self.entries[id.0].clone();
        let (fit, shapes) = (values.len() == range.len(), [&Shape::from([values.len()]), &shape]);
        Error::expect_fit(fit, "set", shapes, "as many values as the parameter has are needed")?;
        self.values_mut()?[range].copy_from_slice(values);
        Ok(())
    }

    /// A frozen arena of the same layout with other values, such as the average of these
    /// parameters.
    ///
    /// # Errors
    /// If the values do not fill the arena.
    pub fn with_values(&self, values: &[f32]) -> Result<Self> {
        let shapes = [&Shape::from([values.len()]), &Shape::from([self.length()])];
        let requirement = "the values must fill the arena, padding included";
        let fit = values.len() == self.length();
        Error::expect_fit(fit, "with_values", shapes, requirement)?;
        Ok(Self {
            name: self.name.clone(),
            number: self.number,
            entries: self.entries.clone(),
            rates: self.rates.clone(),
            values: Arc::new(Buffer::from(values).into()),
            frozen: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Tape};

    fn toy() -> (Parameters, ParameterId, ParameterId) {
        let mut builder = ArenaBuilder::new("toy");
        let weight = builder.linear("weight", 3, 2, Initialization::Xavier);
        let bias = builder.parameter("bias", [2], Initialization::Zero);
        (builder.build(1), weight, bias)
    }

    #[test]
    fn gradients_arrive_beside_their_parameters() {
        let (parameters, weight, bias) = toy();
        let mut gradients = parameters.gradients();
        let x = Tensor::from_slice(&[1.0, 2.0, 3.0], [1, 3]).unwrap();
        for _ in 0..2 {
            let mut tape = Tape::recording(&Device::cpu());
            let (weight, bias) = (parameters.tensor(weight), parameters.tensor(bias));
            let y = tape.linear(&x, &weight, Some(&bias)).unwrap();
            let loss = tape.sum(&y).unwrap();
            tape.backward(&loss, 0.5, &mut [&mut gradients]).unwrap();
        }
        let flat = gradients.completed();
        assert_eq!(flat[..6], [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
        assert_eq!(flat[16..18], [1.0, 1.0]);
    }

    #[test]
    fn a_frozen_arena_receives_nothing() {
        let (mut parameters, weight, _) = toy();
        parameters.freeze();
        let mut tape = Tape::recording(&Device::cpu());
        let x = Tensor::from_slice(&[1.0, 2.0, 3.0], [1, 3]).unwrap();
        tape.linear(&x, &parameters.tensor(weight), None).unwrap();
        assert_eq!(tape.recorded(), 0);
    }

    #[test]
    fn parameters_in_use_do_not_change() {
        let (mut parameters, weight, _) = toy();
        let held = parameters.tensor(weight);
        assert!(matches!(parameters.values_mut(), Err(Error::Shared { .. })));
        drop(held);
        assert!(parameters.values_mut().is_ok());
    }
}

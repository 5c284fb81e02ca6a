//! A training step that never applies a non-finite update and can name its cause.

use crate::gradient::Gradients;
use crate::optimizer::{AdamW, AdamWConfig, Update};
use crate::{
    Checkpoint, CheckpointWriter, Device, Error, Matching, Parameters, Result, Tape, Tensor,
};

/// Parameters with their gradients and their optimizer: one trained group.
pub struct Trained {
    /// The parameters.
    pub parameters: Parameters,
    /// Their optimizer.
    pub optimizer: AdamW,
    gradients: Gradients,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The mean loss over the micro-batches.
    pub loss: f32,
    /// The update that followed.
    pub update: Update,
}

impl Trained {
    /// Starts training these parameters.
    pub fn new(parameters: Parameters, config: AdamWConfig) -> Self {
        let optimizer = AdamW::new(config, &parameters);
        let gradients = parameters.gradients();
        Self { parameters, optimizer, gradients }
    }

    /// One update from the mean loss over `micro_batches` parts of a batch.
    ///
    /// `loss(tape, parameters, part)` computes the loss of one part. It must be a pure function of
    /// its arguments and the caller's step (take randomness from a stream named by the step): when
    /// the loss or the gradient norm is not finite it is called again on a tape that checks every
    /// operation, and the error names the first one that went wrong.
    ///
    /// # Errors
    /// If computing a loss fails, or it is not finite; the parameters are then unchanged.
    pub fn step(
        &mut self,
        device: &Device,
        micro_batches: usize,
        mut loss: impl FnMut(&mut Tape, &Parameters, usize) -> Result<Tensor>,
    ) -> Result<Step> {
        self.gradients.clear();
        let share = 1.0 / micro_batches.max(1) as f32;
        let mut mean = 0.0;
        for part in 0..micro_batches {
            let mut tape = Tape::recording(device);
            let value = loss(&mut tape, &self.parameters, part)?;
            tape.backward(&value, share, &mut [&mut self.gradients])?;
            // Read only now: reading earlier would wait for a GPU in the middle of the step.
            mean += share * value.item()?;
            if !mean.is_finite() {
                drop((value, tape));
                return Err(self.blame(device, "loss", mean.into(), part, &mut loss));
            }
        }
        match self.optimizer.update(&mut self.parameters, &mut self.gradients) {
            Ok(update) => Ok(Step { loss: mean, update }),
            Err(Error::NonFinite { quantity, value, .. }) => {
                let mut last = None;
                for part in 0..micro_batches {
                    let error = self.blame(device, quantity, value, part, &mut loss);
                    let found = matches!(&error, Error::NonFinite { culprit, .. } if !culprit.starts_with("none"));
                    last = Some(error);
                    if found {
                        break;
                    }
                }
                Err(last.unwrap_or_else(|| Error::non_finite(quantity, value, None)))
            }
            Err(error) => Err(error),
        }
    }

    /// Adds parameters and optimizer to a checkpoint, with names that start with `prefix`.
    pub fn save<'a>(&'a self, prefix: &str, writer: CheckpointWriter<'a>) -> CheckpointWriter<'a> {
        let Self { parameters, optimizer, .. } = self;
        writer.parameters(prefix, parameters).optimizer(prefix, parameters, optimizer)
    }

    /// Loads parameters and optimizer from a checkpoint.
    ///
    /// # Errors
    /// If one is missing, has another shape, or is not finite.
    pub fn load(&mut self, prefix: &str, checkpoint: &mut Checkpoint) -> Result<()> {
        checkpoint.load_parameters(prefix, &mut self.parameters, Matching::Strict)?;
        checkpoint.load_optimizer(prefix, &self.parameters, &mut self.optimizer)
    }

    /// Repeats one part with a check after each operation and names the first that fails.
    fn blame(
        &mut self,
        device: &Device,
        quantity: &'static str,
        value: f64,
        part: usize,
        loss: &mut impl FnMut(&mut Tape, &Parameters, usize) -> Result<Tensor>,
    ) -> Error {
        let mut tape = Tape::checking(device);
        let replayed = loss(&mut tape, &self.parameters, part);
        let backward =
            replayed.and_then(|value| tape.backward(&value, 1.0, &mut [&mut self.gradients]));
        self.gradients.clear();
        match backward {
            Ok(_) => Error::non_finite(quantity, value, tape.culprit()),
            Err(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Activation, ArenaBuilder, Initialization};

    fn toy() -> Trained {
        let mut builder = ArenaBuilder::new("toy");
        builder.parameter("a", [3], Initialization::Constant(0.5));
        let config = AdamWConfig { learning_rate: 0.1, warm_up: 0, ..AdamWConfig::default() };
        Trained::new(builder.build(1), config)
    }

    fn first(parameters: &Parameters) -> Tensor {
        parameters.tensor(parameters.find("a").expect("it has one"))
    }

    #[test]
    fn micro_batches_average() {
        let device = Device::cpu();
        let targets = [[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]];
        let loss_of =
            |tape: &mut Tape, parameters: &Parameters, target: &[f32]| -> Result<Tensor> {
                let difference =
                    tape.subtract(&first(parameters), &Tensor::from_slice(target, [3])?)?;
                let square = tape.multiply(&difference, &difference)?;
                tape.mean(&square)
            };
        let (mut parts, mut whole) = (toy(), toy());
        let split =
            parts.step(&device, 2, |tape, p, part| loss_of(tape, p, &targets[part])).unwrap();
        let joined = whole
            .step(&device, 1, |tape, p, _| {
                let (a, b) = (loss_of(tape, p, &targets[0])?, loss_of(tape, p, &targets[1])?);
                tape.weighted_sum(&a, 0.5, &b, 0.5)
            })
            .unwrap();
        assert!((split.loss - joined.loss).abs() < 1e-6);
        assert_eq!(parts.parameters.values(), whole.parameters.values());
    }

    #[test]
    fn the_culprit_of_a_bad_loss_is_named_and_nothing_changes() {
        let mut trained = toy();
        let before = trained.parameters.values().to_vec();
        let error = trained
            .step(&Device::cpu(), 1, |tape, parameters, _| {
                let negative = tape.affine(&first(parameters), -1.0, 0.0)?;
                let logarithm = tape.activate(&negative, Activation::Log)?;
                tape.mean(&logarithm)
            })
            .unwrap_err();
        assert!(error.to_string().contains("loss is NaN"), "{error}");
        assert!(error.to_string().contains("the result of activate (operation 1)"), "{error}");
        assert_eq!(trained.parameters.values(), before);
    }

    #[test]
    fn the_culprit_of_a_bad_gradient_is_named() {
        let mut trained = toy();
        let error = trained
            .step(&Device::cpu(), 1, |tape, parameters, _| {
                // √x by exp(½·log x) at x = 0: a finite value with an infinite slope.
                let zero = tape.affine(&first(parameters), 1.0, -0.5)?;
                let logarithm = tape.activate(&zero, Activation::Log)?;
                let root = tape.affine(&logarithm, 0.5, 0.0)?;
                let value = tape.activate(&root, Activation::Exp)?;
                tape.mean(&value)
            })
            .unwrap_err();
        assert!(error.to_string().contains("gradient norm is"), "{error}");
        assert_eq!(trained.optimizer.updates(), 0);
    }
}

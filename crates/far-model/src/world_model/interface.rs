//! What the joint loop and the evaluation know of a world model: no more than this.

use crate::{ConditionScale, ContextBatch, DdimConfig, Futures, LatentShape, Result, SignalLayout};
use far_tensor::{Checkpoint, CheckpointWriter, NoiseSchedule, Random, Step};

/// Diffusion times and noises, S for each of B predictions.
#[derive(Clone, Debug, PartialEq)]
pub struct Perturbations {
    /// S: how many there are per prediction.
    pub draws: usize,
    /// Steps of the noise schedule, [B, S].
    pub timesteps: Vec<usize>,
    /// Noise, [B, S, E].
    pub noise: Vec<f32>,
}

impl Perturbations {
    /// For each of `examples` predictions S = `draws` times, one from each of S equal parts of
    /// `range`, and as many noises of `elements` numbers, from the stream `purpose` of a step.
    pub fn stratified(
        range: std::ops::Range<usize>,
        [examples, draws, elements]: [usize; 3],
        seed: u64,
        purpose: &str,
        step: u64,
    ) -> Self {
        let mut random = Random::stream(seed, &format!("{purpose}: time"), step);
        let width = range.len() as f32 / draws as f32;
        let last = range.end.saturating_sub(1);
        let timesteps = (0..examples * draws)
            .map(|place| {
                let part = (place % draws) as f32 + random.uniform();
                (range.start + (part * width) as usize).min(last)
            })
            .collect();
        let mut noise = vec![0.0; examples * draws * elements];
        Random::stream(seed, &format!("{purpose}: noise"), step).fill_normal(&mut noise);
        Self { draws, timesteps, noise }
    }
}

/// A world model that predicts and is not changed by it.
///
/// Latents are in the layout of [`LatentShape`], one after another.
pub trait WorldModel: Send + Sync {
    /// The shape of the latents.
    fn shape(&self) -> LatentShape;

    /// The units of the conditions.
    fn scale(&self) -> ConditionScale;

    /// The channels that contexts have beyond latents, poses and times; none by default.
    fn signals(&self) -> SignalLayout {
        SignalLayout::default()
    }

    /// How many seconds before each memory its earlier frame lies, where contexts show one beside it; none
    /// by default.
    fn earlier_view(&self) -> Option<f32> {
        None
    }

    /// The noise schedule that timesteps refer to.
    fn schedule(&self) -> &NoiseSchedule;

    /// An empty batch for contexts of this many slots.
    fn batch<'a>(&self, slots: usize) -> ContextBatch<'a> {
        ContextBatch::new(self.shape(), self.scale(), slots, self.signals())
    }

    /// The mean squared error per element of what the network predicts: [contexts, S].
    ///
    /// `futures` are those of B predictions, as are `perturbations`; `contexts` holds a multiple A
    /// of B, the A contexts of the first future first. All contexts of a future meet the same noise,
    /// so that their losses can be compared. `weights`, if given, are B × E and have mean 1.
    ///
    /// # Errors
    /// If the sizes do not fit.
    fn losses(
        &self,
        contexts: &ContextBatch<'_>,
        futures: &Futures,
        perturbations: &Perturbations,
        weights: Option<&[f32]>,
    ) -> Result<Vec<f32>>;

    /// Futures drawn for these contexts from `noise`, both B × E.
    ///
    /// # Errors
    /// If the sizes do not fit.
    fn sample(
        &self,
        contexts: &ContextBatch<'_>,
        noise: &[f32],
        sampler: &DdimConfig,
    ) -> Result<Vec<f32>>;

    /// What the model predicts at the goals beside the frames, [B, A], as [`WorldModel::sample`] uses
    /// it. `None` for a model that predicts nothing else.
    ///
    /// # Errors
    /// If the sizes do not fit.
    fn auxiliary(&self, contexts: &ContextBatch<'_>) -> Result<Option<Vec<f32>>> {
        let _ = contexts;
        Ok(None)
    }

    /// What training minimizes beside the error of the frame, for each context, in nats: how wrong the
    /// auxiliary prediction is. Futures and contexts as in [`WorldModel::losses`]. `None` for a model
    /// without such a term.
    ///
    /// # Errors
    /// If the sizes do not fit.
    fn auxiliary_losses(
        &self,
        contexts: &ContextBatch<'_>,
        futures: &Futures,
    ) -> Result<Option<Vec<f32>>> {
        let _ = (contexts, futures);
        Ok(None)
    }
}

/// A world model that learns.
pub trait TrainableWorldModel: WorldModel {
    /// One update from the mean loss of these contexts and their futures, in `micro_batches` parts;
    /// `perturbations` has one draw for each. `weights` as in [`WorldModel::losses`].
    ///
    /// # Errors
    /// If the sizes do not fit or the loss is not finite; nothing has changed then.
    fn train(
        &mut self,
        contexts: &ContextBatch<'_>,
        futures: &Futures,
        perturbations: &Perturbations,
        weights: Option<&[f32]>,
        micro_batches: usize,
    ) -> Result<Step>;

    /// The model with the moving average of its parameters, if one is kept; else as it is.
    ///
    /// # Errors
    /// If memory for it cannot be laid out.
    fn average(&self) -> Result<Box<dyn WorldModel>>;

    /// The number of parameters.
    fn parameter_count(&self) -> usize;

    /// Adds everything needed to resume training to a checkpoint.
    fn save<'a>(&'a self, writer: CheckpointWriter<'a>) -> CheckpointWriter<'a>;

    /// Takes everything back from a checkpoint.
    ///
    /// # Errors
    /// If it comes from another architecture.
    fn load(&mut self, checkpoint: &mut Checkpoint) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_the_range_is_drawn_once() {
        let drawn = Perturbations::stratified(100..700, [50, 4, 3], 7, "utility", 9);
        assert_eq!((drawn.timesteps.len(), drawn.noise.len()), (200, 600));
        for (place, timestep) in drawn.timesteps.iter().enumerate() {
            let part = place % 4;
            assert!((100 + 150 * part..250 + 150 * part).contains(timestep), "{timestep}");
        }
        assert_eq!(drawn, Perturbations::stratified(100..700, [50, 4, 3], 7, "utility", 9));
        assert_ne!(drawn, Perturbations::stratified(100..700, [50, 4, 3], 7, "utility", 10));
    }
}

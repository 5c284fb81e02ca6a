//! World models of given sizes, and contexts to predict from.

use super::network_shape::Sizes;
use super::world_model_work::Predictions;
use far_memory::Pose;
use far_model::{
    ConditionScale, ContextAttention, ContextBatch, DitConfig, DitSetting, DitWorldModel,
    FrameSignals, PredictionQuery, Remembered, SignalLayout, TrainableWorldModel, WorldModel,
};
use far_tensor::{AdamWConfig, Device, Random};

/// A world model with the paper's settings at these sizes, and its number of parameters.
///
/// # Errors
/// If memory cannot be laid out.
pub fn world_model(
    sizes: Sizes,
    attention: ContextAttention,
    device: &Device,
) -> anyhow::Result<(Box<dyn WorldModel>, usize)> {
    let Sizes { depth, width, heads, .. } = sizes;
    let setting = DitSetting {
        config: DitConfig { depth, width, heads, attention, ..DitConfig::default() },
        shape: sizes.latent(),
        scale: ConditionScale { length: 1.0, time: 10.0 },
        signals: SignalLayout::default(),
        view: None,
    };
    let optimizer = AdamWConfig { average_decay: None, ..AdamWConfig::default() };
    let model = DitWorldModel::new(setting, optimizer, 0, device)?;
    Ok((model.average()?, model.parameter_count()))
}

/// Contexts on a walk, with memories in every slot; contexts of one example share its present.
///
/// # Errors
/// Never with latents of the model's own shape.
pub fn contexts(model: &dyn WorldModel, of: Predictions) -> anyhow::Result<ContextBatch<'static>> {
    let elements = model.shape().elements();
    let mut batch = model.batch(of.slots);
    let pose = |place: f32| Pose::from_yaw_pitch([place, 0.5 * place, 1.6], 0.3 * place, 0.0);
    let numbered = |purpose, count| -> Vec<Vec<f32>> {
        (0..count).map(|number| normal(elements, purpose, number)).collect()
    };
    let presents = numbered("current", of.examples);
    let memories = numbered("memory", of.examples * of.contexts * of.slots);
    for (example, current) in presents.iter().enumerate() {
        let (here, goal) = (pose(example as f32), pose(example as f32 + 1.0));
        let query = PredictionQuery::new(100.0, here, goal, 2.0);
        for context in 0..of.contexts {
            let first = (example * of.contexts + context) * of.slots;
            let latents = memories[first..first + of.slots].iter().enumerate();
            let memories = latents.map(|(slot, latent)| Remembered {
                time: (first + slot) as f64 % 97.0,
                pose: Some(pose(-(slot as f32))),
                latent,
                signals: FrameSignals::default(),
            });
            batch.push(&query, current, memories)?;
        }
    }
    Ok(batch.into_owned())
}

/// Normal numbers.
pub fn normal(count: usize, purpose: &str, number: usize) -> Vec<f32> {
    let mut values = vec![0.0; count];
    Random::stream(0, purpose, number as u64).fill_normal(&mut values);
    values
}

//! A world model in Python as evaluations know one. Its frames are their own latents, one number for a
//! byte, so that the same code judges it that judges the project's own models.

use far_data::{Episode, Picture};
use far_memory::Pose;
use far_model::{
    ActionFeatures, ConditionScale, ContextBatch, CueEncoder, DdimConfig, Error, Futures,
    LatentShape, Perturbations, Result, Tokenizer, WorldModel,
};
use far_tensor::NoiseSchedule;
use numpy::ndarray::{Array1, Array2, Array3, Array4, Array5};
use numpy::{IntoPyArray, PyReadonlyArray2, PyReadonlyArray4};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex};

/// The most frames whose keys are asked for at once.
const KEY_BATCH: usize = 256;

/// The functions of a model in Python, and what one of them raised.
pub struct JudgedModel {
    /// `predict(frames, poses, goals, strides, memories, memory_poses, mask, seeds)` → [n, h, w, 3].
    predict: Py<PyAny>,
    /// `keys(cue, frames, actions)` → [n, dimension]; without actions for the memory, [n, 8] for queries.
    keys: Py<PyAny>,
    raised: Mutex<Option<PyErr>>,
    size: [usize; 2],
    schedule: NoiseSchedule,
}

impl JudgedModel {
    /// A model that predicts pictures of this width and height.
    pub fn new(predict: Py<PyAny>, keys: Py<PyAny>, size: [u32; 2]) -> Self {
        let schedule = NoiseSchedule::linear(1000, 1e-4, 2e-2).expect("the customary schedule");
        let size = size.map(|side| side as usize);
        Self { predict, keys, raised: Mutex::new(None), size, schedule }
    }

    /// What the model raised, once.
    pub fn take_raised(&self) -> Option<PyErr> {
        self.raised.lock().ok()?.take()
    }

    /// Calls into Python; what is raised there is kept and ends the evaluation.
    fn ask<T>(
        &self,
        what: &'static str,
        call: impl FnOnce(Python<'_>) -> PyResult<T>,
    ) -> Result<T> {
        Python::attach(call).map_err(|error| {
            let reason = error.to_string();
            if let Ok(mut raised) = self.raised.lock() {
                *raised = Some(error);
            }
            Error::Setting { setting: what, reason }
        })
    }

    /// The predicted pictures as latents, one after another; `seeds` has one number for each context.
    fn predicted(&self, contexts: &ContextBatch<'_>, seeds: &[u64]) -> Result<Vec<f32>> {
        let (count, slots, [width, height]) = (contexts.examples(), contexts.slots(), self.size);
        let elements = 3 * width * height;
        let (mut frames, mut memories) = (Vec::new(), Vec::new());
        for context in contexts.latents().chunks((1 + slots) * elements) {
            let (frame, recalled) = context.split_at(elements);
            frames.extend(frame.iter().map(|value| *value as u8));
            memories.extend(recalled.iter().map(|value| *value as u8));
        }
        let (mut poses, mut goals, mut recalled) = (Vec::new(), Vec::new(), Vec::new());
        for cameras in contexts.cameras().chunks(2 + slots) {
            goals.extend(numbers(cameras[0]));
            poses.extend(numbers(cameras[1]));
            recalled.extend(cameras[2..].iter().flat_map(|camera| numbers(*camera)));
        }
        // The scale of a unit of time is a second.
        let targets = contexts.conditions().chunks(2 + slots);
        let strides = targets.map(|frames| frames[0].time).collect::<Vec<f32>>();
        let frames = shaped(Array4::from_shape_vec((count, height, width, 3), frames))?;
        let memories = shaped(Array5::from_shape_vec((count, slots, height, width, 3), memories))?;
        let poses = shaped(Array2::from_shape_vec((count, 7), poses))?;
        let goals = shaped(Array2::from_shape_vec((count, 7), goals))?;
        let recalled = shaped(Array3::from_shape_vec((count, slots, 7), recalled))?;
        let mask = shaped(Array2::from_shape_vec((count, slots), contexts.present().to_vec()))?;
        let (strides, seeds) = (Array1::from_vec(strides), Array1::from_vec(seeds.to_vec()));
        self.ask("predict", |py| {
            let step = (
                frames.into_pyarray(py),
                poses.into_pyarray(py),
                goals.into_pyarray(py),
                strides.into_pyarray(py),
                memories.into_pyarray(py),
                recalled.into_pyarray(py),
                mask.into_pyarray(py),
                seeds.into_pyarray(py),
            );
            let predicted = self.predict.bind(py).call1(step)?;
            let predicted: PyReadonlyArray4<'_, u8> = predicted.extract()?;
            Ok(predicted.as_array().iter().map(|value| f32::from(*value)).collect())
        })
    }

    /// Keys of frames, or queries if their actions are told.
    fn keys_of(
        &self,
        JudgedKeys { cue, dimension, .. }: &JudgedKeys,
        frames: &[f32],
        actions: Option<&[ActionFeatures]>,
    ) -> Result<Vec<f32>> {
        let [width, height] = self.size;
        let elements = 3 * width * height;
        let mut keys = Vec::with_capacity(frames.len() / elements * dimension);
        for (number, part) in frames.chunks(KEY_BATCH * elements).enumerate() {
            let pixels = part.iter().map(|value| *value as u8).collect();
            let count = part.len() / elements;
            let pixels = shaped(Array4::from_shape_vec((count, height, width, 3), pixels))?;
            let told = actions.map(|actions| {
                let rows = &actions[number * KEY_BATCH..][..count];
                let told = rows.iter().flat_map(ActionFeatures::displacement).copied();
                shaped(Array2::from_shape_vec((count, ActionFeatures::LENGTH), told.collect()))
            });
            let told = told.transpose()?;
            self.ask("keys", |py| {
                let told = told.map(|told| told.into_pyarray(py));
                let found = self.keys.bind(py).call1((cue, pixels.into_pyarray(py), told))?;
                let found: PyReadonlyArray2<'_, f32> = found.extract()?;
                keys.extend(found.as_array().iter());
                Ok(())
            })?;
        }
        Ok(keys)
    }
}

/// Position and rotation of a camera; zeros where there is none.
fn numbers(camera: Option<Pose>) -> [f32; 7] {
    let Some(Pose { position: [x, y, z], rotation: [a, b, c, d] }) = camera else {
        return [0.0; 7];
    };
    [x, y, z, a, b, c, d]
}

fn shaped<T>(array: std::result::Result<T, numpy::ndarray::ShapeError>) -> Result<T> {
    array.map_err(|error| Error::Setting { setting: "frames", reason: error.to_string() })
}

/// A number for the noise of a prediction: equal noise has equal numbers.
fn seed(noise: &[f32], timestep: usize) -> u64 {
    let mix = |sum: u64, bits: u64| (sum ^ bits).wrapping_mul(0x0000_0100_0000_01B3);
    let start = mix(0xCBF2_9CE4_8422_2325, timestep as u64);
    // Torch and numpy take seeds of 63 bits.
    noise.iter().take(16).fold(start, |sum, value| mix(sum, u64::from(value.to_bits()))) >> 1
}

impl WorldModel for JudgedModel {
    fn shape(&self) -> LatentShape {
        let [width, height] = self.size;
        LatentShape { channels: 3, height, width, patch: 1 }
    }

    fn scale(&self) -> ConditionScale {
        ConditionScale { length: 1.0, time: 1.0 }
    }

    fn schedule(&self) -> &NoiseSchedule {
        &self.schedule
    }

    /// The squared error of predictions, of colors between 0 and 1. A model that draws nothing has the
    /// same for every draw.
    fn losses(
        &self,
        contexts: &ContextBatch<'_>,
        futures: &Futures,
        perturbations: &Perturbations,
        _: Option<&[f32]>,
    ) -> Result<Vec<f32>> {
        let (elements, draws) = (self.shape().elements(), perturbations.draws);
        let each = contexts.examples() / (futures.latents.len() / elements).max(1);
        let mut losses = vec![0.0; contexts.examples() * draws];
        for draw in 0..draws {
            let seeds: Vec<u64> = (0..contexts.examples())
                .map(|context| {
                    let drawn = context / each * draws + draw;
                    let noise = &perturbations.noise[drawn * elements..(drawn + 1) * elements];
                    seed(noise, perturbations.timesteps[drawn])
                })
                .collect();
            let predicted = self.predicted(contexts, &seeds)?;
            for (context, predicted) in predicted.chunks(elements).enumerate() {
                let future = &futures.latents[context / each * elements..][..elements];
                let missed = predicted.iter().zip(future).map(|(a, b)| f64::from(a - b).powi(2));
                let mean = missed.sum::<f64>() / (elements as f64 * 255.0 * 255.0);
                losses[context * draws + draw] = mean as f32;
            }
        }
        Ok(losses)
    }

    fn sample(
        &self,
        contexts: &ContextBatch<'_>,
        noise: &[f32],
        _: &DdimConfig,
    ) -> Result<Vec<f32>> {
        let noises = noise.chunks(self.shape().elements());
        let seeds: Vec<u64> = noises.map(|noise| seed(noise, 0)).collect();
        self.predicted(contexts, &seeds)
    }
}

/// Bytes as numbers.
pub struct Pixels {
    /// Width and height.
    pub size: [u32; 2],
}

impl Tokenizer for Pixels {
    fn shape(&self) -> LatentShape {
        let [width, height] = self.size.map(|side| side as usize);
        LatentShape { channels: 3, height, width, patch: 1 }
    }

    fn recipe(&self) -> String {
        "pixels".to_owned()
    }

    fn encode(&self, episode: &Episode, frames: &[usize]) -> Result<Vec<f32>> {
        let mut latents = Vec::with_capacity(frames.len() * self.shape().elements());
        for frame in frames {
            let picture = episode.picture(*frame)?;
            latents.extend(picture.pixels.iter().map(|value| f32::from(*value)));
        }
        Ok(latents)
    }

    fn decode(&self, latent: &[f32]) -> Option<Picture> {
        let [width, height] = self.size;
        let pixels = latent.iter().map(|value| *value as u8).collect();
        Some(Picture { width, height, pixels })
    }
}

/// One cue of the model's keys.
pub struct JudgedKeys {
    /// The model.
    pub model: Arc<JudgedModel>,
    /// The cue's name.
    pub cue: String,
    /// Numbers of a key.
    pub dimension: usize,
}

impl CueEncoder for JudgedKeys {
    fn cue(&self) -> &str {
        &self.cue
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn recipe(&self) -> String {
        "keys of a model in Python".to_owned()
    }

    fn keys(&self, frames: &[f32]) -> Result<Vec<f32>> {
        self.model.keys_of(self, frames, None)
    }

    fn queries(&self, frames: &[f32], actions: &[ActionFeatures]) -> Result<Vec<f32>> {
        self.model.keys_of(self, frames, Some(actions))
    }
}

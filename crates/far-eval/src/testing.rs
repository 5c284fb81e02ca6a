//! A world small enough to reckon with by hand: a straight road whose color depends on the place, a
//! tokenizer that keeps the color, and a world model that copies the memory nearest the goal.

use crate::encoded_clip::EncodedClip;
use crate::{Arm, EvaluationContext, EvaluationPlan, FrameQuality, Predictor};
use far_data::{
    Dataset, DatasetDescription, DatasetWriter, Episode, EpisodeFacts, EvaluationConfig, Frame,
    FrameImage, Phase, Picture, Split,
};
use far_memory::Pose;
use far_memory::policy::PolicyConfig;
use far_model::{
    ActionFeatures, ConditionScale, ContextBatch, CueEncoder, DdimConfig, EncodedDataset, Futures,
    LatentShape, Perturbations, Result, Tokenizer, WorldModel,
};
use far_tensor::NoiseSchedule;
use std::sync::{Arc, Mutex};

/// Width and height of frames.
pub const SIZE: u32 = 12;
/// Frames of the way out; the way back has about half as many.
pub const EXPLORED: usize = 40;
const SHAPE: LatentShape = LatentShape { channels: 3, height: 1, width: 1, patch: 1 };

/// The color of a place of an episode's road.
fn color(episode: u32, place: f32) -> [u8; 3] {
    let phase = episode as f32;
    let level = |pitch: f32, shift: f32| (127.5 + 120.0 * (pitch * place + shift).sin()) as u8;
    [level(0.35, phase), level(0.21, 2.0 + phase), level(0.5, 0.7 * phase)]
}

/// Episodes that walk out along a road, 1 m per frame, and halfway back: `lengths` says how many
/// frames the way back of each has. `tint` replaces the color of return frames but the first.
pub fn road(lengths: &[usize], tint: Option<[u8; 3]>) -> (tempfile::TempDir, EncodedDataset) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("road");
    let description = DatasetDescription::new("road", 10.0, [SIZE, SIZE], [90.0, 90.0]);
    let writer = DatasetWriter::create(&path, description).expect("a new folder");
    for (id, &length) in lengths.iter().enumerate() {
        let id = id as u32;
        let facts = EpisodeFacts::new(format!("road {id}"), Split::Test, 0);
        let mut episode = writer.episode(id, facts).expect("a new episode");
        for frame in 0..EXPLORED + length {
            let (place, phase) = match frame.checked_sub(EXPLORED) {
                None => (frame as f32, Phase::Explore),
                Some(back) => ((EXPLORED - 1) as f32 - back as f32, Phase::Return),
            };
            let shown = match tint {
                Some(tint) if frame > EXPLORED => tint,
                _ => color(id, place),
            };
            let pose = Pose::from_yaw_pitch([place, 0.0, 1.6], 0.0, 0.0);
            let image = FrameImage::Pixels(Picture::filled(SIZE, SIZE, shown));
            episode.push(Frame::new(frame as f64 / 10.0, pose, phase, image)).expect("a frame");
        }
        episode.finish().expect("a whole episode");
    }
    writer.finish().expect("an index");
    let dataset = Arc::new(Dataset::open(&path).expect("what was just written"));
    let encoders: Vec<Arc<dyn CueEncoder>> = vec![Arc::new(ColorEncoder)];
    let cache = folder.path().join("cache");
    (folder, EncodedDataset::new(dataset, Arc::new(ColorTokenizer), encoders, cache, 1 << 20))
}

/// All clips of a dataset, a generated frame every other recorded one.
pub fn clips(dataset: &EncodedDataset) -> Vec<EncodedClip> {
    let walk = plan().walk;
    let ids: Vec<u32> = dataset.dataset().ids().collect();
    ids.into_iter()
        .map(|id| EncodedClip::open(dataset, id, &walk).expect("readable").expect("long enough"))
        .collect()
}

/// Settings that fit the road.
pub fn plan() -> EvaluationPlan {
    EvaluationPlan {
        walk: EvaluationConfig { stride: 2, pool: 1000 },
        questions: 3,
        horizon: 8,
        replays: 1,
        batch: 2,
        ..EvaluationPlan::default()
    }
}

/// What a probe meets in an evaluation of these arms by the copier.
pub fn in_context<T>(
    dataset: &EncodedDataset,
    arms: &[Arm],
    probe: impl FnOnce(&EvaluationContext<'_>) -> T,
) -> T {
    let quality = FrameQuality::new(dataset, crate::Perceptual::default());
    let (judge, plan) = (Copier::new(), plan());
    let predictors: Vec<Predictor<'_>> = arms
        .iter()
        .map(|arm| Predictor::new(arm, arms, &judge, dataset.encoders(), &plan).expect("an arm"))
        .collect();
    let episodes: Vec<u32> = dataset.dataset().ids().collect();
    probe(&EvaluationContext {
        dataset,
        episodes: &episodes,
        judge: &judge,
        arms,
        plan: &plan,
        predictors: &predictors,
        quality: &quality,
        progress: &|_| (),
    })
}

/// Arms with the published settings of these rules.
pub fn arms(rules: &[&str]) -> Vec<Arm> {
    let build = |rule: &&str| PolicyConfig::from_id(rule).expect("a rule").build().expect("valid");
    rules.iter().map(|rule| Arm::policy(*rule, build(rule))).collect()
}

/// Keeps the color of the first pixel as three numbers in [−2, 2].
pub struct ColorTokenizer;

impl Tokenizer for ColorTokenizer {
    fn shape(&self) -> LatentShape {
        SHAPE
    }

    fn recipe(&self) -> String {
        "color".to_owned()
    }

    fn encode(&self, episode: &Episode, frames: &[usize]) -> Result<Vec<f32>> {
        let mut latents = Vec::new();
        for frame in frames {
            let pixel = episode.picture(*frame)?.pixel(0, 0);
            latents.extend(pixel.map(|value| 4.0 * f32::from(value) / 255.0 - 2.0));
        }
        Ok(latents)
    }

    fn decode(&self, latent: &[f32]) -> Option<Picture> {
        let color = [0, 1, 2].map(|channel| ((latent[channel] + 2.0) / 4.0 * 255.0).round() as u8);
        Some(Picture::filled(SIZE, SIZE, color))
    }
}

/// The direction of the color as the key of a cue.
struct ColorEncoder;

impl CueEncoder for ColorEncoder {
    fn cue(&self) -> &str {
        "vision"
    }

    fn dimension(&self) -> usize {
        3
    }

    fn recipe(&self) -> String {
        "direction of the color".to_owned()
    }

    fn keys(&self, frames: &[f32]) -> Result<Vec<f32>> {
        let unit = |latent: &[f32]| {
            let length = latent.iter().map(|x| x * x).sum::<f32>().sqrt().max(1e-6);
            [latent[0] / length, latent[1] / length, latent[2] / length]
        };
        Ok(frames.chunks(3).flat_map(unit).collect())
    }

    fn queries(&self, frames: &[f32], _: &[ActionFeatures]) -> Result<Vec<f32>> {
        self.keys(frames)
    }
}

/// Predicts the latent of the memory whose place is nearest the goal's, or the present without any.
/// Its loss is the mean square of what that misses, whatever the noise, so utilities are exact.
pub struct Copier {
    schedule: NoiseSchedule,
    /// What it generates whatever it is given, if it is that stubborn.
    stubborn: Option<f32>,
    /// How long before each memory the frame lies that it reads beside it.
    earlier_view: Option<f32>,
    /// The noise of every prediction in the order they were asked for.
    pub noises: Mutex<Vec<Vec<f32>>>,
    /// The latents, present and slots, of every context that was sampled.
    pub contexts: Mutex<Vec<Vec<f32>>>,
    /// The timesteps of every measurement.
    pub timesteps: Mutex<Vec<Vec<usize>>>,
}

impl Copier {
    pub fn new() -> Self {
        let schedule = NoiseSchedule::linear(1000, 1e-4, 2e-2).expect("the customary schedule");
        let (noises, contexts) = (Mutex::default(), Mutex::default());
        let (stubborn, earlier_view, timesteps) = (None, None, Mutex::default());
        Self { schedule, stubborn, earlier_view, noises, contexts, timesteps }
    }

    /// One that reads two frames of every memory.
    pub fn of_two_views(seconds: f32) -> Self {
        Self { earlier_view: Some(seconds), ..Self::new() }
    }

    /// One that generates nothing but this value.
    pub fn stubborn(value: f32) -> Self {
        Self { stubborn: Some(value), ..Self::new() }
    }

    fn predict(contexts: &ContextBatch<'_>) -> Vec<f32> {
        let slots = contexts.slots();
        let (frames, present) = (contexts.latents(), contexts.present());
        let mut predicted = Vec::new();
        for example in 0..contexts.examples() {
            let nearest =
                (0..slots).filter(|slot| present[example * slots + slot]).min_by(|a, b| {
                    let distance = |slot: &usize| {
                        contexts.conditions()[example * (2 + slots) + 2 + slot].from_goal[0].abs()
                    };
                    distance(a).total_cmp(&distance(b))
                });
            let frame = example * (1 + slots) + nearest.map_or(0, |slot| 1 + slot);
            predicted.extend_from_slice(&frames[3 * frame..3 * frame + 3]);
        }
        predicted
    }
}

impl WorldModel for Copier {
    fn shape(&self) -> LatentShape {
        SHAPE
    }

    fn scale(&self) -> ConditionScale {
        ConditionScale { length: 4.0, time: 12.8 }
    }

    fn earlier_view(&self) -> Option<f32> {
        self.earlier_view
    }

    fn schedule(&self) -> &NoiseSchedule {
        &self.schedule
    }

    fn losses(
        &self,
        contexts: &ContextBatch<'_>,
        futures: &Futures,
        perturbations: &Perturbations,
        _: Option<&[f32]>,
    ) -> Result<Vec<f32>> {
        self.timesteps.lock().expect("one test").push(perturbations.timesteps.clone());
        let per_future = contexts.examples() / (futures.latents.len() / 3);
        let predicted = Self::predict(contexts);
        let losses = predicted.chunks(3).enumerate().flat_map(|(context, predicted)| {
            let future = &futures.latents[context / per_future * 3..][..3];
            let missed = predicted.iter().zip(future).map(|(a, b)| (a - b) * (a - b));
            vec![missed.sum::<f32>() / 3.0; perturbations.draws]
        });
        Ok(losses.collect())
    }

    fn sample(
        &self,
        contexts: &ContextBatch<'_>,
        noise: &[f32],
        _: &DdimConfig,
    ) -> Result<Vec<f32>> {
        self.noises.lock().expect("one test").extend(noise.chunks(3).map(<[f32]>::to_vec));
        let each = 3 * (1 + contexts.slots());
        let latents = contexts.latents();
        let seen = latents.chunks(each).map(<[f32]>::to_vec);
        self.contexts.lock().expect("one test").extend(seen);
        Ok(match self.stubborn {
            None => Self::predict(contexts),
            Some(value) => vec![value; noise.len()],
        })
    }
}

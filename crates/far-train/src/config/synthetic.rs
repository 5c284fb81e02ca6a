//! A dataset that has everything a configuration asks for: latents, poses, times, and the
//! labels, masks and sounds it names. The camera goes around a circle and back.
//!
//! It is for trying a configuration before its corpus is available, and for measuring speed.

use crate::{ChangeMaskSource, Error, Result, TrainConfig};
use far_data::{
    AgentState, Change, ChangeKind, DatasetDescription, DatasetWriter, EpisodeFacts, Frame,
    FrameImage, ImageEncoding, Mask, Phase, Signal, Split,
};
use far_memory::Pose;
use far_model::LatentShape;
use serde_json::json;
use std::f32::consts::TAU;
use std::path::Path;

const FRAMES_PER_SECOND: f32 = 10.0;
/// Pixels of a frame along one cell of its latent.
const CELL: u32 = 8;
/// Two episodes to learn from and one to be judged by, each a scene of its own.
const SPLITS: [Split; 3] = [Split::Train, Split::Train, Split::Test];

/// Latents of OASIS' tokenizer, as the paper has them for LoopNav.
pub const OASIS: LatentShape = LatentShape { channels: 16, height: 18, width: 32, patch: 2 };
/// Latents of SDXL's, as for its other corpora.
pub const SDXL: LatentShape = LatentShape { channels: 4, height: 32, width: 32, patch: 2 };

/// The latents that a preset is meant for.
pub fn latents_of(preset: &str) -> LatentShape {
    if preset == "paper-loopnav" { OASIS } else { SDXL }
}

/// Writes three episodes of `explored` and `returned` frames for a configuration with precomputed
/// latents of this shape.
///
/// # Errors
/// If the folder holds a dataset already, or the disk refuses.
pub fn write(
    config: &TrainConfig,
    shape: LatentShape,
    folder: &Path,
    [explored, returned]: [u32; 2],
) -> Result<()> {
    let writer = DatasetWriter::create(folder, describe(config, shape))?;
    let latents_folder = folder.join("latents");
    std::fs::create_dir_all(&latents_folder).map_err(Error::file("create", &latents_folder))?;
    for (id, split) in (0..).zip(SPLITS) {
        let facts = EpisodeFacts::new(format!("circle {id}"), split, u64::from(id));
        let mut episode = writer.episode(id, facts)?;
        let mut latents = Vec::new();
        for index in 0..explored + returned {
            let phase = if index < explored { Phase::Explore } else { Phase::Return };
            let around = match phase {
                Phase::Explore => index as f32 / explored as f32,
                Phase::Return => 1.0 - (index - explored) as f32 / returned as f32,
            };
            episode.push(frame(writer.description(), index, phase, TAU * around))?;
            let values = latent(shape, id as f32 + TAU * around);
            latents.extend(values.map(|value| value / config.tokenizer.precomputed.scale));
        }
        episode.finish()?;
        let frames = (explored + returned) as usize;
        let sizes = [frames, shape.channels, shape.height, shape.width];
        let path = latents_folder.join(format!("{id:06}.safetensors"));
        std::fs::write(&path, safetensors(sizes, &latents)).map_err(Error::file("write", &path))?;
    }
    writer.finish()?;
    Ok(())
}

/// The bytes of a safetensors file with one tensor, `latents`.
fn safetensors(shape: [usize; 4], values: &[f32]) -> Vec<u8> {
    let tensor = json!({ "dtype": "F32", "shape": shape, "data_offsets": [0, 4 * values.len()] });
    let header = json!({ "latents": tensor }).to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

/// Says that the dataset has what the configuration needs.
fn describe(config: &TrainConfig, shape: LatentShape) -> DatasetDescription {
    let LatentShape { height, width, .. } = shape;
    let resolution = [width, height].map(|cells| CELL * cells as u32);
    let fps = FRAMES_PER_SECOND;
    let mut description = DatasetDescription::new("synthetic", fps, resolution, [90.0, 90.0]);
    description.images = ImageEncoding::None;
    description.splits = config.data.split_rule.into_iter().collect();
    if description.splits.is_empty() {
        description.splits.push(far_data::SplitRule::Episode);
    }
    if let Some(anchor) = &config.data.anchor {
        description.signals.push(Signal::Events);
        description.labels.clone_from(&anchor.labels);
    }
    if config.conditioning.interactions {
        description.signals.push(Signal::DoorFraction);
    }
    match config.training.change_mask.map(|mask| mask.source) {
        Some(ChangeMaskSource::Change) => description.signals.push(Signal::Change),
        Some(ChangeMaskSource::Silhouette) => description.signals.push(Signal::Agent),
        None => {}
    }
    let cue = config.arm.cue.as_str();
    if cue == "audio" {
        description.audio_rate = Some(16_000);
    }
    if cue != "vision" {
        description.cues.push(cue.into());
    }
    description
}

/// A frame on the circle, with all that the description promises.
fn frame(description: &DatasetDescription, index: u32, phase: Phase, angle: f32) -> Frame {
    let pose = Pose::from_yaw_pitch([3.0 * angle.cos(), 3.0 * angle.sin(), 1.6], angle, 0.0);
    let time = f64::from(index) / f64::from(FRAMES_PER_SECOND);
    let mut frame = Frame::new(time, pose, phase, FrameImage::Absent);
    let place = index as usize;
    let samples = description.audio_start(place + 1) - description.audio_start(place);
    frame.audio = vec![[0.0; 2]; samples];
    if description.has(Signal::DoorFraction) {
        // Doors swing open and shut, in memory and on the return.
        frame.door_fraction = Some(0.5 - 0.5 * (0.3 * index as f32).cos());
    }
    let [width, height] = description.resolution;
    let mask = Mask::from_fn(width, height, |x, y| 4 * x < width && 4 * y < height);
    if description.has(Signal::Agent) && index % 6 < 2 {
        // The second agent crosses now and then, in memory and on the return.
        frame.agent = AgentState { visible: true, position: [0.5, 2.0] };
        frame.silhouette = Some(mask.clone());
    }
    if phase == Phase::Explore {
        return frame;
    }
    if description.has(Signal::Events) && index % 8 < 2 {
        frame.events = vec![(index / 8 % description.labels.len() as u32) as u16];
    }
    if description.has(Signal::Change) {
        let stale_frame = None;
        frame.change = Some(Change { kind: ChangeKind::Surface, mask, stale_frame });
    }
    frame
}

/// Waves of about unit variance that differ from place to place: [C, H, W].
fn latent(shape: LatentShape, place: f32) -> impl Iterator<Item = f32> {
    let LatentShape { channels, height, width, .. } = shape;
    (0..channels * height * width).map(move |number| {
        let (row, column) = (number / width % height, number % width);
        let channel = (number / (width * height)) as f32;
        let wave = (1.0 + channel) * place + 0.3 * row as f32 - 0.2 * column as f32;
        2.0f32.sqrt() * (wave + 1.7 * channel).sin()
    })
}

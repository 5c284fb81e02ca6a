//! A walk along a striped wall, out and halfway back, and an evaluation of it with one more probe.

use crate::sharpness::Sharpness;
use far_data::{
    Dataset, DatasetDescription, DatasetWriter, EpisodeFacts, Frame, FrameImage, Phase, Picture,
    Split,
};
use far_eval::{Arm, Control, Evaluation, EvaluationPlan, Perceptual, Probes, Results};
use far_memory::Pose;
use far_memory::policy::PolicyConfig;
use far_model::{
    ConditionScale, DdimConfig, DitConfig, DitSetting, DitWorldModel, EncodedDataset, PatchPca,
    PatchPcaConfig, SignalLayout, Tokenizer, TrainableWorldModel,
};
use far_tensor::{AdamWConfig, Device};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

const SIDE: u32 = 16;
const OUT: usize = 30;
const BACK: usize = 9;

/// What is seen at a place: stripes that shift with it, and change their color.
fn seen(episode: u32, place: usize) -> Picture {
    let mut picture = Picture::filled(SIDE, SIDE, [30, 60, 90]);
    for x in (0..SIDE).filter(|x| (x + place as u32) % 6 < 3) {
        (0..SIDE).for_each(|y| picture.set_pixel(x, y, [250, 8 * place as u8, 60 * episode as u8]));
    }
    picture
}

/// Records three walks.
fn record(folder: &Path) -> Result<(), Box<dyn Error>> {
    let size = [SIDE, SIDE];
    let description = DatasetDescription::new("wall", 10.0, size, [90.0, 90.0]);
    let writer = DatasetWriter::create(folder, description)?;
    for id in 0..3 {
        let mut episode = writer.episode(id, EpisodeFacts::new("wall", Split::Test, 0))?;
        for frame in 0..OUT + BACK {
            let (place, phase) = match frame.checked_sub(OUT) {
                None => (frame, Phase::Explore),
                Some(back) => (OUT - 1 - back, Phase::Return),
            };
            let pose = Pose::from_yaw_pitch([place as f32, 0.0, 1.6], 0.0, 0.0);
            let image = FrameImage::Pixels(seen(id, place));
            episode.push(Frame::new(frame as f64 / 10.0, pose, phase, image))?;
        }
        episode.finish()?;
    }
    writer.finish()?;
    Ok(())
}

/// Records walks below `folder` and evaluates a rule and two controls on them. The world model was
/// never trained, so its numbers mean nothing.
///
/// # Errors
/// If the folder cannot be written, or the evaluation stops.
pub fn evaluate(folder: &Path) -> Result<Results, Box<dyn Error>> {
    record(&folder.join("data"))?;
    let dataset = Arc::new(Dataset::open(&folder.join("data"))?);
    let episodes: Vec<u32> = dataset.ids().collect();
    let config =
        PatchPcaConfig { resolution: [16, 16], patch: 8, channels: 12, ..Default::default() };
    let tokenizer = Arc::new(PatchPca::fit(&dataset, &episodes, config)?);
    let setting = DitSetting {
        config: DitConfig { depth: 2, width: 16, heads: 2, ..DitConfig::default() },
        shape: tokenizer.shape(),
        scale: ConditionScale { length: 4.0, time: 12.8 },
        signals: SignalLayout::default(),
        view: None,
    };
    let judge =
        DitWorldModel::new(setting, AdamWConfig::default(), 0, &Device::cpu())?.average()?;
    let cache = folder.join("cache");
    let dataset = EncodedDataset::new(dataset, tokenizer, Vec::new(), cache, 1 << 20);
    let nearest = PolicyConfig::from_id("nearest-pose")?.build()?;
    let controls = [Control::Copy, Control::Tokenizer].map(Arm::control);
    let arms: Vec<Arm> =
        [Arm::policy("nearest-pose", nearest)].into_iter().chain(controls).collect();
    let evaluation = Evaluation {
        dataset: &dataset,
        episodes: &episodes,
        judge: judge.as_ref(),
        arms: &arms,
        plan: &EvaluationPlan {
            questions: 1,
            replays: 0,
            sampler: DdimConfig { steps: 2, ..DdimConfig::default() },
            ..EvaluationPlan::default()
        },
        perceptual: Perceptual::default(),
        probes: Probes::default(),
        device: "cpu",
    };
    let mut probes = evaluation.probes.all();
    probes.push(Box::new(Sharpness::new()));
    let (results, _) = evaluation.run_with(probes, &mut |_| {})?;
    results.write(folder)?;
    Ok(results)
}

//! A GPU computes what the CPU computes: training, utility, sampling, and files that move between
//! them. Without a GPU each test says so and is skipped.

use far_memory::{Camera, Pose};
use far_model::{
    BlockConfig, ConditionScale, ContextAttention, ContextBatch, DdimConfig, DitConfig, DitSetting,
    DitWorldModel, FrameSignals, Futures, GoalWarp, LatentShape, LinearPatches, ModulationStart,
    Pass, Perturbations, PredictionKind, PredictionQuery, Remembered, SignalLayout, TokenDit,
    TokenDitConfig, TrainableWorldModel, WorldModel,
};
use far_tensor::{
    AdamWConfig, ArenaBuilder, Checkpoint, CheckpointWriter, Device, PatchGrid, Precision, Random,
    Tensor, Trained,
};
use std::io::Write;
use std::sync::Arc;

/// A GPU, or a word that there is none.
fn gpu(precision: Precision) -> Option<Device> {
    match Device::cuda(0, precision) {
        Ok(device) => Some(device),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "skipped on a machine without a GPU: {error}");
            None
        }
    }
}

fn normal(length: usize, purpose: &str, step: u64) -> Vec<f32> {
    let mut values = vec![0.0; length];
    Random::stream(5, purpose, step).fill_normal(&mut values);
    values
}

/// The losses of 200 steps of the small bench shape.
fn losses(device: &Device, steps: u64) -> Vec<f32> {
    const CHANNELS: usize = 16;
    let (depth, width, heads, batch, frames, tokens) = (4, 128, 4, 8, 5, 16);
    let block = BlockConfig {
        affine: true,
        modulation: ModulationStart::Random,
        ..BlockConfig::new(width, heads)
    };
    let mut builder = ArenaBuilder::new("small");
    let network = TokenDit::new(&mut builder, TokenDitConfig { depth, channels: CHANNELS, block });
    let optimizer = AdamWConfig { learning_rate: 3e-4, warm_up: 0, ..AdamWConfig::default() };
    let mut trained = Trained::new(builder.build(0), optimizer);
    let step = |number| {
        let sizes = [batch, frames, tokens, CHANNELS];
        let x = Tensor::from_slice(&normal(sizes.iter().product(), "x", number), sizes).unwrap();
        let condition = normal(batch * width, "condition", number);
        let condition = Tensor::from_slice(&condition, [batch, width]).unwrap();
        let done = trained.step(device, 1, |tape, parameters, _| {
            let y = network.forward(&mut Pass::new(tape, parameters), &x, &condition)?;
            tape.squared_error(&y, &x, None)
        });
        done.unwrap().loss
    };
    (0..steps).map(step).collect()
}

#[test]
fn two_hundred_steps_agree_in_single_precision() {
    let Some(gpu) = gpu(Precision::F32) else { return };
    let (here, there) = (losses(&Device::cpu(), 200), losses(&gpu, 200));
    for (step, (here, there)) in here.iter().zip(&there).enumerate() {
        let off = (here - there).abs() / here;
        assert!(off <= 1e-3, "step {step}: {here} on the CPU, {there} on the GPU");
    }
}

#[test]
fn lower_precision_learns_alike() {
    let expected = losses(&Device::cpu(), 60);
    for precision in [Precision::Tf32, Precision::Bf16] {
        let Some(gpu) = gpu(precision) else { return };
        let found = losses(&gpu, 60);
        let [here, there] = [&expected, &found].map(|losses| losses[50..].iter().sum::<f32>());
        assert!((here - there).abs() <= 0.03 * here, "{precision}: {there} instead of {here}");
    }
}

const SHAPE: LatentShape = LatentShape { channels: 4, height: 8, width: 8, patch: 2 };

const SCALE: ConditionScale = ConditionScale { length: 2.0, time: 6.4 };

/// Tokens of 4 × 4 pixels in one color.
fn view() -> GoalWarp {
    let grid = PatchGrid { rows: 4, columns: 4, colors: 1, side: 4 };
    let tensor = |purpose, sizes: [usize; 2]| {
        let values = normal(sizes[0] * sizes[1], purpose, 0);
        let values: Vec<f32> = values.iter().map(|value| 0.25 * value).collect();
        Tensor::from_slice(&values, sizes).unwrap()
    };
    let part =
        |purpose| [tensor(purpose, [16, 16]), tensor("offset", [1, 16]).reshape([16]).unwrap()];
    let patches = LinearPatches { grid, decode: part("decode"), encode: part("encode") };
    GoalWarp::new(patches, &Camera::from_degrees(90.0, 90.0))
}

/// Joint attention, context-first attention, and a network that copies, of frames as they are and as
/// they would be seen from the goal.
fn settings() -> [DitSetting; 4] {
    let joint = DitConfig { depth: 4, width: 128, heads: 2, ..DitConfig::default() };
    let context_first = DitConfig { attention: ContextAttention::ContextFirst, ..joint };
    let prediction = PredictionKind::Clean;
    let copying = DitConfig { prediction, learned_variance: false, copy: true, ..joint };
    let seen = DitConfig { seen_from_goal: Some(6.0), ..copying };
    [joint, context_first, copying, seen].map(|config| DitSetting {
        config,
        shape: SHAPE,
        scale: SCALE,
        signals: SignalLayout::default(),
        view: Some(Arc::new(view())),
    })
}

/// Three predictions, one of which has fewer memories than slots.
fn contexts() -> ContextBatch<'static> {
    let mut batch = ContextBatch::new(SHAPE, SCALE, 2, SignalLayout::default());
    let pose = |at: f32| Pose::from_yaw_pitch([at, 0.5 * at, 1.6], 0.3 * at, 0.0);
    let shown = |purpose, count| -> Vec<Vec<f32>> {
        (0..count).map(|number| normal(SHAPE.elements(), purpose, number)).collect()
    };
    let (latents, presents) = (shown("memory", 2), shown("current", 3));
    for (example, count) in [2, 1, 2].into_iter().enumerate() {
        let at = example as f32;
        let memories = latents[..count].iter().enumerate().map(|(slot, latent)| Remembered {
            time: slot as f64,
            pose: Some(pose(slot as f32 - 3.0)),
            latent,
            signals: FrameSignals::default(),
        });
        let query = PredictionQuery::new(10.0, pose(at), pose(at + 1.0), 0.4);
        batch.push(&query, &presents[example], memories).unwrap();
    }
    batch.into_owned()
}

fn futures(number: u64) -> Futures {
    Futures { latents: normal(3 * SHAPE.elements(), "future", number), states: Vec::new() }
}

/// A model after a few steps, so that everything has an effect.
fn trained(setting: DitSetting, device: &Device) -> DitWorldModel {
    let optimizer = AdamWConfig { learning_rate: 2e-3, warm_up: 0, ..AdamWConfig::default() };
    let mut model = DitWorldModel::new(setting, optimizer, 3, device).unwrap();
    let futures = futures(0);
    for step in 0..10 {
        let drawn = Perturbations::stratified(0..1000, [3, 1, SHAPE.elements()], 1, "draw", step);
        model.train(&contexts(), &futures, &drawn, None, 1).unwrap();
    }
    model
}

fn distance(found: &[f32], expected: &[f32]) -> f32 {
    let square = |values: &mut dyn Iterator<Item = f32>| values.map(|x| x * x).sum::<f32>();
    let off = square(&mut found.iter().zip(expected).map(|(a, b)| a - b));
    (off / square(&mut expected.iter().copied())).sqrt()
}

#[test]
fn utility_and_samples_agree_and_a_checkpoint_moves() {
    for setting in settings() {
        let config = setting.config;
        let here = trained(setting.clone(), &Device::cpu());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        here.save(CheckpointWriter::new()).save(&path).unwrap();
        let futures = futures(1);
        let drawn = Perturbations::stratified(0..1000, [3, 2, SHAPE.elements()], 1, "losses", 0);
        let noise = normal(3 * SHAPE.elements(), "noise", 0);
        let sampler = DdimConfig::default();
        let of = |model: &DitWorldModel| {
            let losses = model.losses(&contexts(), &futures, &drawn, None).unwrap();
            (losses, model.sample(&contexts(), &noise, &sampler).unwrap())
        };
        let (losses, sample) = of(&here);
        for (precision, limit) in
            [(Precision::F32, 2e-4), (Precision::Tf32, 1e-2), (Precision::Bf16, 5e-2)]
        {
            let Some(gpu) = gpu(precision) else { return };
            let optimizer = AdamWConfig::default();
            let mut there = DitWorldModel::new(setting.clone(), optimizer, 9, &gpu).unwrap();
            there.load(&mut Checkpoint::open(&path).unwrap()).unwrap();
            let (found, sampled) = of(&there);
            let off = [distance(&found, &losses), distance(&sampled, &sample)];
            assert!(off.iter().all(|off| *off <= limit), "{config:?}, {precision}: {off:?}");
        }
        // And back: what a GPU has trained goes on here.
        let Some(gpu) = gpu(Precision::F32) else { return };
        let there = trained(setting.clone(), &gpu);
        there.save(CheckpointWriter::new()).save(&path).unwrap();
        let optimizer = AdamWConfig::default();
        let mut back = DitWorldModel::new(setting.clone(), optimizer, 9, &Device::cpu()).unwrap();
        back.load(&mut Checkpoint::open(&path).unwrap()).unwrap();
        let (found, sampled) = of(&back);
        let off = [distance(&found, &losses), distance(&sampled, &sample)];
        assert!(off.iter().all(|off| *off <= 2e-3), "{config:?}, trained on the GPU: {off:?}");
    }
}

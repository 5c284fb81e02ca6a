//! The world model keeps its promises: it begins at nothing, reads what is present and nothing else,
//! shares a context's work without changing its result, learns, and comes back from a file.

use far_memory::Pose;
use far_model::{
    Channel, ConditionScale, ContextAttention, ContextBatch, DdimConfig, DitConfig, DitSetting,
    DitWorldModel, FrameSignals, FrozenDit, Futures, LatentShape, Perturbations, PredictionKind,
    PredictionQuery, Remembered, SignalLayout, TrainableWorldModel, WorldModel,
};
use far_tensor::{AdamWConfig, Checkpoint, CheckpointWriter, Device, Random};

const NONE: Channel = Channel { name: "", width: 0 };
const SIGNALS: SignalLayout = SignalLayout {
    action: Channel { name: "signal", width: 2 },
    viewpoint: NONE,
    state: NONE,
    goal_state: NONE,
};
const SHAPE: LatentShape = LatentShape { channels: 3, height: 4, width: 4, patch: 2 };
const ELEMENTS: usize = 48;

fn setting(attention: ContextAttention, prediction: PredictionKind) -> DitSetting {
    let config =
        DitConfig { depth: 4, width: 16, heads: 2, attention, prediction, ..DitConfig::default() };
    let scale = ConditionScale { length: 2.0, time: 6.4 };
    DitSetting { config, shape: SHAPE, scale, signals: SIGNALS, view: None }
}

fn optimizer() -> AdamWConfig {
    AdamWConfig { learning_rate: 5e-3, warm_up: 0, ..AdamWConfig::default() }
}

fn model(setting: DitSetting) -> DitWorldModel {
    DitWorldModel::new(setting, optimizer(), 3, &Device::cpu()).unwrap()
}

fn latent(number: u64) -> Vec<f32> {
    let mut values = vec![0.0; ELEMENTS];
    Random::stream(number, "latent", 0).fill_normal(&mut values);
    values
}

fn pose(number: f32) -> Pose {
    Pose::from_yaw_pitch([number, 0.5 * number, 1.6], 0.3 * number, 0.0)
}

/// The futures with these numbers.
fn seen(numbers: std::ops::Range<u64>) -> Futures {
    Futures { latents: numbers.flat_map(latent).collect(), states: Vec::new() }
}

fn query(number: f32) -> PredictionQuery<'static> {
    let query = PredictionQuery::new(10.0, pose(number), pose(number + 1.0), 0.4);
    PredictionQuery { action: vec![1.0, 0.25], ..query }
}

/// A batch of contexts with the given numbers of memories, out of `slots`.
fn contexts(slots: usize, filled: &[usize]) -> ContextBatch<'static> {
    let scale = ConditionScale { length: 2.0, time: 6.4 };
    let mut batch = ContextBatch::new(SHAPE, scale, slots, SIGNALS);
    let latents: Vec<Vec<f32>> = (0..slots as u64).map(|slot| latent(100 + slot)).collect();
    let presents: Vec<Vec<f32>> = (0..filled.len() as u64).map(latent).collect();
    for (example, count) in filled.iter().enumerate() {
        let memories = latents[..*count].iter().enumerate().map(|(slot, latent)| Remembered {
            time: slot as f64,
            pose: Some(pose(slot as f32 - 3.0)),
            latent,
            signals: FrameSignals::default(),
        });
        batch.push(&query(example as f32), &presents[example], memories).unwrap();
    }
    batch.into_owned()
}

/// A model whose parameters are no longer the initial ones, so that everything has an effect.
fn shaken(setting: DitSetting) -> DitWorldModel {
    let mut model = model(setting);
    let batch = contexts(2, &[2, 2, 1]);
    let futures = seen(20..23);
    for step in 0..8 {
        let drawn = Perturbations::stratified(0..1000, [3, 1, ELEMENTS], 1, "shake", step);
        model.train(&batch, &futures, &drawn, None, 1).unwrap();
    }
    model
}

const ALL: [(ContextAttention, PredictionKind); 5] = [
    (ContextAttention::Joint, PredictionKind::Noise),
    (ContextAttention::Joint, PredictionKind::Velocity),
    (ContextAttention::ContextFirst, PredictionKind::Noise),
    (ContextAttention::ContextFirst, PredictionKind::Velocity),
    (ContextAttention::Joint, PredictionKind::Clean),
];

#[test]
fn what_is_told_decides_where_nothing_else_does() {
    // The same present, goal and memory; a future of its own for each of two interactions.
    let mut batch = ContextBatch::new(SHAPE, ConditionScale { length: 2.0, time: 6.4 }, 1, SIGNALS);
    let (memory, present) = (latent(7), latent(5));
    for signals in [[1.0, 0.0], [0.0, 1.0]] {
        let query = PredictionQuery { action: signals.to_vec(), ..query(0.0) };
        let remembered = Remembered {
            time: 1.0,
            pose: Some(pose(1.0)),
            latent: &memory,
            signals: FrameSignals::default(),
        };
        batch.push(&query, &present, [remembered]).unwrap();
    }
    let futures = seen(20..22);
    let mut model = model(setting(ContextAttention::Joint, PredictionKind::Velocity));
    for step in 0..300 {
        let drawn = Perturbations::stratified(0..1000, [2, 1, ELEMENTS], 1, "told", step);
        model.train(&batch, &futures, &drawn, None, 1).unwrap();
    }
    let noise = latent(9).repeat(2);
    let predicted = model.sample(&batch, &noise, &DdimConfig::default()).unwrap();
    let missed = |from: usize, to: usize| -> f32 {
        let pairs =
            predicted[from * ELEMENTS..][..ELEMENTS].iter().zip(&futures.latents[to * ELEMENTS..]);
        pairs.map(|(a, b)| (a - b) * (a - b)).sum::<f32>() / ELEMENTS as f32
    };
    for own in [0, 1] {
        let (right, wrong) = (missed(own, own), missed(own, 1 - own));
        assert!(right < 0.7 * wrong, "{own}: {right} from its own future, {wrong} from the other");
    }
}

#[test]
fn a_fresh_model_predicts_zero() {
    for (attention, prediction) in ALL {
        let model = model(setting(attention, prediction));
        let drawn = Perturbations::stratified(0..1000, [1, 4, ELEMENTS], 1, "draw", 0);
        let losses = model.losses(&contexts(2, &[2]), &seen(9..10), &drawn, None).unwrap();
        for (draw, loss) in losses.iter().enumerate() {
            let noise = &drawn.noise[draw * ELEMENTS..(draw + 1) * ELEMENTS];
            let kept = model.schedule().signal_power(drawn.timesteps[draw]).unwrap();
            let (signal, spread) = (kept.sqrt() as f32, (1.0 - kept).sqrt() as f32);
            let target = noise.iter().zip(latent(9)).map(|(e, x)| match prediction {
                PredictionKind::Noise => *e,
                PredictionKind::Velocity => signal * e - spread * x,
                PredictionKind::Clean => x,
            });
            let expected = target.map(|y| y * y).sum::<f32>() / ELEMENTS as f32;
            assert!((loss - expected).abs() < 1e-5 * expected.max(1.0), "{loss} {expected}");
        }
        let frozen = FrozenDit::new(setting(attention, prediction), 3, &Device::cpu()).unwrap();
        assert_eq!(frozen.losses(&contexts(2, &[2]), &seen(9..10), &drawn, None).unwrap(), losses);
    }
}

/// Candidates that are judged together, with shared noise, get what each gets alone.
#[test]
fn losses_do_not_depend_on_company() {
    for (attention, prediction) in ALL {
        let model = shaken(setting(attention, prediction));
        let drawn = Perturbations::stratified(0..1000, [1, 3, ELEMENTS], 1, "draw", 0);
        let future = seen(9..10);
        let filled: Vec<usize> = (0..40).map(|context| context % 3).collect();
        let together = model.losses(&contexts(2, &filled), &future, &drawn, None).unwrap();
        assert_eq!(together.len(), 120);
        let scale = ConditionScale { length: 2.0, time: 6.4 };
        for context in [0, 1, 2, 17, 38] {
            let present = latent(context as u64);
            let mut alone = ContextBatch::new(SHAPE, scale, filled[context], SIGNALS);
            let latents: Vec<_> =
                (0..filled[context] as u64).map(|slot| latent(100 + slot)).collect();
            let memories = latents.iter().enumerate().map(|(slot, latent)| Remembered {
                time: slot as f64,
                pose: Some(pose(slot as f32 - 3.0)),
                latent,
                signals: FrameSignals::default(),
            });
            alone.push(&query(context as f32), &present, memories).unwrap();
            // Fewer slots instead of a mask, one draw at a time instead of three.
            for draw in 0..3 {
                let one = Perturbations {
                    draws: 1,
                    timesteps: vec![drawn.timesteps[draw]],
                    noise: drawn.noise[draw * ELEMENTS..(draw + 1) * ELEMENTS].to_vec(),
                };
                let loss = model.losses(&alone, &future, &one, None).unwrap()[0];
                let found = together[3 * context + draw];
                assert!((loss - found).abs() < 1e-4 * loss.max(1.0), "{loss} {found}");
            }
        }
    }
}

/// The shared context of a sampler gives what denoising step by step from the losses' path gives.
#[test]
fn samples_follow_from_the_network_alone() {
    for (attention, prediction) in ALL {
        let model = shaken(setting(attention, prediction));
        let batch = contexts(3, &[3, 1, 0]);
        let mut noise = vec![0.0; 3 * ELEMENTS];
        Random::stream(5, "noise", 0).fill_normal(&mut noise);
        let sampler = DdimConfig { steps: 4, ..DdimConfig::default() };
        let together = model.sample(&batch, &noise, &sampler).unwrap();
        assert!(together.iter().all(|value| value.is_finite()));
        let last = model.sample(&contexts(3, &[3]), &noise[..ELEMENTS], &sampler).unwrap();
        for (a, b) in together.iter().zip(&last) {
            assert!((a - b).abs() < 1e-3 * a.abs().max(1.0), "{a} {b}");
        }
        assert_eq!(together, model.sample(&batch, &noise, &sampler).unwrap());
    }
}

/// Where the future is one of the memories, a model that reads its context beats one that cannot.
#[test]
fn it_learns_to_read_its_context() {
    for attention in [ContextAttention::Joint, ContextAttention::ContextFirst] {
        let mut model = model(setting(attention, PredictionKind::Velocity));
        let scale = ConditionScale { length: 2.0, time: 6.4 };
        let make = |step: u64| {
            let mut batch = ContextBatch::new(SHAPE, scale, 1, SIGNALS);
            let first = 1000 + 16 * step;
            let futures = seen(first..first + 16);
            for future in futures.latents.chunks_exact(ELEMENTS) {
                let seen = Remembered {
                    time: 0.0,
                    pose: Some(query(0.0).goal),
                    latent: future,
                    signals: FrameSignals::default(),
                };
                batch.push(&query(0.0), &[0.0; ELEMENTS], [seen]).unwrap();
            }
            (batch.into_owned(), futures)
        };
        for step in 0..600 {
            let (batch, futures) = make(step);
            let drawn = Perturbations::stratified(0..1000, [16, 1, ELEMENTS], 2, "train", step);
            model.train(&batch, &futures, &drawn, None, 1).unwrap();
        }
        let (batch, futures) = make(9_999);
        let drawn = Perturbations::stratified(0..1000, [16, 4, ELEMENTS], 2, "test", 0);
        let losses = model.losses(&batch, &futures, &drawn, None).unwrap();
        let mean = losses.iter().sum::<f32>() / losses.len() as f32;
        // Knowing nothing of the future costs 1 on average at every noise level.
        assert!(mean < 0.85, "{attention:?}: {mean}");
    }
}

#[test]
fn parts_of_a_batch_and_weights_of_one_change_nothing() {
    let (batch, futures) = (contexts(2, &[2, 1, 0, 2]), seen(20..24));
    let drawn = Perturbations::stratified(0..1000, [4, 1, ELEMENTS], 1, "draw", 0);
    let weights = vec![1.0; futures.latents.len()];
    for (attention, prediction) in ALL {
        let fresh = || shaken(setting(attention, prediction));
        let (mut whole, mut parts, mut weighed) = (fresh(), fresh(), fresh());
        let a = whole.train(&batch, &futures, &drawn, None, 1).unwrap();
        let b = parts.train(&batch, &futures, &drawn, None, 2).unwrap();
        let c = weighed.train(&batch, &futures, &drawn, Some(&weights), 1).unwrap();
        assert!((a.loss - b.loss).abs() < 1e-5 && (a.loss - c.loss).abs() < 1e-5);
        let norms =
            [b, c].map(|step| (step.update.gradient_norm / a.update.gradient_norm - 1.0).abs());
        assert!(norms.iter().all(|norm| *norm < 1e-4), "{norms:?}");
    }
}

/// Latents that are not linear in pixels cannot be seen from elsewhere.
#[test]
fn a_view_needs_latents_that_have_one() {
    let mut setting = setting(ContextAttention::Joint, PredictionKind::Noise);
    setting.config.seen_from_goal = Some(1.5);
    let made = DitWorldModel::new(setting, AdamWConfig::default(), 1, &Device::cpu());
    let error = made.err().unwrap().to_string();
    assert!(error.contains("seen_from_goal") && error.contains("patch_pca"), "{error}");
}

#[test]
fn a_checkpoint_goes_on_where_training_stopped() {
    let setting = setting(ContextAttention::ContextFirst, PredictionKind::Noise);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let mut first = shaken(setting.clone());
    first.save(CheckpointWriter::new()).save(&path).unwrap();
    let mut second = model(setting.clone());
    second.load(&mut Checkpoint::open(&path).unwrap()).unwrap();
    let (batch, future) = (contexts(2, &[2]), seen(4..5));
    let drawn = Perturbations::stratified(0..1000, [1, 1, ELEMENTS], 1, "draw", 0);
    for _ in 0..3 {
        let a = first.train(&batch, &future, &drawn, None, 1).unwrap();
        assert_eq!(a, second.train(&batch, &future, &drawn, None, 1).unwrap());
    }
    first.save(CheckpointWriter::new()).save(&path).unwrap();
    let frozen =
        FrozenDit::load(setting.clone(), &mut Checkpoint::open(&path).unwrap(), &Device::cpu());
    let average = first.average().unwrap().losses(&batch, &future, &drawn, None).unwrap();
    assert_eq!(frozen.unwrap().losses(&batch, &future, &drawn, None).unwrap(), average);
    assert_ne!(first.losses(&batch, &future, &drawn, None).unwrap(), average);

    let mut other = setting;
    other.config.width = 32;
    let error = model(other).load(&mut Checkpoint::open(&path).unwrap()).unwrap_err().to_string();
    assert!(error.ends_with("another architecture: config.width is 16 there, 32 here"), "{error}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut model = model(setting(ContextAttention::Joint, PredictionKind::Noise));
    let drawn = Perturbations::stratified(0..1000, [1, 1, ELEMENTS], 1, "draw", 0);
    let batch = contexts(1, &[1]);
    assert!(
        model
            .losses(
                &batch,
                &Futures { latents: latent(0)[1..].to_vec(), ..seen(0..1) },
                &drawn,
                None
            )
            .is_err()
    );
    assert!(model.losses(&batch, &seen(0..1), &drawn, Some(&[1.0])).is_err());
    assert!(model.sample(&batch, &[0.0], &DdimConfig::default()).is_err());
    let many = Perturbations::stratified(0..1000, [1, 2, ELEMENTS], 1, "draw", 0);
    assert!(model.train(&batch, &seen(0..1), &many, None, 1).is_err());
    let mut wrong = setting(ContextAttention::Joint, PredictionKind::Noise);
    wrong.config.heads = 5;
    assert!(DitWorldModel::new(wrong, optimizer(), 0, &Device::cpu()).is_err());
}

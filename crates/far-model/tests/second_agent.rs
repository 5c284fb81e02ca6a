//! A world model with the state of a second agent: it predicts that state from what is recalled, samples
//! by what it predicts, and charges memories for what they do not show.

use far_memory::Pose;
use far_model::{
    Channel, ConditionScale, ContextBatch, DdimConfig, DitConfig, DitSetting, DitWorldModel,
    FrameSignals, FrozenDit, Futures, LatentShape, Perturbations, PredictionQuery, Remembered,
    SignalLayout, TrainableWorldModel, WorldModel,
};
use far_tensor::{AdamWConfig, Checkpoint, CheckpointWriter, Device, Random};

const NONE: Channel = Channel { name: "", width: 0 };
const SIGNALS: SignalLayout = SignalLayout {
    action: NONE,
    viewpoint: NONE,
    state: Channel { name: "state", width: 6 },
    goal_state: Channel { name: "goal_state", width: 3 },
};
const SHAPE: LatentShape = LatentShape { channels: 2, height: 2, width: 2, patch: 1 };
const ELEMENTS: usize = 8;

fn setting() -> DitSetting {
    let config = DitConfig {
        depth: 2,
        width: 16,
        heads: 2,
        learned_variance: false,
        ..DitConfig::default()
    };
    DitSetting {
        config,
        shape: SHAPE,
        scale: ConditionScale { length: 2.0, time: 6.4 },
        signals: SIGNALS,
        view: None,
    }
}

fn model() -> DitWorldModel {
    let optimizer = AdamWConfig { learning_rate: 5e-3, warm_up: 0, ..AdamWConfig::default() };
    DitWorldModel::new(setting(), optimizer, 3, &Device::cpu()).unwrap()
}

/// Somebody walked left or right in the memory; it is at the goal if the goal lies that way.
struct Story {
    right: bool,
    goal_right: bool,
}

impl Story {
    fn draw(random: &mut Random) -> Self {
        Self { right: random.uniform() < 0.5, goal_right: random.uniform() < 0.5 }
    }

    fn truth(&self) -> Vec<f32> {
        if self.right == self.goal_right { vec![1.0, 0.0, 0.8] } else { vec![0.0; 3] }
    }

    /// Who is there makes the frame bright.
    fn frame(&self) -> Vec<f32> {
        vec![self.truth()[0]; ELEMENTS]
    }

    /// Adds the query, with a memory that shows somebody walk off or one that shows nobody.
    fn push(&self, batch: &mut ContextBatch<'_>, telling: bool) {
        let side = |right: bool| if right { -1.2 } else { 1.2 };
        let pose = Pose::from_yaw_pitch([0.0, 0.0, 1.6], 0.0, 0.0);
        let goal = Pose::from_yaw_pitch([0.0, 0.0, 1.6], side(self.goal_right), 0.0);
        let present = FrameSignals { viewpoint: &[], state: &[0.0; 6] };
        let query = PredictionQuery { present, ..PredictionQuery::new(10.0, pose, goal, 1.0) };
        let state = match (telling, self.right) {
            (false, _) => &[0.0; 6],
            (true, true) => &[1.0, 0.4, 0.5, 1.0, -0.4, 0.5],
            (true, false) => &[1.0, -0.4, 0.5, 1.0, 0.4, 0.5],
        };
        let signals = FrameSignals { viewpoint: &[], state };
        let memory = Remembered { time: 4.0, pose: Some(pose), latent: &[0.1; ELEMENTS], signals };
        batch.push(&query, &[0.2; ELEMENTS], [memory]).unwrap();
    }
}

fn futures(stories: &[Story]) -> Futures {
    Futures {
        latents: stories.iter().flat_map(Story::frame).collect(),
        states: stories.iter().flat_map(Story::truth).collect(),
    }
}

fn stories(count: usize, step: u64) -> Vec<Story> {
    let mut random = Random::stream(5, "stories", step);
    (0..count).map(|_| Story::draw(&mut random)).collect()
}

fn contexts(model: &dyn WorldModel, stories: &[Story], telling: bool) -> ContextBatch<'static> {
    let mut batch = model.batch(2);
    stories.iter().for_each(|story| story.push(&mut batch, telling));
    batch
}

fn trained(steps: u64) -> DitWorldModel {
    let mut model = model();
    for step in 0..steps {
        let stories = stories(16, step);
        let batch = contexts(&model, &stories, true);
        let drawn = Perturbations::stratified(0..1000, [16, 1, ELEMENTS], 1, "draw", step);
        model.train(&batch, &futures(&stories), &drawn, None, 2).unwrap();
    }
    model
}

#[test]
fn the_state_is_learned_from_memories_that_tell_and_charged_to_those_that_do_not() {
    let model = trained(250);
    let asked = stories(64, 1000);
    let (telling, truth) = (contexts(&model, &asked, true), futures(&asked));
    let predicted = model.auxiliary(&telling).unwrap().unwrap();
    let right = predicted.chunks(3).zip(truth.states.chunks(3)).filter(|(a, b)| a[0] == b[0]);
    assert!(right.count() >= 62, "somebody who was seen to walk off is found");
    let mean = |losses: Vec<f32>| losses.iter().sum::<f32>() / losses.len() as f32;
    let known = mean(model.auxiliary_losses(&telling, &truth).unwrap().unwrap());
    let blind = contexts(&model, &asked, false);
    let unknown = mean(model.auxiliary_losses(&blind, &truth).unwrap().unwrap());
    assert!(known < 0.2 && unknown > known + 0.4, "{known} {unknown}");
    // Without the truth there is nothing to charge by.
    let untold = Futures { states: Vec::new(), ..truth };
    assert!(model.auxiliary_losses(&telling, &untold).is_err());
}

#[test]
fn losses_are_conditioned_on_the_true_state_and_samples_on_the_predicted_one() {
    let model = trained(250);
    let asked = stories(12, 7);
    let (telling, truth) = (contexts(&model, &asked, true), futures(&asked));
    let drawn = Perturbations::stratified(500..1000, [12, 2, ELEMENTS], 1, "draw", 0);
    let losses = |futures: &Futures| -> f32 {
        model.losses(&telling, futures, &drawn, None).unwrap().iter().sum()
    };
    // The bright frame of who is there belongs to the state that says so.
    let turned = |state: &[f32]| if state[0] > 0.0 { vec![0.0; 3] } else { vec![1.0, 0.0, 0.8] };
    let states = truth.states.chunks(3).flat_map(turned).collect();
    let wrong = Futures { states, ..truth.clone() };
    assert!(losses(&truth) < losses(&wrong));
    // A sample is bright where the model predicts somebody.
    let mut noise = vec![0.0; 12 * ELEMENTS];
    Random::stream(2, "noise", 0).fill_normal(&mut noise);
    let sampler = DdimConfig { steps: 8, ..DdimConfig::default() };
    let found = model.sample(&telling, &noise, &sampler).unwrap();
    let predicted = model.auxiliary(&telling).unwrap().unwrap();
    let brightness = |there: bool| {
        let pairs = found.chunks(ELEMENTS).zip(predicted.chunks(3));
        let own: Vec<f32> = pairs
            .filter(|(_, state)| (state[0] > 0.0) == there)
            .flat_map(|(frame, _)| frame.to_vec())
            .collect();
        own.iter().sum::<f32>() / own.len() as f32
    };
    assert!(brightness(true) > brightness(false), "{} {}", brightness(true), brightness(false));
}

#[test]
fn a_checkpoint_has_the_predictor_and_a_model_without_states_knows_none() {
    let model = trained(6);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    model.save(CheckpointWriter::new()).save(&path).unwrap();
    let frozen =
        FrozenDit::load(setting(), &mut Checkpoint::open(&path).unwrap(), &Device::cpu()).unwrap();
    let average = model.average().unwrap();
    let asked = stories(5, 3);
    let (telling, truth) = (contexts(&model, &asked, true), futures(&asked));
    let charged = |model: &dyn WorldModel| model.auxiliary_losses(&telling, &truth).unwrap();
    assert_eq!(charged(&frozen), charged(average.as_ref()));

    let plain = DitSetting { signals: SignalLayout::default(), ..setting() };
    let plain = FrozenDit::new(plain, 0, &Device::cpu()).unwrap();
    let empty = plain.batch(1);
    assert!(plain.auxiliary_losses(&empty, &Futures::default()).unwrap().is_none());
    assert!(plain.auxiliary(&empty).unwrap().is_none());
}

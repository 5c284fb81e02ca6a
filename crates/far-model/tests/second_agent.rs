//! A world model that is told of a second agent: it predicts its state from what is recalled, samples by
//! what it predicts, and charges memories for what they do not tell.

use far_memory::Pose;
use far_model::{
    ConditionScale, ContextBatch, ContextTold, DdimConfig, DitConfig, DitSetting, DitWorldModel,
    FrozenDit, LatentShape, Perturbations, PredictionQuery, Remembered, TrainableWorldModel,
    WorldModel,
};
use far_tensor::{AdamWConfig, Checkpoint, CheckpointWriter, Device, Random};

const TOLD: ContextTold = ContextTold { signals: 0, states: 6 };
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
        told: TOLD,
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

    /// Adds the question, with the truth or without, and with a memory that tells or one that does not.
    fn push(&self, batch: &mut ContextBatch<'_>, known: bool, telling: bool) {
        self.push_with(batch, known.then(|| self.truth()), telling);
    }

    fn push_with(&self, batch: &mut ContextBatch<'_>, goal_state: Option<Vec<f32>>, telling: bool) {
        let side = |right: bool| if right { -1.2 } else { 1.2 };
        let pose = Pose::from_yaw_pitch([0.0, 0.0, 1.6], 0.0, 0.0);
        let query = PredictionQuery {
            time: 10.0,
            pose,
            goal: Pose::from_yaw_pitch([0.0, 0.0, 1.6], side(self.goal_right), 0.0),
            stride: 1.0,
            signals: Vec::new(),
            state: vec![0.0; 6],
            doors: [0.0; 2],
            goal_state,
        };
        let state = match (telling, self.right) {
            (false, _) => &[0.0; 6],
            (true, true) => &[1.0, 0.4, 0.5, 1.0, -0.4, 0.5],
            (true, false) => &[1.0, -0.4, 0.5, 1.0, 0.4, 0.5],
        };
        let memory = Remembered { time: 4.0, pose, latent: &[0.1; ELEMENTS], state, door: 0.0 };
        batch.push(&query, &[0.2; ELEMENTS], [memory]).unwrap();
    }
}

fn stories(count: usize, step: u64) -> Vec<Story> {
    let mut random = Random::stream(5, "stories", step);
    (0..count).map(|_| Story::draw(&mut random)).collect()
}

fn contexts(
    model: &dyn WorldModel,
    stories: &[Story],
    known: bool,
    telling: bool,
) -> ContextBatch<'static> {
    let mut batch = model.batch(2);
    stories.iter().for_each(|story| story.push(&mut batch, known, telling));
    batch
}

fn trained(steps: u64) -> DitWorldModel {
    let mut model = model();
    for step in 0..steps {
        let batch = contexts(&model, &stories(16, step), true, true);
        let drawn = Perturbations::stratified(0..1000, [16, 1, ELEMENTS], 1, "draw", step);
        // Who is there makes the frame bright.
        let futures = batch.goal_states().chunks(3).flat_map(|state| vec![state[0]; ELEMENTS]);
        let futures: Vec<f32> = futures.collect();
        model.train(&batch, &futures, &drawn, None, 2).unwrap();
    }
    model
}

#[test]
fn the_state_is_learned_from_memories_that_tell_and_charged_to_those_that_do_not() {
    let model = trained(250);
    let asked = stories(64, 1000);
    let told = contexts(&model, &asked, true, true);
    let predicted = model.predicted_states(&told).unwrap().unwrap();
    let right = predicted.chunks(3).zip(told.goal_states().chunks(3)).filter(|(a, b)| a[0] == b[0]);
    assert!(right.count() >= 62, "somebody who was seen to walk off is found");
    let mean = |losses: Vec<f32>| losses.iter().sum::<f32>() / losses.len() as f32;
    let known = mean(model.auxiliary_losses(&told).unwrap().unwrap());
    let blind = contexts(&model, &asked, true, false);
    let unknown = mean(model.auxiliary_losses(&blind).unwrap().unwrap());
    assert!(known < 0.2 && unknown > known + 0.4, "{known} {unknown}");
    // Without the truth there is nothing to charge by.
    assert!(model.auxiliary_losses(&contexts(&model, &asked, false, true)).is_err());
}

#[test]
fn sampling_takes_what_is_predicted_where_the_truth_is_not_given() {
    let model = trained(40);
    let asked = stories(6, 7);
    let open = contexts(&model, &asked, false, true);
    assert!(open.goal_states().iter().all(|value| value.is_nan()));
    let predicted = model.predicted_states(&open).unwrap().unwrap();
    let mut given = model.batch(2);
    for (story, state) in asked.iter().zip(predicted.chunks(3)) {
        story.push_with(&mut given, Some(state.to_vec()), true);
    }
    let mut noise = vec![0.0; 6 * ELEMENTS];
    Random::stream(2, "noise", 0).fill_normal(&mut noise);
    let sampler = DdimConfig { steps: 3, ..DdimConfig::default() };
    let found = model.sample(&open, &noise, &sampler).unwrap();
    assert_eq!(model.sample(&given, &noise, &sampler).unwrap(), found);
    // Told otherwise it draws something else.
    let known = contexts(&model, &asked, true, true);
    let truths = model.sample(&known, &noise, &sampler).unwrap();
    let differs = |example: usize| {
        let span = example * ELEMENTS..(example + 1) * ELEMENTS;
        truths[span.clone()] != found[span]
    };
    for (example, (own, truth)) in
        predicted.chunks(3).zip(known.goal_states().chunks(3)).enumerate()
    {
        assert_eq!(differs(example), own != truth, "example {example}");
    }
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
    let asked = contexts(&model, &stories(5, 3), true, true);
    assert_eq!(frozen.auxiliary_losses(&asked).unwrap(), average.auxiliary_losses(&asked).unwrap());
    let plain = DitSetting { told: ContextTold::default(), ..setting() };
    let plain = FrozenDit::new(plain, 0, &Device::cpu()).unwrap();
    let empty = plain.batch(1);
    assert!(plain.auxiliary_losses(&empty).unwrap().is_none());
    assert!(plain.predicted_states(&empty).unwrap().is_none());
}

//! What the options of training stop or speed up, and nothing else.

use crate::draw::{Draw, config, memory, query, scores, three_cues, trainable};
use far_memory::RecallQuery;
use far_model::{
    AdapterLearning, CueWeighting, Pass, RetrieverBatch, RetrieverTrainingConfig,
    TrainableRetriever,
};
use far_tensor::{AdamWConfig, ArenaBuilder, Device, Tape, Trained};

/// The largest gradient of each parameter for a loss that every score has a part in.
fn gradients(training: RetrieverTrainingConfig) -> Vec<(String, f32)> {
    let (retriever, parameters) = trainable(&three_cues(), training);
    let snapshot = memory(40, 5);
    let key = |dimension| Draw::new(9, "key").key(dimension);
    let query = RecallQuery::new(9.0, Draw::new(1, "a").pose(), Draw::new(2, "b").pose())
        .with_stride(1.0)
        .with_key("vision", &key(12))
        .with_key("audio", &key(5));
    let batch = RetrieverBatch::new(retriever.config(), &[(&query, &snapshot)]).expect("it fits");
    let mut tape = Tape::recording(&Device::cpu());
    let found = retriever.scores(&mut Pass::new(&mut tape, &parameters), &batch).expect("it fits");
    let square = tape.multiply(&found.fused, &found.fused).expect("equal shapes");
    let cube = tape.multiply(&square, &found.fused).expect("equal shapes");
    let loss = tape.sum(&cube).expect("a sum");
    let mut gradients = parameters.gradients();
    tape.backward(&loss, 1.0, &mut [&mut gradients]).expect("one loss");
    let flat = gradients.completed().to_vec();
    let arena = parameters.with_values(&flat).expect("as long as the arena");
    arena
        .stored()
        .map(|(name, _, values)| {
            (name.to_owned(), values.iter().fold(0.0, |most: f32, value| most.max(value.abs())))
        })
        .collect()
}

#[test]
fn each_option_stops_what_it_names_and_nothing_else() {
    let learned = gradients(RetrieverTrainingConfig::default());
    assert!(learned.iter().all(|(_, most)| *most > 0.0), "{learned:?}");
    let frozen = RetrieverTrainingConfig {
        adapter: AdapterLearning::Frozen,
        ..RetrieverTrainingConfig::default()
    };
    for (name, most) in gradients(frozen) {
        assert_eq!(most == 0.0, name.contains("adapter"), "{name}: {most}");
    }
    let weighting = |weighting| {
        gradients(RetrieverTrainingConfig { weighting, ..RetrieverTrainingConfig::default() })
    };
    for (name, most) in weighting(CueWeighting::Equal) {
        assert_eq!(most == 0.0, name == "gate.weight", "{name}: {most}");
    }
    let detached = weighting(CueWeighting::Detached);
    for ((name, most), (_, through)) in detached.iter().zip(&learned) {
        assert!(*most > 0.0, "{name}");
        // The gate's own gradient is the same; the scores lose the path through the statistics.
        assert_eq!(most == through, name == "gate.weight", "{name}: {most} {through}");
    }
}

#[test]
fn equal_weights_are_those_of_a_gate_that_never_moved() {
    let case = three_cues();
    let equal = RetrieverTrainingConfig {
        weighting: CueWeighting::Equal,
        ..RetrieverTrainingConfig::default()
    };
    let (retriever, parameters) = trainable(&case, equal);
    let snapshot = memory(30, 5);
    let query = query(30, 1, 5);
    let batch = RetrieverBatch::new(retriever.config(), &[(&query, &snapshot)]).expect("it fits");
    let found = scores(&retriever, &parameters, &batch);
    let available: f32 = batch.available().values().iter().sum();
    for (weight, there) in found.weights.values().iter().zip(batch.available().values()) {
        assert!((weight - there / available).abs() < 1e-6);
    }
}

#[test]
fn the_gate_learns_at_its_own_rate() {
    let snapshot = memory(40, 5);
    let query = query(40, 2, 5);
    let moved = |gate_rate: f32| {
        let training = RetrieverTrainingConfig { gate_rate, ..RetrieverTrainingConfig::default() };
        let mut builder = ArenaBuilder::new("retriever");
        let retriever =
            TrainableRetriever::new(&mut builder, config(&three_cues()), training).expect("valid");
        let mut trained = Trained::new(builder.build(1), AdamWConfig::default());
        let batch =
            RetrieverBatch::new(retriever.config(), &[(&query, &snapshot)]).expect("it fits");
        trained
            .step(&Device::cpu(), 1, |tape, parameters, _| {
                let scores = retriever.scores(&mut Pass::new(tape, parameters), &batch)?;
                let square = tape.multiply(&scores.fused, &scores.fused)?;
                let cube = tape.multiply(&square, &scores.fused)?;
                tape.sum(&cube)
            })
            .expect("a finite step");
        let gate = trained.parameters.find("gate.weight").expect("three cues have a gate");
        trained.parameters.tensor(gate).values().to_vec()
    };
    let (slow, fast) = (moved(1.0), moved(20.0));
    assert!(slow.iter().any(|weight| *weight != 0.0));
    for (slow, fast) in slow.iter().zip(&fast) {
        assert!((20.0 * slow - fast).abs() <= 1e-6 * fast.abs(), "{slow} {fast}");
    }
    let mut builder = ArenaBuilder::new("retriever");
    let training = RetrieverTrainingConfig { gate_rate: f32::NAN, ..Default::default() };
    assert!(TrainableRetriever::new(&mut builder, config(&three_cues()), training).is_err());
}

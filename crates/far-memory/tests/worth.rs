//! What the worth of a memory is computed from, against plain formulas.

use far_memory::{
    AdapterKind, Cue, CueConfig, FEATURES, FeatureScale, Memory, Observation, Pose, RecallQuery,
    RetrieverConfig, Schema, ScorerConfig, SetConfig, Snapshot, WorthQuery, features, worth_inputs,
};

const SCALE: FeatureScale = FeatureScale { length: 3.0, time: 2.0 };

/// Vision with keys of three numbers and audio with two, an adapter on neither.
fn config() -> RetrieverConfig {
    let mut config = RetrieverConfig::meta_and_vision(3);
    let scorer =
        ScorerConfig::Cosine { dimension: 2, adapter: AdapterKind::Identity, adapter_width: 0 };
    config.cues.push(CueConfig { name: "audio".to_owned(), scorer });
    let (length_scale, time_scale) = (SCALE.length, SCALE.time);
    let key = Some("vision".to_owned());
    config.set = Some(SetConfig { length_scale, time_scale, key, abstains: true });
    config
}

/// A memory without and one with a sound. The cues stand in another order than the retriever's, and sounds in half
/// precision.
fn memory(pose: Pose) -> Snapshot {
    let cues = vec![Cue::half_key("audio", 2), Cue::metadata("meta"), Cue::key("vision", 3)];
    let mut memory = Memory::new(Schema::new(cues).expect("a valid schema"));
    let seen = |time: f64| Observation::new(time, pose).with_key("vision", &[0.0, 3.0, 4.0]);
    memory.append(&seen(1.0)).expect("valid");
    memory.append(&seen(2.0).with_key("audio", &[-1.0, 0.0])).expect("valid");
    memory.snapshot()
}

#[test]
fn worth_reads_relations_and_products_of_directions() {
    let (config, pose) = (config(), Pose::from_yaw_pitch([1.0, 2.0, 0.5], 0.3, 0.1));
    let memory = memory(pose);
    let query = RecallQuery::new(3.0, Pose::identity(), pose);
    let (mut asked, mut inputs) = (WorthQuery::default(), vec![7.0; 99]);
    let mut is_read = |query: &RecallQuery, index: usize, products: [f32; 5]| {
        asked.begin(&config, query, &memory).expect("it fits");
        asked.read(query, &memory, index, SCALE, &mut inputs);
        // The raw scores of both key cues come behind.
        assert_eq!(inputs.len() + 2, worth_inputs(&config));
        let relation = features(query, memory.time(index), Some(&pose), SCALE);
        assert_eq!(inputs[..FEATURES], relation.expect("poses are known"));
        let apart = inputs[FEATURES..].iter().zip(products).map(|(found, own)| (found - own).abs());
        assert!(apart.fold(0.0, f32::max) < 1e-5, "{inputs:?} {products:?}");
    };
    // Neither the length of an embedding nor that of a key counts.
    let told = query.clone().with_key("vision", &[2.0, 2.0, 1.0]).with_key("audio", &[3.0, 4.0]);
    let (three, two) = (3f32.sqrt(), 2f32.sqrt());
    let [second, third] = [three * 2.0 / 3.0 * 0.6, three / 3.0 * 0.8];
    is_read(&told, 1, [0.0, second, third, -two * 0.6, 0.0]);
    is_read(&told, 0, [0.0, second, third, 0.0, 0.0]);
    // What nothing is asked by tells nothing, also after a query that did.
    is_read(&query.clone().with_key("audio", &[0.0, 1.0]), 1, [0.0; 5]);
    is_read(&query, 1, [0.0; 5]);
}

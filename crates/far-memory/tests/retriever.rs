//! FAR at inference: the fast path against the reference, the edge cases, and the file.

use far_memory::{
    AdapterKind, Cue, CueConfig, Error, MOST_PASSED_OVER, Memory, MemoryId, Observation, Pool,
    Pose, Recall, RecallPolicy, RecallQuery, Retriever, RetrieverConfig, Schema, ScorerConfig,
    Scratch, SetConfig, Snapshot,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

const DIMENSION: usize = 20;

/// A configuration with meta, vision (f32, residual adapter) and audio (f16, no adapter).
fn config(layers: usize, width: usize, chunk_size: usize) -> RetrieverConfig {
    let mut config = RetrieverConfig::meta_and_vision(DIMENSION);
    config.chunk_size = chunk_size;
    config.cues[0].scorer = ScorerConfig::Metadata {
        layers,
        width,
        features: far_memory::FeatureSet::RelativePoseTime1,
        activation: far_memory::Activation::GeluTanh,
        length_scale: 3.0,
        time_scale: 2.0,
    };
    config.cues[1].scorer = ScorerConfig::Cosine {
        dimension: DIMENSION,
        adapter: AdapterKind::Residual,
        adapter_width: 13,
    };
    let scorer =
        ScorerConfig::Cosine { dimension: 6, adapter: AdapterKind::Identity, adapter_width: 0 };
    config.cues.push(CueConfig { name: "audio".to_owned(), scorer });
    config
}

/// The same recalling slot by slot, by vision's or audio's keys besides poses and times.
fn with_sets(config: RetrieverConfig, key: Option<&str>, abstains: bool) -> RetrieverConfig {
    let key = key.map(str::to_owned);
    let set = SetConfig { length_scale: 3.0, time_scale: 2.0, key, abstains };
    RetrieverConfig { set: Some(set), ..config }
}

fn retriever(config: RetrieverConfig, seed: u64) -> Retriever {
    let mut random = fastrand::Rng::with_seed(seed);
    let tensors: BTreeMap<_, _> = (config.tensors().into_iter())
        .map(|(name, shape)| {
            let bound = 2.0 / (*shape.last().expect("a shape") as f32).sqrt();
            let count = shape.iter().product();
            let values = (0..count).map(|_| (random.f32() * 2.0 - 1.0) * bound).collect();
            (name, (shape, values))
        })
        .collect();
    Retriever::from_tensors(config, tensors).expect("a valid retriever")
}

fn schema() -> Schema {
    let cues =
        vec![Cue::half_key("audio", 6), Cue::metadata("meta"), Cue::key("vision", DIMENSION)];
    Schema::new(cues).expect("a valid schema")
}

fn random_pose(random: &mut fastrand::Rng, origin: f32) -> Pose {
    let position =
        [origin + 10.0 * random.f32(), -origin + 10.0 * random.f32(), 2.0 * random.f32()];
    Pose::from_yaw_pitch(position, 7.0 * random.f32(), 2.4 * (random.f32() - 0.5))
}

fn random_key(random: &mut fastrand::Rng, dimension: usize) -> Vec<f32> {
    (0..dimension).map(|_| random.f32() - 0.4).collect()
}

/// A memory whose keys and poses are sometimes missing and rarely NaN, far from the origin.
fn memory(records: usize, seed: u64) -> Memory {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut memory = Memory::new(schema());
    for number in 0..records {
        let pose = random_pose(&mut random, 5000.0);
        let mut vision = random_key(&mut random, DIMENSION);
        let audio = random_key(&mut random, 6);
        if random.u8(..) < 4 {
            vision[3] = f32::NAN;
        }
        let known = !seed.is_multiple_of(3) || random.u8(..) > 30;
        let pose = known.then_some(pose);
        let mut observation = Observation::new(1e6 + number as f64 * 0.2, pose);
        if random.u8(..) > 40 {
            observation = observation.with_key("vision", &vision);
        }
        if random.u8(..) > 20 {
            observation = observation.with_key("audio", &audio);
        }
        memory.append(&observation).expect("a valid observation");
    }
    memory
}

fn query(records: usize, seed: u64) -> RecallQuery {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x5eed);
    let (pose, goal) = (random_pose(&mut random, 5000.0), random_pose(&mut random, 5000.0));
    RecallQuery::new(1e6 + records as f64 * 0.2, pose, goal)
        .with_stride(0.8)
        .with_key("vision", &random_key(&mut random, DIMENSION))
        .with_key("audio", &random_key(&mut random, 6))
}

fn recall(retriever: &Retriever, snapshot: &Snapshot, query: &RecallQuery, slots: usize) -> Recall {
    let mut recall = Recall::new();
    retriever
        .recall(snapshot, query, slots, &mut Scratch::new(), &mut recall)
        .expect("the query fits");
    recall
}

/// Both must agree on everything but rounding: where they choose differently, the two records must
/// have the same score within rounding.
fn assert_agree(fast: &Recall, plain: &Recall) {
    assert_eq!(fast.len(), plain.len());
    assert_eq!(fast.cues(), plain.cues());
    assert_eq!(fast.not_a_number(), plain.not_a_number());
    let close = |a: f32, b: f32, bound: f32| (a.is_nan() && b.is_nan()) || (a - b).abs() <= bound;
    for (fast, plain) in fast.weights().iter().zip(plain.weights()) {
        assert!(close(*fast, *plain, 1e-4), "weights {fast} {plain}");
    }
    for (fast, plain) in fast.iter().zip(plain.iter()) {
        assert!(close(fast.score, plain.score, 2e-3), "scores {fast:?} {plain:?}");
        if fast.id == plain.id {
            assert_eq!((fast.rank, fast.chunk), (plain.rank, plain.chunk));
            for (fast, plain) in fast.raw.iter().zip(plain.raw) {
                assert!(close(*fast, *plain, 1e-5), "raw scores {fast} {plain}");
            }
            for (fast, plain) in fast.standardized.iter().zip(plain.standardized) {
                assert!(close(*fast, *plain, 2e-3), "standardized scores {fast} {plain}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn fast_path_and_reference_agree(
        records in 1usize..900,
        layers in 2usize..4,
        width in 1usize..40,
        chunk_size in 1usize..14,
        slots in 0usize..14,
        kind in 0u8..4,
        seed in any::<u64>(),
    ) {
        let retriever = retriever(config(layers, width, chunk_size), seed);
        let snapshot = memory(records, seed).snapshot();
        let mut query = query(records, seed);
        match kind {
            0 => {}
            1 => query.pool = Pool::Range(records / 3..records),
            2 => query.pool = Pool::ids((0..records).step_by(3).map(MemoryId::from)),
            _ => query.pool_cap = Some(records / 2),
        }
        if seed % 5 == 0 {
            query.remove_key("vision");
        }
        if seed % 7 == 0 {
            let keys = ["vision", "audio"].map(|cue| query.key(cue).map(<[f32]>::to_vec));
            let mut blind = RecallQuery::without_pose(query.time, query.action);
            (blind.stride, blind.pool_cap) = (query.stride, query.pool_cap);
            blind.pool = query.pool.clone();
            query = blind;
            for (cue, key) in ["vision", "audio"].into_iter().zip(keys) {
                key.iter().for_each(|key| query.set_key(cue, key));
            }
        }
        let plain = retriever.recall_reference(&snapshot, &query, slots).expect("the query fits");
        assert_agree(&recall(&retriever, &snapshot, &query, slots), &plain);
    }

    #[test]
    fn sets_are_those_of_the_plain_loops(
        records in 1usize..700,
        slots in 0usize..12,
        key in prop_oneof![Just(None), Just(Some("vision")), Just(Some("audio"))],
        abstains in any::<bool>(),
        kind in 0u8..3,
        seed in any::<u64>(),
    ) {
        let retriever = retriever(with_sets(config(2, 9, 10), key, abstains), seed);
        let snapshot = memory(records, seed).snapshot();
        let mut query = query(records, seed);
        match kind {
            0 => {}
            1 => query.pool = Pool::ids((0..records).step_by(3).map(MemoryId::from)),
            _ => query.pool_cap = Some(records / 2),
        }
        if seed % 5 == 0 {
            query.remove_key("vision");
        }
        let plain = retriever.recall_reference(&snapshot, &query, slots).expect("the query fits");
        assert_same_set(&recall(&retriever, &snapshot, &query, slots), &plain, slots);
        let filled = retriever.without_abstaining();
        let plain = filled.recall_reference(&snapshot, &query, slots).expect("the query fits");
        let fast = recall(&filled, &snapshot, &query, slots);
        prop_assert_eq!(fast.len(), plain.len());
        assert_same_set(&fast, &plain, slots);
    }

    #[test]
    fn any_bytes_are_refused_or_understood(
        place in any::<prop::sample::Index>(),
        value in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = retriever(config(2, 3, 10), 1).to_bytes();
        let place = place.index(bytes.len());
        bytes[place] = value;
        let _ = Retriever::from_bytes(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        prop_assert!(Retriever::from_bytes(&bytes).is_err());
    }
}

/// Both sets must agree until rounding lets them choose differently, and then the two choices must have
/// the same score, or a worth so near 0 that either may pass over it: what comes after depends on the choice.
fn assert_same_set(fast: &Recall, plain: &Recall, slots: usize) {
    let near = |a: f32, b: f32| (a - b).abs() <= 2e-3 * (1.0 + a.abs());
    let asked = |recall: &Recall| -> Vec<f32> {
        let passed = recall.passed_over().iter().map(|(_, worth)| *worth);
        recall.iter().filter_map(|memory| memory.worth).chain(passed).collect()
    };
    let doubtful = asked(fast).into_iter().chain(asked(plain)).any(|worth| near(worth, 0.0));
    for (one, other) in fast.iter().zip(plain.iter()) {
        if one.id != other.id {
            assert!(doubtful || near(one.score, other.score), "{one:?} {other:?}");
            return;
        }
        assert!(near(one.score, other.score), "scores {one:?} {other:?}");
        assert!(near(one.repeated, other.repeated), "{one:?} {other:?}");
        assert!(near(one.worth.unwrap_or(0.0), other.worth.unwrap_or(0.0)), "{one:?} {other:?}");
        assert_eq!((one.chunk, one.repeats.is_some()), (None, one.rank > 0));
        let earlier = fast.ids().take(one.rank).any(|id| Some(id) == one.repeats);
        assert!(earlier || one.rank == 0, "it repeats one recalled before it");
        assert!(one.worth.is_none_or(|worth| worth >= 0.0));
    }
    assert!(doubtful || fast.len() == plain.len(), "{fast:?} {plain:?}");
    assert!(doubtful || fast.passed_over().len() == plain.passed_over().len());
    assert!(
        fast.passed_over()
            .iter()
            .all(|(id, worth)| *worth < 0.0 && !fast.ids().any(|own| own == *id))
    );
    assert!(fast.len() <= slots);
}

#[test]
fn a_repeated_view_gives_way_and_nothing_is_better_than_harm() {
    // Two clusters: the better one of twins, the other alone.
    let mut config = with_sets(config(2, 8, 10), None, true);
    config.cues.truncate(1);
    let count = config.tensors();
    let tensors = |worth: f32, strength: f32| -> Retriever {
        let values = count.iter().map(|(name, shape)| {
            let mut values = vec![0.0f32; shape.iter().product()];
            match name.as_str() {
                // One hidden unit that grows with the distance to the goal, which counts against.
                "cue.meta.layer.0.weight" => values[15] = 0.2,
                "cue.meta.layer.1.weight" => values[0] = -1.0,
                "set.strength" => values[0] = strength.ln(),
                "set.worth.1.bias" => values[0] = worth,
                _ => {}
            }
            (name.clone(), (shape.clone(), values))
        });
        Retriever::from_tensors(config.clone(), values.collect()).expect("valid")
    };
    let mut memory = Memory::new(Schema::new(vec![Cue::metadata("meta")]).expect("valid"));
    for x in [0.2, 0.1, 9.0, 120.0, 150.0, 180.0] {
        let pose = Pose::from_yaw_pitch([x, 0.0, 0.0], 0.0, 0.0);
        memory.append(&Observation::new(0.0, pose)).expect("valid");
    }
    let query = RecallQuery::new(1.0, Pose::identity(), Pose::identity());
    let ids = |retriever: &Retriever| -> Vec<u64> {
        recall(retriever, &memory.snapshot(), &query, 3).ids().map(|id| id.0).collect()
    };
    assert_eq!(ids(&tensors(9.0, 1e-6)), [1, 0, 2], "by score alone the twins come first");
    assert_eq!(ids(&tensors(9.0, 3.0))[..2], [1, 2], "the twin repeats what is there");
    assert!(ids(&tensors(-9.0, 1.0)).is_empty(), "nothing is better than the empty memory");
    assert_eq!(ids(&tensors(-9.0, 1.0).without_abstaining()).len(), 3);
    let by_hand = tensors(-9.0, 1e-6).with_penalty_by_hand(3.0);
    assert_eq!(ids(&by_hand)[..2], [1, 2]);
    assert_eq!(ids(&by_hand).len(), 3);
    let found = recall(&by_hand, &memory.snapshot(), &query, 3);
    let last = found.iter().find(|memory| memory.id.0 == 0);
    if let Some(twin) = last {
        assert_eq!(twin.repeats, Some(MemoryId(1)));
        assert!(twin.repeated > 2.5, "{twin:?}");
    }
}

/// Scores favor the nearest, of which many are of no worth: those are passed over, each once, up to a limit.
#[test]
fn what_is_not_worth_recalling_is_passed_over() {
    let mut config = with_sets(config(2, 8, 10), None, true);
    config.cues.truncate(1);
    let values = config.tensors().into_iter().map(|(name, shape)| {
        let mut values = vec![0.0f32; shape.iter().product()];
        match name.as_str() {
            "cue.meta.layer.0.weight" => values[15] = 0.2,
            "cue.meta.layer.1.weight" => values[0] = -1.0,
            "set.strength" => values[0] = -20.0,
            // One hidden unit reads the height above the goal: worth falls from 1 to below 0 at three meters.
            "set.worth.0.weight" => values[9] = 10.0,
            "set.worth.1.weight" => values[0] = -1.0,
            "set.worth.1.bias" => values[0] = 1.0,
            _ => {}
        }
        (name, (shape, values))
    });
    let retriever = Retriever::from_tensors(config.clone(), values.collect()).expect("valid");
    let query = RecallQuery::new(1.0, Pose::identity(), Pose::identity());
    let among = |foreign: usize| {
        let mut memory = Memory::new(Schema::new(vec![Cue::metadata("meta")]).expect("valid"));
        let mut append = |x: f32, up: f32| {
            let pose = Pose::from_yaw_pitch([x, 0.0, up], 0.0, 0.0);
            memory.append(&Observation::new(0.0, pose)).expect("valid");
        };
        (0..foreign).for_each(|place| append(0.01 * place as f32, 3.0));
        append(6.0, 0.0);
        (foreign..2 * MOST_PASSED_OVER).for_each(|place| append(8.0 + 0.01 * place as f32, 3.0));
        let found = recall(&retriever, &memory.snapshot(), &query, 3);
        let plain = retriever.recall_reference(&memory.snapshot(), &query, 3).expect("it fits");
        assert_same_set(&found, &plain, 3);
        found
    };
    for foreign in [0, 1, 5, MOST_PASSED_OVER] {
        let found = among(foreign);
        assert_eq!(found.ids().collect::<Vec<_>>(), [MemoryId::from(foreign)], "{foreign}");
        assert!((found.get(0).expect("one").worth.expect("known") - 1.0).abs() < 1e-5);
        assert_eq!(found.passed_over().len(), MOST_PASSED_OVER + 1, "it looks no further");
        let ids: Vec<u64> = found.passed_over().iter().map(|(id, _)| id.0).collect();
        assert!(ids.iter().all(|id| ids.iter().filter(|other| *other == id).count() == 1));
    }
    assert!(among(MOST_PASSED_OVER + 1).is_empty(), "recall ended before it was asked");
}

#[test]
fn files_that_abstain_by_statistics_of_a_pool_are_refused_by_name() {
    let set = retriever(with_sets(config(2, 8, 10), Some("vision"), true), 5);
    let mut tensors: BTreeMap<_, _> = (set.tensors().into_iter())
        .filter(|(name, ..)| !name.starts_with("set.worth"))
        .map(|(name, shape, values)| (name, (shape, values.to_vec())))
        .collect();
    tensors.insert("set.empty".to_owned(), (vec![11], vec![0.0; 11]));
    let error = Retriever::from_tensors(set.config().clone(), tensors).expect_err("refused");
    let text = error.to_string();
    assert!(text.contains("set.empty") && text.contains("train it again"), "{text}");
}

#[test]
fn files_with_and_without_sets_are_told_apart() {
    let plain = retriever(config(2, 8, 10), 5).to_bytes();
    assert!(
        !String::from_utf8_lossy(&plain).contains("set\\\""),
        "the paper's file is what it was"
    );
    let set = retriever(with_sets(config(2, 8, 10), Some("vision"), true), 5);
    let again = Retriever::from_bytes(&set.to_bytes()).expect("its own file");
    assert_eq!(again, set);
    assert_eq!(set.tensors().iter().filter(|(name, ..)| name.starts_with("set.")).count(), 6);
    for (key, scale) in [(Some("meta"), 1.0), (Some("nobody"), 1.0), (None, 0.0), (None, f32::NAN)]
    {
        let mut wrong = with_sets(config(2, 8, 10), key, false);
        wrong.set.as_mut().expect("sets").time_scale = scale;
        assert!(matches!(wrong.check(), Err(Error::Retriever { .. })), "{key:?} {scale}");
    }
}

#[test]
fn threads_change_no_bit() {
    let records = 20_000;
    let snapshot = memory(records, 7).snapshot();
    let paper = config(2, 16, 10);
    for config in [paper.clone(), with_sets(paper, Some("vision"), false)] {
        let one = retriever(config, 7);
        let single = recall(&one, &snapshot, &query(records, 7), 11);
        for threads in [2, 3, 4] {
            let many = one.clone().with_threads(threads);
            assert_eq!(recall(&many, &snapshot, &query(records, 7), 11), single);
        }
    }
}

#[test]
fn an_empty_memory_recalls_nothing() {
    let retriever = retriever(config(2, 8, 10), 3);
    let snapshot = Memory::new(schema()).snapshot();
    assert!(recall(&retriever, &snapshot, &query(0, 3), 4).is_empty());
}

#[test]
fn one_memory_is_recalled_with_standardized_scores_of_zero() {
    let retriever = retriever(config(2, 8, 10), 3);
    let mut memory = Memory::new(schema());
    let key = [0.5; DIMENSION];
    memory
        .append(&Observation::new(0.0, Pose::identity()).with_key("vision", &key))
        .expect("a valid observation");
    let recall = recall(&retriever, &memory.snapshot(), &query(1, 3), 4);
    let only = recall.get(0).expect("one memory");
    assert_eq!((recall.len(), only.id, only.standardized), (1, MemoryId(0), &[0.0; 3][..]));
    assert!(only.raw[2].is_nan(), "no audio key was stored");
    assert_eq!(recall.weights()[2], 0.0);
    assert!((recall.weights().iter().sum::<f32>() - 1.0).abs() < 1e-6);
}

#[test]
fn equal_memories_are_recalled_from_the_most_recent_chunks() {
    let retriever = retriever(config(2, 8, 10), 3);
    let mut memory = Memory::new(schema());
    for _ in 0..35 {
        memory.append(&Observation::new(4.0, Pose::identity())).expect("a valid observation");
    }
    let recall = recall(&retriever, &memory.snapshot(), &query(1, 3), 3);
    assert_eq!(recall.ids().map(|id| id.0).collect::<Vec<_>>(), [34, 29, 19]);
    assert_eq!(recall.iter().map(|memory| memory.chunk).collect::<Vec<_>>(), [3, 2, 1].map(Some));
}

#[test]
fn fewer_chunks_than_slots_give_one_memory_per_chunk() {
    let retriever = retriever(config(2, 8, 10), 3);
    let recall = recall(&retriever, &memory(25, 3).snapshot(), &query(25, 3), 8);
    assert_eq!(recall.len(), 3);
}

#[test]
fn one_cue_has_weight_one_and_no_gate() {
    let mut config = config(2, 8, 10);
    config.cues.truncate(1);
    assert!(config.tensors().iter().all(|(name, _)| name != "gate.weight"));
    let retriever = retriever(config, 3);
    let recall = recall(&retriever, &memory(25, 3).snapshot(), &query(25, 3), 2);
    assert_eq!(recall.weights(), [1.0]);
}

#[test]
fn the_wrong_memory_or_query_is_an_error() {
    let retriever = retriever(config(2, 8, 10), 3);
    let snapshot = memory(5, 3).snapshot();
    let attempt = |snapshot: &Snapshot, query: &RecallQuery| {
        retriever.recall(snapshot, query, 2, &mut Scratch::new(), &mut Recall::new())
    };
    let blind = Memory::new(Schema::new(vec![Cue::metadata("meta")]).expect("valid")).snapshot();
    let plain = RecallQuery::new(0.0, Pose::identity(), Pose::identity());
    assert!(matches!(attempt(&blind, &plain), Err(Error::UnknownCue { .. })));
    let short = plain.clone().with_key("vision", &[1.0]);
    assert!(matches!(attempt(&snapshot, &short), Err(Error::Dimension { .. })));
    let broken = plain.clone().with_key("vision", &[f32::NAN; DIMENSION]);
    assert!(matches!(attempt(&snapshot, &broken), Err(Error::Query { .. })));
    let outside = plain.with_pool(Pool::Range(0..6));
    assert!(matches!(attempt(&snapshot, &outside), Err(Error::OutsideSnapshot { .. })));
}

#[test]
fn a_file_gives_the_retriever_back() {
    let retriever = retriever(config(3, 12, 30), 5);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("retriever.safetensors");
    retriever.save(&path).expect("written");
    assert_eq!(Retriever::load(&path).expect("read"), retriever);
    assert_eq!(retriever.to_bytes(), retriever.clone().to_bytes());
    let missing = Retriever::load(folder.path().join("none")).expect_err("no file");
    assert!(missing.to_string().contains("none"), "{missing}");
}

#[test]
fn files_that_do_not_fit_say_why() {
    let good = retriever(config(2, 8, 10), 5);
    let reason = |from: &str, to: &str| {
        // Same length, so that the header's size still holds.
        assert_eq!(from.len(), to.len());
        let mut bytes = good.to_bytes();
        let place = bytes.windows(from.len()).position(|window| window == from.as_bytes());
        let place = place.unwrap_or_else(|| panic!("{from} is in the file"));
        bytes[place..place + to.len()].copy_from_slice(to.as_bytes());
        Retriever::from_bytes(&bytes).expect_err("refused").to_string()
    };
    assert!(reason("relative-pose-time-1", "relative-pose-time-9").contains("time-9"));
    assert!(reason(r#"version\":1"#, r#"version\":7"#).contains("version 7"));
    assert!(reason(r#"layers\":2"#, r#"layers\":3"#).contains("cue.meta.layer"));
    assert!(reason(r#"width\":8"#, r#"width\":9"#).contains("shape"));
    assert!(reason(r#"chunk_size\":10"#, r#"chunk_size\":00"#).contains("not understood"));
    assert!(reason("far_retriever", "for_retriever").contains("far_retriever"));
    assert!(reason("gate.weight", "gate.height").contains("gate.weight"));
    let mut bytes = good.to_bytes();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    let message = Retriever::from_bytes(&bytes).expect_err("refused").to_string();
    assert!(message.contains("NaN"), "{message}");
}

//! One suite that every recall policy passes, whatever its rule.

use crate::retriever_file;
use far_memory::policy::{FarConfig, KeyCues, OracleConfig, PolicyConfig, RuleConfig};
use far_memory::{
    Camera, Cue, Error, Memory, MemoryId, Observation, Pool, Pose, Recall, RecallPolicy,
    RecallQuery, Schema, Scratch, Snapshot,
};

const DIMENSION: usize = 4;
const QUERY_KEY: [f32; DIMENSION] = [0.5, 0.5, -0.5, 0.5];

/// Rules that compare keys, and so need a query embedding.
const BY_QUERY_KEY: [&str; 3] = ["longlive-rag", "framepack", "mixture-of-contexts"];
/// Rules that may recall a memory twice.
const REPEATING: [&str; 1] = ["matrix-game"];
/// Rules that recall at most one memory of a chunk of ten.
const CHUNKED: [&str; 3] = ["far", "mixture-of-contexts", "oracle"];

/// A record of a test memory.
#[derive(Clone)]
struct Record {
    pose: Pose,
    key: Option<[f32; DIMENSION]>,
}

/// A walk around a square with views that turn, and keys that change slowly.
fn walk(records: usize) -> Vec<Record> {
    (0..records)
        .map(|index| {
            let turn = index as f32 * 0.21;
            let position = [4.0 * turn.cos(), 3.0 * turn.sin(), 1.0 + 0.3 * (turn * 3.0).sin()];
            let pose = Pose::from_yaw_pitch(position, 1.7 * turn, 0.3 * (turn * 2.0).cos());
            let key = std::array::from_fn(|axis| (turn * (axis as f32 + 1.0)).sin() + 0.01);
            Record { pose, key: Some(key) }
        })
        .collect()
}

fn snapshot(records: &[Record]) -> Snapshot {
    let cues = vec![Cue::metadata("meta"), Cue::key("vision", DIMENSION)];
    let mut memory = Memory::new(Schema::new(cues).expect("a valid schema"));
    for (index, record) in records.iter().enumerate() {
        let mut observation = Observation::new(0.5 * index as f64, record.pose);
        if let Some(key) = &record.key {
            observation = observation.with_key("vision", key);
        }
        memory.append(&observation).expect("a valid observation");
    }
    memory.snapshot()
}

fn query(records: usize) -> RecallQuery {
    let at = |yaw| Pose::from_yaw_pitch([3.0, 1.0, 1.2], yaw, 0.1);
    RecallQuery::new(0.5 * records as f64, at(0.2), at(0.6))
        .with_horizon(&[at(0.3), at(0.45), at(0.6)])
        .with_key("vision", &QUERY_KEY)
        .with_seed(11)
}

fn config(id: &str) -> PolicyConfig {
    let camera = Camera::from_degrees(90.0, 70.0);
    let mut config = PolicyConfig::from_id(id).expect("a known id").with_camera(&camera, 8.0);
    match &mut config.rule {
        RuleConfig::Oracle(OracleConfig { utilities, .. }) => {
            *utilities = (0..200).map(|index| (index as f32 * 0.7).sin()).collect();
        }
        RuleConfig::Far(FarConfig { retriever, .. }) => {
            *retriever = retriever_file::path(DIMENSION)
        }
        _ => {}
    }
    config
}

/// Runs `check` for every policy, with its id.
fn each(check: impl Fn(&str, &dyn RecallPolicy)) {
    for id in RuleConfig::IDS {
        check(id, config(id).build().expect("valid settings").as_ref());
    }
}

/// A recall with fresh buffers.
fn recall(
    policy: &dyn RecallPolicy,
    snapshot: &Snapshot,
    query: &RecallQuery,
    slots: usize,
) -> Result<Recall, Error> {
    let mut recall = Recall::new();
    policy.recall(snapshot, query, slots, &mut Scratch::new(), &mut recall)?;
    Ok(recall)
}

/// Recalls and checks what holds for every result.
fn checked(
    id: &str,
    policy: &dyn RecallPolicy,
    snapshot: &Snapshot,
    query: &RecallQuery,
    slots: usize,
) -> Recall {
    let recall = recall(policy, snapshot, query, slots)
        .unwrap_or_else(|error| panic!("{id} refuses a valid query: {error}"));
    let cap = query.pool_cap;
    let pool: Vec<MemoryId> = snapshot.pool(&query.pool, cap).expect("valid").iter().collect();
    assert!(recall.len() <= slots, "{id} fills {} of {slots} slots", recall.len());
    let mut seen: Vec<MemoryId> = Vec::new();
    for (rank, memory) in recall.iter().enumerate() {
        assert_eq!(memory.rank, rank, "{id}");
        assert!(memory.score.is_finite(), "{id} scores {}", memory.score);
        assert!(pool.contains(&memory.id), "{id} recalls {} from outside the pool", memory.id);
        let repeated = seen.contains(&memory.id);
        assert!(!repeated || REPEATING.contains(&id), "{id} recalls {} twice", memory.id);
        seen.push(memory.id);
        if !recall.cues().is_empty() {
            let terms = recall.weights().iter().zip(memory.standardized);
            let sum: f32 = terms.map(|(weight, term)| weight * term).sum();
            assert!((memory.score - sum).abs() < 1e-4, "{id}: {memory:?} is not {sum}");
        }
    }
    if CHUNKED.contains(&id) {
        let mut chunks: Vec<u32> =
            recall.iter().map(|memory| memory.chunk.expect("has chunks")).collect();
        chunks.sort_unstable();
        assert!(chunks.windows(2).all(|pair| pair[0] != pair[1]), "{id}: two of one chunk");
    }
    recall
}

fn ids(recall: &Recall) -> Vec<usize> {
    recall.ids().map(MemoryId::index).collect()
}

#[test]
fn an_empty_memory_or_pool_gives_nothing() {
    let (empty, full) = (snapshot(&[]), snapshot(&walk(9)));
    each(|id, policy| {
        assert!(checked(id, policy, &empty, &query(1), 4).is_empty());
        assert!(checked(id, policy, &full, &query(9), 0).is_empty());
        for pool in [Pool::Range(3..3), Pool::ids([])] {
            assert!(checked(id, policy, &full, &query(9).with_pool(pool), 4).is_empty());
        }
    });
}

#[test]
fn one_record_is_recalled_unless_the_rule_passes_over_it() {
    // Seen from the goal itself, so that no rule about visibility objects.
    let record = Record { pose: *query(1).goal().expect("a goal"), key: Some(QUERY_KEY) };
    let snapshot = snapshot(&[record]);
    each(|id, policy| {
        let expected = if ["none", "longlive-rag"].contains(&id) { 0 } else { 1 };
        for slots in [1, 2, 7] {
            assert_eq!(checked(id, policy, &snapshot, &query(1), slots).len(), expected, "{id}");
        }
    });
}

#[test]
fn fewer_records_or_chunks_than_slots_are_no_error() {
    for records in [2, 3, 6, 11, 25] {
        let snapshot = snapshot(&walk(records));
        each(|id, policy| {
            let recall = checked(id, policy, &snapshot, &query(records), 12);
            if !REPEATING.contains(&id) {
                assert!(recall.len() <= records, "{id}");
            }
            if CHUNKED.contains(&id) {
                assert_eq!(recall.len(), records.div_ceil(10), "{id}");
            }
        });
    }
}

#[test]
fn equal_scores_go_to_the_more_recent() {
    let record = Record { pose: *query(1).goal().expect("a goal"), key: Some(QUERY_KEY) };
    let snapshot = snapshot(&vec![record; 30]);
    each(|id, policy| {
        let mut found = ids(&checked(id, policy, &snapshot, &query(30), 3));
        let expected: &[usize] = match id {
            "temporal" | "nearest-pose" | "worldmem" | "fov-topk" | "car-closest" => &[27, 28, 29],
            "vrag" | "framepack" | "spatia" | "seoul" => &[27, 28, 29],
            "i3dm" => &[27, 28, 29],
            // All keys are the same, so the cut leaves one.
            "worldmem-paper" => &[29],
            "longlive-rag" => &[22, 23, 24],
            // The best of each chunk.
            "mixture-of-contexts" => &[9, 19, 29],
            // The same for two query frames, and the sink.
            "matrix-game" => &[0, 29, 29],
            // Nothing after the first view is new; one slot is working memory.
            "spmem" => &[0, 29],
            _ => return,
        };
        found.sort_unstable();
        assert_eq!(found, expected, "{id}");
    });
}

#[test]
fn duplicate_poses_stay_distinct_records() {
    let mut records = walk(12);
    records.extend_from_within(..);
    let snapshot = snapshot(&records);
    each(|id, policy| {
        checked(id, policy, &snapshot, &query(24), 8);
    });
}

#[test]
fn records_without_a_key_are_only_left_out_by_rules_about_keys() {
    let mut records = walk(40);
    records.iter_mut().step_by(3).for_each(|record| record.key = None);
    let partial = snapshot(&records);
    records.iter_mut().for_each(|record| record.key = None);
    let bare = snapshot(&records);
    each(|id, policy| {
        let recall = checked(id, policy, &partial, &query(40), 8);
        if ["longlive-rag", "mixture-of-contexts"].contains(&id) {
            assert!(ids(&recall).iter().all(|index| index % 3 != 0), "{id}");
            assert!(checked(id, policy, &bare, &query(40), 8).is_empty(), "{id}");
        } else {
            let expected = if ["none", "oracle"].contains(&id) { 0 } else { 1 };
            assert!(checked(id, policy, &bare, &query(40), 8).len() >= expected, "{id}");
        }
    });
}

#[test]
fn a_query_without_embedding_is_refused_only_by_rules_that_need_it() {
    let full = snapshot(&walk(20));
    let mut memory = Memory::new(Schema::new(vec![Cue::metadata("meta")]).expect("valid"));
    for record in walk(20) {
        memory.append(&Observation::new(1.0, record.pose)).expect("valid");
    }
    let keyless = memory.snapshot();
    let mut query = query(20);
    query.remove_key("vision");
    each(|id, policy| {
        let needs_query = BY_QUERY_KEY.contains(&id);
        match recall(policy, &full, &query, 4) {
            Ok(_) => assert!(!needs_query, "{id}"),
            Err(error) => {
                assert!(needs_query, "{id}");
                assert!(error.to_string().contains("vision"), "{id}: {error}");
            }
        }
        let needs_keys = policy.requirements().keys != KeyCues::None;
        assert!(needs_keys || !needs_query, "{id} compares keys that it does not name");
        assert_eq!(recall(policy, &keyless, &query, 4).is_err(), needs_keys, "{id}");
    });
}

#[test]
fn poses_decide_where_a_rule_says_so_and_nowhere_else() {
    let records = walk(60);
    // The same times and keys, each from somewhere else, and another goal.
    let mut scrambled = records.clone();
    for (index, record) in scrambled.iter_mut().enumerate() {
        let other = records[(index * 23 + 7) % records.len()].pose;
        let position = other.position.map(|axis| 1.4 * axis - 2.0);
        record.pose = Pose::from_yaw_pitch(position, other.yaw() + 1.0, -0.2);
    }
    let [there, elsewhere] = [snapshot(&records), snapshot(&scrambled)];
    let at = |yaw| Pose::from_yaw_pitch([-2.0, 2.0, 0.7], yaw, -0.3);
    let turned = RecallQuery::new(query(60).time, at(3.0), at(2.0))
        .with_horizon(&[at(2.6), at(2.3), at(2.0)])
        .with_key("vision", &QUERY_KEY)
        .with_seed(11);
    each(|id, policy| {
        let before = checked(id, policy, &there, &query(60), 6);
        let after = checked(id, policy, &elsewhere, &turned, 6);
        assert_eq!(before != after, policy.requirements().poses, "{id}");
    });
}

#[test]
fn without_poses_rules_that_look_at_them_refuse_and_all_others_recall_the_same() {
    let records = walk(60);
    let there = snapshot(&records);
    let mut nowhere = Memory::new(there.schema().clone());
    for (index, record) in records.iter().enumerate() {
        let key = record.key.expect("a key");
        let observation = Observation::new(0.5 * index as f64, None).with_key("vision", &key);
        nowhere.append(&observation).expect("a valid observation");
    }
    let nowhere = nowhere.snapshot();
    let blind = RecallQuery::without_pose(query(60).time, query(60).action)
        .with_key("vision", &QUERY_KEY)
        .with_seed(11);
    each(|id, policy| {
        if policy.requirements().poses && !policy.is_learned() {
            let error = recall(policy, &nowhere, &blind, 6).expect_err(id).to_string();
            assert!(error.contains(id) && error.contains("poses"), "{error}");
            // A memory that nobody knows the place of is not recalled for its place.
            assert!(checked(id, policy, &nowhere, &query(60), 6).is_empty(), "{id}");
        } else if policy.is_learned() {
            assert!(!checked(id, policy, &nowhere, &blind, 6).is_empty(), "{id}");
        } else {
            let due = checked(id, policy, &there, &query(60), 6);
            assert_eq!(checked(id, policy, &nowhere, &blind, 6), due, "{id}");
        }
    });
}

#[test]
fn keys_decide_only_where_a_rule_says_so() {
    let records = walk(60);
    let mut rekeyed = records.clone();
    for (index, record) in rekeyed.iter_mut().enumerate() {
        record.key = records[(index * 23 + 7) % records.len()].key;
    }
    let [before, after] = [snapshot(&records), snapshot(&rekeyed)];
    each(|id, policy| {
        let same = checked(id, policy, &before, &query(60), 6)
            == checked(id, policy, &after, &query(60), 6);
        let needed = policy.requirements().keys;
        // WorldMem as written cuts repetitions by their keys, of which this walk has few.
        assert!(same == (needed == KeyCues::None) || id == "worldmem-paper", "{id}");
        assert!(needed != KeyCues::Named(Vec::new()), "{id} names no cue");
    });
}

#[test]
fn a_key_that_is_not_a_number_is_never_recalled_for_its_key() {
    let mut records = walk(40);
    for record in &mut records[10..20] {
        record.key = Some([f32::NAN; DIMENSION]);
    }
    let snapshot = snapshot(&records);
    each(|id, policy| {
        let recall = checked(id, policy, &snapshot, &query(40), 8);
        if BY_QUERY_KEY.contains(&id) || id == "far" {
            assert!(ids(&recall).iter().all(|index| !(10..20).contains(index)), "{id}");
            assert_eq!(recall.not_a_number(), 10, "{id}");
        }
    });
}

#[test]
fn half_precision_keys_serve_as_well() {
    let schema = vec![Cue::metadata("meta"), Cue::half_key("vision", DIMENSION)];
    let mut memory = Memory::new(Schema::new(schema).expect("valid"));
    for (index, record) in walk(40).iter().enumerate() {
        let observation = Observation::new(0.5 * index as f64, record.pose);
        let key = record.key.expect("the walk has keys");
        memory.append(&observation.with_key("vision", &key)).expect("valid");
    }
    let (half, full) = (memory.snapshot(), snapshot(&walk(40)));
    each(|id, policy| {
        let exact = checked(id, policy, &full, &query(40), 5);
        let rounded = checked(id, policy, &half, &query(40), 5);
        assert_eq!(exact.len(), rounded.len(), "{id}");
        for (exact, rounded) in exact.iter().zip(rounded.iter()) {
            assert!((exact.score - rounded.score).abs() < 0.02, "{id}");
        }
    });
}

#[test]
fn restricted_pools_are_all_that_is_read() {
    let records = walk(60);
    let chosen: Vec<usize> = vec![3, 4, 5, 11, 17, 18, 30, 31, 44, 58];
    let pools = [Pool::Range(20..45), Pool::ids(chosen.iter().map(|&index| MemoryId::from(index)))];
    for pool in pools {
        let inside = |index: usize| match &pool {
            Pool::Range(range) => range.contains(&index),
            _ => chosen.contains(&index),
        };
        // The same memory with everything outside of the pool moved, turned and re-keyed.
        let mut altered = records.clone();
        for (index, record) in altered.iter_mut().enumerate() {
            if !inside(index) {
                record.pose = *query(60).goal().expect("a goal");
                record.key = (index % 2 == 0).then_some(QUERY_KEY);
            }
        }
        let (original, altered) = (snapshot(&records), snapshot(&altered));
        let query = query(60).with_pool(pool.clone());
        each(|id, policy| {
            let recall = checked(id, policy, &original, &query, 6);
            assert_eq!(recall, checked(id, policy, &altered, &query, 6), "{id} reads outside");
            if id != "none" {
                assert!(!recall.is_empty(), "{id}");
            }
        });
    }
}

#[test]
fn invalid_pools_and_queries_are_refused() {
    let snapshot = snapshot(&walk(5));
    each(|id, policy| {
        let outside = query(5).with_pool(Pool::Range(2..6));
        assert!(matches!(
            recall(policy, &snapshot, &outside, 3),
            Err(Error::OutsideSnapshot { id: 5, length: 5 })
        ));
        let mut broken = query(5);
        broken.pose.as_mut().expect("a pose").position[1] = f32::NAN;
        assert!(matches!(recall(policy, &snapshot, &broken, 3), Err(Error::Query { .. })), "{id}");
        let short = query(5).with_key("vision", &[1.0]);
        assert!(matches!(recall(policy, &snapshot, &short, 3), Err(Error::Dimension { .. })));
    });
}

#[test]
fn a_pool_cap_is_the_same_in_the_policy_and_in_the_query() {
    let snapshot = snapshot(&walk(50));
    for id in RuleConfig::IDS {
        let plain = config(id).build().expect("valid");
        let capped = config(id).with_pool_cap(12).build().expect("valid");
        let limited = query(50).with_pool_cap(12);
        let expected = checked(id, plain.as_ref(), &snapshot, &limited, 5);
        assert_eq!(recall(capped.as_ref(), &snapshot, &query(50), 5).expect("valid"), expected);
        // The smaller of two caps holds.
        let wider = query(50).with_pool_cap(30);
        assert_eq!(recall(capped.as_ref(), &snapshot, &wider, 5).expect("valid"), expected, "{id}");
    }
}

#[test]
fn results_depend_on_nothing_but_memory_and_query() {
    let (small, large) = (snapshot(&walk(7)), snapshot(&walk(64)));
    // One set of buffers for all policies and both memories, in two orders.
    let (mut scratch, mut reused) = (Scratch::new(), Recall::new());
    for _ in 0..2 {
        for (snapshot, records, slots) in [(&large, 64, 9), (&small, 7, 3), (&large, 64, 2)] {
            each(|id, policy| {
                let fresh = checked(id, policy, snapshot, &query(records), slots);
                assert_eq!(fresh, checked(id, policy, snapshot, &query(records), slots), "{id}");
            });
            for id in RuleConfig::IDS.iter().rev() {
                let policy = config(id).build().expect("valid");
                let query = query(records);
                policy.recall(snapshot, &query, slots, &mut scratch, &mut reused).expect("valid");
                let fresh = recall(policy.as_ref(), snapshot, &query, slots).expect("valid");
                assert_eq!(reused, fresh, "{id} remembers an earlier recall");
            }
        }
    }
}

#[test]
fn what_lies_ahead_is_visible_at_every_heading_and_pitch() {
    // One record a meter behind the goal along its line of sight, so at another height when the
    // goal looks up or down; one at the goal that looks back; and one far away, which takes the
    // slot that some rules reserve for the most recent.
    let by_sight = [
        "worldmem",
        "worldmem-paper",
        "fov-topk",
        "context-as-memory",
        "matrix-game",
        "i3dm",
        "spmem",
        "spatia",
        "seoul",
    ];
    for heading in 0..12 {
        for pitch in [-30f32, 0.0, 30.0] {
            let yaw = (30.0 * heading as f32).to_radians();
            let goal = Pose::from_yaw_pitch([2.0, -1.0, 1.6], yaw, pitch.to_radians());
            let behind = Pose { position: goal.to_world([0.0, 0.0, -1.0]), ..goal };
            let back = Pose::from_yaw_pitch(goal.position, yaw + 3.0, -pitch.to_radians());
            let away = Pose { position: goal.to_world([0.0, 0.0, 99.0]), ..goal };
            let keys = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
            let poses = [behind, back, away];
            let records: Vec<Record> = poses
                .iter()
                .zip(keys)
                .map(|(&pose, key)| Record { pose, key: Some(key) })
                .collect();
            let snapshot = snapshot(&records);
            // Long after, so that all three are equally old.
            let query = RecallQuery::new(1e4, goal, goal).with_key("vision", &QUERY_KEY);
            for id in by_sight {
                let policy = config(id).build().expect("valid");
                let keeps_last = ["context-as-memory", "i3dm"].contains(&id);
                let slots = if keeps_last { 2 } else { 1 };
                let found = ids(&checked(id, policy.as_ref(), &snapshot, &query, slots));
                assert!(found.contains(&0), "{id} at {yaw} {pitch}: {found:?}");
                assert!(!found.contains(&1), "{id} at {yaw} {pitch}: {found:?}");
            }
        }
    }
}

//! The memory in RAM: growth, missing cues, payloads, loaded blocks, and reading while writing.

use far_memory::{
    BLOCK_RECORDS, Block, BlockParts, Cue, Error, KeyColumn, KeyValues, Memory, MemoryId,
    Observation, Payload, Pool, Pose, Schema, Snapshot,
};
use std::sync::atomic::{AtomicBool, Ordering};

fn schema() -> Schema {
    Schema::new(vec![Cue::metadata("meta"), Cue::key("vision", 3), Cue::half_key("audio", 2)])
        .expect("valid")
}

/// The key that record `number` has, if it has one.
fn key(number: usize) -> Option<[f32; 3]> {
    (number % 5 != 2).then(|| [1.0 + number as f32, 2.0, -(number as f32)])
}

fn pose(number: usize) -> Pose {
    Pose::from_yaw_pitch([number as f32, 1.0, -2.0], number as f32 * 0.01, 0.1)
}

fn append(memory: &mut Memory, number: usize) {
    let reference = format!("frame {number}");
    let vision = key(number);
    let mut observation = Observation::new(number as f64 * 0.5, pose(number));
    if let Some(vision) = &vision {
        observation = observation.with_key("vision", vision);
    }
    if number % 2 == 1 {
        observation = observation.with_reference(&reference);
    }
    assert_eq!(memory.append(&observation).expect("valid"), MemoryId::from(number));
}

fn check(snapshot: &Snapshot, number: usize) {
    assert_eq!(snapshot.time(number), number as f64 * 0.5);
    assert_eq!(snapshot.pose(number), Some(pose(number)));
    match (snapshot.key(1, number), key(number)) {
        (None, None) => {}
        (Some(stored), Some(key)) => {
            let length = key.iter().map(|value| value * value).sum::<f32>().sqrt();
            assert!((stored.dot(&key) - length).abs() < 1e-3 * length);
        }
        (stored, key) => panic!("record {number}: {stored:?} {key:?}"),
    }
    assert!(snapshot.key(0, number).is_none() && snapshot.key(2, number).is_none());
    let expected = format!("frame {number}");
    match snapshot.payload(MemoryId::from(number)) {
        Payload::Reference(found) => assert_eq!((number % 2, found), (1, expected.as_str())),
        payload => assert_eq!((number % 2, payload), (0, Payload::None)),
    }
}

#[test]
fn records_survive_growth_and_old_snapshots_stay() {
    let mut memory = Memory::new(schema());
    let mut snapshots = Vec::new();
    for number in 0..BLOCK_RECORDS + 700 {
        if number % 9973 == 0 {
            snapshots.push(memory.snapshot());
        }
        append(&mut memory, number);
    }
    snapshots.push(memory.snapshot());
    for snapshot in &snapshots {
        (0..snapshot.len()).step_by(97).for_each(|number| check(snapshot, number));
        let rows: usize = snapshot.blocks().map(|block| block.len()).sum();
        assert_eq!(rows, snapshot.len());
    }
    let last = snapshots.last().expect("a snapshot");
    assert_eq!((last.len(), last.block_count()), (BLOCK_RECORDS + 700, 2));
    assert!(last.blocks().all(|block| !block.is_complete(1) && block.is_complete(0)));
}

#[test]
fn readers_see_whole_records_while_the_writer_appends() {
    let mut memory = Memory::new(schema());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (reader, stop) = (memory.reader(), &stop);
            scope.spawn(move || {
                let mut seen = 0;
                while !stop.load(Ordering::Relaxed) {
                    let snapshot = reader.snapshot();
                    assert!(snapshot.len() >= seen, "a snapshot never loses records");
                    seen = snapshot.len();
                    (0..seen).rev().take(40).for_each(|number| check(&snapshot, number));
                }
            });
        }
        (0..20_000).for_each(|number| append(&mut memory, number));
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(memory.len(), 20_000);
}

fn loaded(schema: &Schema, rows: usize) -> Result<Block, Error> {
    let times: Vec<f64> = (0..rows).map(|number| number as f64 * 0.5).collect();
    let poses: Vec<Option<Pose>> = (0..rows).map(|row| Some(pose(row))).collect();
    let present: Vec<bool> = (0..rows).map(|number| key(number).is_some()).collect();
    let mut vision: Vec<f32> = Vec::new();
    for number in 0..rows {
        let mut key = key(number).unwrap_or_default();
        far_memory::normalize(&mut key);
        vision.extend(key);
    }
    let audio = far_memory::Column::zeroed(2 * rows);
    let keys = vec![
        KeyColumn::new(KeyValues::from_f32(&vision), 3, &present)?,
        KeyColumn::new(KeyValues::F16(audio), 2, &vec![false; rows])?,
    ];
    Block::from_parts(schema, BlockParts { times: &times, poses: &poses, keys, payloads: None })
}

#[test]
fn a_memory_continues_after_loaded_blocks() {
    let schema = schema();
    let block = loaded(&schema, 300).expect("a block");
    let mut memory = Memory::from_blocks(schema.clone(), vec![block]).expect("a memory");
    (300..900).for_each(|number| append(&mut memory, number));
    let snapshot = memory.snapshot();
    (300..900).for_each(|number| check(&snapshot, number));
    for number in 0..300 {
        assert_eq!(snapshot.pose(number), Some(pose(number)));
        assert_eq!(snapshot.key(1, number).is_some(), key(number).is_some());
    }
    let blocks = vec![loaded(&schema, 3).expect("a block"), loaded(&schema, 3).expect("a block")];
    assert!(matches!(Memory::from_blocks(schema, blocks), Err(Error::Block { .. })));
}

#[test]
fn bad_observations_are_refused_and_leave_no_trace() {
    let mut memory = Memory::new(schema());
    let good = Observation::new(0.0, Pose::identity());
    let endless = Pose { position: [f32::INFINITY, 0.0, 0.0], ..Pose::identity() };
    let refused = [
        Observation::new(f64::NAN, Pose::identity()),
        Observation::new(0.0, endless),
        good.clone().with_key("vision", &[1.0]),
        good.clone().with_key("smell", &[1.0]),
        good.clone().with_key("meta", &[1.0]),
        good.clone().with_key("audio", &[1.0, 0.0]).with_key("audio", &[1.0, 0.0]),
    ];
    for observation in refused {
        assert!(memory.append(&observation).is_err(), "{observation:?}");
    }
    assert!(memory.is_empty());
    memory.append(&good.with_key("audio", &[0.0, 0.0])).expect("a zero key is kept");
    assert_eq!(memory.snapshot().key(2, 0).map(|key| key.dot(&[1.0, 1.0])), Some(0.0));
}

#[test]
fn pools_are_checked_against_the_snapshot() {
    let mut memory = Memory::new(schema());
    (0..10).for_each(|number| append(&mut memory, number));
    let snapshot = memory.snapshot();
    let ids = |pool: &Pool, cap| -> Vec<u64> {
        snapshot.pool(pool, cap).expect("a pool").iter().map(|id| id.0).collect()
    };
    assert_eq!(ids(&Pool::All, Some(3)), [0, 3, 6]);
    assert_eq!(ids(&Pool::Range(4..7), None), [4, 5, 6]);
    assert_eq!(ids(&Pool::ids([MemoryId(7), MemoryId(2), MemoryId(7)]), None), [2, 7]);
    assert!(snapshot.pool(&Pool::Range(4..11), None).is_err());
    assert!(snapshot.pool(&Pool::ids([MemoryId(10)]), None).is_err());
    let unordered = Pool::Ids(vec![MemoryId(3), MemoryId(3)].into());
    assert!(matches!(snapshot.pool(&unordered, None), Err(Error::PoolOrder { .. })));
    let run = Pool::ids((3..8).map(MemoryId));
    assert_eq!(snapshot.pool(&run, None).expect("a pool").as_range(), Some(3..8));
}

#[test]
fn forks_share_the_past_and_have_futures_of_their_own() {
    for length in [0, 3, 256, 300, BLOCK_RECORDS, BLOCK_RECORDS + 9] {
        let mut memory = Memory::new(schema());
        (0..length).for_each(|number| append(&mut memory, number));
        let before = memory.snapshot();
        let mut fork = memory.fork();
        let mut other = before.fork();
        // Each appends something else after the same past.
        for number in length..length + 400 {
            append(&mut memory, number);
            append(&mut fork, number);
            let far = Pose::from_yaw_pitch([-1.0; 3], 0.0, 0.0);
            other.append(&Observation::new(-1.0, far)).expect("valid");
        }
        for (snapshot, expected) in [(memory.snapshot(), 400), (fork.snapshot(), 400)] {
            assert_eq!(snapshot.len(), length + expected);
            (0..snapshot.len()).rev().take(900).for_each(|number| check(&snapshot, number));
        }
        let other = other.snapshot();
        (0..length).rev().take(400).for_each(|number| check(&other, number));
        assert!((length..length + 400).all(|number| other.time(number) == -1.0));
        assert_eq!(before.len(), length);
        memory.restore(&before).expect("the same cues");
        assert_eq!(memory.len(), length);
        append(&mut memory, length);
        check(&memory.snapshot(), length);
    }
    let mut bare = Memory::new(Schema::new(vec![Cue::metadata("meta")]).expect("valid"));
    let refused = bare.restore(&Memory::new(schema()).snapshot()).expect_err("other cues");
    assert!(refused.to_string().contains("vision"), "{refused}");
}

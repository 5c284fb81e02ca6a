//! What goes into a store comes out, bit for bit, and other programs can read it.

use crate::numbered_record;
use crate::simulated_disk::SimulatedDisk;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, UInt64Type};
use far_memory::store::{LocalDisk, MAX_PAYLOAD, Store, StoreOptions, StoreReader, write_arrow};
use far_memory::{
    BLOCK_RECORDS, Cue, Error, Memory, MemoryId, Observation, Payload, Pose, Schema, Snapshot,
};
use proptest::prelude::*;
use std::io::Cursor;
use std::sync::Arc;

#[derive(Clone, Debug)]
struct Record {
    time: f64,
    /// `None` for a record without a pose.
    yaw: Option<f32>,
    vision: Option<[f32; 4]>,
    sound: Option<[f32; 3]>,
    bytes: Option<Vec<u8>>,
    reference: Option<String>,
    sync: bool,
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..30);
    let record = (
        -1e6..1e6f64,
        proptest::option::weighted(0.8, -3.0..3.0f32),
        proptest::option::of(proptest::array::uniform4(-2.0..2.0f32)),
        proptest::option::of(proptest::array::uniform3(any::<f32>())),
        proptest::option::of(bytes),
        proptest::option::of(".{0,9}"),
        any::<bool>(),
    );
    let record = record.prop_map(|(time, yaw, vision, sound, bytes, reference, sync)| Record {
        time,
        yaw,
        vision,
        sound,
        bytes,
        reference,
        sync,
    });
    proptest::collection::vec(record, 0..25)
}

fn observe<T>(record: &Record, take: impl FnOnce(&Observation<'_>) -> T) -> T {
    let pose = record.yaw.map(|yaw| Pose::from_yaw_pitch([yaw, 2.0, 3.0], yaw, 0.1));
    let mut observation = Observation::new(record.time, pose);
    if let Some(key) = &record.vision {
        observation = observation.with_key("vision", key);
    }
    if let Some(key) = &record.sound {
        observation = observation.with_key("sound", key);
    }
    observation.payload = match (&record.bytes, &record.reference) {
        (Some(bytes), _) => Payload::Bytes(bytes),
        (None, Some(reference)) => Payload::Reference(reference),
        (None, None) => Payload::None,
    };
    take(&observation)
}

/// Everything about a record, with the bits of its keys, so that NaN equals itself.
fn contents(snapshot: &Snapshot, index: usize) -> String {
    let key = |cue, dimension: usize| {
        snapshot.key(cue, index).map(|key| {
            let mut numbers = vec![0.0; dimension];
            key.copy_to(&mut numbers);
            numbers.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        })
    };
    let (vision, sound) = (key(0, 4), key(2, 3));
    let payload = snapshot.payload(MemoryId(index as u64));
    let (time, pose) = (snapshot.time(index), snapshot.pose(index));
    format!("{time} {pose:?} {vision:?} {sound:?} {payload:?}")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_reopened_store_holds_what_a_memory_in_ram_holds(
        records in records(), seal_records in 1usize..12, frame_bytes in 1usize..900,
        seal_bytes in prop_oneof![Just(2_000usize), Just(1 << 28)],
    ) {
        let cues = vec![Cue::key("vision", 4), Cue::metadata("meta"), Cue::half_key("sound", 3)];
        let schema = Schema::new(cues).expect("valid");
        let disk = SimulatedDisk::new();
        let options = StoreOptions {
            seal_records,
            seal_bytes,
            frame_bytes,
            check_everything: false,
        };
        let open = || Store::open_or_create_on(Arc::new(disk.clone()), &schema, options);
        let mut memory = Memory::new(schema.clone());
        let mut store = open().expect("a new store");
        for record in &records {
            observe(record, |observation| memory.append(observation)).expect("appended");
            observe(record, |observation| store.append(observation)).expect("appended");
            if record.sync {
                store.sync().expect("synced");
            }
        }
        let expected = memory.snapshot();
        let before = store.snapshot();
        drop(store);
        let read = StoreReader::open_on(Arc::new(disk.clone())).expect("a reader").snapshot();
        let reopened = open().expect("reopened").snapshot();
        for found in [before, read.expect("readable"), reopened] {
            prop_assert_eq!(found.len(), expected.len());
            for index in 0..expected.len() {
                prop_assert_eq!(contents(&found, index), contents(&expected, index));
            }
        }
    }
}

#[test]
fn full_blocks_are_lent_by_their_files_and_appending_goes_on_behind_them() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let total = BLOCK_RECORDS + 10;
    let open = |seal_records| {
        let disk = LocalDisk::create(folder.path()).expect("a folder");
        let options = StoreOptions { seal_records, ..StoreOptions::default() };
        Store::open_or_create_on(Arc::new(disk), &numbered_record::schema(), options)
            .expect("a store")
    };
    // The first block is sealed in two parts, the second in one.
    let mut store = open(40_000);
    for id in 0..total as u64 {
        numbered_record::append(&mut store, id).expect("appended");
    }
    assert_eq!(store.durable(), BLOCK_RECORDS, "sealing makes safe");
    let before = store.snapshot();
    drop(store);
    let mut store = open(BLOCK_RECORDS);
    for id in total..2 * BLOCK_RECORDS + 3 {
        numbered_record::append(&mut store, id as u64).expect("appended");
    }
    let after = store.snapshot();
    store.close().expect("closed");
    let mut reader = StoreReader::open(folder.path()).expect("a reader");
    let (read, status) = reader.look().expect("readable");
    assert_eq!((status.sealed_files, status.log_records), (3, 3));
    for id in [0, 1, 39_999, 40_000, BLOCK_RECORDS - 1, BLOCK_RECORDS, total - 1] {
        for snapshot in [&before, &after, &read] {
            numbered_record::check_record(snapshot, id as u64);
        }
    }
    for id in (total..2 * BLOCK_RECORDS).step_by(997).chain(2 * BLOCK_RECORDS - 1..read.len()) {
        numbered_record::check_record(&after, id as u64);
        numbered_record::check_record(&read, id as u64);
    }
}

#[test]
fn sealed_files_and_exports_are_plain_arrow_files() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let disk = LocalDisk::create(folder.path()).expect("a folder");
    let options = StoreOptions { seal_records: 10, ..StoreOptions::default() };
    let mut store = Store::open_or_create_on(Arc::new(disk), &numbered_record::schema(), options)
        .expect("a new store");
    for id in 0..14 {
        numbered_record::append(&mut store, id).expect("appended");
    }
    let sealed = std::fs::read(folder.path().join("sealed-000000000000.arrow")).expect("sealed");
    let mut exported = Vec::new();
    write_arrow(&store.snapshot(), 3..14, &mut exported).expect("exported");
    for (file, ids) in [(sealed, 0..10), (exported, 3..14)] {
        let reader = arrow_ipc::reader::FileReader::try_new(Cursor::new(file), None);
        let batches: Vec<_> = reader.expect("Arrow").map(|batch| batch.expect("whole")).collect();
        let [batch] = &batches[..] else { panic!("one batch") };
        let schema = batch.schema();
        let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let keys = ["key_vision", "key_sound"];
        assert_eq!(names[..4], ["id", "time", "position", "rotation"]);
        assert_eq!((&names[4..6], &names[6..]), (&keys[..], &["payload", "reference"][..]));
        let found = batch.column(0).as_primitive::<UInt64Type>().values().iter().copied();
        assert!(found.eq(ids.clone()));
        let vision = batch.column(4).as_fixed_size_list();
        for (row, id) in ids.enumerate() {
            assert_eq!(vision.is_valid(row), id % 3 != 0);
            if vision.is_valid(row) {
                let key = vision.value(row);
                assert_eq!(key.as_primitive::<Float32Type>().value(id as usize % 5), 1.0);
            }
        }
    }
    let beyond = write_arrow(&store.snapshot(), 3..15, &mut Vec::new());
    assert!(matches!(beyond, Err(Error::OutsideSnapshot { id: 14, length: 14 })));
}

#[test]
fn what_cannot_be_stored_is_refused_and_the_store_goes_on() {
    let disk = Arc::new(SimulatedDisk::new());
    let schema = Schema::new(vec![Cue::key("vision", 2)]).expect("valid");
    let mut store =
        Store::open_or_create_on(disk, &schema, StoreOptions::default()).expect("a new store");
    let huge = vec![0; MAX_PAYLOAD + 1];
    let good = Observation::new(0.0, Pose::identity());
    for bad in [
        Observation::new(f64::NAN, Pose::identity()),
        good.clone().with_key("vision", &[1.0]),
        good.clone().with_key("smell", &[1.0]),
        good.clone().with_bytes(&huge),
    ] {
        store.append(&bad).expect_err("refused");
    }
    assert_eq!(store.append(&good).expect("stored"), MemoryId(0));
    assert_eq!(store.sync().expect("synced"), 1);
    let wide = Schema::new(vec![Cue::key("vision", 1 << 20)]).expect("a memory could");
    let disk = Arc::new(SimulatedDisk::new());
    let refused = Store::open_or_create_on(disk, &wide, StoreOptions::default()).err();
    assert!(matches!(refused, Some(Error::Schema { .. })), "{refused:?}");
}

#[test]
fn a_saved_snapshot_is_read_back_bit_for_bit_and_never_replaces_a_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let schema =
        Schema::new(vec![Cue::half_key("vision", 4), Cue::metadata("meta")]).expect("valid");
    for length in [0, 5, BLOCK_RECORDS, BLOCK_RECORDS + 3] {
        let mut memory = Memory::new(schema.clone());
        for number in 0..length {
            let (key, payload) = ([number as f32, 1.0, -2.0, 0.3], number.to_le_bytes());
            let mut observation = Observation::new(number as f64, Pose::identity());
            if number % 3 != 1 {
                observation = observation.with_key("vision", &key).with_bytes(&payload);
            }
            memory.append(&observation).expect("valid");
        }
        let path = folder.path().join(length.to_string());
        let snapshot = memory.snapshot();
        Store::save(&snapshot, &path).expect("saved");
        let loaded = StoreReader::open(&path).and_then(|mut reader| reader.snapshot());
        let loaded = loaded.expect("read back");
        assert_eq!(loaded.len(), length);
        for number in (0..length).rev().step_by(7) {
            assert_eq!(loaded.key(0, number), snapshot.key(0, number));
            assert_eq!(loaded.time(number), number as f64);
            let id = MemoryId::from(number);
            assert_eq!(loaded.payload(id), snapshot.payload(id));
        }
        // What was saved is a store like any other, and what was loaded a memory like any other.
        let mut store = Store::open(&path).expect("opens for writing");
        store.append(&Observation::new(0.0, Pose::identity())).expect("appended");
        store.close().expect("closed");
        let mut fork = loaded.fork();
        assert_eq!(fork.append(&Observation::new(0.0, Pose::identity())).unwrap().index(), length);
        let again = Store::save(&snapshot, &path).expect_err("a store is there");
        assert!(matches!(again, Error::StoreExists { .. }), "{again}");
    }
}

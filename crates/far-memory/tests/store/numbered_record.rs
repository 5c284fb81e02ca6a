//! Records whose every value follows from their id, so that a lost, changed or invented one shows.

use far_memory::store::Store;
use far_memory::{Cue, Error, MemoryId, Observation, Payload, Pose, Schema, Snapshot};

/// Cues of all kinds: time and pose, full and half precision.
pub fn schema() -> Schema {
    let cues = vec![Cue::metadata("meta"), Cue::key("vision", 5), Cue::half_key("sound", 3)];
    Schema::new(cues).expect("distinct names")
}

fn pose(id: u64) -> Pose {
    let turn = id as f32 * 0.37;
    Pose::from_yaw_pitch([turn.sin() * 9.0, turn.cos() * 7.0, 1.5], turn % 3.0, turn % 0.5)
}

/// A key that points along one axis: unit length already, exact in half precision.
fn key<const D: usize>(id: u64) -> [f32; D] {
    std::array::from_fn(|axis| if axis as u64 == id % D as u64 { 1.0 } else { 0.0 })
}

/// Some records lack one key, some lack both.
fn has_vision(id: u64) -> bool {
    !id.is_multiple_of(3)
}

fn has_sound(id: u64) -> bool {
    id % 4 != 1
}

fn bytes(id: u64) -> Vec<u8> {
    (0..id * 7 % 41).map(|place| (id + place) as u8).collect()
}

/// Appends record number `id`, which must be the next one.
pub fn append(store: &mut Store, id: u64) -> Result<(), Error> {
    let (vision, sound) = (key::<5>(id), key::<3>(id));
    let (bytes, reference) = (bytes(id), format!("video.mp4#{id}"));
    let mut observation = Observation::new(id as f64 * 0.1, pose(id));
    if has_vision(id) {
        observation = observation.with_key("vision", &vision);
    }
    if has_sound(id) {
        observation = observation.with_key("sound", &sound);
    }
    observation = match id % 3 {
        0 => observation,
        1 => observation.with_bytes(&bytes),
        _ => observation.with_reference(&reference),
    };
    assert_eq!(store.append(&observation)?, MemoryId(id));
    Ok(())
}

/// Checks that every record of a snapshot is the one with its id.
pub fn check(snapshot: &Snapshot) {
    for id in 0..snapshot.len() as u64 {
        check_record(snapshot, id);
    }
}

/// Checks one record.
pub fn check_record(snapshot: &Snapshot, id: u64) {
    let index = id as usize;
    assert_eq!(snapshot.time(index), id as f64 * 0.1, "time of record {id}");
    assert_eq!(snapshot.pose(index), Some(pose(id)), "pose of record {id}");
    let stored = |cue: usize, length: usize| {
        snapshot.key(cue, index).map(|key| {
            let mut numbers = vec![0.0; length];
            key.copy_to(&mut numbers);
            numbers
        })
    };
    let vision = has_vision(id).then(|| key::<5>(id).to_vec());
    let sound = has_sound(id).then(|| key::<3>(id).to_vec());
    assert_eq!(stored(1, 5), vision, "vision of record {id}");
    assert_eq!(stored(2, 3), sound, "sound of record {id}");
    match (id % 3, snapshot.payload(MemoryId(id))) {
        (0, Payload::None) => {}
        (1, Payload::Bytes(found)) => assert_eq!(found, bytes(id), "payload of record {id}"),
        (2, Payload::Reference(found)) => assert_eq!(found, format!("video.mp4#{id}")),
        (_, payload) => panic!("record {id} has payload {payload:?}"),
    }
}

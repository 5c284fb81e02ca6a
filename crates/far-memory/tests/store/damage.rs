//! A flipped bit anywhere in a store is detected and located.

use crate::numbered_record;
use crate::simulated_disk::SimulatedDisk;
use far_memory::store::{Disk, Store, StoreOptions, verify_disk};
use far_memory::{Cue, Error, Observation, Pose, Schema};
use std::sync::Arc;

fn open(disk: &SimulatedDisk) -> Result<Store, Error> {
    let options = StoreOptions { seal_records: 8, ..StoreOptions::default() };
    Store::open_or_create_on(Arc::new(disk.clone()), &numbered_record::schema(), options)
}

/// A store with two sealed files and five records in the log, some frames with several records.
fn small_store(orderly_close: bool) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let mut store = open(&disk).expect("a new store");
    for id in 0..21 {
        numbered_record::append(&mut store, id).expect("appended");
        if id % 3 == 0 {
            store.sync().expect("synced");
        }
    }
    if orderly_close {
        store.close().expect("closed");
    }
    disk
}

fn names(disk: &SimulatedDisk, ending: &str) -> Vec<String> {
    let names = disk.list().expect("listed").into_iter();
    names.filter(|name| name.ends_with(ending)).collect()
}

/// Flips a bit in every `step`th byte of a file and hands each damaged disk to `judge`.
fn flip(
    disk: &SimulatedDisk,
    name: &str,
    step: usize,
    mut judge: impl FnMut(usize, &SimulatedDisk),
) {
    let whole = disk.read(name).expect("there");
    for place in (0..whole.len()).step_by(step) {
        let mut damaged = whole.to_vec();
        damaged[place] ^= 1 << (place % 8);
        disk.put(name, &damaged);
        judge(place, disk);
    }
    disk.put(name, &whole);
}

#[test]
fn a_flipped_bit_in_a_sealed_file_is_found_and_named() {
    let disk = small_store(true);
    for name in names(&disk, ".arrow") {
        flip(&disk, &name, 7, |place, disk| {
            let report = verify_disk(disk, |_, _| ()).expect("the manifest is whole");
            let damaged: Vec<_> =
                report.files.iter().filter(|file| file.damage.is_some()).collect();
            let [only] = damaged[..] else { panic!("byte {place}: {damaged:?}") };
            assert_eq!(only.name, name);
            let Some(Error::Corrupt { file, offset, .. }) = &only.damage else {
                panic!("byte {place}: {:?}", only.damage)
            };
            assert!(file.ends_with(&name) && *offset as usize <= place);
            // These files are small, so that opening checks all of them too.
            assert!(matches!(open(disk).err(), Some(Error::Corrupt { .. })), "byte {place}");
        });
    }
}

#[test]
fn a_flipped_bit_in_the_manifest_is_found_and_named() {
    let disk = small_store(true);
    flip(&disk, "manifest.json", 3, |place, disk| match open(disk).err() {
        Some(Error::Corrupt { file, .. }) => assert!(file.ends_with("manifest.json")),
        Some(Error::StoreVersion { .. }) => {}
        other => panic!("byte {place}: {other:?}"),
    });
    open(&disk).expect("whole again");
}

#[test]
fn a_flipped_bit_in_a_log_that_was_closed_is_damage_up_to_the_mark() {
    let disk = small_store(true);
    let [name] = &names(&disk, ".far")[..] else { panic!("one log") };
    let mark = disk.read(name).expect("there").len() - 32;
    flip(&disk, name, 3, |place, disk| match open(disk) {
        Err(Error::Corrupt { file, offset, .. }) => {
            assert!(file.ends_with(name) && offset as usize <= place && place < mark);
        }
        Err(other) => panic!("byte {place}: {other}"),
        Ok(store) => {
            assert!(place >= mark, "only the mark itself may be damaged without loss: {place}");
            assert_eq!((store.len(), store.recovery().torn_bytes), (21, 32));
            numbered_record::check(&store.snapshot());
        }
    });
}

#[test]
fn a_flipped_bit_in_a_log_that_was_not_closed_is_damage_or_a_reported_tail() {
    let disk = small_store(false);
    let [name] = &names(&disk, ".far")[..] else { panic!("one log") };
    let (mut damage, mut tails) = (0, 0);
    flip(&disk, name, 3, |place, disk| match open(disk) {
        Err(Error::Corrupt { file, .. }) => {
            assert!(file.ends_with(name));
            damage += 1;
        }
        Err(other) => panic!("byte {place}: {other}"),
        Ok(store) => {
            assert!(store.recovery().torn_bytes > 0, "byte {place} changed unnoticed");
            numbered_record::check(&store.snapshot());
            tails += 1;
        }
    });
    assert!(damage > 0 && tails > 0);
}

#[test]
fn damage_deep_inside_a_large_file_is_placed_within_a_megabyte() {
    let disk = SimulatedDisk::new();
    let schema = Schema::new(vec![Cue::key("vision", 2)]).expect("valid");
    let options = StoreOptions { seal_records: 4, ..StoreOptions::default() };
    let open = |check_everything| {
        let options = StoreOptions { check_everything, ..options };
        Store::open_or_create_on(Arc::new(disk.clone()), &schema, options)
    };
    let mut store = open(false).expect("a new store");
    let payload = vec![3; 1 << 20];
    for _ in 0..4 {
        let observation = Observation::new(0.0, Pose::identity()).with_bytes(&payload);
        store.append(&observation).expect("appended");
    }
    drop(store);
    let [name] = &names(&disk, ".arrow")[..] else { panic!("one sealed file") };
    let mut contents = disk.read(name).expect("there").to_vec();
    contents[5 << 19] ^= 4;
    disk.put(name, &contents);
    assert_eq!(open(false).expect("opening does not read payloads").len(), 4);
    let report = verify_disk(&disk, |_, _| ()).expect("the manifest is whole");
    assert!(!report.is_sound());
    for found in [open(true).err(), report.files.into_iter().find_map(|file| file.damage)] {
        let Some(Error::Corrupt { offset, .. }) = found else { panic!("{found:?}") };
        assert_eq!(offset, 2 << 20);
    }
}

#[test]
fn a_missing_file_is_named_and_a_missing_manifest_is_no_empty_store() {
    for ending in [".arrow", ".far"] {
        let disk = small_store(true);
        let name = &names(&disk, ending)[0];
        disk.remove(name).expect("removed");
        let Some(Error::Disk { file, .. }) = open(&disk).err() else { panic!("unnoticed") };
        assert!(file.ends_with(name));
        assert!(!verify_disk(&disk, |_, _| ()).expect("the manifest is whole").is_sound());
    }
    let disk = small_store(true);
    disk.remove("manifest.json").expect("removed");
    let Some(Error::Corrupt { file, .. }) = open(&disk).err() else { panic!("overwritten") };
    assert!(file.ends_with("manifest.json"));
}

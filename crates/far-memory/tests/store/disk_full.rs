//! A full disk at every size: the last synced state stays readable, and the store recovers with
//! more room.

use crate::numbered_record;
use crate::simulated_disk::{Faults, SimulatedDisk};
use far_memory::Error;
use far_memory::store::{Store, StoreOptions, StoreReader};
use std::sync::Arc;

fn open(disk: &SimulatedDisk) -> Result<Store, Error> {
    let options = StoreOptions { seal_records: 5, ..StoreOptions::default() };
    Store::open_or_create_on(Arc::new(disk.clone()), &numbered_record::schema(), options)
}

/// Appends and syncs 18 records; how many were safe when the disk was full.
fn fill(disk: &SimulatedDisk) -> (usize, Result<(), Error>) {
    let mut store = match open(disk) {
        Ok(store) => store,
        Err(error) => return (0, Err(error)),
    };
    for id in store.len() as u64..18 {
        let done = numbered_record::append(&mut store, id).and_then(|()| store.sync());
        if let Err(error) = done {
            return (store.durable(), Err(error));
        }
    }
    (store.durable(), Ok(()))
}

#[test]
fn the_last_synced_state_stays_readable_at_every_size_of_disk() {
    let (mut full, mut stored) = (0, 0);
    for capacity in (0..40_000).step_by(400) {
        let disk = SimulatedDisk::new();
        disk.arm(Faults { capacity: Some(capacity), ..Faults::default() }, 0);
        let (safe, outcome) = fill(&disk);
        let Err(error) = outcome else { break };
        let Error::Disk { source, .. } = &error else { panic!("{error}") };
        assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
        full += 1;
        stored = stored.max(safe);
        // Nothing is written by reading, so a full disk is no obstacle.
        match StoreReader::open_on(Arc::new(disk.clone())) {
            Err(Error::NoStore { .. }) => assert_eq!(safe, 0),
            reader => {
                let snapshot = reader.and_then(|mut reader| reader.snapshot()).expect("readable");
                assert!(snapshot.len() >= safe);
                numbered_record::check(&snapshot);
            }
        }
        disk.arm(Faults::default(), 0);
        let (all, outcome) = fill(&disk);
        assert!(outcome.is_ok() && all == 18, "with room again, the work continues");
        numbered_record::check(&open(&disk).expect("whole").snapshot());
    }
    assert!(full > 10 && stored > 10, "{full} disks were full, with up to {stored} records");
}

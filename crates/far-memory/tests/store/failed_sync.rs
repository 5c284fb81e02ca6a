//! A failed sync is not retried: the store stops, and opening it recovers the durable records.

use crate::numbered_record;
use crate::simulated_disk::{Faults, SimulatedDisk};
use far_memory::Error;
use far_memory::store::{Store, StoreOptions};
use std::sync::Arc;

fn open(disk: &SimulatedDisk) -> Result<Store, Error> {
    let options = StoreOptions { seal_records: 6, ..StoreOptions::default() };
    Store::open_or_create_on(Arc::new(disk.clone()), &numbered_record::schema(), options)
}

/// Appends and syncs 20 records; how many were safe when it ended, and how.
fn work(store: &mut Store) -> (usize, Result<(), Error>) {
    let mut safe = store.durable();
    for id in store.len() as u64..20 {
        if let Err(error) = numbered_record::append(store, id) {
            return (safe, Err(error));
        }
        safe = store.durable();
        match store.sync() {
            Err(error) => return (safe, Err(error)),
            Ok(now) => safe = now,
        }
    }
    (safe, Ok(()))
}

#[test]
fn every_failing_sync_stops_the_store_and_loses_nothing_that_was_safe() {
    let mut failures = 0;
    for failing in 0..60 {
        let disk = SimulatedDisk::new();
        open(&disk).expect("a new store");
        disk.arm(Faults { failing_sync: Some(failing), ..Faults::default() }, failing);
        let Ok(mut store) = open(&disk) else {
            failures += 1;
            continue;
        };
        let (safe, outcome) = work(&mut store);
        let Err(failure) = outcome else { break };
        failures += 1;
        assert!(matches!(failure, Error::Disk { .. }), "{failure}");
        for refused in [numbered_record::append(&mut store, 99).err(), store.sync().err()] {
            let Some(Error::Stopped { durable, cause, .. }) = refused else {
                panic!("expected a stopped store, found {refused:?}")
            };
            assert_eq!(durable as usize, safe);
            assert_eq!(cause, failure.to_string());
        }
        drop(store);

        // The program restarts on the running system, which may show bytes that it will never
        // write. What opening then reports as durable must survive a power cut.
        let again = open(&disk).expect("recovered");
        let recovered = again.recovery().records as usize;
        assert!((safe..=20).contains(&recovered));
        disk.arm(Faults { cut_at: Some(0), ..Faults::default() }, 0);
        drop(again);
        let mut last = open(&disk.after_power_cut(failing)).expect("recovered");
        assert_eq!(last.len(), recovered);
        assert!(work(&mut last).1.is_ok(), "the work continues");
        numbered_record::check(&last.snapshot());
    }
    assert!(failures >= 20, "only {failures} syncs were there to fail");
}

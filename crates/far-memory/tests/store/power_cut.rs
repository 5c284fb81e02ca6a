//! Ten thousand power cuts at random moments of random work.

use crate::numbered_record;
use crate::simulated_disk::{Faults, SimulatedDisk};
use far_memory::Error;
use far_memory::store::{Store, StoreOptions, StoreReader, verify_disk};
use fastrand::Rng;
use std::sync::Arc;

/// What the caller knows about its store.
#[derive(Clone, Copy, Debug, Default)]
struct Ledger {
    /// Records that a sync, or opening, reported as durable.
    safe: usize,
    /// Records passed to `append`.
    handed_over: usize,
}

fn open(disk: &SimulatedDisk, random: &mut Rng) -> Result<Store, Error> {
    let options = StoreOptions {
        seal_records: random.usize(2..9),
        seal_bytes: if random.u8(0..8) == 0 { 4_000 } else { 1 << 20 },
        frame_bytes: random.usize(1..600),
        check_everything: random.bool(),
    };
    Store::open_or_create_on(Arc::new(disk.clone()), &numbered_record::schema(), options)
}

/// Opens the store and works until the disk fails or the work is done.
fn work(disk: &SimulatedDisk, random: &mut Rng, ledger: &mut Ledger) -> Result<(), Error> {
    let mut store = open(disk, random)?;
    assert!((ledger.safe..=ledger.handed_over).contains(&store.len()), "{ledger:?}");
    *ledger = Ledger { safe: store.len(), handed_over: store.len() };
    for _ in 0..random.usize(0..8) {
        for _ in 0..random.usize(0..5) {
            ledger.handed_over += 1;
            numbered_record::append(&mut store, ledger.handed_over as u64 - 1)?;
        }
        if random.bool() {
            ledger.safe = store.sync()?;
            assert_eq!(ledger.safe, ledger.handed_over);
        }
    }
    ledger.safe = store.durable();
    if random.bool() {
        store.close()?;
        ledger.safe = ledger.handed_over;
    } else {
        // Dropping syncs; the power goes off before that.
        disk.arm(Faults { cut_at: Some(0), ..Faults::default() }, 0);
    }
    Ok(())
}

/// A store through several cuts; returns how many.
fn life_of_a_store(seed: u64) -> usize {
    let random = &mut Rng::with_seed(seed);
    let mut disk = SimulatedDisk::new();
    let mut ledger = Ledger::default();
    let cuts = 10;
    for _ in 0..cuts {
        let faults = Faults {
            cut_at: Some(random.u64(0..50)),
            failing_sync: (random.u8(0..4) == 0).then(|| random.u64(0..10)),
            capacity: None,
        };
        disk.arm(faults, random.u64(..));
        let interrupted = work(&disk, random, &mut ledger).is_err();
        if interrupted && random.bool() && disk.operations() <= faults.cut_at.expect("set") {
            // A sync failed: the program restarts before the power goes off.
            disk.arm(Faults::default(), 0);
            let mut again = open(&disk, random).expect("a failed sync damages nothing");
            assert!((ledger.safe..=ledger.handed_over).contains(&again.len()), "{ledger:?}");
            ledger.safe = again.sync().expect("the disk works again");
        }
        disk = disk.after_power_cut(random.u64(..));
        check(&disk, &ledger);
    }
    cuts
}

fn check(disk: &SimulatedDisk, ledger: &Ledger) {
    match StoreReader::open_on(Arc::new(disk.clone())) {
        Err(Error::NoStore { .. }) => assert_eq!(ledger.safe, 0, "the store vanished"),
        reader => {
            let snapshot = reader.and_then(|mut reader| reader.snapshot()).expect("readable");
            assert!((ledger.safe..=ledger.handed_over).contains(&snapshot.len()), "{ledger:?}");
            numbered_record::check(&snapshot);
            assert!(verify_disk(disk, |_, _| ()).expect("a manifest").is_sound());
        }
    }
}

/// Runs a share of the ten thousand, so that the shares run side by side.
fn cut_power(share: u64) {
    let cuts: usize = (0..250).map(|life| life_of_a_store(1_000 * share + life)).sum();
    assert_eq!(cuts, 2_500);
}

#[test]
fn no_synced_record_is_lost_and_none_invented_first_2500_cuts() {
    cut_power(0);
}

#[test]
fn no_synced_record_is_lost_and_none_invented_second_2500_cuts() {
    cut_power(1);
}

#[test]
fn no_synced_record_is_lost_and_none_invented_third_2500_cuts() {
    cut_power(2);
}

#[test]
fn no_synced_record_is_lost_and_none_invented_fourth_2500_cuts() {
    cut_power(3);
}

//! One writer, many readers.

use crate::numbered_record;
use far_memory::Error;
use far_memory::store::{LocalDisk, Store, StoreOptions, StoreReader};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn open(path: &Path) -> Result<Store, Error> {
    let disk = LocalDisk::create(path).expect("a folder");
    let options = StoreOptions { seal_records: 20, frame_bytes: 300, ..StoreOptions::default() };
    Store::open_or_create_on(Arc::new(disk), &numbered_record::schema(), options)
}

#[test]
fn a_second_writer_is_refused_by_name_until_the_first_is_gone() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let store = open(folder.path()).expect("a new store");
    let Some(Error::Locked { store: path, holder }) = open(folder.path()).err() else {
        panic!("two writers")
    };
    assert_eq!(path, folder.path().display().to_string());
    assert_eq!(holder, format!("process {}", std::process::id()));
    StoreReader::open(folder.path()).expect("readers are welcome");
    drop(store);
    open(folder.path()).expect("free again");
}

#[test]
fn readers_see_growing_prefixes_while_the_writer_appends_and_seals() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let mut store = open(folder.path()).expect("a new store");
    let in_process = store.reader();
    let safe = AtomicUsize::new(0);
    let total = 300;
    std::thread::scope(|scope| {
        let threads = [0, 1].map(|_| {
            scope.spawn(|| {
                let mut reader = StoreReader::open(folder.path()).expect("a reader");
                let (mut seen, mut looks) = (0, 0);
                while seen < total {
                    let known = safe.load(Ordering::Acquire);
                    let (snapshot, status) = reader.look().expect("readable");
                    assert!(snapshot.len() >= known.max(seen), "a reader goes backward");
                    assert_eq!(snapshot.len() as u64, status.sealed_records + status.log_records);
                    numbered_record::check(&snapshot);
                    let snapshot = in_process.snapshot();
                    assert!(snapshot.len() >= known);
                    numbered_record::check(&snapshot);
                    (seen, looks) = (reader.snapshot().expect("readable").len(), looks + 1);
                }
                looks
            })
        });
        for id in 0..total as u64 {
            numbered_record::append(&mut store, id).expect("appended");
            if id % 5 == 4 {
                safe.store(store.sync().expect("synced"), Ordering::Release);
            }
        }
        for thread in threads {
            assert!(thread.join().expect("no reader failed") > 0);
        }
    });
}

#[test]
fn other_cues_and_folders_without_a_store_are_refused_in_words() {
    let folder = tempfile::tempdir().expect("temporary folder");
    drop(open(folder.path()).expect("a new store"));
    let other = far_memory::Schema::new(vec![far_memory::Cue::key("smell", 9)]).expect("valid");
    let error = Store::open_or_create(folder.path(), &other).err().expect("other cues");
    assert!(error.to_string().contains("smell (9 × 32 bit)"), "{error}");
    assert!(error.to_string().contains("sound (3 × 16 bit)"), "{error}");
    let missing = folder.path().join("nowhere");
    assert!(matches!(Store::open(&missing).err(), Some(Error::NoStore { .. })));
    assert!(matches!(StoreReader::open(&missing).err(), Some(Error::NoStore { .. })));
    assert!(!missing.exists(), "looking for a store makes none");
}

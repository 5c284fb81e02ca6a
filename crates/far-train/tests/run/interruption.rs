//! A run that is killed at any change of the disk ends in the same bytes.

use crate::fragile_disk::{FragileDisk, Fuse};
use crate::toy::{Notes, Toy};
use far_train::{Ending, Existing, Result, RunFolder, Session, TrainConfig, train};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn config() -> TrainConfig {
    let sets = [
        "training.steps=13",
        "training.log_every=2",
        "training.evaluate_every=4",
        "training.checkpoint_every=5",
        "training.keep_checkpoints=1",
        "retriever.interval=1",
    ];
    TrainConfig::resolve("quick", &sets).expect("a configuration")
}

/// The same command again, in a process that dies when the fuse blows.
fn process(path: &Path, fuse: &Fuse, existing: Existing) -> Result<Notes> {
    let config = config();
    let (disk, checkpoints) =
        (FragileDisk::new(path, fuse), FragileDisk::new(&path.join("checkpoints"), fuse));
    let session = Session::now("toy", 1);
    let mut folder = RunFolder::open_on(path, disk, checkpoints, &config, existing, session)?;
    let (mut toy, mut notes) = (Toy::new(fuse.clone()), Notes::default());
    let ending =
        train(&mut toy, &mut folder, &config.training, &AtomicBool::new(false), &mut notes)?;
    assert_eq!((ending, toy.step), (Ending::Finished, 13));
    Ok(notes)
}

/// Everything in the folder that must not depend on when it was computed.
fn bytes(path: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for folder in [path.to_path_buf(), path.join("checkpoints")] {
        for entry in std::fs::read_dir(folder).expect("listed") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if path.is_file() && name != "environment.json" && name != "lock" {
                files.push((name, std::fs::read_to_string(&path).expect("read")));
            }
        }
    }
    files.sort();
    files
}

fn uninterrupted() -> (Vec<(String, String)>, i64) {
    let folder = tempfile::tempdir().expect("a folder");
    let fuse = Fuse::at(100_000);
    process(folder.path(), &fuse, Existing::Resume).expect("a run");
    (bytes(folder.path()), fuse.used(100_000))
}

#[test]
fn killed_at_any_change_and_started_again_it_ends_in_the_same_bytes() {
    let (expected, changes) = uninterrupted();
    let names: Vec<&str> = expected.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["config.toml", "metrics.jsonl", "step-000000013.safetensors"]);
    assert!(changes > 60, "{changes} changes");
    for change in 0..changes {
        let folder = tempfile::tempdir().expect("a folder");
        let died = process(folder.path(), &Fuse::at(change), Existing::Resume);
        assert!(died.is_err(), "change {change} was not the last");
        process(folder.path(), &Fuse::none(), Existing::Resume)
            .unwrap_or_else(|error| panic!("after change {change}: {error}"));
        assert!(bytes(folder.path()) == expected, "other bytes after change {change}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn killed_again_and_again_it_ends_in_the_same_bytes(
        changes in prop::collection::vec((0i64..80, prop::bool::weighted(0.1)), 1..6),
    ) {
        let (expected, _) = uninterrupted();
        let folder = tempfile::tempdir().expect("a folder");
        for (change, fresh) in changes {
            let existing = if fresh { Existing::Discard } else { Existing::Resume };
            let _ = process(folder.path(), &Fuse::at(change), existing);
        }
        process(folder.path(), &Fuse::none(), Existing::Resume).expect("it goes on");
        prop_assert!(bytes(folder.path()) == expected, "other bytes");
    }
}

#[test]
fn a_run_that_was_killed_while_it_was_discarded_can_be_discarded_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    for change in 0..20 {
        process(path, &Fuse::none(), Existing::Resume).expect("a run");
        for made in ["retrievers", "replays", "report"] {
            std::fs::create_dir_all(path.join(made)).expect("a folder");
            std::fs::write(path.join(made).join("file"), b"made of it").expect("a file");
        }
        let _ = process(path, &Fuse::at(change), Existing::Discard);
        let found = RunFolder::look(path, &config(), Existing::Discard);
        assert_eq!(found.unwrap_or_else(|error| panic!("change {change}: {error}")), None);
    }
}

#[test]
fn it_goes_on_from_the_newest_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = config();
    let open = |existing| {
        let session = Session::now("toy", 1);
        RunFolder::open(folder.path(), &config, existing, session).expect("a run's folder")
    };
    let stop = Arc::new(AtomicBool::new(false));
    let mut toy = Toy::new(Fuse::none());
    let mut notes = Notes { stop_after: Some((7, stop.clone())), ..Notes::default() };
    let ending = train(&mut toy, &mut open(Existing::Resume), &config.training, &stop, &mut notes);
    assert_eq!(ending.expect("it stops"), Ending::Stopped(7));
    assert_eq!((notes.resumed, notes.checkpoints), (None, vec![5, 7]));

    let notes = process(folder.path(), &Fuse::none(), Existing::Resume).expect("it goes on");
    assert_eq!((notes.resumed, notes.checkpoints), (Some(7), vec![10, 13]));
    assert!(bytes(folder.path()) == uninterrupted().0, "other bytes");

    let notes = process(folder.path(), &Fuse::none(), Existing::Resume).expect("nothing to do");
    assert_eq!((notes.resumed, notes.checkpoints), (Some(13), vec![]));
    let notes = process(folder.path(), &Fuse::none(), Existing::Discard).expect("from the start");
    assert_eq!((notes.resumed, notes.checkpoints), (None, vec![5, 10, 13]));
}

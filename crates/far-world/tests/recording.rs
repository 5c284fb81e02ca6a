//! Recordings: the same bytes for any number of threads, and no work is repeated.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use far_world::{Progress, Recording, record, world};

/// All files of a dataset with their bytes.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for part in [folder.to_path_buf(), folder.join("episodes")] {
        for entry in std::fs::read_dir(part).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn run(folder: &Path, variant: &str, episodes: u32, threads: usize) -> (usize, u64) {
    let village = world("village").unwrap();
    let recording = Recording::new(village, Some(variant), 11, 16).unwrap();
    let report = record(village, &recording, episodes, folder, threads, &|_| {}).unwrap();
    (report.kept, report.frames)
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    for variant in ["static", "patrol", "changing"] {
        let folders = [1, 2, 3].map(|threads| {
            let folder = tempfile::tempdir().unwrap();
            run(folder.path(), variant, 3, threads);
            folder
        });
        let [first, others @ ..] = folders.map(|folder| files(folder.path()));
        assert!(first.len() >= 5);
        for other in others {
            assert_eq!(first.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
            assert!(first == other, "bytes differ in {variant}");
        }
    }
}

#[test]
fn a_recording_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "static", 2, 1);
    let before = files(folder.path());
    let village = world("village").unwrap();
    let recording = Recording::new(village, Some("static"), 11, 16).unwrap();
    let steps = Mutex::new(Vec::new());
    let report = record(village, &recording, 4, folder.path(), 2, &|step| {
        steps.lock().unwrap().push(step);
    })
    .unwrap();
    assert_eq!((report.kept, report.episodes), (2, 4));
    let steps = steps.into_inner().unwrap();
    assert_eq!(steps.iter().filter(|step| **step == Progress::Episode).count(), 2);
    let after = files(folder.path());
    for name in ["episodes/000000.arrow", "episodes/000001.arrow"] {
        assert_eq!(before[name], after[name]);
    }
    let whole = tempfile::tempdir().unwrap();
    run(whole.path(), "static", 4, 1);
    assert!(files(whole.path()) == after, "a resumed recording differs from an uninterrupted one");
}

/// A recording that was killed has no index yet; what it wrote is checked all the same.
#[test]
fn an_episode_that_changed_before_the_index_was_written_is_recorded_again() {
    let whole = tempfile::tempdir().unwrap();
    run(whole.path(), "static", 3, 1);
    let whole = files(whole.path());
    for place in [5, 50, 95] {
        let folder = tempfile::tempdir().unwrap();
        let village = world("village").unwrap();
        let recording = Recording::new(village, Some("static"), 11, 16).unwrap();
        // Its folder is in the way of the last episode, so that the index is not written.
        let last = folder.path().join("episodes/000002.arrow");
        std::fs::create_dir_all(&last).unwrap();
        std::fs::write(last.join("in the way"), "").unwrap();
        record(village, &recording, 3, folder.path(), 1, &|_| {}).unwrap_err();
        std::fs::remove_dir_all(&last).unwrap();
        assert!(!folder.path().join("episodes.arrow").exists());
        let path = folder.path().join("episodes/000001.arrow");
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.len() * place / 100;
        bytes[at] ^= 16;
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(run(folder.path(), "static", 3, 1).0, 1, "the first one alone is kept");
        assert!(files(folder.path()) == whole, "flipped at {place} %");
    }
}

#[test]
fn another_recording_in_the_same_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "static", 1, 1);
    let village = world("village").unwrap();
    let other = Recording::new(village, Some("static"), 12, 16).unwrap();
    assert!(record(village, &other, 1, folder.path(), 1, &|_| {}).is_err());
}

/// Fewer scenes: the same villages, walked in more often, and never by another's recording.
#[test]
fn scenes_are_walked_in_turn_and_the_own_number_changes_no_byte() {
    let village = world("village").unwrap();
    let own = Recording::new(village, Some("static"), 11, 16).unwrap();
    let few = own.clone().with_scenes(village, 5).unwrap();
    let [default, told, fewer] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    run(default.path(), "static", 2, 1);
    let same = own.with_scenes(village, village.constants().scenes).unwrap();
    record(village, &same, 2, told.path(), 1, &|_| {}).unwrap();
    assert!(files(default.path()) == files(told.path()));

    record(village, &few, 7, fewer.path(), 2, &|_| {}).unwrap();
    let dataset = far_data::Dataset::open(fewer.path()).unwrap();
    let scene = |id| dataset.summary(id).unwrap().facts.scene.clone();
    assert_eq!((scene(0), scene(1)), (scene(5), scene(6)));
    assert_ne!(scene(0), scene(1));
    assert!(record(village, &same, 7, fewer.path(), 1, &|_| {}).is_err(), "another recording");
}

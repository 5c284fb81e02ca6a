//! What is written is read back, in any order, by any number of threads, after any interruption.

mod fixture;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use far_data::*;
use fixture::*;
use rayon::prelude::*;

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for base in [folder.to_path_buf(), folder.join("episodes")] {
        for entry in std::fs::read_dir(base).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                let name = path.strip_prefix(folder).expect("inside").display().to_string();
                found.insert(name, std::fs::read(&path).expect("readable"));
            }
        }
    }
    found
}

#[test]
fn every_column_survives_the_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = write_dataset(folder.path(), 2);
    let episode = dataset.episode(1).expect("opens");
    assert_eq!((episode.len(), episode.boundary()), (FRAMES, BOUNDARY));
    let audio = episode.audio().expect("readable").expect("there is sound");
    for index in 0..FRAMES {
        let mut written = frame(1, index);
        let FrameImage::Pixels(picture) = written.image.clone() else { unreachable!() };
        assert_eq!(episode.picture(index).expect("decodes"), picture);
        let [start, end] = [index, index + 1].map(|at| episode.description().audio_start(at));
        let heard = &audio.samples[start..end];
        for (heard, written) in heard.iter().flatten().zip(written.audio.iter().flatten()) {
            assert!((heard - written).abs() < 1e-4);
        }
        assert_eq!(heard.len(), written.audio.len());
        let read = episode.frame(index).expect("reads");
        assert_eq!(
            episode.agent_before(index),
            match index.checked_sub(15) {
                Some(before) => frame(1, before).agent,
                None => AgentState::default(),
            }
        );
        written.action = read.action;
        written.audio = Vec::new();
        written.image = read.image.clone();
        assert_eq!(read, written);
    }
    let step = episode.action(7);
    assert!((step.forward - 0.1).abs() < 1e-4 && step.left.abs() < 1e-4);
    assert_eq!(audio.until_frame(episode.description(), 3, 1.0).len(), 6400);
    assert_eq!(audio.until_frame(episode.description(), 50, 1.0).len(), 16_000);
}

/// Training asks for the same episodes again and again.
#[test]
fn an_open_episode_is_shared() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = write_dataset(folder.path(), 2);
    let first = dataset.episode(1).expect("opens");
    assert!(Arc::ptr_eq(&first, &dataset.episode(1).expect("is open")));
    assert_eq!(dataset.episode(0).expect("opens").id(), 0);
    // Nothing is remembered of one that is not there.
    assert!(dataset.episode(2).is_err() && dataset.episode(2).is_err());
}

#[test]
fn summaries_and_splits_survive_the_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = write_dataset(folder.path(), 5);
    for id in dataset.ids() {
        let summary = dataset.summary(id).expect("listed");
        assert_eq!(summary.facts, facts(id));
        assert_eq!(summary.return_frames() as usize, FRAMES - BOUNDARY);
    }
    for (rule, of) in [
        (SplitRule::SceneDisjoint, (|f| Some(f.split)) as fn(EpisodeFacts) -> Option<Split>),
        (SplitRule::Episode, |f| f.second_split),
    ] {
        let tests = dataset.select(rule, Split::Test).expect("both rules are stored");
        let expected: Vec<u32> = (0..5).filter(|&id| of(facts(id)) == Some(Split::Test)).collect();
        assert_eq!(tests, expected);
    }
    assert!(dataset.summary(99).unwrap_err().to_string().contains("99"));
}

#[test]
fn threads_and_order_leave_no_trace_in_the_bytes() {
    let one = tempfile::tempdir().expect("a folder");
    let many = tempfile::tempdir().expect("a folder");
    write_dataset(one.path(), 6);
    let writer = DatasetWriter::create(many.path(), description()).expect("begins");
    (0..6u32).into_par_iter().rev().for_each(|id| drop(write_episode(&writer, id)));
    writer.finish().expect("ends");
    assert_eq!(files(one.path()), files(many.path()));
}

#[test]
fn a_killed_recording_goes_on_without_redoing_finished_episodes() {
    let whole = tempfile::tempdir().expect("a folder");
    let killed = tempfile::tempdir().expect("a folder");
    write_dataset(whole.path(), 4);
    let writer = DatasetWriter::create(killed.path(), description()).expect("begins");
    write_episode(&writer, 0);
    write_episode(&writer, 2);
    // A kill leaves the file under its temporary name: forget the writer in the middle.
    let mut torn = writer.episode(1, facts(1)).expect("begins");
    (0..150).for_each(|index| torn.push(frame(1, index)).expect("written"));
    std::mem::forget(torn);
    drop(writer);
    let error = Dataset::open(killed.path()).err().expect("unfinished");
    assert!(matches!(error, DataError::Unfinished { .. }) && error.hint().contains("again"));

    let before = episode_file(killed.path(), 2).metadata().expect("there").modified().ok();
    let writer = DatasetWriter::create(killed.path(), description()).expect("goes on");
    assert_eq!(writer.missing(0..4), [1, 3]);
    for id in writer.missing(0..4) {
        write_episode(&writer, id);
    }
    writer.finish().expect("ends");
    assert_eq!(episode_file(killed.path(), 2).metadata().expect("there").modified().ok(), before);
    assert_eq!(files(whole.path()), files(killed.path()));
}

#[test]
fn an_abandoned_episode_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let writer = DatasetWriter::create(folder.path(), description()).expect("begins");
    let mut episode = writer.episode(0, facts(0)).expect("begins");
    episode.push(frame(0, 0)).expect("written");
    drop(episode);
    assert_eq!(std::fs::read_dir(folder.path().join("episodes")).expect("there").count(), 0);
}

#[test]
fn another_recording_in_the_same_folder_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    write_dataset(folder.path(), 1);
    let mut other = description();
    other.generator.seed = 6;
    let error = DatasetWriter::create(folder.path(), other).err().expect("refused");
    assert!(matches!(&error, DataError::Conflict { field, .. } if field == "generator"));
    assert!(error.hint().contains("--out"));
}

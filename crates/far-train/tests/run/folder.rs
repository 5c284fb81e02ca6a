//! What a run's folder accepts and refuses.

use crate::fragile_disk::Fuse;
use crate::toy::{Notes, Toy};
use far_train::{Environment, Error, Existing, Record, RunFolder, Session, TrainConfig, train};
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn config(sets: &[&str]) -> TrainConfig {
    let base = ["training.steps=20", "training.checkpoint_every=5", "retriever.interval=1"];
    TrainConfig::resolve("quick", &[&base, sets].concat()).expect("a configuration")
}

fn open(path: &Path, config: &TrainConfig, existing: Existing) -> Result<RunFolder, Error> {
    RunFolder::open(path, config, existing, Session::now("toy", 1))
}

fn run(path: &Path, config: &TrainConfig) -> Result<Notes, Error> {
    let mut folder = open(path, config, Existing::Resume)?;
    let (mut toy, mut notes) = (Toy::new(Fuse::none()), Notes::default());
    train(&mut toy, &mut folder, &config.training, &AtomicBool::new(false), &mut notes)?;
    Ok(notes)
}

#[test]
fn another_configuration_is_refused_until_the_run_is_discarded() {
    let folder = tempfile::tempdir().expect("a folder");
    run(folder.path(), &config(&[])).expect("a run");
    let other = config(&["training.seed=4"]);
    let refused = open(folder.path(), &other, Existing::Resume).err().expect("another seed");
    let message = refused.to_string();
    assert!(message.contains("training.seed is 0 there, 4 here"), "{message}");
    assert!(refused.hint().contains("--fresh"));
    drop(open(folder.path(), &other, Existing::Discard).expect("thrown away"));
    open(folder.path(), &other, Existing::Resume).expect("the same again");
}

#[test]
fn a_run_without_a_checkpoint_gives_way_to_another_configuration() {
    let folder = tempfile::tempdir().expect("a folder");
    let encoder = folder.path().join("encoder-vision.safetensors");
    drop(open(folder.path(), &config(&[]), Existing::Resume).expect("new"));
    std::fs::write(&encoder, "made").expect("written");
    drop(open(folder.path(), &config(&["data.batch=32"]), Existing::Resume).expect("corrected"));
    assert!(encoder.exists(), "it would be made alike");
    let looked = RunFolder::look(folder.path(), &config(&["training.seed=4"]), Existing::Resume);
    assert_eq!(looked.expect("nothing to lose"), None);
    assert!(encoder.exists(), "looking changes nothing");
    drop(open(folder.path(), &config(&["training.seed=4"]), Existing::Resume).expect("corrected"));
    assert!(!encoder.exists(), "another seed makes another");
    run(folder.path(), &config(&["training.seed=4"])).expect("a run");
    let looked = RunFolder::look(folder.path(), &config(&["training.seed=4"]), Existing::Resume);
    assert_eq!(looked.expect("a run"), Some(20));
}

#[test]
fn logs_and_configurations_that_were_torn_do_not_stop_a_run() {
    let folder = tempfile::tempdir().expect("a folder");
    run(folder.path(), &config(&[])).expect("a run");
    let before = std::fs::read(folder.path().join("config.toml")).expect("a configuration");
    for name in ["environment.json", "config.toml"] {
        let path = folder.path().join(name);
        let bytes = std::fs::read(&path).expect(name);
        std::fs::write(&path, &bytes[..bytes.len() / 2 + 3]).expect("torn");
        let notes = run(folder.path(), &config(&[])).expect(name);
        assert_eq!(notes.resumed, Some(20), "{name}");
    }
    assert_eq!(std::fs::read(folder.path().join("config.toml")).expect("there"), before);
}

#[test]
fn two_processes_do_not_train_in_one_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = open(folder.path(), &config(&[]), Existing::Resume).expect("free");
    let second = open(folder.path(), &config(&[]), Existing::Discard);
    assert!(matches!(second.err(), Some(Error::Locked { .. })));
    drop(first);
    open(folder.path(), &config(&[]), Existing::Resume).expect("free again");
}

#[test]
fn what_a_kill_left_goes_unless_somebody_may_still_write_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    run(folder.path(), &config(&[])).expect("a run");
    let left = ["environment.json.partial", ".tmpAb12Cd", "checkpoints/.tmpzZ9qwe"];
    let evaluation = "results.json.partial";
    let write = |name: &str| std::fs::write(at(name), b"half").expect("written");
    [&left[..], &[evaluation]].concat().into_iter().for_each(write);
    RunFolder::look(folder.path(), &config(&[]), Existing::Resume).expect("a run");
    assert!(left.iter().all(|name| at(name).exists()), "looking changes nothing");
    let first = open(folder.path(), &config(&[]), Existing::Resume).expect("free");
    assert!(!left.iter().any(|name| at(name).exists()));
    assert!(at(evaluation).exists(), "an evaluation holds another lock");
    left.into_iter().for_each(write);
    assert!(open(folder.path(), &config(&[]), Existing::Resume).is_err(), "in use");
    assert!(left.iter().all(|name| at(name).exists()), "its writer lives");
    drop(first);
}

#[test]
fn a_folder_with_other_things_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("thesis.tex"), "precious").expect("written");
    for existing in [Existing::Resume, Existing::Discard] {
        let refused = open(folder.path(), &config(&[]), existing).err().expect("no run");
        assert!(refused.to_string().contains("thesis.tex"), "{refused}");
    }
    let names: Vec<_> = std::fs::read_dir(folder.path()).expect("listed").collect();
    assert_eq!(names.len(), 1);
}

#[test]
fn newest_checkpoints_and_milestones_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = config(&[
        "training.steps=47",
        "training.keep_checkpoints=2",
        "training.milestone_every=20",
    ]);
    run(folder.path(), &config).expect("a run");
    let folder = open(folder.path(), &config, Existing::Resume).expect("a run's folder");
    assert_eq!(folder.checkpoint_steps().expect("listed"), [47, 45, 40, 20]);
}

#[test]
fn retrievers_of_fewer_steps_go_when_a_run_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().join("retrievers/far-meta.safetensors");
    run(folder.path(), &config(&[])).expect("a run");
    std::fs::create_dir(folder.path().join("retrievers")).expect("a folder");
    std::fs::write(&kept, b"trained").expect("written");
    run(folder.path(), &config(&[])).expect("nothing to do");
    assert!(kept.exists(), "they are of its last step");
    run(folder.path(), &config(&["training.steps=25"])).expect("more steps");
    assert!(!kept.exists());
}

#[test]
fn a_damaged_checkpoint_gives_way_to_an_older_one_and_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    run(folder.path(), &config(&[])).expect("a run");
    let newest = folder.path().join("checkpoints/step-000000020.safetensors");
    let (whole, metrics) =
        (std::fs::read(&newest), std::fs::read(folder.path().join("metrics.jsonl")));
    std::fs::write(&newest, "garbage").expect("damaged");
    let notes = run(folder.path(), &config(&[])).expect("it goes on");
    assert_eq!((notes.resumed, notes.refused), (Some(15), 1));
    assert_eq!(std::fs::read(&newest).expect("there"), whole.expect("read"));
    assert_eq!(
        std::fs::read(folder.path().join("metrics.jsonl")).expect("there"),
        metrics.expect("read")
    );
    for step in [15, 20] {
        let path = folder.path().join(format!("checkpoints/step-{step:09}.safetensors"));
        std::fs::write(path, "garbage").expect("damaged");
    }
    let refused = run(folder.path(), &config(&[])).err().expect("nothing to go on from");
    assert!(matches!(refused, Error::NoCheckpoint { .. }), "{refused}");
}

#[test]
fn a_checkpoint_under_another_name_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    run(folder.path(), &config(&[])).expect("a run");
    let checkpoint =
        |step: u64| folder.path().join(format!("checkpoints/step-{step:09}.safetensors"));
    std::fs::copy(checkpoint(15), checkpoint(19)).expect("copied");
    std::fs::remove_file(checkpoint(20)).expect("removed");
    let notes = run(folder.path(), &config(&[])).expect("it goes on");
    assert_eq!((notes.resumed, notes.refused), (Some(15), 1));
}

#[test]
fn a_torn_line_is_cut_and_a_damaged_one_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let metrics = folder.path().join("metrics.jsonl");
    run(folder.path(), &config(&[])).expect("a run");
    let whole = std::fs::read_to_string(&metrics).expect("read");
    std::fs::write(&metrics, format!("{whole}{{\"kind\":\"st")).expect("torn");
    run(folder.path(), &config(&[])).expect("nothing to do");
    assert_eq!(std::fs::read_to_string(&metrics).expect("read"), whole);
    std::fs::write(&metrics, whole.replacen("step", "stop", 2)).expect("damaged");
    let refused = run(folder.path(), &config(&[])).err().expect("damage").to_string();
    assert!(refused.contains("line 1") && refused.contains("metrics.jsonl"), "{refused}");
}

#[test]
fn sessions_are_written_beside() {
    let folder = tempfile::tempdir().expect("a folder");
    run(folder.path(), &config(&[])).expect("a run");
    open(folder.path(), &config(&[]), Existing::Resume).expect("a run's folder");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect(name);
    let environment: Environment = serde_json::from_str(&read("environment.json")).expect("JSON");
    let steps: Vec<u64> = environment.sessions.iter().map(|session| session.last_step).collect();
    assert_eq!(steps, [20, 0]);
    for line in read("metrics.jsonl").lines() {
        let record: Record = serde_json::from_str(line).expect("a record");
        assert_eq!(record.to_json(), line);
    }
}

//! `--out`: nothing is deleted before everything is known to work, and a failed start leaves no trace.

use crate::program::{checkpoint, fails, far, files, succeeds, tiny, village};
use std::path::Path;

#[test]
fn fresh_deletes_nothing_before_everything_is_known_to_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = folder.path().join("good");
    succeeds(tiny("train", village(), &good, &[]));
    let mut eval = far(["eval"]);
    eval.arg(&good);
    succeeds(eval);
    let before = files(&good);
    assert!(checkpoint(&good, 6).exists() && good.join("replays").is_dir());
    let typo = folder.path().join("typo");
    for (data, more, status) in [
        (typo.as_path(), &["--fresh"][..], 1),
        (village(), &["--fresh", "--set", "arm.id=far-mutli"], 2),
        (
            village(),
            &[
                "--fresh",
                "--set",
                "evaluation.split=validation",
                "--set",
                "training.evaluate_every=2",
            ],
            1,
        ),
        (village(), &["--fresh", "--prepared", "nowhere"], 1),
        (village(), &["--fresh", "--set", "encoder.path=nowhere"], 1),
        (village(), &["--fresh", "--set", "data.batch=100000000"], 2),
    ] {
        fails(tiny("train", data, &good, more), status);
        assert!(files(&good) == before, "{more:?} changed the run");
    }
    fails(tiny("compare", village(), &good, &["--fresh"]), 1);
    assert!(files(&good) == before, "a comparison changed the run");

    succeeds(tiny("train", village(), &good, &["--fresh", "--set", "training.seed=1"]));
    for kept in ["replays", "scores"] {
        assert!(!good.join(kept).exists(), "{kept} belong to the run that was deleted");
    }
    assert!(!good.join("results.json").exists());
}

#[test]
fn a_failed_start_does_not_stand_in_the_way_of_the_corrected_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    let message = fails(tiny("train", Path::new("typo"), &run, &[]), 1);
    assert!(message.contains("dataset.json is missing"), "{message}");
    assert!(!run.exists(), "nothing was made");
    // One that came further, and was then given up, has nothing to lose either.
    std::fs::create_dir(&run).expect("a folder");
    let printed = succeeds(far(["train", "--print-config"]));
    std::fs::write(run.join("config.toml"), printed).expect("written");
    succeeds(tiny("train", village(), &run, &[]));
    assert!(checkpoint(&run, 6).exists());
    let refused = fails(tiny("train", village(), &run, &["--set", "training.seed=1"]), 1);
    assert!(refused.contains("training.seed is 0 there, 1 here"), "{refused}");
}

#[test]
fn datasets_and_comparisons_are_not_written_into_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    succeeds(tiny("train", village(), &run, &[]));
    let before = files(&run);
    let mut record = far(["world", "record", "--world", "village", "--episodes", "1", "--out"]);
    record.arg(&run);
    let message = fails(record, 1);
    assert!(message.contains("holds a training run"), "{message}");
    let message = fails(tiny("compare", village(), &run, &["--arm", "random"]), 1);
    assert!(message.contains("it holds config.toml"), "{message}");
    assert!(files(&run) == before);
}

#[test]
fn a_finished_run_gets_more_steps_and_is_the_longer_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let [whole, extended] = ["whole", "extended"].map(|name| folder.path().join(name));
    succeeds(tiny("train", village(), &extended, &["--set", "training.steps=4"]));
    let output = tiny("train", village(), &extended, &[]).output().expect("far runs");
    let [said, shown] = [output.stdout, output.stderr].map(|bytes| crate::program::text(&bytes));
    assert!(said.contains("6 steps in") && said.contains("next: far eval "), "{shown}{said}");
    // The loss at the end is the one that was shown last.
    let loss = |text: &str| {
        let words = text.rsplit("loss ").next().expect("words");
        words.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect::<String>()
    };
    assert!(loss(&said).len() == 6 && loss(&said) == loss(&shown), "{shown}{said}");
    succeeds(tiny("train", village(), &whole, &[]));
    for name in ["checkpoints/step-000000006.safetensors", "metrics.jsonl", "config.toml"] {
        let read = |run: &Path| std::fs::read(run.join(name)).expect(name);
        assert!(read(&whole) == read(&extended), "{name} differs");
    }
    let fewer = fails(tiny("train", village(), &whole, &["--set", "training.steps=2"]), 1);
    assert!(fewer.contains("training.steps is 6 there, 2 here"), "{fewer}");
}

#[test]
fn a_flipped_byte_is_noticed_and_a_damaged_log_is_not_minded() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    succeeds(tiny("train", village(), &run, &[]));
    let newest = checkpoint(&run, 6);
    let whole = std::fs::read(&newest).expect("a checkpoint");
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 4;
    std::fs::write(&newest, &flipped).expect("written");
    std::fs::write(run.join("environment.json"), "{\"sessions\": [").expect("written");

    let eval = || {
        let mut command = far(["eval", "--json"]);
        command.arg(&run);
        command
    };
    let output = eval().output().expect("far runs");
    let said = crate::program::text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("an older checkpoint is evaluated, of step 4"), "{said}");
    assert!(said.contains("checksum") && !said.contains("--fresh"), "{said}");
    succeeds(tiny("train", village(), &run, &[]));
    assert!(std::fs::read(&newest).expect("a checkpoint") == whole, "it was made again");
}

#[test]
fn an_encoder_that_is_gone_is_not_made_again_behind_ones_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    succeeds(tiny("train", village(), &run, &[]));
    let encoder = run.join("encoder-vision.safetensors");
    let whole = std::fs::read(&encoder).expect("an encoder");
    let eval = || {
        let mut command = far(["eval"]);
        command.arg(&run);
        command
    };
    std::fs::remove_file(&encoder).expect("removed");
    let message = fails(eval(), 1);
    assert!(message.contains("encoder-vision.safetensors is missing"), "{message}");
    assert!(
        message.contains("hint: copy the file back, or run the `far train` command"),
        "{message}"
    );
    assert!(!encoder.exists());
    succeeds(tiny("train", village(), &run, &[]));
    assert!(std::fs::read(&encoder).expect("an encoder") == whole, "training made it again");
    std::fs::write(&encoder, &whole[..whole.len() / 2]).expect("torn");
    fails(eval(), 1);
    succeeds(tiny("train", village(), &run, &[]));
    succeeds(eval());

    // Another encoder is not taken for the one that the checkpoint recalled by.
    let other = folder.path().join("other");
    succeeds(tiny("train", village(), &other, &["--set", "training.seed=9"]));
    for name in ["tokenizer.safetensors", "encoder-vision.safetensors"] {
        std::fs::copy(other.join(name), run.join(name)).expect("copied");
    }
    let message = fails(eval(), 1);
    assert!(message.contains("is not the one that the checkpoint was trained with"), "{message}");
}

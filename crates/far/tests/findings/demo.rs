//! `far demo`: the first two commands share a folder, and its run can be judged further.

use crate::program::{TINY, fails, far, succeeds, text};
use std::path::Path;
use std::process::Command;

fn demo(out: &Path, more: &[&str]) -> Command {
    let mut command = far(["demo", "--out"]);
    command.arg(out).args(TINY.iter().flat_map(|set| ["--set", set]));
    command.args(["--set", "longlive.steps=2"]).args(more);
    command
}

const WALKS: [&str; 2] = ["--episodes", "10"];

#[test]
fn a_quick_demo_and_a_whole_one_share_a_folder_and_can_be_judged_further() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("demo");
    let quick = [&WALKS[..], &["--quick"]].concat();
    succeeds(demo(&out, &quick));
    succeeds(demo(&out, &WALKS));
    succeeds(demo(&out, &quick));

    // What cannot go on is refused before a walk is recorded.
    let walks = || std::fs::read_dir(out.join("village/episodes")).expect("walks").count();
    let before = walks();
    for (beside, cause) in [
        ("bad:arm.id=nearest-pose", "`bad` has no retriever that learns"),
        ("far-meta", "two arms are called `far-meta`"),
        ("heard:arm.id=far-audio", "cue `audio`"),
    ] {
        let output = demo(&out, &["--episodes", "20", "--fresh", "--beside", beside]).output();
        let message = text(&output.expect("far runs").stderr);
        assert!(message.contains(cause), "{message}");
        assert_eq!(walks(), before, "{beside}");
    }
    let message =
        fails(demo(&out, &["--episodes", "20", "--set", "training.learning_rate=0.5"]), 1);
    assert!(message.contains("training.learning_rate"), "{message}");
    assert_eq!(walks(), before);
    let message = fails(demo(&out, &[&WALKS[..], &["--seed", "3"]].concat()), 1);
    assert!(message.contains("hint: give another --out, or --fresh"), "{message}");

    let words = |verb| {
        let mut command = far([verb]);
        command.arg(&out);
        command
    };
    let page = succeeds(words("report"));
    assert!(page.trim_end().ends_with("common/report/index.html"), "{page}");
    let mut eval = words("eval");
    eval.args(["--rule", "matrix-game"]);
    let table = succeeds(eval);
    assert!(table.contains("matrix-game"), "{table}");
}

#[test]
fn a_demo_without_walks_to_learn_from_or_to_judge_by_is_refused_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("demo");
    for episodes in ["0", "1"] {
        let message = fails(demo(&out, &["--quick", "--episodes", episodes]), 2);
        assert!(message.contains(&format!("--episodes {episodes} gives no walk to")), "{message}");
        assert!(!out.exists());
    }
}

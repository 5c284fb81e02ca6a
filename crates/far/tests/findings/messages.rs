//! Hints name the real cause, and the exit status says whether the command was understood.

use crate::program::{fails, far, succeeds, tiny, village};

#[test]
fn mistyped_arms_rules_and_values_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    for (set, cause) in [
        ("arm.id=far-mutli", "did you mean `far-multi`?"),
        ("arm.id=nearest-poes", "did you mean `nearest-pose`?"),
        ("training.steps=abc", "--set training.steps=abc: "),
        ("training.stepz=3", "`training.steps`"),
    ] {
        let message = fails(tiny("train", village(), &run, &["--set", set]), 2);
        assert!(message.contains(cause) && !message.contains("preset quick"), "{set}: {message}");
        assert!(!run.exists());
    }
    succeeds(tiny("train", village(), &run, &[]));
    let eval = |more: &[&str]| {
        let mut command = far(["eval"]);
        command.arg(&run).args(more);
        command
    };
    let message = fails(eval(&["--rule", "nearest-poze"]), 2);
    assert!(message.contains("did you mean `nearest-pose`?"), "{message}");
    assert!(message.contains("hint: docs/recall-policies.md"), "{message}");
    let message = fails(eval(&["--lpips", "nowhere.safetensors"]), 1);
    assert!(message.contains("LPIPS weights in nowhere.safetensors"), "{message}");
    assert!(message.contains("hint: check the path"), "{message}");
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_called_so_and_loses_nothing() {
    use std::os::unix::process::CommandExt;
    let folder = tempfile::tempdir().expect("a folder");
    let [run, whole] = ["run", "whole"].map(|name| folder.path().join(name));
    let mut command = tiny("train", village(), &run, &[]);
    let limit = || {
        let limit = libc::rlimit { rlim_cur: 20_000, rlim_max: 20_000 };
        // SAFETY: plain system calls, allowed between fork and exec: a file may not grow beyond the
        // limit, and writing on is an error instead of a signal.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
        }
        Ok(())
    };
    // SAFETY: `limit` makes system calls only.
    unsafe { command.pre_exec(limit) };
    let message = fails(command, 1);
    assert!(message.contains("hint: free some space"), "{message}");
    succeeds(tiny("train", village(), &run, &[]));
    succeeds(tiny("train", village(), &whole, &[]));
    let read =
        |run: &std::path::Path| std::fs::read(crate::program::checkpoint(run, 6)).expect("saved");
    assert!(read(&run) == read(&whole));
}

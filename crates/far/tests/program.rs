//! The program as a whole: options of every verb, output that cannot be written, files that others read.

use std::path::Path;
use std::process::{Command, Output};

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_far"))
}

fn far(arguments: &[&str]) -> Output {
    program().args(arguments).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Records a small village.
fn record(out: &Path) {
    let record =
        ["world", "record", "--world", "village", "--episodes", "5", "--size", "16", "--out"];
    let output = far(&[&record[..], &[out.to_str().expect("text")]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// The arguments of a training of two steps.
fn training(data: &Path, out: &Path) -> Vec<String> {
    let settings = [
        "training.steps=2",
        "training.evaluate_every=0",
        "world_model.depth=2",
        "world_model.width=16",
        "world_model.heads=2",
        "arm.id=far-meta",
    ];
    let paths = [("--data", data), ("--out", out)];
    let paths = paths.map(|(name, path)| [name.into(), path.display().to_string()]);
    let settings = settings.map(|setting| ["--set".into(), setting.to_owned()]);
    let words = ["train", "--config", "quick"].map(String::from);
    words
        .into_iter()
        .chain(paths.into_iter().flatten())
        .chain(settings.into_iter().flatten())
        .collect()
}

#[test]
fn shells_and_readers_of_manuals_are_served() {
    for (shell, mark) in
        [("bash", "complete -F _far"), ("zsh", "#compdef far"), ("fish", "complete -c far")]
    {
        let script = text(&far(&["completions", shell]).stdout);
        assert!(script.contains(mark) && script.contains("pretrain"), "{shell}");
    }
    assert!(text(&far(&["man"]).stdout).contains(".TH far 1"));
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("man1");
    assert!(far(&["man", "--out", out.to_str().expect("text")]).status.success());
    for page in ["far.1", "far-train.1", "far-data-verify.1"] {
        assert!(out.join(page).is_file(), "{page}");
    }
}

#[test]
fn help_fits_the_terminal() {
    for verb in ["", "demo", "train", "compare", "eval", "data import"] {
        let words = verb.split_whitespace().chain(["--help"]);
        let output = program().args(words).env("COLUMNS", "80").output().expect("far runs");
        let help = text(&output.stdout);
        let longest = help.lines().map(|line| line.chars().count()).max();
        assert!(output.status.success() && longest <= Some(80), "{verb}: {longest:?} in {help}");
    }
}

#[test]
fn quiet_leaves_results_and_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("village");
    record(&data);
    let data = data.to_str().expect("text");
    let quiet = far(&["data", "verify", data, "-q"]);
    assert!(quiet.stderr.is_empty() && text(&quiet.stdout).contains("all good"));
    let verbose = text(&far(&["-v", "data", "verify", data]).stderr);
    assert!(verbose.contains("threads") && verbose.contains("took "), "{verbose}");
    let wrong = far(&["-q", "data", "verify", "nowhere"]);
    let message = text(&wrong.stderr);
    assert!(message.contains("error: dataset.json is missing") && message.contains("hint: "));
    assert_eq!(far(&["-q", "-v", "data", "verify", data]).status.code(), Some(2));
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error_and_no_panic() {
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    for arguments in [&["completions", "bash"][..], &["train", "--print-config"]] {
        let output = program().args(arguments).stdout(full()).output().expect("runs");
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("cannot write to standard output: No space left"), "{message}");
        assert!(!message.contains("panicked"), "{message}");
    }
    let status = program().args(["data", "verify", "nowhere"]).stderr(full()).status();
    assert_eq!(status.expect("runs").code(), Some(1));
}

#[test]
fn nothing_to_show_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("text");
    let output = far(&["world", "view", "--world", "village", "--episodes", "0", "--out", out]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--episodes and --pictures start at 1"));
}

/// A shared dataset that its reader cannot change.
#[cfg(unix)]
#[test]
fn a_dataset_that_cannot_be_written_is_trained_on() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let folder = tempfile::tempdir().expect("a folder");
    let (data, home) = (folder.path().join("village"), folder.path().join("home"));
    record(&data);
    std::fs::create_dir(&home).expect("a folder");
    let mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("ours");
    };
    mode(folder.path(), 0o755);
    mode(&home, 0o777);
    mode(&data, 0o555);
    // Nothing is forbidden to root, who becomes somebody else here.
    let root = std::fs::create_dir(data.join("probe")).is_ok();
    let _ = std::fs::remove_dir(data.join("probe"));
    let run = |arguments: &[&str]| {
        let mut command = program();
        command.args(arguments).env("HOME", &home).env_remove("FAR_CACHE").current_dir(&home);
        if root {
            command.uid(65_534).gid(65_534);
        }
        let output = command.output().expect("the program can be run by others");
        assert!(output.status.success(), "{}", text(&output.stderr));
        output
    };
    let inspected = run(&["data", "inspect", data.to_str().expect("text")]);
    assert!(text(&inspected.stdout).contains("episodes"));
    assert!(text(&inspected.stderr).contains("cannot be written; pictures go to"));
    let arguments = training(&data, &home.join("run"));
    run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let cached =
        |cache: &Path| std::fs::read_dir(cache.join("datasets")).map_or(0, Iterator::count);
    assert_eq!(cached(&home.join(".cache/far")), 1);
    let elsewhere = home.join("elsewhere");
    let mut arguments = training(&data, &home.join("second"));
    arguments.extend(["--cache".into(), elsewhere.display().to_string()]);
    run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(cached(&elsewhere), 1);
    assert!(!data.join("cache").exists());
    // A colleague reads what was trained: files have the mode of any other file.
    let run = home.join("run");
    let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode();
    let checkpoints = std::fs::read_dir(run.join("checkpoints")).expect("a folder");
    let checkpoints = checkpoints.map(|entry| entry.expect("an entry").path());
    let files: Vec<_> = checkpoints.chain([run.join("tokenizer.safetensors")]).collect();
    assert!(files.len() > 1);
    for file in files {
        assert_eq!(mode(&file), mode(&run.join("metrics.jsonl")), "{}", file.display());
    }
}

#[cfg(unix)]
#[test]
fn a_path_that_is_not_text_is_named_before_training() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join(std::ffi::OsStr::from_bytes(b"villa\xffge"));
    let plain = folder.path().join("village");
    record(&plain);
    std::fs::rename(&plain, &data).expect("renamed");
    let output = program().args(["data", "verify"]).arg(&data).output().expect("runs");
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("warning: the path is not UTF-8"));
    let out = folder.path().join("run");
    let train = ["train", "--config", "quick", "--out", out.to_str().expect("text"), "--data"];
    let output = program().args(train).arg(&data).output().expect("runs");
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("is not UTF-8"), "{}", text(&output.stderr));
    assert!(!out.exists());
}

/// A dataset whose frames lie in a video.
#[test]
fn a_video_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("village");
    let description = far_data::DatasetDescription {
        images: far_data::ImageEncoding::Video,
        ..far_data::DatasetDescription::new("walk", 10.0, [16, 16], [90.0, 90.0])
    };
    let writer = far_data::DatasetWriter::create(&data, description).expect("begins");
    for (id, split) in [(0, far_data::Split::Train), (1, far_data::Split::Test)] {
        let mut facts = far_data::EpisodeFacts::new("lane", split, 0);
        facts.video = Some("walk.mp4".into());
        let mut episode = writer.episode(id, facts).expect("begins");
        for step in 0..8u32 {
            use far_data::Phase;
            let phase = if step < 4 { Phase::Explore } else { Phase::Return };
            let pose = far_memory::Pose::from_yaw_pitch([step as f32, 0.0, 1.6], 0.0, 0.0);
            let image = far_data::FrameImage::VideoFrame(step.into());
            let frame = far_data::Frame::new(f64::from(step) / 10.0, pose, phase, image);
            episode.push(frame).expect("written");
        }
        episode.finish().expect("ends");
    }
    writer.finish().expect("ends");
    let arguments = training(&data, &folder.path().join("run"));
    let output = program().args(arguments).output().expect("runs");
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.contains("video"), "{message}");
}

//! The program as the tests run it, on the smallest runs that there are.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// The smallest run with two cues.
pub const TINY: [&str; 12] = [
    "data.batch=4",
    "retriever.queries=4",
    "world_model.depth=2",
    "world_model.width=16",
    "world_model.heads=2",
    "encoder={ depth = 1, width = 16, heads = 2, key = 8 }",
    "encoder.pretraining={ steps = 2, batch = 4 }",
    "tokenizer.patch_pca.frames=100",
    "training={ steps = 6, checkpoint_every = 2, evaluate_every = 0 }",
    "evaluation={ clips = 2, clips_in_training = 1, questions = 1, utility_pool = 4, most_steps = 2 }",
    "evaluation.sampler.steps=2",
    "utility.levels=1",
];

/// The program with these words, ready to run.
pub fn far<'a>(words: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_far"));
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A verb that takes settings, on a dataset, with the smallest sizes.
pub fn tiny(verb: &str, data: &Path, out: &Path, more: &[&str]) -> Command {
    let mut command = far([verb, "--config", "quick"]);
    command.arg("--data").arg(data).arg("--out").arg(out);
    command.args(TINY.iter().flat_map(|set| ["--set", set])).args(more);
    command
}

/// Runs a command that must succeed and returns what it said on stdout.
#[track_caller]
pub fn succeeds(mut command: Command) -> String {
    let output = command.output().expect("far runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Runs a command that must end with this status and returns what it said on stderr.
#[track_caller]
pub fn fails(mut command: Command, status: i32) -> String {
    let output: Output = command.output().expect("far runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    said
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Records episodes of villages.
pub fn record(folder: &Path, episodes: u32, seed: u32) {
    let [episodes, seed] = [episodes, seed].map(|number| number.to_string());
    let mut command = far(["world", "record", "--world", "village", "--size", "32"]);
    command.args(["--episodes", &episodes, "--seed", &seed, "--out"]).arg(folder);
    succeeds(command);
}

/// A dataset of ten walks that tests read and do not change.
pub fn village() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("findings-village");
        record(&folder, 10, 0);
        folder
    })
}

/// Every file below a folder with its bytes, locks and logs of sessions aside.
pub fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if !name.ends_with("lock") && name != "environment.json" {
                let bytes = std::fs::read(&path).expect("a file");
                found.push((path, bytes));
            }
        }
    }
    found.sort();
    found
}

/// The checkpoint of a step.
pub fn checkpoint(run: &Path, step: u64) -> PathBuf {
    run.join(format!("checkpoints/step-{step:09}.safetensors"))
}

//! `far data keys --encoder`: the encoder of one run makes keys of another dataset; what does not fit is
//! refused, and the dataset stays as it was.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use far_data::{
    Dataset, DatasetDescription, DatasetWriter, EpisodeFacts, Frame, FrameImage, Phase, Picture,
    Split, verify_episode,
};
use far_memory::Pose;
use far_model::{CueEncoder, KeyEncoder, PatchPca, Tokenizer};
use far_tensor::Device;

const FRAMES: usize = 24;

/// Walks east and back between walls of many colors.
fn record(folder: &Path, seed: u8, side: u32) {
    let description = DatasetDescription::new("mine", 10.0, [side, side], [90.0, 90.0]);
    let writer = DatasetWriter::create(folder, description).expect("a recording");
    for id in 0..2u8 {
        let split = if id == 0 { Split::Train } else { Split::Test };
        let facts = EpisodeFacts::new("room", split, 0);
        let mut episode = writer.episode(u32::from(id), facts).expect("an episode");
        for frame in 0..FRAMES {
            let way = frame.min(FRAMES - frame);
            let mut picture = Picture::filled(side, side, [9 * way as u8, seed, 40 * id]);
            picture.set_pixel(way as u32 % side, 3, [255; 3]);
            let pose = Pose::from_yaw_pitch([0.1 * way as f32, 0.0, 1.6], 0.0, 0.0);
            let phase = if frame < FRAMES / 2 { Phase::Explore } else { Phase::Return };
            let image = FrameImage::Pixels(picture);
            episode.push(Frame::new(frame as f64 / 10.0, pose, phase, image)).expect("a frame");
        }
        episode.finish().expect("an episode");
    }
    writer.finish().expect("a recording");
}

fn far(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_far"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("far runs")
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A run of two steps.
fn train(folder: &Path, data: &str, run: &str, own: &[&str]) {
    let sets = [
        "training.steps=2",
        "training.evaluate_every=0",
        "encoder.pretraining.steps=2",
        "evaluation.questions=1",
    ];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let command = ["train", "--config", "quick", "--data", data, "--out", run];
    let output = far(folder, &[&command[..], &sets, own].concat());
    assert!(output.status.success(), "{}", told(&output));
}

/// Everything in a dataset, by name.
fn bytes(dataset: &Path) -> BTreeMap<String, Vec<u8>> {
    let names =
        ["dataset.json", "episodes.arrow", "episodes/000000.arrow", "episodes/000001.arrow"];
    let read = |name: &str| (name.to_owned(), std::fs::read(dataset.join(name)).expect("there"));
    names.map(read).into()
}

#[test]
fn the_encoder_of_a_run_makes_keys_of_other_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    record(&root.join("home"), 10, 16);
    record(&root.join("away"), 200, 24);
    train(root, "home", "run", &[]);
    let encoder = "run/encoder-vision.safetensors";
    let keys = ["data", "keys", "away", "--encoder", encoder, "--name", "seen"];
    let output = far(root, &keys);
    assert!(output.status.success(), "{}", told(&output));

    let own = KeyEncoder::load(&root.join(encoder), &Device::cpu()).expect("an encoder");
    let tokenizer = PatchPca::load(&root.join("run/tokenizer.safetensors")).expect("a tokenizer");
    let due = format!("{} keys of {} numbers are column `seen`", 2 * FRAMES, own.dimension());
    assert!(String::from_utf8_lossy(&output.stdout).contains(&due));
    let dataset = Dataset::open(&root.join("away")).expect("opens");
    for id in dataset.ids() {
        let episode = verify_episode(&dataset, id).expect("whole");
        let column = episode.numbers("seen").expect("a column");
        assert_eq!(column.width, own.dimension());
        // Frame by frame here, all at once there.
        for frame in 0..episode.len() {
            let latent = tokenizer.encode(&episode, &[frame]).expect("a latent");
            let key = own.keys(&latent).expect("a key");
            for (found, due) in column.row(frame).iter().zip(key) {
                assert!((found - due).abs() < 1e-5, "episode {id}, frame {frame}");
            }
        }
    }
    // The same again replaces the column and changes nothing.
    let before = bytes(&root.join("away"));
    assert!(far(root, &keys).status.success());
    assert!(bytes(&root.join("away")) == before, "the same keys are the same bytes");
    // The column is a cue.
    train(
        root,
        "away",
        "cued",
        &["--set", "cues.seen={ column = \"seen\" }", "--set", "arm.cue=seen"],
    );

    // An encoder that was copied out of its run, with the tokenizer it was taught with.
    std::fs::create_dir(root.join("alone")).expect("made");
    for name in ["encoder-vision.safetensors", "tokenizer.safetensors"] {
        std::fs::copy(root.join("run").join(name), root.join("alone").join(name)).expect("copied");
    }
    let alone =
        ["data", "keys", "away", "--encoder", "alone/encoder-vision.safetensors", "--name", "seen"];
    assert!(far(root, &alone).status.success());
    assert!(bytes(&root.join("away")) == before);

    refusals(root, &before);
}

/// What is not an encoder, or not this one's tokenizer, changes nothing.
fn refusals(root: &Path, before: &BTreeMap<String, Vec<u8>>) {
    let copy =
        |from: &str, to: &str| std::fs::copy(root.join(from), root.join(to)).expect("copied");
    let whole = std::fs::read(root.join("run/encoder-vision.safetensors")).expect("there");
    std::fs::create_dir(root.join("mixed")).expect("made");
    copy("run/encoder-vision.safetensors", "mixed/encoder-vision.safetensors");
    copy("cued/tokenizer.safetensors", "mixed/tokenizer.safetensors");
    std::fs::create_dir(root.join("lonely")).expect("made");
    copy("run/encoder-vision.safetensors", "lonely/encoder-vision.safetensors");
    std::fs::write(root.join("run/cut.safetensors"), &whole[..whole.len() / 2]).expect("written");
    let mut damaged = whole.clone();
    *damaged.last_mut().expect("bytes") ^= 1;
    std::fs::write(root.join("run/damaged.safetensors"), damaged).expect("written");
    std::fs::write(root.join("run/words.safetensors"), "words").expect("written");
    for (encoder, words) in [
        ("run/none.safetensors", "cannot read"),
        ("run/tokenizer.safetensors", "it is not an encoder"),
        ("run/cut.safetensors", "not a whole safetensors file"),
        ("run/damaged.safetensors", "checksum"),
        ("run/words.safetensors", "not a whole safetensors file"),
        ("mixed/encoder-vision.safetensors", "taught with other inputs"),
        ("lonely/encoder-vision.safetensors", "tokenizer.safetensors"),
    ] {
        let output = far(root, &["data", "keys", "away", "--encoder", encoder, "--name", "seen"]);
        let message = told(&output);
        assert!(!output.status.success(), "{encoder}: {message}");
        assert!(message.contains(words) && message.contains("hint: "), "{encoder}: {message}");
    }
    let encoder = "run/encoder-vision.safetensors";
    for (name, words) in [("time", "none of the format's own"), ("My Keys", "lower-case letters")] {
        let output = far(root, &["data", "keys", "away", "--encoder", encoder, "--name", name]);
        assert!(!output.status.success() && told(&output).contains(words), "{}", told(&output));
    }
    let both = ["data", "keys", "away", "--encoder", encoder, "--from", "x.safetensors"];
    assert_eq!(far(root, &both).status.code(), Some(2));
    assert_eq!(far(root, &["data", "keys", "away"]).status.code(), Some(2));
    assert!(bytes(&root.join("away")) == *before, "nothing changed");
}

//! The tokenizer that comes with the program, as a user has it.

use far_data::{FrameImage, Picture};
use far_model::{Autoencoder, AutoencoderConfig, BUILT_IN, Tokenizer, psnr};
use far_tensor::Device;
use far_world::{Recording, Studio, worlds};
use serde_json::Value;
use std::process::Command;

/// A seed that the tokenizer was not trained on, and the side of a frame.
const SEED: u64 = 9_105;
const SIDE: u32 = 128;
/// What it keeps at least of a frame, in dB; pictures of one color have about 12.
const LEAST: f64 = 24.0;

/// Frames of a walk, evenly spread.
fn frames(world: &dyn far_world::World) -> Vec<Picture> {
    let recording = Recording::new(world, None, SEED, SIDE).expect("its first variant");
    let mut episode = world.episode(&recording, 0).expect("an episode");
    let mut studio = Studio::new(world.camera(), SIDE);
    let length = episode.course().poses.len();
    let mut shoot = |part: usize| {
        let row = episode.frame(part * length / 4, &mut studio).expect("a frame");
        let FrameImage::Pixels(picture) = row.image else { panic!("worlds paint pixels") };
        picture
    };
    (0..4).map(&mut shoot).collect()
}

#[test]
fn frames_of_every_world_survive_a_round_trip() {
    let config = AutoencoderConfig { weights: BUILT_IN.to_owned(), resolution: [SIDE as usize; 2] };
    let tokenizer = Autoencoder::load(config, &Device::cpu()).expect("it comes with the program");
    for world in worlds() {
        let pictures = frames(*world);
        let latents = tokenizer.encode_pictures(&pictures).expect("latents");
        let square = latents.iter().map(|value| value * value).sum::<f32>() / latents.len() as f32;
        assert!((0.25..4.0).contains(&square), "{}: about unit variance: {square}", world.name());
        let latents: Vec<&[f32]> = latents.chunks_exact(tokenizer.shape().elements()).collect();
        let decoded = tokenizer.decode_all(&latents).expect("pictures");
        let kept = decoded.iter().zip(&pictures).map(|(decoded, truth)| psnr(decoded, truth));
        let kept = kept.sum::<Result<f64, _>>().expect("pictures of one size") / 4.0;
        assert!(kept >= LEAST, "{}: {kept:.1} dB", world.name());
    }
}

#[test]
fn nothing_in_the_cache_takes_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let [cache, data] = ["cache", "data"].map(|name| folder.path().join(name));
    std::fs::create_dir(&cache).expect("a folder");
    std::fs::write(cache.join("far.safetensors"), "another file").expect("a file");
    let far = |arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_far"));
        command.args(arguments.split(' ')).arg("--data").arg(&data).env("FAR_CACHE", &cache);
        // Weights that a developer has are not found.
        command.env("HOME", folder.path()).output().expect("far")
    };
    let recorded = Command::new(env!("CARGO_BIN_EXE_far"))
        .args("world record --world village --scenes 5 --episodes 5 --size 16 --out".split(' '))
        .arg(&data)
        .output()
        .expect("far");
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));

    let output = far("tokenizer compare --kind far --frames 2 --json --device cpu");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line: Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    assert_eq!((&line["tokenizer"], &line["latent"]), (&"far".into(), &[16, 2, 2].into()));

    // Weights that are missing are no dead end.
    let output = far("tokenizer compare --kind taesd --frames 2 --device cpu");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && message.contains("`far` needs none"), "{message}");
}

//! AutoencoderKL and the OASIS ViT-VAE against PyTorch (`scripts/make_autoencoder_fixtures.py`).

#[path = "../../far-tensor/tests/fixture/mod.rs"]
mod fixture;

use far_model::{
    Autoencoder, AutoencoderConfig, AutoencoderStructure, KlStructure, Tokenizer, VitVaeStructure,
};
use far_tensor::{Device, Tape};
use fixture::{Fixture, assert_near, devices};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Relative to the norm of the result, on the CPU.
const TOLERANCE: f64 = 5e-5;
const FIXTURE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/autoencoder.safetensors");

/// The weights of a tensor by the formula of the script.
fn weights(name: &str, shape: &[usize]) -> Vec<f32> {
    let offset: f64 = name.bytes().map(f64::from).sum();
    let fan: usize = shape[1..].iter().product();
    let count = shape.iter().product::<usize>();
    let waves = (0..count).map(|n| (12.9898 * (n + 1) as f64 + offset).sin() as f32);
    match (shape.len(), name.contains("norm") && name.ends_with("weight")) {
        (1, true) => waves.map(|wave| 1.0 + 0.2 * wave).collect(),
        (1, false) => waves.map(|wave| 0.1 * wave).collect(),
        _ => waves.map(|wave| wave * (2.0 / fan as f32).sqrt()).collect(),
    }
}

/// The file of a made-up autoencoder: in 16 bits or 32, with or without a note, without what is named so.
fn file(name: &str, dtype: Dtype, scale: Option<&str>, without: &str) -> Vec<u8> {
    let bytes = std::fs::read(FIXTURE).unwrap();
    let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
    let shapes = &metadata.metadata().as_ref().unwrap()[name];
    let shapes: BTreeMap<String, Vec<usize>> = serde_json::from_str(shapes).unwrap();
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = shapes
        .into_iter()
        .filter(|(name, _)| name != without)
        .map(|(name, shape)| {
            let values = weights(&name, &shape).into_iter();
            let bytes = match dtype {
                // Half a brain: the upper 16 bits.
                Dtype::BF16 => values.flat_map(|x| x.to_le_bytes()[2..].to_vec()).collect(),
                _ => values.flat_map(f32::to_le_bytes).collect(),
            };
            (name, shape, bytes)
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        (name.as_str(), TensorView::new(dtype, shape.clone(), bytes).unwrap())
    });
    let note = scale
        .map(|scale| HashMap::from([("far".to_owned(), format!("{{\"scale\":\"{scale}\"}}"))]));
    safetensors::serialize(views, note).unwrap()
}

fn config(name: &str) -> AutoencoderConfig {
    let resolution = if name == "kl" { [24, 16] } else { [16, 8] };
    AutoencoderConfig { weights: name.to_owned(), resolution }
}

fn open(name: &str, bytes: Vec<u8>, device: &Device) -> far_model::Result<Autoencoder> {
    Autoencoder::from_bytes(config(name), Path::new(name), bytes, device)
}

fn made_up() -> [(&'static str, &'static str, AutoencoderStructure); 2] {
    let kl = KlStructure { channels: 3, widths: vec![32, 64, 64], resnets: 2, surrounded: true };
    let vit = VitVaeStructure { channels: 5, patch: 4, width: 128, hidden: 96, depth: [1, 2] };
    [
        ("kl", "0.25", AutoencoderStructure::Kl(kl, 0.25)),
        ("vit", "0.5", AutoencoderStructure::VitVae(vit, 0.5)),
    ]
}

#[test]
fn made_up_autoencoders_match() {
    let fixture = Fixture::load("autoencoder");
    for (name, scale, structure) in made_up() {
        for (device, factor) in devices() {
            let tolerance = TOLERANCE * f64::from(*factor);
            let found = open(name, file(name, Dtype::F32, Some(scale), ""), device).unwrap();
            assert_eq!(*found.structure(), structure);
            let of = |part: &str| fixture.tensor(&format!("{name}.{part}"));
            let mut tape = Tape::inference(device);
            let latent = found.encode_tensor(&mut tape, &of("picture")).unwrap();
            assert_eq!(latent.shape(), of("latent").shape());
            assert_near(
                &format!("{name} latent"),
                latent.values(),
                of("latent").values(),
                tolerance,
            );
            let decoded = found.decode_tensor(&mut tape, &of("latent")).unwrap();
            assert_eq!(decoded.shape(), of("decoded").shape());
            assert_near(
                &format!("{name} decoded"),
                decoded.values(),
                of("decoded").values(),
                tolerance,
            );
        }
    }
}

#[test]
fn weights_of_16_bits_are_nearly_the_same() {
    let fixture = Fixture::load("autoencoder");
    let device = Device::cpu();
    for (name, scale, _) in made_up() {
        let found = open(name, file(name, Dtype::BF16, Some(scale), ""), &device).unwrap();
        let mut tape = Tape::inference(&device);
        let picture = fixture.tensor(&format!("{name}.picture"));
        let latent = found.encode_tensor(&mut tape, &picture).unwrap();
        let expected = fixture.tensor(&format!("{name}.latent"));
        assert_near(name, latent.values(), expected.values(), 0.1);
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let device = Device::cpu();
    let refusal = |name: &str, scale: Option<&str>, without: &str| {
        let found = open(name, file(name, Dtype::F32, scale, without), &device);
        found.err().expect("it does not fit").to_string()
    };
    for (name, scale, _) in made_up() {
        for wrong in [None, Some("nothing"), Some("0"), Some("inf")] {
            assert!(refusal(name, wrong, "").contains("note `scale`"), "{name} {wrong:?}");
        }
        let bias = if name == "kl" { "decoder.conv_out.bias" } else { "predictor.bias" };
        assert!(refusal(name, Some(scale), bias).contains(&format!("`{bias}` is missing")));
    }
    assert!(refusal("kl", Some("1"), "decoder.conv_in.weight").contains("no AutoencoderKL"));
    assert!(refusal("vit", Some("1"), "quant_conv.weight").contains("the map to the latent"));
    assert!(refusal("vit", Some("1"), "patch_embed.proj.weight").contains("no autoencoder"));
    let odd = AutoencoderConfig { resolution: [20, 16], ..config("kl") };
    let bytes = file("kl", Dtype::F32, Some("1"), "");
    let text = Autoencoder::from_bytes(odd, Path::new("kl"), bytes, &device).err().unwrap();
    assert!(text.to_string().contains("not a multiple of 8"), "{text}");
}

#[test]
fn a_run_keeps_a_copy_that_opens_as_the_same() {
    let (folder, device) = (tempfile::tempdir().unwrap(), Device::cpu());
    let found = open("vit", file("vit", Dtype::F32, Some("0.5"), ""), &device).unwrap();
    let path = folder.path().join("tokenizer.safetensors");
    found.save(&path).unwrap();
    let weights = path.display().to_string();
    let again =
        Autoencoder::load(AutoencoderConfig { weights: weights.clone(), ..config("vit") }, &device);
    let again = again.unwrap();
    assert_eq!(again.recipe(), found.recipe());
    assert_eq!(again.rounding(), "", "the CPU does not round");
    // Latents of 4 × 2 cells are those of pictures of 16 × 8 pixels.
    let decoder = Autoencoder::for_latents(weights, [4, 2], &device).unwrap();
    assert_eq!(decoder.shape(), found.shape());
    let latents = [vec![0.1; 40], vec![-0.3; 40]];
    let latents: Vec<&[f32]> = latents.iter().map(Vec::as_slice).collect();
    let together = decoder.decode_all(&latents).unwrap();
    assert_eq!([together[0].width, together[0].height], [16, 8]);
    let apart: Vec<_> = latents.iter().map(|latent| found.decode(latent).unwrap()).collect();
    assert_eq!(together, apart);
}

//! Tokenizers of the TAESD family against PyTorch (`scripts/make_taesd_fixtures.py`).

#[path = "../../far-tensor/tests/fixture/mod.rs"]
mod fixture;

use far_data::Picture;
use far_model::{Autoencoder, AutoencoderConfig, AutoencoderStructure, TaesdStructure, Tokenizer};
use far_tensor::{Device, Tape};
use fixture::{Fixture, assert_near, devices};
use safetensors::SafeTensors;
use std::io::Write;
use std::path::Path;

/// Relative to the norm of the result, on the CPU.
const TOLERANCE: f64 = 2e-5;
const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/taesd.safetensors");

fn config() -> AutoencoderConfig {
    AutoencoderConfig { weights: "taef2".to_owned(), resolution: [32, 16] }
}

/// The file of weights of a made-up tokenizer, without those whose name contains `without`.
fn file(name: &str, without: Option<&str>) -> Vec<u8> {
    let bytes = std::fs::read(FIXTURE).unwrap();
    let all = SafeTensors::deserialize(&bytes).unwrap();
    let prefix = format!("{name}.weights.");
    let own = all.tensors().into_iter().filter_map(|(name, view)| {
        let name = name.strip_prefix(&prefix)?.to_owned();
        (!without.is_some_and(|part| name.contains(part))).then_some((name, view))
    });
    safetensors::serialize(own, None).unwrap()
}

fn made_up(name: &str, device: &Device) -> Autoencoder {
    Autoencoder::from_bytes(config(), Path::new(name), file(name, None), device).unwrap()
}

fn check(name: &str, tokenizer: &Autoencoder, device: &Device, tolerance: f64) {
    let fixture = Fixture::load("taesd");
    let of = |part: &str| fixture.tensor(&format!("{name}.{part}"));
    let mut tape = Tape::inference(device);
    let latent = tokenizer.encode_tensor(&mut tape, &of("picture")).unwrap();
    assert_eq!(latent.shape(), of("latent").shape());
    assert_near(&format!("{name} latent"), latent.values(), of("latent").values(), tolerance);
    let decoded = tokenizer.decode_tensor(&mut tape, &of("latent")).unwrap();
    assert_eq!(decoded.shape(), of("decoded").shape());
    assert_near(&format!("{name} decoded"), decoded.values(), of("decoded").values(), tolerance);
}

#[test]
fn made_up_tokenizers_match() {
    let expected = [
        ("looking", TaesdStructure { channels: 5, width: 5, blocks: [3; 2], looks_at_all: true }),
        ("plain", TaesdStructure { channels: 4, width: 4, blocks: [3; 2], looks_at_all: false }),
    ];
    for (name, structure) in expected {
        for (device, factor) in devices() {
            let tokenizer = made_up(name, device);
            assert_eq!(*tokenizer.structure(), AutoencoderStructure::Taesd(structure));
            check(name, &tokenizer, device, TOLERANCE * f64::from(*factor));
        }
    }
}

#[test]
fn taef2_matches_where_its_weights_are() {
    if !config().path().exists() {
        // Past the tests' capture of their output: what is skipped must be seen.
        let _ = writeln!(
            std::io::stderr(),
            "skipping taef2: scripts/make_taesd_weights.py was not run"
        );
        return;
    }
    for (device, factor) in devices() {
        let tokenizer = Autoencoder::load(config(), device).unwrap();
        let taef2 = AutoencoderStructure::Taesd(TaesdStructure::TAEF2);
        assert_eq!(*tokenizer.structure(), taef2);
        check("taef2", &tokenizer, device, TOLERANCE * f64::from(*factor));
    }
}

#[test]
fn pictures_and_tokens_are_the_tensors_in_other_clothes() {
    let device = Device::cpu();
    let tokenizer = made_up("looking", &device);
    let pixels = (0..32 * 16 * 3).map(|place| (place * 7 % 256) as u8).collect();
    let picture = Picture { width: 32, height: 16, pixels };
    let values: Vec<f32> = picture.pixels.iter().map(|value| f32::from(*value) / 255.0).collect();
    let x = far_tensor::Tensor::from_slice(&values, [1, 16, 32, 3]).unwrap();
    let mut tape = Tape::inference(&device);
    let latent = tokenizer.encode_tensor(&mut tape, &x).unwrap();
    let tokens = tokenizer.encode_pictures(&[picture]).unwrap();
    let planes = tape.permute(&latent, &[0, 3, 1, 2]).unwrap();
    let image = tokenizer.shape().to_image(&tokens);
    assert_near("tokens", &image, planes.values(), 1e-6);
    let decoded = tokenizer.decode_tensor(&mut tape, &latent).unwrap();
    let picture = tokenizer.decode(&tokens).unwrap();
    assert_eq!([picture.width, picture.height], [32, 16]);
    for (pixel, value) in picture.pixels.iter().zip(decoded.values()) {
        assert!((f32::from(*pixel) / 255.0 - value.clamp(0.0, 1.0)).abs() < 0.6 / 255.0);
    }
    assert!(tokenizer.decode(&tokens[1..]).is_none());
}

#[test]
fn what_does_not_fit_is_named() {
    let load = |config: AutoencoderConfig, bytes: Vec<u8>| {
        let loaded =
            Autoencoder::from_bytes(config, Path::new("a.safetensors"), bytes, &Device::cpu());
        loaded.err().expect("it does not fit").to_string()
    };
    let whole = file("plain", None);
    let text = load(AutoencoderConfig { resolution: [24, 16], ..config() }, whole.clone());
    assert!(text.contains("not a multiple of 16"), "{text}");
    let text = load(AutoencoderConfig { resolution: [0, 16], ..config() }, whole);
    assert!(text.contains("a side is zero"), "{text}");
    let text = load(config(), file("plain", Some("encoder.14.weight")));
    assert!(text.contains("`encoder.14.weight` is None"), "{text}");
    let text = load(config(), file("plain", Some("decoder.8.conv.2.bias")));
    assert!(text.contains("`decoder.8.conv.2.bias` is missing"), "{text}");
    let missing = AutoencoderConfig { weights: "no/such.safetensors".to_owned(), ..config() };
    let text = Autoencoder::load(missing, &Device::cpu()).err().unwrap().to_string();
    for said in ["no/such.safetensors", "make_taesd_weights", "`far` needs none"] {
        assert!(text.contains(said), "{text}");
    }
}

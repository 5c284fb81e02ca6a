//! PSNR, SSIM and LPIPS against scikit-image and the authors' own package
//! (`scripts/make_metric_fixtures.py`), DreamSim against its networks in PyTorch
//! (`scripts/make_dreamsim_fixtures.py`).

#[path = "../../far-tensor/tests/fixture/mod.rs"]
mod fixture;

use far_data::Picture;
use far_model::{DreamSim, DreamSimBranch, Error, Lpips, LpipsNet, area_resize, psnr, ssim};
use fixture::{Fixture, assert_near};
use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Numbers in [0, 1) that depend on their place and the stream alone, as in the script.
fn uniform(count: usize, stream: u32) -> impl Iterator<Item = f32> {
    (0..count as u32).map(move |place| {
        let start = stream.wrapping_mul(2_891_336_453).wrapping_add(1);
        let mut x = place.wrapping_mul(747_796_405).wrapping_add(start);
        x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
        x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
        ((x ^ (x >> 16)) >> 8) as f32 / (1 << 24) as f32
    })
}

/// The pair of pictures of that number.
fn pictures(number: u32, [width, height]: [u32; 2]) -> [Picture; 2] {
    [(20.0, 0), (95.0, 1)].map(|(amount, part)| {
        let noise = uniform((width * height * 3) as usize, 1000 + 2 * number + part);
        let pixels = (0u32..).zip(noise).map(|(place, noise)| {
            let slope = place / 3 % width * 5 + place / 3 / width * 3 + place % 3 * 40;
            (slope % 160) as u8 + (amount * noise) as u8
        });
        Picture { width, height, pixels: pixels.collect() }
    })
}

fn pairs(fixture: &Fixture) -> Vec<[Picture; 2]> {
    let sizes = fixture.tensor("sizes");
    let sizes = sizes.values().chunks_exact(2).map(|size| [size[0] as u32, size[1] as u32]);
    (0..).zip(sizes).map(|(number, size)| pictures(number, size)).collect()
}

fn planes(picture: &Picture) -> Vec<f32> {
    area_resize(picture, [picture.width as usize, picture.height as usize])
}

/// Names and shapes of all tensors of a network, in the order of the names.
fn shapes(net: LpipsNet) -> Vec<(String, Vec<usize>)> {
    // Index of the module, inputs, outputs and side of the window, by stage.
    let stages: [&[[usize; 4]]; 5] = match net {
        LpipsNet::Alex => [
            &[[0, 3, 64, 11]],
            &[[3, 64, 192, 5]],
            &[[6, 192, 384, 3]],
            &[[8, 384, 256, 3]],
            &[[10, 256, 256, 3]],
        ],
        LpipsNet::Vgg => [
            &[[0, 3, 64, 3], [2, 64, 64, 3]],
            &[[5, 64, 128, 3], [7, 128, 128, 3]],
            &[[10, 128, 256, 3], [12, 256, 256, 3], [14, 256, 256, 3]],
            &[[17, 256, 512, 3], [19, 512, 512, 3], [21, 512, 512, 3]],
            &[[24, 512, 512, 3], [26, 512, 512, 3], [28, 512, 512, 3]],
        ],
    };
    let mut shapes = Vec::new();
    for (number, stage) in stages.iter().enumerate() {
        for [index, inputs, outputs, side] in *stage {
            let name = format!("net.slice{}.{index}", number + 1);
            shapes.push((format!("{name}.weight"), vec![*outputs, *inputs, *side, *side]));
            shapes.push((format!("{name}.bias"), vec![*outputs]));
        }
        let channels = stage[stage.len() - 1][2];
        shapes.push((format!("lin{number}.model.1.weight"), vec![1, channels, 1, 1]));
    }
    shapes.sort();
    shapes
}

/// A file of made-up weights, with the given note and without the tensors of `without`.
fn made_up(net: LpipsNet, name: &str, note: &str, without: &str) -> PathBuf {
    let tensors = shapes(net).into_iter().zip(0..).map(|((name, shape), stream)| {
        let values = uniform(shape.iter().product(), stream);
        let inputs: usize = shape.iter().skip(1).product();
        let bound = if shape.len() == 1 { 0.1 } else { (6.0 / inputs as f64).sqrt() as f32 };
        let head = name.starts_with("lin");
        let scaled = values.map(|value| if head { value } else { (2.0 * value - 1.0) * bound });
        let bytes: Vec<u8> = scaled.flat_map(f32::to_le_bytes).collect();
        (name, shape, bytes)
    });
    let tensors: Vec<_> = tensors.filter(|(name, ..)| name != without).collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        (name, TensorView::new(Dtype::F32, shape.clone(), bytes).expect("bytes fill the shape"))
    });
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let notes = HashMap::from([("far".to_owned(), format!("{{\"net\": \"{note}\"}}"))]);
    serialize_to_file(views, Some(notes), &path).unwrap();
    path
}

#[test]
fn psnr_and_ssim_agree_with_scikit_image() {
    let fixture = Fixture::load("metric");
    let pairs = pairs(&fixture);
    let all = |metric: fn(&Picture, &Picture) -> Result<f64, Error>| {
        pairs.iter().map(|[a, b]| metric(a, b).unwrap() as f32).collect::<Vec<f32>>()
    };
    assert_near("psnr", &all(psnr), fixture.tensor("psnr").values(), 1e-6);
    assert_near("ssim", &all(ssim), fixture.tensor("ssim").values(), 1e-6);
}

#[test]
fn lpips_with_made_up_weights_agrees_with_its_authors() {
    let fixture = Fixture::load("metric");
    for net in LpipsNet::ALL {
        let name = net.name();
        let path = made_up(net, &format!("{name}.safetensors"), name, "");
        let lpips = Lpips::find(Some(&path)).unwrap().expect("it was named");
        assert_eq!(lpips.net(), net);
        let expected = fixture.tensor(&format!("lpips.{name}"));
        for ([a, b], expected) in pairs(&fixture).iter().zip(expected.values().chunks(5)) {
            let layers = lpips.layers([a.width, a.height], &planes(a), &planes(b)).unwrap();
            assert_near(name, &layers.map(|share| share as f32), expected, 2e-5);
            let distance = lpips.distance(a, b).unwrap();
            assert!((distance - layers.iter().sum::<f64>()).abs() < 1e-12);
            assert_eq!(lpips.distance(a, a).unwrap(), 0.0);
        }
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn files_of_other_things_are_refused() {
    let refused = |name: &str, note: &str, without: &str| {
        let path = made_up(LpipsNet::Alex, name, note, without);
        let error = Lpips::load(&path).err().expect("it is refused").to_string();
        std::fs::remove_file(path).unwrap();
        error
    };
    let error = refused("unknown.safetensors", "squeeze", "");
    assert!(error.ends_with("it has no note `net` that says `alex` or `vgg`"), "{error}");
    let error = refused("without.safetensors", "alex", "lin3.model.1.weight");
    assert!(error.contains("`lin3.model.1.weight` is missing"), "{error}");
    let error = refused("another.safetensors", "vgg", "");
    assert!(error.contains("but F32 [64, 3, 3, 3] was expected"), "{error}");
}

#[test]
fn small_and_broken_pictures_are_refused() {
    let path = made_up(LpipsNet::Alex, "small.safetensors", "alex", "");
    let lpips = Lpips::load(&path).unwrap();
    let picture = Picture::filled(40, 30, [0; 3]);
    let error = lpips.distance(&picture, &picture).unwrap_err().to_string();
    assert!(error.ends_with("they must have at least 31 pixels each way"), "{error}");
    let (mut broken, whole) = (vec![0.5; 3 * 32 * 31], vec![0.5; 3 * 32 * 31]);
    broken[7] = f32::NAN;
    assert!(lpips.layers([32, 31], &broken, &whole).is_err());
    assert!(lpips.layers([31, 31], &whole, &whole).is_err());
    std::fs::remove_file(path).unwrap();
}

/// With the trained weights, where they are in the cache: the pair of smooth pictures of the script,
/// for which the authors' package finds these distances with the same weights.
#[test]
fn lpips_with_trained_weights_agrees_with_its_authors() {
    let picture = |phase: [f64; 2]| -> Vec<f32> {
        let values = (0..3 * 64 * 64).map(|place| {
            let [u, v] = [place % 64, place / 64 % 64].map(|step| f64::from(step) / 64.0);
            match place / (64 * 64) {
                0 => (6.0 * u + phase[0]).sin(),
                1 => (5.0 * v + phase[1]).cos(),
                _ => 2.0 * u * v - 1.0,
            }
        });
        values.map(|value| (0.5 * (value + 1.0)) as f32).collect()
    };
    for (net, expected) in [(LpipsNet::Alex, 0.0419564), (LpipsNet::Vgg, 0.1186348)] {
        let Some(path) = Lpips::cache_path(net).filter(|path| path.exists()) else {
            eprintln!("skipped for {}: no weights in the cache", net.name());
            continue;
        };
        let lpips = Lpips::load(&path).unwrap();
        let found =
            lpips.distance_of_planes([64, 64], &picture([0.0; 2]), &picture([0.5, -0.3])).unwrap();
        assert!((found - expected).abs() < 2e-6, "{}: {found}, not {expected}", net.name());
    }
}

fn fixture_path(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    folder.join(format!("{name}.safetensors"))
}

/// The pictures of `make_dreamsim_fixtures.py`.
fn dreamt(fixture: &Fixture) -> Vec<Picture> {
    let sizes = fixture.tensor("sizes");
    let sizes = sizes.values().chunks_exact(2).map(|size| [size[0] as u32, size[1] as u32]);
    let pictures = sizes.zip(0u32..).map(|([width, height], number)| {
        let value = |place: u32| ((place * (37 + 12 * number) + place / 3 * 5) % 251) as u8;
        Picture { width, height, pixels: (0..3 * width * height).map(value).collect() }
    });
    pictures.collect()
}

/// Three networks with adapters merged by the script, and one alone.
#[test]
fn dreamsim_with_made_up_weights_agrees_with_its_networks_in_pytorch() {
    let values = Fixture::load("dreamsim_values");
    let pictures = dreamt(&values);
    let pictures: Vec<&Picture> = pictures.iter().collect();
    for (file, name, branches) in [
        ("dreamsim", "ensemble", &DreamSimBranch::ALL[..]),
        ("dreamsim_dino", "dino", &DreamSimBranch::ALL[..1]),
    ] {
        let path = fixture_path(file);
        let dreamsim = DreamSim::find(Some(&path)).unwrap().expect("it was named");
        assert!(dreamsim.branches().eq(branches.iter().copied()));
        let found = dreamsim.embed(&pictures).unwrap().concat();
        assert_near(name, &found, values.tensor(name).values(), 2e-5);
    }
    let dreamsim = DreamSim::load(&fixture_path("dreamsim")).unwrap();
    let embeddings = dreamsim.embed(&pictures).unwrap();
    let distance = |a: usize, b: usize| {
        let products = embeddings[a].iter().zip(&embeddings[b]);
        1.0 - products.map(|(a, b)| a * b).sum::<f32>()
    };
    assert_near(
        "distances",
        &[distance(0, 1), distance(0, 2)],
        values.tensor("distances").values(),
        2e-5,
    );
    assert!(dreamsim.distance(pictures[0], pictures[0]).unwrap().abs() < 1e-6);
    let sizes = dreamsim.distance(pictures[0], pictures[1]).unwrap_err().to_string();
    assert!(sizes.contains("same size"), "{sizes}");
}

#[test]
fn files_that_are_no_dreamsim_are_refused() {
    let bytes = std::fs::read(fixture_path("dreamsim")).unwrap();
    let refused = |name: &str, bytes: &[u8]| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, bytes).unwrap();
        DreamSim::load(&path).err().expect("it is refused").to_string()
    };
    let other = |from: &str, to: &str| {
        assert_eq!(from.len(), to.len());
        let mut bytes = bytes.clone();
        let places = bytes.windows(from.len()).position(|part| part == from.as_bytes());
        let place = places.expect("it stands in the file");
        bytes[place..place + to.len()].copy_from_slice(to.as_bytes());
        bytes
    };
    let message =
        refused("dream-branch.safetensors", &other("dino,clip,open_clip", "dino,clip,clip_open"));
    assert!(message.contains("`clip_open`"), "{message}");
    let message =
        refused("dream-twice.safetensors", &other("dino,clip,open_clip", "dino,dino,open_clip"));
    assert!(message.contains("`dino` stands twice"), "{message}");
    let message =
        refused("dream-missing.safetensors", &other("clip.pos_drop.bias", "clip.pos_drop.bios"));
    assert!(message.contains("pos_drop.bias"), "{message}");
    refused("dream-torn.safetensors", &bytes[..bytes.len() / 2]);
    let heads = refused("dream-lpips.safetensors", &std::fs::read(fixture_path("metric")).unwrap());
    assert!(heads.contains("note"), "{heads}");
}

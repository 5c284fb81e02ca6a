//! Checkpoints survive a round trip, and bad ones give a precise error.

use far_tensor::{
    AdamW, AdamWConfig, ArenaBuilder, Checkpoint, CheckpointWriter, Initialization, Matching,
    Parameters,
};
use safetensors::tensor::{Dtype, TensorView, serialize};
use std::path::{Path, PathBuf};

fn model(seed: u64) -> Parameters {
    let mut builder = ArenaBuilder::new("model");
    builder.linear("layer.weight", 3, 2, Initialization::Xavier);
    builder.parameter("layer.bias", [2], Initialization::Normal(1.0));
    builder.build(seed)
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("far-checkpoint-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Name, type and shape of a tensor.
type Described<'a> = (&'a str, Dtype, &'a [usize]);

/// A file of these tensors, all zero.
fn file(tensors: &[Described<'_>]) -> Vec<u8> {
    let zeros = [0u8; 256];
    let views = tensors.iter().map(|(name, dtype, shape)| {
        let length = shape.iter().product::<usize>() * dtype.bitsize() / 8;
        (*name, TensorView::new(*dtype, shape.to_vec(), &zeros[..length]).unwrap())
    });
    serialize(views, None).unwrap()
}

fn load(bytes: Vec<u8>, matching: Matching) -> Result<usize, String> {
    let mut parameters = model(1);
    let before = parameters.values().to_vec();
    let read = Checkpoint::from_bytes(Path::new("some.safetensors"), bytes);
    let loaded = read.and_then(|mut checkpoint| {
        let count = checkpoint.load_parameters("", &mut parameters, matching)?;
        if matching == Matching::Strict {
            checkpoint.expect_all_used()?;
        }
        Ok(count)
    });
    if let Err(far_tensor::Error::Checkpoint { problem, .. }) = &loaded
        && !problem.contains("but not in the model")
    {
        assert_eq!(parameters.values(), before, "a refused file changes nothing");
    }
    loaded.map_err(|error| error.to_string())
}

#[test]
fn everything_comes_back() {
    let folder = folder("round-trip");
    let path = folder.join("model.safetensors");
    let mut parameters = model(1);
    let mut optimizer = AdamW::new(AdamWConfig::default(), &parameters);
    let mut gradients = parameters.gradients();
    // The weight; between parameters there is padding that nothing reads.
    gradients.completed()[..6].fill(0.25);
    optimizer.update(&mut parameters, &mut gradients).unwrap();
    let writer = CheckpointWriter::new()
        .parameters("model.", &parameters)
        .optimizer("optimizer.", &parameters, &optimizer)
        .note("step", "17");
    writer.save(&path).unwrap();

    let mut other = model(2);
    let mut again = AdamW::new(AdamWConfig::default(), &other);
    let mut checkpoint = Checkpoint::open(&path).unwrap();
    assert_eq!(checkpoint.load_parameters("model.", &mut other, Matching::Strict).unwrap(), 2);
    checkpoint.load_optimizer("optimizer.", &other, &mut again).unwrap();
    checkpoint.expect_all_used().unwrap();
    assert_eq!(checkpoint.notes()["step"], "17");
    assert_eq!(other.values(), parameters.values());
    assert_eq!(again.average(), optimizer.average());
    assert_eq!(again.updates(), 1);
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file stays behind");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn linear_weights_lie_transposed_in_the_file() {
    let folder = folder("layout");
    let path = folder.join("model.safetensors");
    let parameters = model(1);
    CheckpointWriter::new().parameters("", &parameters).save(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let view = tensors.tensor("layer.weight").unwrap();
    assert_eq!(view.shape(), [2, 3]);
    let second = f32::from_le_bytes(view.data()[4..8].try_into().unwrap());
    assert_eq!(second, parameters.values()[2], "row 0 of the file is column 0 in memory");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_file_has_the_bytes_that_the_library_writes() {
    let folder = folder("bytes");
    let path = folder.join("model.safetensors");
    let parameters = model(1);
    let whole = CheckpointWriter::new().parameters("b.", &parameters).parameters("a.", &parameters);
    let half = CheckpointWriter::new().parameters("", &parameters).half();
    for writer in [whole.note("step", "17"), half, CheckpointWriter::new().note("alone", "yes")] {
        writer.save(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
        let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let again = serialize(tensors.tensors(), header.metadata().clone()).unwrap();
        assert_eq!(bytes, again);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

const GOOD: [Described<'static>; 2] =
    [("layer.weight", Dtype::F32, &[2, 3]), ("layer.bias", Dtype::F32, &[2])];

#[test]
fn a_truncated_file_is_refused() {
    let whole = file(&GOOD);
    for length in [0, 4, 8, 20, whole.len() - 1] {
        let error = load(whole[..length].to_vec(), Matching::Strict).unwrap_err();
        assert!(error.contains("not a whole safetensors file"), "{length}: {error}");
    }
}

#[test]
fn a_hostile_header_is_refused() {
    for header in [u64::MAX, 1 << 40, 3] {
        let mut bytes = header.to_le_bytes().to_vec();
        bytes.extend(b"{}{}{}{}");
        let error = load(bytes, Matching::Strict).unwrap_err();
        assert!(error.contains("not a whole safetensors file"), "{error}");
    }
}

#[test]
fn wrong_type_shape_and_names_are_named() {
    let cases: [(&[Described<'_>], &str); 4] = [
        (
            &[GOOD[0], ("layer.bias", Dtype::F64, &[2])],
            "`layer.bias` is F64 [2], but F32 [2] was expected",
        ),
        (
            &[("layer.weight", Dtype::F32, &[3, 2]), GOOD[1]],
            "`layer.weight` is F32 [3, 2], but F32 [2, 3] was expected",
        ),
        (&[GOOD[0]], "`layer.bias` is missing; F32 [2] was expected"),
        (
            &[GOOD[0], GOOD[1], ("other", Dtype::F32, &[1])],
            "`other` is in the file but not in the model",
        ),
    ];
    for (tensors, message) in cases {
        let error = load(file(tensors), Matching::Strict).unwrap_err();
        assert_eq!(error, format!("some.safetensors: {message}"));
    }
}

#[test]
fn partial_loading_takes_what_is_there() {
    let extra = ("other", Dtype::F32, &[1][..]);
    assert_eq!(load(file(&[GOOD[1], extra]), Matching::Partial), Ok(1));
    let wrong = ("layer.bias", Dtype::F32, &[3][..]);
    assert!(load(file(&[wrong]), Matching::Partial).unwrap_err().contains("layer.bias"));
}

#[test]
fn values_that_are_not_finite_are_neither_written_nor_read() {
    let folder = folder("finite");
    let path = folder.join("model.safetensors");
    let mut parameters = model(1);
    CheckpointWriter::new().parameters("", &parameters).save(&path).unwrap();
    let good = std::fs::read(&path).unwrap();
    parameters.values_mut().unwrap()[1] = f32::NAN;
    let error = CheckpointWriter::new().parameters("", &parameters).save(&path).unwrap_err();
    assert!(error.to_string().contains("`layer.weight` holds NaN at element 1"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), good, "the old file stays");

    let mut bad = file(&GOOD);
    let end = bad.len();
    bad[end - 4..].copy_from_slice(&f32::INFINITY.to_le_bytes());
    assert!(load(bad, Matching::Strict).unwrap_err().contains("is not finite at element"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn every_flipped_byte_is_noticed() {
    let folder = folder("flipped");
    let path = folder.join("model.safetensors");
    let parameters = model(1);
    CheckpointWriter::new().parameters("", &parameters).note("step", "17").save(&path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let kept = Checkpoint::from_bytes(&path, whole.clone()).unwrap();
    assert_eq!(kept.notes().keys().collect::<Vec<_>>(), ["step"], "the checksum is no note");
    for (place, bit) in (0..whole.len()).flat_map(|place| [(place, 1), (place, 0x40)]) {
        let mut flipped = whole.clone();
        flipped[place] ^= bit;
        let Ok(mut read) = Checkpoint::from_bytes(&path, flipped) else { continue };
        // What is left are the names of the notes: without its step no run takes a file for its own,
        // and where the checksum has lost its name nothing else is damaged.
        let mut loaded = model(2);
        let all = read.load_parameters("", &mut loaded, Matching::Strict).is_ok();
        let is_whole = all && loaded.values() == parameters.values();
        let step = read.notes().get("step");
        assert!(step.is_none_or(|step| step == "17" && is_whole), "byte {place}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_folder_that_does_not_exist_is_an_error_with_its_path() {
    let path = Path::new("/nonexistent-folder/model.safetensors");
    let error = CheckpointWriter::new().parameters("", &model(1)).save(path).unwrap_err();
    assert!(error.to_string().contains("/nonexistent-folder/model.safetensors"), "{error}");
}

//! Any bytes as a checkpoint: an error or finite parameters, never a panic. Bytes that are text are also
//! the notes of a checkpoint without tensors, which comes back as it was saved.
#![no_main]

use far_tensor::{
    AdamW, AdamWConfig, ArenaBuilder, Checkpoint, CheckpointWriter, Initialization, Matching,
};
use libfuzzer_sys::fuzz_target;
use std::path::Path;
use std::sync::LazyLock;

static FOLDER: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a folder"));

/// Loads whatever is there.
fn load(mut checkpoint: Checkpoint) {
    let mut builder = ArenaBuilder::new("model");
    builder.linear("w", 2, 1, Initialization::Xavier);
    builder.parameter("b", [1], Initialization::Zero);
    let mut parameters = builder.build(0);
    let mut optimizer = AdamW::new(AdamWConfig::default(), &parameters);
    for matching in [Matching::Strict, Matching::Partial] {
        let _ = checkpoint.load_parameters("", &mut parameters, matching);
    }
    let _ = checkpoint.load_optimizer("o.", &parameters, &mut optimizer);
    let _ = checkpoint.expect_all_used();
    assert!(parameters.values().iter().all(|value| value.is_finite()));
}

/// Saves and opens a checkpoint of one note.
fn notes_alone(text: &str) {
    let (key, note) = text.split_once('=').unwrap_or((text, ""));
    let path = FOLDER.path().join("notes.safetensors");
    CheckpointWriter::new().note(key, note).save(&path).expect("text is saved");
    let bytes = std::fs::read(&path).expect("there");
    let checkpoint = Checkpoint::from_bytes(&path, bytes.clone()).expect("its own file");
    // The name of the checksum's own note belongs to it.
    assert!(key == "checksum" || checkpoint.notes().get(key).map(String::as_str) == Some(note));
    load(checkpoint);
    let cut = bytes[..bytes.len() - 1].to_vec();
    assert!(Checkpoint::from_bytes(&path, cut).is_err(), "a file cut short is refused");
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(checkpoint) = Checkpoint::from_bytes(Path::new("fuzz"), bytes.to_vec()) {
        load(checkpoint);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        notes_alone(text);
    }
});

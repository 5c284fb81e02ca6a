//! A retriever's file to load: arbitrary parameters, nothing was trained.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use far_memory::{Retriever, RetrieverConfig};

static FOLDER: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a temporary folder"));

/// Path of the file of a retriever by metadata and a vision key of this dimension.
pub fn path(dimension: usize) -> PathBuf {
    let config = RetrieverConfig::meta_and_vision(dimension);
    let mut parameters = BTreeMap::new();
    for (name, shape) in config.tensors() {
        let shift = name.len() as f32;
        let numbers = 0..shape.iter().product::<usize>();
        let values = numbers.map(|place| 0.4 * (place as f32 * 1.3 + shift).sin()).collect();
        parameters.insert(name, (shape, values));
    }
    // Tests run side by side: each thread writes a file of its own.
    let thread = std::thread::current().id();
    let path = FOLDER.path().join(format!("{dimension}-{thread:?}.safetensors"));
    let retriever = Retriever::from_tensors(config, parameters).expect("names and shapes fit");
    retriever.save(&path).expect("the folder is writable");
    path
}

//! The built-in worlds.

use crate::failure::Failure;
use far_world::{Recording, record, world, worlds};
use pyo3::prelude::*;
use std::path::PathBuf;

/// The worlds and the names of their variants; the first is the default.
#[pyfunction]
pub fn world_variants() -> Vec<(&'static str, Vec<&'static str>)> {
    worlds().iter().map(|world| (world.name(), world.constants().variants.to_vec())).collect()
}

/// Records episodes of a world into a folder; returns episodes there and frames recorded now.
#[pyfunction]
#[pyo3(signature = (name, path, episodes, variant, seed, size, threads))]
#[allow(clippy::too_many_arguments, reason = "each says something about the recording")]
pub fn record_world(
    py: Python<'_>,
    name: &str,
    path: PathBuf,
    episodes: u32,
    variant: Option<&str>,
    seed: u64,
    size: u32,
    threads: usize,
) -> PyResult<(usize, u64)> {
    let report = py.detach(|| {
        let world = world(name)?;
        let recording = Recording::new(world, variant, seed, size)?;
        record(world, &recording, episodes, &path, threads, &|_| {})
    });
    let report = report.map_err(Failure::from)?;
    Ok((report.episodes, report.frames))
}

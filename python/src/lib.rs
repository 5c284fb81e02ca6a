//! The native half of the Python package `far_memory`. Arrays come in checked for type by the Python
//! half; everything else is checked here, and work runs without the GIL.

mod dataset;
mod dataset_writer;
mod evaluation;
mod examples;
mod failure;
mod judged_model;
mod key_rows;
mod memory;
mod policy;
mod pose_check;
mod pose_rows;
mod query_batch;
mod recall_batch;
mod retriever_parts;
mod snapshot;
mod work;
mod worlds;

use pyo3::prelude::*;

/// The memory, its rules and its records.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::dataset::{Dataset, Episode};
    #[pymodule_export]
    use crate::dataset_writer::DatasetWriter;
    #[pymodule_export]
    use crate::evaluation::{evaluate_model, write_report};
    #[pymodule_export]
    use crate::examples::Examples;
    #[pymodule_export]
    use crate::memory::Memory;
    #[pymodule_export]
    use crate::policy::{Policy, published_slots, rules};
    #[pymodule_export]
    use crate::pose_check::pose_report;
    #[pymodule_export]
    use crate::pose_rows::canonical_poses;
    #[pymodule_export]
    use crate::query_batch::query_actions;
    #[pymodule_export]
    use crate::retriever_parts::{retriever_bytes, retriever_parts, retriever_shapes};
    #[pymodule_export]
    use crate::snapshot::Snapshot;
    #[pymodule_export]
    use crate::worlds::{record_world, world_variants};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn initialize(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("FEATURE_SET", far_memory::FEATURE_SET)?;
        module.add("FEATURES", far_memory::FEATURES)?;
        module.add("OVERLAP_FEATURES", far_memory::OVERLAP_FEATURES)?;
        module.add("WORTH_WIDTH", far_memory::WORTH_WIDTH)?;
        module.add("MOST_PASSED_OVER", far_memory::MOST_PASSED_OVER)?;
        module.add("DEVIATION_FLOOR", far_memory::DEVIATION_FLOOR)?;
        module.add("RETRIEVER_VERSION", far_memory::RETRIEVER_VERSION)?;
        module.add("VERSION", env!("CARGO_PKG_VERSION"))
    }
}

//! An episodic memory that recalls by learned, fused cues: append what an agent saw, ask for the few
//! records that matter now, and see why each was chosen.
//!
//! ```
//! use far_memory::policy::PolicyConfig;
//! use far_memory::{Cue, Memory, Observation, Pose, Recall, RecallQuery, Schema, Scratch};
//!
//! let mut memory = Memory::new(Schema::new(vec![Cue::metadata("meta"), Cue::key("vision", 3)])?);
//! for step in 0..100 {
//!     let pose = Pose::from_yaw_pitch([step as f32 * 0.5, 0.0, 1.6], 0.0, 0.0);
//!     let key = [(step as f32).sin(), (step as f32).cos(), 0.3]; // from any image encoder
//!     memory.append(&Observation::new(step as f64 * 0.2, pose).with_key("vision", &key))?;
//! }
//! let here = Pose::from_yaw_pitch([20.0, 0.0, 1.6], 3.0, 0.0);
//! let goal = Pose::from_yaw_pitch([19.0, 0.0, 1.6], 3.0, 0.0);
//! let query = RecallQuery::new(20.0, here, goal).with_key("vision", &[0.1, 0.9, 0.3]);
//! let (mut scratch, mut recall) = (Scratch::new(), Recall::new());
//! let policy = PolicyConfig::from_id("nearest-pose")?.build()?; // or Retriever::load("retriever.safetensors")?
//! policy.recall(&memory.snapshot(), &query, 3, &mut scratch, &mut recall)?;
//! println!("{:?}", recall.ids().collect::<Vec<_>>());
//! # assert_eq!(recall.len(), 3);
//! # Ok::<(), far_memory::Error>(())
//! ```
//!
//! # Where things are
//!
//! | what | type |
//! |---|---|
//! | cues of a memory | [`Schema`], [`Cue`] |
//! | writing, in RAM | [`Memory`], [`Observation`] |
//! | writing, on disk | [`store`] |
//! | reading on any thread, without waiting for the writer | [`MemoryReader`], [`Snapshot`], [`BlockView`] |
//! | querying | [`RecallQuery`], [`Pool`] |
//! | policies | [`RecallPolicy`]: [`Retriever`] is the learned one (`far`), [`policy`] has the published ones |
//! | results with their scores | [`Recall`] |
//!
//! The equations of Future-Aware Recall are one file each: `metadata_scorer.rs`, `cosine.rs`,
//! `standardization.rs`, `gate.rs`, `fusion.rs`, `selection.rs`, `overlap.rs`, `set_term.rs`; `retriever/` combines them, and
//! `feature.rs` defines the input of the metadata scorer. Each has a plain reference beside the
//! fast path.
//!
//! # Guarantees
//!
//! - A query has no field for the future, so no rule can use it.
//! - A recall allocates nothing once its [`Scratch`] and [`Recall`] have grown; it gives the same bits with
//!   any number of threads.
//! - No policy reads or returns a record outside the query's [`Pool`].
//! - Records never move or change: a [`MemoryId`] is valid forever.

mod activation;
mod block;
mod camera;
mod column;
mod cosine;
mod cue;
mod error;
mod feature;
mod fusion;
mod gate;
#[cfg(test)]
mod instruction_set;
mod key;
mod layer;
mod memory;
mod metadata_scorer;
mod named;
mod observation;
mod overlap;
mod payload;
pub mod policy;
mod pool;
mod pose;
mod prefetch;
mod query;
mod recall;
mod recall_pass;
mod retriever;
mod scratch;
pub mod selection;
mod set_term;
mod settings;
mod snapshot;
mod standardization;
pub mod store;
mod worker;
mod worth;

pub use block::{BLOCK_RECORDS, Block, BlockParts, BlockView};
pub use camera::Camera;
pub use column::{COLUMN_ALIGNMENT, Column, StableBytes};
pub use cosine::QueryAdapter;
pub use cue::{Cue, CueKind, KeyPrecision, Schema};
pub use error::Error;
pub use feature::{FEATURE_SET, FEATURES, FeatureScale, features};
pub use gate::Gate;
pub use key::{KeyColumn, KeyValues, Keys, normalize};
pub use layer::Layer;
pub use memory::{Memory, MemoryReader};
pub use metadata_scorer::MetadataScorer;
pub use observation::{MemoryId, Observation, Payload};
pub use overlap::{OVERLAP_FEATURES, Sighting, line_of_sight, overlap_features};
pub use payload::PayloadSource;
pub use policy::RecallPolicy;
pub use pool::{Pool, PoolView};
pub use pose::{Displacement, Pose, quaternion_of, wrap_angle};
pub use query::RecallQuery;
pub use recall::{Recall, Recalled};
pub use retriever::{
    Activation, AdapterKind, CueConfig, FeatureSet, GateConfig, RETRIEVER_VERSION, Retriever,
    RetrieverConfig, ScorerConfig, SetConfig,
};
pub use scratch::Scratch;
pub use set_term::MOST_PASSED_OVER;
pub use snapshot::Snapshot;
pub use standardization::{DEVIATION_FLOOR, Statistics};
pub use worth::{WORTH_WIDTH, worth_inputs, worth_relation};

/// The example in the project's README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct FrontPage;

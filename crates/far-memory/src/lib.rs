//! An episodic memory that recalls by learned, fused cues.

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
mod key;
mod memory;
mod metadata_scorer;
mod observation;
pub mod policy;
mod pool;
mod pose;
mod prefetch;
mod query;
mod recall;
mod recall_pass;
mod retriever;
mod retriever_config;
mod retriever_file;
mod scratch;
pub mod selection;
mod snapshot;
mod standardization;
pub mod store;
mod worker;

pub use block::{BLOCK_RECORDS, Block, BlockParts, BlockView, PayloadSource};
pub use camera::Camera;
pub use column::{COLUMN_ALIGNMENT, Column, StableBytes};
pub use cosine::QueryAdapter;
pub use cue::{Cue, CueKind, KeyPrecision, Schema};
pub use error::Error;
pub use feature::{FEATURE_SET, FEATURES, FeatureScale, features};
pub use gate::Gate;
pub use key::{KeyColumn, KeyValues, Keys, normalize};
pub use memory::{Memory, MemoryReader};
pub use metadata_scorer::{Layer, MetadataScorer};
pub use observation::{MemoryId, Observation, Payload};
pub use policy::RecallPolicy;
pub use pool::{Pool, PoolView};
pub use pose::{Displacement, Pose, wrap_angle};
pub use query::RecallQuery;
pub use recall::{Recall, Recalled};
pub use retriever::Retriever;
pub use retriever_config::{
    Activation, AdapterKind, CueConfig, FeatureSet, GateConfig, RetrieverConfig, ScorerConfig,
};
pub use retriever_file::RETRIEVER_VERSION;
pub use scratch::Scratch;
pub use snapshot::Snapshot;
pub use standardization::{DEVIATION_FLOOR, Statistics};

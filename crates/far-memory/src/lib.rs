//! An episodic memory that recalls by learned, fused cues.

mod block;
mod camera;
mod column;
mod cue;
mod error;
mod key;
mod memory;
mod observation;
pub mod policy;
mod pool;
mod pose;
mod query;
mod recall;
mod scratch;
pub mod selection;
mod snapshot;
pub mod store;

pub use block::{BLOCK_RECORDS, Block, BlockParts, BlockView, PayloadSource};
pub use camera::Camera;
pub use column::{COLUMN_ALIGNMENT, Column, StableBytes};
pub use cue::{Cue, CueKind, KeyPrecision, Schema};
pub use error::Error;
pub use key::{KeyColumn, KeyValues, Keys, normalize};
pub use memory::{Memory, MemoryReader};
pub use observation::{MemoryId, Observation, Payload};
pub use policy::RecallPolicy;
pub use pool::{Pool, PoolView};
pub use pose::{Displacement, Pose, wrap_angle};
pub use query::RecallQuery;
pub use recall::{Recall, Recalled};
pub use scratch::Scratch;
pub use snapshot::Snapshot;

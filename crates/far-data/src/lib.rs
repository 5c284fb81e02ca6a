//! Episodes on disk: the dataset format, its reader and writer, and the sampling of training
//! examples.
//!
//! A dataset is a folder:
//!
//! ```text
//! dataset.json            what the whole dataset has in common   DatasetDescription
//! episodes.arrow          one row per episode                    EpisodeSummary
//! episodes/000042.arrow   one row per frame                      Frame
//! episodes/000042.wav     binaural sound, when there is any      Audio
//! ```
//!
//! pyarrow and polars open the Arrow files as they are. [`DatasetWriter`] records, [`Dataset`] reads.

mod arrow_file;
mod audio;
mod cache;
mod cache_folder;
mod contact_sheet;
mod contrastive;
mod coverage;
mod crossing;
mod dataset;
mod dataset_check;
mod dataset_writer;
mod description;
mod divergence;
mod durable;
mod episode;
mod episode_map;
mod episode_writer;
mod error;
mod example;
mod export_lerobot;
mod export_transforms;
mod frame;
mod frame_batch;
mod frame_check;
mod frame_columns;
mod frame_rate;
mod frame_schema;
pub mod import;
mod index;
mod inspection;
mod journal;
mod key_column;
mod large_column;
mod mask;
mod numeric_column;
mod overlap;
mod parquet_writer;
mod picture;
mod png_file;
mod pool;
mod pose_candidate;
mod pose_check;
mod pose_warp;
mod resize;
mod robot_action;
mod sampling;
mod sampling_config;
mod sound_picture;
mod split;
mod staleness;
mod stream;
mod summary;
mod verify;
mod write_lock;

pub use audio::Audio;
pub use cache::{CachedTensor, CachedTensors, Precision, TensorCache};
pub use cache_folder::{cache_folder, can_write};
pub use contact_sheet::{Cell, ContactSheet, EXPLORE_COLOR, RETURN_COLOR};
pub use contrastive::{
    ContrastiveConfig, ContrastiveExample, ContrastiveFrames, ContrastiveRule, ContrastiveSampler,
};
pub use coverage::Coverage;
pub use crossing::last_crossing;
pub use dataset::Dataset;
pub use dataset_check::DatasetCheck;
pub use dataset_writer::DatasetWriter;
pub use description::{
    DatasetDescription, FORMAT_NAME, FORMAT_VERSION, FieldOfView, Generator, ImageEncoding, Signal,
};
pub use divergence::Divergence;
pub use durable::{hash_bytes, write as write_durably};
pub use episode::Episode;
pub use episode_map::EpisodeMap;
pub use episode_writer::EpisodeWriter;
pub use error::{DataError, Result};
pub use example::{Anchor, ExampleQuery, Future, MemoryPool, TrainingExample};
pub use export_lerobot::export_lerobot;
pub use export_transforms::export_transforms;
pub use frame::{AgentState, Change, ChangeKind, Frame, FrameImage, Phase, VisibleStates};
pub use inspection::Inspection;
pub use key_column::{add_key_column, add_made_keys};
pub use mask::Mask;
pub use numeric_column::NumericColumn;
pub use overlap::{OverlapRule, View};
pub use picture::Picture;
pub use pool::{evaluation_pool, training_pool};
pub use pose_check::{PoseCheck, PoseReport};
pub use pose_warp::WarpResult;
pub use robot_action::{ROBOT_ACTION, RobotAction};
pub use sampling::{EvaluationClip, TrainingSampler};
pub use sampling_config::{AnchorConfig, AnchorKind, EvaluationConfig, SamplingConfig};
pub use sound_picture::{EarSpectrum, decibels, level_color};
pub use split::{Deal, Split, SplitRule};
pub use staleness::Staleness;
pub use summary::{EpisodeFacts, EpisodeSummary, Pair};
pub use verify::verify_episode;

//! Recordings of other programs, made into datasets.
//!
//! A format is one file in `format/` and one line in [`FORMATS`]: it says what it is called, in which
//! axes its poses are, and reads a source into [`Recording`]s. Everything else (conventions, checks of
//! poses, where the return begins, cutting, scaling, splits, writing) is the same for all and lies here.

mod camera_axes;
mod convention;
mod format;
mod lens;
mod options;
mod parquet_table;
mod picture_reader;
mod plan;
mod recording;
mod revisit;
mod rigid_pose;
mod source;
mod survey;
mod video;
mod window;
mod write;

pub use camera_axes::CameraAxes;
pub use convention::{Convention, Up};
pub use format::{FORMATS, Format, find_format};
pub use lens::Lens;
pub use options::{ConventionChoice, ImportOptions};
pub use picture_reader::PictureRule;
pub use plan::{ImportPlan, PlannedEpisode};
pub use recording::{PictureSource, RecordedFrame, Recording};
pub use revisit::{Likeness, ReturnRule, Revisit};
pub use rigid_pose::RigidPose;
pub use source::Source;
pub use video::VideoReader;
pub use window::{Window, deal};
pub use write::{ImportProgress, ImportResult};

pub(crate) use revisit::extent;

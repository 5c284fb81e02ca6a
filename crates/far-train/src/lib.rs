//! Training of what is recalled.

mod config;
mod distillation;
mod error;
mod metrics;
mod requirement;
mod run;
mod run_folder;

pub use config::{
    Arm, ArmConfig, ChangeMaskConfig, ChangeMaskSource, DataConfig, Documented, EncoderConfig,
    EvaluationSection, FAR_ARMS, FarArm, KeyCue, PRESETS, PretrainingSettings, RetrieverSettings,
    TokenizerConfig, TokenizerKind, TrainConfig, TrainingContext, TrainingSettings, UtilityConfig,
    UtilityMode, UtilityWeight, documented,
};
pub use distillation::{Distillation, DistillationConfig};
pub use error::{Error, Result};
pub use metrics::{EvaluationRecord, PoolHealth, Record, RetrieverRecord, StepRecord};
pub use requirement::check_dataset;
pub use run::{Ending, StepReport, TrainingLoop, Watch, train};
pub use run_folder::{Environment, Existing, Retention, RunFolder, Session};

//! Training of what is recalled.

mod config;
mod contrastive;
mod distillation;
mod error;
mod metrics;
mod retrieval;
mod run;
mod run_folder;

pub use config::{
    Arm, ArmConfig, ChangeMaskConfig, ChangeMaskSource, DataConfig, Documented, EncoderConfig,
    EvaluationSection, FAR_ARMS, FarArm, KeyCue, PRESETS, PretrainingSettings, RetrieverSettings,
    TokenizerConfig, TokenizerKind, TrainConfig, TrainingContext, TrainingSettings, UtilityConfig,
    UtilityMode, UtilityWeight, documented,
};
pub use contrastive::{Contrastive, ContrastiveStep, ContrastiveTraining};
pub use distillation::{Distillation, DistillationConfig};
pub use error::{Error, Result};
pub use metrics::{EvaluationRecord, PoolHealth, Record, RetrieverRecord, StepRecord};
pub use retrieval::{Retrieval, retrieval};
pub use run::{Ending, StepReport, TrainingLoop, Watch, train};
pub use run_folder::{Environment, Existing, Retention, RunFolder, Session};

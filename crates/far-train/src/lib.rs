//! Training of what is recalled.

mod config;
mod context_source;
mod distillation;
mod error;
mod joint;
mod learned_retriever;
mod question;

pub use config::{
    Arm, ArmConfig, ChangeMaskConfig, ChangeMaskSource, ContextAttention, CueWeights, DataConfig,
    DitConfig, Documented, EncoderConfig, EvaluationSettings, FAR_ARMS, FarArm, KeyCue, PRESETS,
    PatchPcaConfig, PrecomputedConfig, PredictionKind, PretrainingSettings, RetrieverSettings,
    TokenizerConfig, TokenizerKind, TrainConfig, TrainingContext, TrainingSettings, documented,
};
pub use context_source::{ContextSource, disturb};
pub use distillation::{Distillation, DistillationConfig};
pub use error::{Error, Result};
pub use joint::{Joint, JointConfig, StepReport};
pub use learned_retriever::{Credit, LearnedRetriever, RetrieverReport};
pub use question::{Question, recall};
mod contrastive;
mod distillation;
mod error;
mod retrieval;
mod metrics;
mod run;
mod run_folder;

pub use config::{
    Arm, ArmConfig, ChangeMaskConfig, ChangeMaskSource, DataConfig, Documented, EncoderConfig,
    EvaluationSection, FAR_ARMS, FarArm, KeyCue, PRESETS, PretrainingSettings, RetrieverSettings,
    TokenizerConfig, TokenizerKind, TrainConfig, TrainingContext, TrainingSettings, UtilityConfig,
    UtilityMode, UtilityWeight, documented,
};
pub use contrastive::{Contrastive, ContrastiveStep, PretrainingConfig};
pub use distillation::{Distillation, DistillationConfig};
pub use error::{Error, Result};
pub use retrieval::{Retrieval, retrieval};
pub use metrics::{EvaluationRecord, PoolHealth, Record, RetrieverRecord, StepRecord};
pub use run::{Ending, StepReport, TrainingLoop, Watch, train};
pub use run_folder::{Environment, Existing, Retention, RunFolder, Session};

//! Training of what is recalled.

mod config;
mod contrastive;
mod distillation;
mod error;
mod retrieval;

pub use config::{
    Arm, ArmConfig, ChangeMaskConfig, ChangeMaskSource, ContextAttention, CueWeights, DataConfig,
    DitConfig, Documented, EncoderConfig, EvaluationSettings, FAR_ARMS, FarArm, KeyCue, PRESETS,
    PatchPcaConfig, PrecomputedConfig, PredictionKind, PretrainingSettings, RetrieverSettings,
    TokenizerConfig, TokenizerKind, TrainConfig, TrainingContext, TrainingSettings, UtilityConfig,
    UtilityMode, UtilityWeight, documented,
};
pub use contrastive::{Contrastive, ContrastiveStep, PretrainingConfig};
pub use distillation::{Distillation, DistillationConfig};
pub use error::{Error, Result};
pub use retrieval::{Retrieval, retrieval};

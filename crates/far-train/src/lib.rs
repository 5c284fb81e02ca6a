//! Training of what is recalled and of the world model that reads it.

mod arm_training;
mod artifact;
mod change_mask;
mod companion;
mod config;
mod contender;
mod context_source;
mod contrastive;
mod credit;
mod cue_registry;
mod error;
mod example;
mod joint;
mod joint_alone;
mod learned_retriever;
mod memory_need;
mod metrics;
mod picture_sampler;
mod preparation;
mod prepared_data;
mod prepared_step;
mod requirement;
mod retrieval;
mod run;
mod run_check;
mod run_evaluation;
mod run_folder;
mod step_times;
mod time_need;
mod tokenizer_training;
mod trained_arm;

pub use arm_training::ArmTraining;
pub use artifact::Stage;
pub use config::{
    Arm, ArmConfig, ChangeMaskConfig, ChangeMaskSource, ComparisonConfig, ComputeConfig,
    CreditRule, CueColumn, DataConfig, Documented, EncoderConfig, EvaluationSection, FAR_ARMS,
    FarArm, PRESETS, PretrainingSettings, RetrieverSettings, SelectionRule, TokenizerConfig,
    TokenizerKind, TrainConfig, TrainingContext, TrainingSettings, check_rule, documented,
    synthetic,
};
pub use contender::Contender;
pub use context_source::{ContextSource, perturb_contexts};
pub use contrastive::{Contrastive, ContrastiveStep, ContrastiveTraining};
pub use credit::{Credit, Question};
pub use cue_registry::CueRegistry;
pub use error::{Error, Result};
pub use example::Example;
pub use joint::{Joint, JointConfig, JointStep};
pub use joint_alone::TimesAlone;
pub use learned_retriever::{LearnedRetriever, RetrieverReport};
pub use memory_need::{Bytes, MemoryNeed};
pub use metrics::{EvaluationRecord, PoolRecord, Record, RetrieverRecord, StepRecord};
pub use picture_sampler::PictureSampler;
pub use preparation::share_preparation;
pub use prepared_data::PreparedData;
pub use requirement::check_dataset;
pub use retrieval::{Retrieval, retrieval};
pub use run::{Ending, StepReport, TrainingLoop, Watch, train};
pub use run_check::{RunCheck, check_arms, check_prepared};
pub use run_evaluation::{Listener, RunEvaluation};
pub use run_folder::{Environment, Existing, FolderLock, RunFolder, SavedRun, Session};
pub use step_times::StepTimes;
pub use time_need::training_seconds;
pub use tokenizer_training::{TokenizerStep, TokenizerTraining};
pub use trained_arm::TrainedArm;

//! The networks of `far`.

mod architecture;
mod convolution_stack;
mod encoded_dataset;
mod encoded_episode;
mod encoder;
mod error;
mod latent;
mod layer;
mod metric;
mod query;
mod recall;
mod retriever;
#[cfg(test)]
mod testing;
mod tokenizer;
mod transplanted_episode;
mod weight_cache;
mod weight_file;
mod world_model;

pub use encoded_dataset::{EncodedDataset, METADATA_CUE};
pub use encoded_episode::EncodedEpisode;
pub use encoder::audio_feature::{
    AUDIO_CUE, AudioChannels, AudioConfig, AudioFeature, AudioWindow,
};
pub use encoder::column_feature::ColumnFeature;
pub use encoder::cue_encoder::{ActionFeatures, CueEncoder};
pub use encoder::cue_feature::CueFeature;
pub use encoder::extension::interaction_feature::{INTERACTION_CUE, InteractionFeature};
pub use encoder::info_nce::{Similarities, info_nce};
pub use encoder::key_encoder::{EncoderDescription, KeyEncoder};
pub use encoder::longlive_autoencoder::{LongLiveAutoencoder, LongLiveConfig, LongLiveLosses};
pub use encoder::longlive_encoder::{LONGLIVE_CUE, LongLiveEncoder};
pub use encoder::query_vit::{QueryVit, QueryVitConfig};
pub use error::{Error, Result};
pub use latent::LatentShape;
pub use layer::Pass;
pub use metric::{DreamSim, DreamSimBranch, Lpips, LpipsNet, PerceptualLoss, psnr, ssim};
pub use query::{Future, Futures, Present, Query, embed_queries};
pub use recall::recall_all;
pub use retriever::batch::RetrieverBatch;
pub use retriever::candidate::{CandidatePools, PoolDraw};
pub use retriever::candidate_distillation::{CandidateBatch, candidate_distillation};
pub use retriever::health::{PoolHealth, RetrieverHealth};
pub use retriever::posterior::{DistillationTarget, posterior_divergence};
pub use retriever::set_term::SetScores;
pub use retriever::trainable::{
    AdapterLearning, CueWeighting, RetrieverScores, RetrieverTrainingConfig, TrainableRetriever,
};
pub use retriever::utility::UtilityEstimator;
pub use retriever::utility_config::UtilityConfig;
pub use retriever::utility_meter::{Utilities, UtilityMeter};
pub use tokenizer::{
    Autoencoder, AutoencoderConfig, AutoencoderStructure, BUILT_IN, KlStructure, PatchPca,
    PatchPcaConfig, Precomputed, PrecomputedConfig, TaesdLosses, TaesdStructure, TaesdTraining,
    Tokenizer, VitVaeStructure, area_resize,
};
pub use world_model::block::{Block, Grouping};
pub use world_model::block_config::{BlockConfig, ModulationStart};
pub use world_model::condition_scale::{ConditionScale, POSE_FEATURES};
pub use world_model::config::{ContextAttention, DitConfig, PredictionKind};
pub use world_model::context::{ContextBatch, Remembered};
pub use world_model::context_builder::ContextBuilder;
pub use world_model::ddim::{DdimConfig, DdimStep, Spacing};
pub use world_model::dit_world_model::{DitSetting, DitWorldModel, FrozenDit};
pub use world_model::extension::goal_state::detector::{Firing, LatentDetector};
pub use world_model::extension::goal_state::detector_training::LatentDetectorConfig;
pub use world_model::extension::goal_warp::{GoalWarp, LinearPatches};
pub use world_model::frame_condition::FrameCondition;
pub use world_model::interface::{Perturbations, TrainableWorldModel, WorldModel};
pub use world_model::parameter_count::{ParameterCount, ParameterPart};
pub use world_model::prediction_query::PredictionQuery;
pub use world_model::signal::{Channel, FrameSignals, SignalLayout};
pub use world_model::signal_column::ConditioningConfig;
pub use world_model::token_dit::{TokenDit, TokenDitConfig};

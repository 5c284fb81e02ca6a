//! The networks of `far`.

mod agent_detector;
mod agent_detector_training;
mod architecture;
mod audio_feature;
mod candidate;
mod candidate_distillation;
mod column_feature;
mod context;
mod context_state;
mod convolution_stack;
mod copy_head;
mod cue_encoder;
mod cue_feature;
mod ddim;
mod dit;
mod dit_config;
mod dit_diffusion;
mod dit_network;
mod dit_state;
mod dit_world_model;
mod encoded;
mod encoded_episode;
mod error;
mod frame_embedding;
mod goal_view;
mod info_nce;
mod interaction_feature;
mod key_encoder;
mod latent;
mod longlive_autoencoder;
mod longlive_encoder;
mod longlive_network;
mod metadata_scorer;
mod metric;
mod modulation_table;
mod nearness;
mod noisy_target;
mod parameter_count;
mod posterior;
mod query_adapter;
mod query_vit;
mod retriever_batch;
mod retriever_health;
mod shared_row;
mod state_predictor;
#[cfg(test)]
mod testing;
mod token_dit;
mod tokenizer;
mod told;
mod trainable_gate;
mod trainable_retriever;
mod utility;
mod utility_config;
mod weight_file;
mod world_model;

pub use agent_detector::{AgentDetector, Firing};
pub use agent_detector_training::AgentDetectorConfig;
pub use audio_feature::{AUDIO_CUE, AudioChannels, AudioConfig, AudioFeature, AudioPadding};
pub use candidate::CandidatePools;
pub use candidate_distillation::{CandidateBatch, candidate_distillation};
pub use column_feature::ColumnFeature;
pub use context::{
    ConditionScale, ContextBatch, ContextTold, FrameCondition, POSE_FEATURES, PredictionQuery,
    Remembered,
};
pub use cue_encoder::{ActionFeatures, CueEncoder};
pub use cue_feature::CueFeature;
pub use ddim::{DdimConfig, DdimStep, Spacing};
pub use dit::{Block, BlockConfig, Grouping, ModulationStart};
pub use dit_config::{ContextAttention, DitConfig, PredictionKind};
pub use dit_world_model::{DitSetting, DitWorldModel, FrozenDit};
pub use encoded::{EncodedDataset, METADATA_CUE};
pub use encoded_episode::{EncodedEpisode, Present, embed_queries};
pub use error::{Error, Result};
pub use goal_view::{GoalView, LinearPatches};
pub use info_nce::{InfoNce, PositiveForm, Similarities};
pub use interaction_feature::{INTERACTION_CUE, InteractionFeature};
pub use key_encoder::{EncoderDescription, KeyEncoder};
pub use latent::LatentShape;
pub use longlive_autoencoder::{LongLiveAutoencoder, LongLiveConfig, LongLiveLosses};
pub use longlive_encoder::{LONGLIVE_CUE, LongLiveEncoder};
pub use metric::{Lpips, LpipsNet, psnr, ssim};
pub use parameter_count::{ParameterCount, ParameterPart};
pub use posterior::{DistillationTarget, posterior_divergence};
pub use query_vit::{QueryVit, QueryVitConfig};
pub use retriever_batch::RetrieverBatch;
pub use retriever_health::{PoolHealth, RetrieverHealth};
pub use state_predictor::StatePredictorConfig;
pub use token_dit::{TokenDit, TokenDitConfig};
pub use tokenizer::{
    Convolutional, ConvolutionalConfig, ConvolutionalTraining, ConvolutionalTrainingConfig,
    PatchPca, PatchPcaConfig, Precomputed, PrecomputedConfig, Tokenizer, area_resize,
};
pub use told::{AGENT_STATE, ToldConfig};
pub use trainable_retriever::{
    AdapterLearning, CueWeighting, RetrieverScores, RetrieverTrainingConfig, TrainableRetriever,
};
pub use utility::UtilityEstimator;
pub use utility_config::{UtilityConfig, UtilityMode, UtilityWeight};
pub use world_model::{Perturbations, TrainableWorldModel, WorldModel};

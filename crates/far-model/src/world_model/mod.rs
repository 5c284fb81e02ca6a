//! The world model: a diffusion transformer that predicts the next observation from the present, an
//! action and recalled memories.
//!
//! | what | file |
//! |---|---|
//! | the trait that training and evaluation know | `interface` |
//! | what a prediction is conditioned on | `prediction_query`, `condition_scale`, `frame_condition`, `context`, `context_builder`, `signal`, `signal_column`, `embedding` |
//! | the whole forward pass, plainly: read this first | `reference` |
//! | the network | `config`, `block_config`, `block`, `network` |
//! | its fast paths: contexts read once, rows shared | `shared_context`, `noisy_target`, `row_index`, `modulation_table` |
//! | losses and sampling | `training_batch`, `diffusion`, `sampling`, `ddim` |
//! | the network as a world model | `dit_world_model`, `parameter_count` |
//! | parts that serve one setting | `extension` |

pub(crate) mod block;
pub(crate) mod block_config;
pub(crate) mod condition_scale;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod context_builder;
pub(crate) mod ddim;
pub(crate) mod diffusion;
pub(crate) mod dit_world_model;
pub(crate) mod embedding;
pub(crate) mod extension;
pub(crate) mod frame_condition;
pub(crate) mod interface;
pub(crate) mod modulation_table;
pub(crate) mod network;
pub(crate) mod noisy_target;
pub(crate) mod parameter_count;
pub(crate) mod prediction_query;
#[cfg(test)]
pub(crate) mod reference;
pub(crate) mod row_index;
mod sampling;
pub(crate) mod shared_context;
pub(crate) mod signal;
pub(crate) mod signal_column;
pub(crate) mod token_dit;
mod training_batch;

//! The trainable retriever, in the paper's order: cue scores (`metadata_scorer`, `query_adapter`), gate
//! and fusion (`gate`, `trainable`), sets (`set_term`), utility (`utility`), posterior (`posterior`), and candidate
//! distillation (`candidate`, `candidate_distillation`).

pub(crate) mod batch;
pub(crate) mod candidate;
pub(crate) mod candidate_distillation;
pub(crate) mod gate;
pub(crate) mod health;
pub(crate) mod metadata_scorer;
pub(crate) mod posterior;
pub(crate) mod query_adapter;
pub(crate) mod set_term;
pub(crate) mod trainable;
pub(crate) mod utility;
pub(crate) mod utility_config;
pub(crate) mod utility_meter;
pub(crate) mod worth;

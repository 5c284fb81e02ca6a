//! Encoders that make the keys of memories and queries, one file per cue.

pub(crate) mod audio_feature;
pub(crate) mod column_feature;
pub(crate) mod cue_encoder;
pub(crate) mod cue_feature;
pub(crate) mod extension;
pub(crate) mod info_nce;
pub(crate) mod key_encoder;
pub(crate) mod longlive_autoencoder;
pub(crate) mod longlive_encoder;
pub(crate) mod longlive_network;
pub(crate) mod query_vit;

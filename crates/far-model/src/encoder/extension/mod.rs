//! Cues that serve one kind of corpus.

pub(crate) mod interaction_feature;

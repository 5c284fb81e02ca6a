//! `[comparison]`: the arms that are compared.

use crate::{Contender, Result};
use serde::{Deserialize, Serialize};

/// The arms of `far compare`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComparisonConfig {
    /// Each as [`Contender::parse`] reads it; none for all of the paper's protocol.
    pub arms: Vec<String>,
}

impl ComparisonConfig {
    /// The arms, those that take longest first.
    ///
    /// # Errors
    /// If one is not the name of a folder.
    pub fn contenders(&self) -> Result<Vec<Contender>> {
        match self.arms.as_slice() {
            [] => Ok(Contender::protocol()),
            arms => arms.iter().map(|arm| Contender::parse(arm)).collect(),
        }
    }
}

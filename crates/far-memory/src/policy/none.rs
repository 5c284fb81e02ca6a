//! No memory: the lower control of every comparison.

use serde::{Deserialize, Serialize};

use super::rule::{Rule, Scene, Work};
use crate::Error;

/// Recalls nothing. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NoneConfig {}

impl Rule for NoneConfig {
    fn select(&self, _: &Scene, _: &mut Work) -> Result<(), Error> {
        Ok(())
    }
}

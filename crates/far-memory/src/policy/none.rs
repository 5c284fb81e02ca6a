//! No memory: the lower control of every comparison.

use serde::{Deserialize, Serialize};

use super::requirement::Requirements;
use super::rule::{Rule, Scene, Work};
use crate::Error;
use crate::selection::Ranked;

/// Recalls nothing. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NoneConfig {}

#[derive(Clone)]
pub(crate) struct NoRecall;

impl NoRecall {
    pub(crate) fn new(NoneConfig {}: NoneConfig) -> Result<Self, Error> {
        Ok(Self)
    }
}

impl Rule for NoRecall {
    fn requirements(&self) -> Requirements {
        Requirements::default()
    }

    fn select(&self, _: &Scene, _: usize, _: &mut Work, _: &mut Vec<Ranked>) -> Result<(), Error> {
        Ok(())
    }
}

//! An arm as a checkpoint left it: what evaluations load, without anything that only training needs.

use crate::arm_training::{fresh_retriever, none_or_policy};
use crate::config::Arm;
use crate::{PreparedData, Result};
use far_memory::RecallPolicy;
use far_model::{FrozenDit, WorldModel};
use far_tensor::Checkpoint;
use std::path::Path;
use std::sync::Arc;

/// A trained world model and the policy that recalls for it.
pub struct TrainedArm {
    model: Arc<dyn WorldModel>,
    policy: Box<dyn RecallPolicy>,
}

impl TrainedArm {
    /// Loads the averaged world model and the retriever of a configuration's arm. Retrievers of other
    /// arms that learned beside it stay in the file.
    ///
    /// # Errors
    /// If the checkpoint cannot be read or holds another architecture.
    pub fn load(prepared: &PreparedData, path: &Path) -> Result<Self> {
        let mut checkpoint = Checkpoint::open(path)?;
        let run = path.parent().and_then(Path::parent).unwrap_or(path);
        prepared.preparation.check(&checkpoint, run)?;
        let setting = prepared.model_setting();
        let model = FrozenDit::load(setting, &mut checkpoint, prepared.device())?;
        let policy: Box<dyn RecallPolicy> = match prepared.arm() {
            Arm::Rule(rule) => prepared.rule(rule.rule.id())?.build()?,
            Arm::Far(arm) => {
                let config = prepared.config();
                let retriever = fresh_retriever(prepared, config, &config.arm.id, arm)?;
                Box::new(if arm.learns() {
                    retriever.load_policy(&mut checkpoint)?
                } else {
                    retriever.policy().clone()
                })
            }
        };
        Ok(Self { model: Arc::new(model), policy })
    }

    /// The world model.
    pub fn model(&self) -> &Arc<dyn WorldModel> {
        &self.model
    }

    /// The arm as evaluations know it, under this name.
    pub fn into_arm(self, prepared: &PreparedData, name: &str) -> far_eval::Arm {
        none_or_policy(prepared.arm(), name, self.policy)
    }
}

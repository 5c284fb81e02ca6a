//! Learned arms beside a run's own: their retrievers learn from the credit of the same world model.

use clap::Args;
use far_train::{Arm, Contender, Result, TrainConfig};

/// Further learned arms.
#[derive(Args)]
pub struct BesideArguments {
    /// A further learned arm that learns from the same world model, with other settings of its
    /// retriever: --beside paper:retriever.credit=single,retriever.selection=chunks; repeatable.
    #[arg(long, value_name = "NAME:KEY=VALUE,...")]
    beside: Vec<String>,
}

/// An arm beside the run's own, by its name with its configuration.
pub type Companion = (String, TrainConfig);

impl BesideArguments {
    /// The arms over a preset or file and its overlays.
    ///
    /// # Errors
    /// If one is not understood.
    pub fn companions(&self, preset_or_path: &str, sets: &[String]) -> Result<Vec<Companion>> {
        let companion = |text: &String| {
            let contender = Contender::parse(text)?;
            let config = contender.config(preset_or_path, sets)?;
            Ok((contender.name, config))
        };
        self.beside.iter().map(companion).collect()
    }

    /// The words that say the same on a command line.
    pub fn words(&self) -> impl Iterator<Item = String> {
        self.beside.iter().map(|text| format!("--beside {}", super::train::shell_word(text)))
    }
}

/// What these arms recall by.
///
/// # Errors
/// If there is no such arm.
pub fn arms(companions: &[Companion]) -> Result<Vec<Arm>> {
    companions.iter().map(|(_, config)| config.arm.arm()).collect()
}

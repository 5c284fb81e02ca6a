//! Names of settings that no configuration has any more, and what became of each.
//!
//! Configurations of older versions are refused by these names instead of as typing errors.

use super::layer::joined;
use crate::{Error, Result};
use toml::{Table, Value};

/// A setting or a whole table, and what holds instead.
const RETIRED: &[(&str, &str)] = &[
    ("told", "now the table [conditioning], and world_model.earlier_view"),
    (
        "retriever.exploration",
        "contexts explore from 1 downward while retriever.exploration_steps last",
    ),
    ("training.change_mask.reading", "always a share of all weight"),
    ("training.change_mask.largest_area", "0.15, as in the paper"),
    ("training.change_mask.beyond", "masks of more than 0.15 of a frame weigh nothing"),
    ("world_model.bound_weight", "1, as in DiT"),
    ("world_model.goal_relative", "poses are relative to the goal and to the present"),
    ("world_model.query_key_norm", "queries and keys are always normalized"),
    ("world_model.state_predictor", "its sizes are fixed, its weights the paper's"),
    (
        "tokenizer.convolutional",
        "train one with `far tokenizer train` and name its file as tokenizer.kind",
    ),
    ("tokenizer.convolutional_training", "now options of `far tokenizer train`"),
    ("tokenizer.precomputed.channels", "that of the files"),
    ("tokenizer.precomputed.height", "that of the files"),
    ("tokenizer.precomputed.width", "that of the files"),
    ("tokenizer.precomputed.patch", "2, as in the paper"),
    ("encoder.pretraining.form", "always each positive alone against all negatives"),
    ("encoder.pretraining.temperature", "always 0.07"),
    ("encoder.pretraining.parts", "a batch is computed whole"),
    ("longlive.margin", "0.85, as its authors have it"),
    ("longlive.lags", "3, as its authors have it"),
    ("longlive.difference_weight", "1, as its authors have it"),
    ("longlive.learning_rate", "0.0003, as its authors have it"),
    ("longlive.weight_decay", "0.0001, as its authors have it"),
    ("longlive.clip", "1, as its authors have it"),
    ("longlive.window", "8 frames, as its authors have it"),
    ("longlive.spacing", "always 4 frames"),
    ("arm.pool_cap", "now arm.settings.pool_cap"),
    ("retriever.exploration_told", "memories with a state are explored where there are any"),
    ("retriever.exploration_end", "always 0.1 after retriever.exploration_steps"),
    ("retriever.metadata_width", "always 128"),
    ("retriever.adapter_width", "always 128"),
    ("retriever.length_scale", "now the first number of retriever.scales"),
    ("retriever.time_scale", "now the second number of retriever.scales"),
    ("retriever.stride_products", "the gate always sees the stride by cue"),
    ("training.warm_up_from", "0.2, as in the paper"),
    ("training.clip", "1, as in the paper"),
    ("training.epsilon", "1e-6, as in the paper"),
    ("training.weight_decay", "0, as in the paper"),
    ("audio.rate", "that of the dataset"),
    ("audio.seconds", "always one second"),
    ("audio.transform", "always 512 samples"),
    ("audio.window", "always 400 samples"),
    ("audio.hop", "always 160 samples"),
    ("audio.padding", "always silence"),
    ("detector.width", "always 32"),
    ("detector.batch", "always 32"),
    ("detector.learning_rate", "always 0.002"),
    ("detector.positive_weight", "always 10"),
    ("utility.mode", "always the sum of squared errors"),
    ("utility.weight", "all noise levels count alike"),
    ("utility.snr_floor", "all noise levels count alike"),
    ("utility.zscore_floor", "utilities are not standardized"),
    ("utility.from", "now the first number of utility.range"),
    ("utility.to", "now the second number of utility.range"),
    ("utility.auxiliary", "an auxiliary loss counts as in training"),
];

/// Refuses a table that uses retired names; `origin` names it in messages.
///
/// # Errors
/// All such names, each with its reason.
pub(super) fn refuse(table: &Table, origin: &str) -> Result<()> {
    let mut found = Vec::new();
    collect(table, "", &mut found);
    if found.is_empty() {
        return Ok(());
    }
    Err(Error::RetiredKeys { origin: origin.to_owned(), keys: found })
}

fn collect(table: &Table, prefix: &str, found: &mut Vec<(String, &'static str)>) {
    for (name, value) in table {
        let key = joined(prefix, name);
        match (RETIRED.iter().find(|(retired, _)| *retired == key), value) {
            (Some((_, reason)), _) => found.push((key, reason)),
            (None, Value::Table(inner)) => collect(inner, &key, found),
            (None, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::documented;

    #[test]
    fn no_setting_is_retired_and_documented() {
        for setting in documented() {
            let key = setting.key();
            let stale = RETIRED.iter().find(|(name, _)| {
                *name == key || key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
            });
            assert_eq!(stale, None, "{key}");
        }
    }

    #[test]
    fn all_retired_names_are_listed_at_once() {
        let every: String = RETIRED.iter().map(|(name, _)| format!("{name} = 1\n")).collect();
        let table: Table = toml::from_str(&every).expect("TOML");
        let message = refuse(&table, "old.toml").unwrap_err().to_string();
        assert!(message.starts_with("old.toml"), "{message}");
        for (name, reason) in RETIRED {
            assert!(message.contains(&format!("`{name}` ({reason})")), "{name}: {message}");
        }
    }
}

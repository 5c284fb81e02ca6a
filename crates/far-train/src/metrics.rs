//! What a run writes down along the way: typed records, one JSON line each.
//!
//! A record is a function of the configuration and the step alone, so that an interrupted run
//! writes the same bytes again; clocks have no place in it. Numbers that are not finite become
//! `null`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One line of `metrics.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Record {
    /// A step of the world model.
    Step(StepRecord),
    /// A step of the retriever.
    Retriever(RetrieverRecord),
    /// An evaluation of the averaged model.
    Evaluation(EvaluationRecord),
}

/// A step of the world model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The step, from 1.
    pub step: u64,
    /// Mean loss per element.
    pub loss: Option<f32>,
    /// Global gradient norm before clipping.
    pub gradient_norm: Option<f32>,
    /// Learning rate.
    pub learning_rate: Option<f32>,
}

/// A step of the retriever and its health.
///
/// Divergence and effective size are no test of health by themselves: both can be tiny in a run
/// that learns well. Watch the utility gap and the rank correlation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RetrieverRecord {
    /// The world model's step, from 1.
    pub step: u64,
    /// Updates of the retriever, from 1.
    pub update: u64,
    /// Sum of the global and the local divergence, the loss, in nats.
    pub loss: Option<f32>,
    /// Global gradient norm before clipping.
    pub gradient_norm: Option<f32>,
    /// Learning rate.
    pub learning_rate: Option<f32>,
    /// The pool of recalled memories.
    pub global: PoolHealth,
    /// The pool of one chunk.
    pub local: PoolHealth,
    /// Mean utility of the best candidate above the mean of the pool, in nats.
    pub utility_gap: Option<f32>,
    /// Spread of utilities by noise level, lowest noise first.
    pub utility_spread: Vec<Option<f32>>,
    /// Mean cue weight λ by cue.
    pub weights: BTreeMap<String, Option<f32>>,
}

/// How credit looks in one pool of candidates, as means over examples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolHealth {
    /// KL(q ‖ r) in nats.
    pub divergence: Option<f32>,
    /// Effective number of candidates, 1/Σq².
    pub effective_size: Option<f32>,
    /// Largest probability of the posterior.
    pub largest: Option<f32>,
    /// Spearman's correlation of score and utility.
    pub rank_correlation: Option<f32>,
}

/// An evaluation of the averaged model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EvaluationRecord {
    /// The world model's step.
    pub step: u64,
    /// Mean values by metric, such as `one_step_psnr` and `recall_quality`.
    pub values: BTreeMap<String, Option<f64>>,
}

impl Record {
    /// The step that the record belongs to.
    pub fn step(&self) -> u64 {
        match self {
            Self::Step(record) => record.step,
            Self::Retriever(record) => record.step,
            Self::Evaluation(record) => record.step,
        }
    }

    /// The record as one line, without its break.
    ///
    /// ```
    /// use far_train::{Record, StepRecord};
    /// let step = StepRecord { step: 3, loss: Some(f32::NAN), ..StepRecord::default() };
    /// let line = Record::Step(step).to_json();
    /// assert!(line.starts_with(r#"{"kind":"step","step":3,"loss":null"#));
    /// ```
    pub fn to_json(&self) -> String {
        // JSON has no word for what is not finite; serde_json writes null.
        serde_json::to_string(self).expect("records are plain data")
    }
}

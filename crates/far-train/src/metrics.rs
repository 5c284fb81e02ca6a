//! What a run writes down along the way: typed records, one JSON line each.
//!
//! A record is a function of the configuration and the step alone, so that an interrupted run
//! writes the same bytes again; clocks have no place in it. Numbers that are not finite become
//! `null`.

use crate::RetrieverReport;
use far_memory::CueConfig;
use far_model::PoolHealth;
use far_tensor::Step;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One line of `metrics.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Record {
    /// A step of the world model.
    Step(StepRecord),
    /// A step of the retriever.
    Retriever(Box<RetrieverRecord>),
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

/// A step of a retriever and its health before it.
///
/// Divergence and effective size are no test of health by themselves: both can be tiny in a run
/// that learns well. Watch the utility gap and the rank correlation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RetrieverRecord {
    /// The world model's step, from 1.
    pub step: u64,
    /// The arm that learns.
    pub arm: String,
    /// Updates of its retriever, from 1.
    pub update: u64,
    /// Sum of the global and the local divergence, the loss, in nats.
    pub loss: Option<f32>,
    /// Global gradient norm before clipping.
    pub gradient_norm: Option<f32>,
    /// Learning rate.
    pub learning_rate: Option<f32>,
    /// The pool of recalled memories; absent where none had two.
    pub global: Option<PoolRecord>,
    /// The pool of one chunk; absent where none had two.
    pub local: Option<PoolRecord>,
    /// How far apart each noise level puts the candidates, in nats, lowest noise first.
    pub utility_spread: Vec<Option<f32>>,
    /// Mean cue weight λ by cue.
    pub weights: BTreeMap<String, Option<f64>>,
}

/// How credit looks in one pool of candidates, as means over examples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolRecord {
    /// KL(q ‖ r) in nats.
    pub divergence: Option<f64>,
    /// Effective number of candidates, 1/Σq².
    pub effective_size: Option<f64>,
    /// Largest probability of the posterior.
    pub largest: Option<f64>,
    /// Spearman's correlation of score and utility.
    pub rank_correlation: Option<f64>,
    /// The best utility less the mean, in nats.
    pub utility_gap: Option<f64>,
}

impl From<&PoolHealth> for PoolRecord {
    fn from(health: &PoolHealth) -> Self {
        Self {
            divergence: Some(health.divergence),
            effective_size: Some(health.effective_size),
            largest: Some(health.largest),
            rank_correlation: Some(health.rank_correlation),
            utility_gap: Some(health.utility_gap),
        }
    }
}

impl StepRecord {
    /// What a step of the world model did.
    pub fn new(step: u64, made: &Step) -> Self {
        Self {
            step,
            loss: Some(made.loss),
            gradient_norm: Some(made.update.gradient_norm),
            learning_rate: Some(made.update.learning_rate),
        }
    }
}

impl RetrieverRecord {
    /// What a step of a retriever with these cues did.
    pub fn new(step: u64, arm: &str, cues: &[CueConfig], report: &RetrieverReport) -> Self {
        let RetrieverReport { step: made, health, spread } = report;
        let weights = cues.iter().zip(&health.weights);
        Self {
            step,
            arm: arm.to_owned(),
            update: made.update.number,
            loss: Some(made.loss),
            gradient_norm: Some(made.update.gradient_norm),
            learning_rate: Some(made.update.learning_rate),
            global: health.global.as_ref().map(PoolRecord::from),
            local: health.local.as_ref().map(PoolRecord::from),
            utility_spread: spread.iter().copied().map(Some).collect(),
            weights: weights.map(|(cue, weight)| (cue.name.clone(), Some(*weight))).collect(),
        }
    }
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

//! The retriever while it learns: cue scores, standardization, gate and fusion on a tape.
//!
//! It has the parameters of `far-memory`'s retriever file under the same names, and gives the scores
//! that the exported file gives at inference.

use crate::layer::Pass;
use crate::retriever::batch::{CueInputs, RetrieverBatch};
use crate::retriever::gate::TrainableGate;
use crate::retriever::metadata_scorer::TrainableMetadataScorer;
use crate::retriever::query_adapter::TrainableQueryAdapter;
use crate::retriever::set_term::{SetScores, TrainableSetTerm};
use crate::{Error, Result};
use far_memory::{Retriever, RetrieverConfig, ScorerConfig};
use far_tensor::{ArenaBuilder, Error as TensorError, Parameters, Tape, Tensor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a vector counts as zero. Recall has no such bound; this one is below what can be seen.
const SHORTEST: f32 = 1e-12;

/// The set term's learning rate as a share of the gate's: it starts as a penalty that works, and few
/// candidates teach it.
const SET_SHARE: f32 = 0.2;

/// How the cue weights λ come about in training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CueWeighting {
    /// By the gate; credit flows through its statistics into the scores too. The default.
    #[default]
    Learned,
    /// By the gate; its statistics are taken as data, so that credit reaches the scores through
    /// fusion alone.
    Detached,
    /// All available cues count alike, and the gate stays as it is: the ablation "λ = 0.5".
    Equal,
}

/// Whether the query adapters learn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdapterLearning {
    /// They learn. The default.
    #[default]
    Learned,
    /// They stay as they are: with residual adapters, the pretrained encoder alone.
    Frozen,
}

far_memory::settings! {
    /// What of a retriever learns, and how.
    #[derive(Copy)]
    pub struct RetrieverTrainingConfig {
        /// How the cue weights come about. Default: learned.
        pub weighting: CueWeighting = CueWeighting::default(),
        /// Whether the query adapters learn. Default: learned.
        pub adapter: AdapterLearning = AdapterLearning::default(),
        /// The learning rate of the gate as a multiple of the retriever's; that of the set term is a fifth of
        /// it. Default: 20, because at the retriever's own rate they hardly move within a few hundred updates.
        pub gate_rate: f32 = 20.0,
    }
}

/// The scorer of one cue.
enum TrainableCue {
    Metadata(TrainableMetadataScorer),
    Key(TrainableQueryAdapter),
}

/// A retriever whose parameters live in an arena.
///
/// ```
/// use far_memory::{Cue, Memory, Observation, Pose, RecallQuery, RetrieverConfig, Schema};
/// use far_model::{Pass, RetrieverBatch, RetrieverTrainingConfig, TrainableRetriever};
/// use far_tensor::{ArenaBuilder, Device, Tape};
///
/// let mut memory = Memory::new(Schema::new(vec![Cue::metadata("meta"), Cue::key("vision", 2)])?);
/// for step in 0..20 {
///     let pose = Pose::from_yaw_pitch([step as f32, 0.0, 1.6], 0.0, 0.0);
///     let key = [1.0, step as f32];
///     memory.append(&Observation::new(step as f64, pose).with_key("vision", &key))?;
/// }
/// let goal = Pose::from_yaw_pitch([4.0, 0.0, 1.6], 0.0, 0.0);
/// let query = RecallQuery::new(20.0, goal, goal).with_key("vision", &[0.3, 0.9]);
///
/// let mut builder = ArenaBuilder::new("retriever");
/// let config = RetrieverConfig::meta_and_vision(2);
/// let training = RetrieverTrainingConfig::default();
/// let retriever = TrainableRetriever::new(&mut builder, config, training)?;
/// let parameters = builder.build(7);
/// let batch = RetrieverBatch::new(retriever.config(), &[(&query, &memory.snapshot())])?;
/// let mut tape = Tape::recording(&Device::cpu());
/// let scores = retriever.scores(&mut Pass::new(&mut tape, &parameters), &batch)?;
/// assert_eq!(scores.fused.shape().extents(), [1, 20]);
/// assert_eq!(scores.weights.values(), [0.5, 0.5]); // a fresh gate trusts both cues alike
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TrainableRetriever {
    config: RetrieverConfig,
    training: RetrieverTrainingConfig,
    cues: Vec<TrainableCue>,
    gate: Option<TrainableGate>,
    set: Option<TrainableSetTerm>,
}

/// The scores of a batch: B examples, N slots, M cues. Slots without a memory have score 0; see
/// [`RetrieverBatch::mask`].
pub struct RetrieverScores {
    /// s = Σ_m λ_m·s̃_m, [B, N].
    pub fused: Tensor,
    /// λ, [B, M]; 0 for cues that are not available.
    pub weights: Tensor,
    /// Raw scores of each cue, [B, N].
    pub raw: Vec<Tensor>,
    /// Standardized scores s̃ of each cue, [B, N].
    pub standardized: Vec<Tensor>,
    /// What makes them scores that know the set, where the retriever recalls sets.
    pub set: Option<SetScores>,
}

impl RetrieverScores {
    /// The same numbers without a way back to what they came from, for looking at them.
    pub(crate) fn detached(&self) -> Self {
        let all = |tensors: &[Tensor]| tensors.iter().map(Tensor::detach).collect();
        Self {
            fused: self.fused.detach(),
            weights: self.weights.detach(),
            raw: all(&self.raw),
            standardized: all(&self.standardized),
            set: self.set.as_ref().map(SetScores::detached),
        }
    }
}

impl TrainableRetriever {
    /// Adds a retriever to an arena.
    ///
    /// # Errors
    /// If the configuration is not one of a retriever, or the gate's rate is negative.
    pub fn new(
        builder: &mut ArenaBuilder,
        config: RetrieverConfig,
        training: RetrieverTrainingConfig,
    ) -> Result<Self> {
        config.check()?;
        let RetrieverTrainingConfig { weighting, adapter: adapters, gate_rate } = training;
        if !(gate_rate >= 0.0 && gate_rate.is_finite()) {
            let reason = format!("{gate_rate} is no multiple of a learning rate");
            return Err(Error::Setting { setting: "gate_rate", reason });
        }
        let cues = config.cues.iter().map(|cue| match cue.scorer {
            ScorerConfig::Metadata { layers, width, .. } => TrainableCue::Metadata(
                TrainableMetadataScorer::new(builder, &cue.name, layers, width),
            ),
            ScorerConfig::Cosine { dimension, adapter, adapter_width: width } => {
                let adapter =
                    TrainableQueryAdapter::new(builder, &cue.name, adapter, dimension, width);
                if adapters == AdapterLearning::Frozen {
                    // Without gradients, weight decay would still move it.
                    adapter.set_rate(builder, 0.0);
                }
                TrainableCue::Key(adapter)
            }
        });
        let cues = cues.collect();
        let gate_rate = if weighting == CueWeighting::Equal { 0.0 } else { gate_rate };
        let gate = (config.cues.len() > 1).then(|| TrainableGate::new(builder, &config, gate_rate));
        let set_rate = SET_SHARE * training.gate_rate;
        let set = config.set.is_some().then(|| TrainableSetTerm::new(builder, &config, set_rate));
        Ok(Self { config, training, cues, gate, set })
    }

    /// Cues, sizes and features.
    pub fn config(&self) -> &RetrieverConfig {
        &self.config
    }

    /// The scores of a batch that was made with this retriever's configuration.
    ///
    /// # Errors
    /// If the batch was made for other cues.
    pub fn scores(
        &self,
        pass: &mut Pass<'_>,
        batch: &RetrieverBatch,
    ) -> far_tensor::Result<RetrieverScores> {
        let misfit = || TensorError::Unsupported {
            operation: "retriever",
            shape: *batch.available().shape(),
            requirement: format!("the batch must have the cues of {:?}", self.config),
        };
        if batch.inputs().len() != self.cues.len() {
            return Err(misfit());
        }
        let (mut raw, mut standardized) = (Vec::new(), Vec::new());
        for (place, (cue, inputs)) in self.cues.iter().zip(batch.inputs()).enumerate() {
            let scores = match (cue, inputs) {
                (TrainableCue::Metadata(scorer), CueInputs::Metadata(features)) => {
                    scorer.scores(pass, features)?
                }
                (TrainableCue::Key(adapter), CueInputs::Key { keys, lengths, queries }) => {
                    let mut adapted = adapter.adapt(pass, queries)?;
                    if self.training.adapter == AdapterLearning::Frozen {
                        adapted = adapted.detach();
                    }
                    let cosine = pass.cosine(&adapted, keys, SHORTEST)?;
                    pass.multiply(&cosine, lengths)?
                }
                _ => return Err(misfit()),
            };
            standardized.push(pass.standardize(&scores, Some(batch.present(place)), 1)?);
            raw.push(scores);
        }
        let weights = self.weights(pass, &raw, batch)?;
        let fused = fuse(pass, &weights, &standardized)?;
        let set = self.set.as_ref().map(|set| set.scores(pass));
        Ok(RetrieverScores { fused, weights, set: set.transpose()?, raw, standardized })
    }

    /// λ of each cue.
    fn weights(
        &self,
        pass: &mut Pass<'_>,
        raw: &[Tensor],
        batch: &RetrieverBatch,
    ) -> far_tensor::Result<Tensor> {
        match (&self.gate, self.training.weighting) {
            (None, _) => Ok(batch.available().clone()),
            (Some(_), CueWeighting::Equal) => {
                let available = batch.available();
                pass.softmax(&Tensor::zeros(*available.shape()), Some(available))
            }
            (Some(gate), weighting) => {
                let detached = weighting == CueWeighting::Detached;
                gate.weights(pass, raw, batch, detached)
            }
        }
    }

    /// The retriever as a policy that recalls without the tensor engine.
    ///
    /// # Errors
    /// If a parameter is not finite, or the arena holds anything else.
    pub fn export(&self, parameters: &Parameters) -> Result<Retriever> {
        let tensors: BTreeMap<_, _> = parameters
            .stored()
            .map(|(name, shape, values)| (name.to_owned(), (shape.extents().to_vec(), values)))
            .collect();
        Ok(Retriever::from_tensors(self.config.clone(), tensors)?)
    }
}

/// s = Σ_m λ_m·s̃_m: λ [B, M] and M times s̃ [B, N] → [B, N].
fn fuse(tape: &mut Tape, weights: &Tensor, standardized: &[Tensor]) -> far_tensor::Result<Tensor> {
    if let [only] = standardized {
        // λ is 1, or the scores of an unavailable cue are 0 as they stand.
        return Ok(only.clone());
    }
    let &[examples, slots] = standardized[0].shape().extents() else {
        unreachable!("scores are examples by slots")
    };
    let mut fused: Option<Tensor> = None;
    for (cue, scores) in standardized.iter().enumerate() {
        let weight = tape.slice(weights, 1, cue..cue + 1)?.reshape([examples])?;
        let weight = tape.repeat(&weight, 1, slots)?;
        let term = tape.multiply(&weight, scores)?;
        fused = Some(match fused {
            None => term,
            Some(sum) => tape.add(&sum, &term)?,
        });
    }
    Ok(fused.expect("a retriever has a cue"))
}

//! The configuration of a retriever, stored in the metadata of its file.

use crate::feature::{FEATURES, FeatureScale};
use crate::gate::Gate;
use crate::overlap::OVERLAP_FEATURES;
use crate::worth::{WORTH_WIDTH, worth_inputs};
use crate::{CueKind, Error, Schema};
use serde::{Deserialize, Serialize};

/// Limits that keep a damaged or hostile file from asking for absurd amounts of memory.
const MOST_CUES: usize = 16;
const WIDEST: usize = 1 << 16;

/// The feature set of a metadata scorer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FeatureSet {
    /// Pose of the memory relative to now and to the goal, distances, time gaps, action and stride; see
    /// [`features`](crate::features).
    #[serde(rename = "relative-pose-time-1")]
    RelativePoseTime1,
}

/// The activation of hidden layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Activation {
    /// GELU in its tanh form.
    #[serde(rename = "gelu-tanh")]
    GeluTanh,
}

/// What is applied to the query embedding of a key cue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdapterKind {
    /// Nothing.
    Identity,
    /// A network with one hidden layer.
    Network,
    /// The embedding plus the output of such a network.
    Residual,
}

/// How one cue is scored.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ScorerConfig {
    /// `tanh(MLP(features))` over time and pose.
    Metadata {
        /// Input of the network.
        features: FeatureSet,
        /// Activation of its hidden layers.
        activation: Activation,
        /// 2 or 3: one or two hidden layers and the output.
        layers: usize,
        /// Units in each hidden layer; the method's default is 128.
        width: usize,
        /// Meters that count as 1.
        length_scale: f32,
        /// Seconds that count as 1.
        time_scale: f32,
    },
    /// Cosine of the stored key and the adapted query embedding.
    Cosine {
        /// Numbers per key.
        dimension: usize,
        /// What is applied to the query embedding.
        adapter: AdapterKind,
        /// Hidden units of the adapter; 0 for the identity.
        adapter_width: usize,
    },
}

/// One cue of a retriever.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CueConfig {
    /// Name of the cue in the memory.
    pub name: String,
    /// How it is scored.
    pub scorer: ScorerConfig,
}

/// How the cues are weighed if there are several.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateConfig {
    /// Whether the products of stride and cue are among the features.
    pub stride_products: bool,
    /// Seconds of stride that count as 1.
    pub stride_scale: f32,
}

/// How memories are recalled slot by slot, each given those before it: see `overlap.rs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetConfig {
    /// Meters that count as 1.
    pub length_scale: f32,
    /// Seconds that count as 1.
    pub time_scale: f32,
    /// The cue of the retriever whose keys are compared with those of recalled memories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whether slots stay empty where no memory is worth recalling.
    pub abstains: bool,
}

/// A retriever's cues, sizes and features.
///
/// ```
/// use far_memory::RetrieverConfig;
/// let config = RetrieverConfig::meta_and_vision(256);
/// let parameters: usize =
///     config.tensors().iter().map(|(_, shape)| shape.iter().product::<usize>()).sum();
/// assert_eq!(parameters, 26 * 128 + 128 + 128 + 1 + 8);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetrieverConfig {
    /// The cues in the order of their weights.
    pub cues: Vec<CueConfig>,
    /// Consecutive records of which at most one is recalled (n_c). Recall by sets has no such rule.
    pub chunk_size: usize,
    /// The gate; without parameters and unused if there is one cue.
    pub gate: GateConfig,
    /// Recall slot by slot, each memory given those before it; `None` for chunked Top-K.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<SetConfig>,
}

impl RetrieverConfig {
    /// The method's default metadata scorer: two layers of width 128, lengths in units of 4 m and
    /// times in units of 1 s.
    pub fn metadata_scorer() -> ScorerConfig {
        ScorerConfig::Metadata {
            features: FeatureSet::RelativePoseTime1,
            activation: Activation::GeluTanh,
            layers: 2,
            width: 128,
            length_scale: 4.0,
            time_scale: 1.0,
        }
    }

    /// The cues `meta` and `vision` with identity adapter, chunks of 10, and a gate with strides in
    /// units of 6.4 s (128 frames at 20 per second).
    pub fn meta_and_vision(dimension: usize) -> Self {
        let vision =
            ScorerConfig::Cosine { dimension, adapter: AdapterKind::Identity, adapter_width: 0 };
        Self {
            cues: vec![
                CueConfig { name: "meta".to_owned(), scorer: Self::metadata_scorer() },
                CueConfig { name: "vision".to_owned(), scorer: vision },
            ],
            chunk_size: 10,
            gate: GateConfig { stride_products: true, stride_scale: 6.4 },
            set: None,
        }
    }

    /// Names and shapes of the parameters, all f32 and row-major: `cue.NAME.layer.I.weight|bias`,
    /// `cue.NAME.adapter.I.weight|bias`, `gate.weight`, `set.overlap|strength`, and
    /// `set.worth.I.weight|bias`.
    pub fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let mut tensors = Vec::new();
        let layer = |tensors: &mut Vec<_>, prefix: String, outputs: usize, inputs: usize| {
            tensors.push((format!("{prefix}.weight"), vec![outputs, inputs]));
            tensors.push((format!("{prefix}.bias"), vec![outputs]));
        };
        for CueConfig { name, scorer } in &self.cues {
            match *scorer {
                ScorerConfig::Metadata { layers, width, .. } => {
                    for place in 0..layers {
                        let inputs = if place == 0 { FEATURES } else { width };
                        let outputs = if place + 1 == layers { 1 } else { width };
                        layer(&mut tensors, format!("cue.{name}.layer.{place}"), outputs, inputs);
                    }
                }
                ScorerConfig::Cosine { adapter: AdapterKind::Identity, .. } => {}
                ScorerConfig::Cosine { dimension, adapter_width, .. } => {
                    let prefix = |place: usize| format!("cue.{name}.adapter.{place}");
                    layer(&mut tensors, prefix(0), adapter_width, dimension);
                    layer(&mut tensors, prefix(1), dimension, adapter_width);
                }
            }
        }
        if self.cues.len() > 1 {
            let count = Gate::weight_count(self.cues.len(), self.gate.stride_products);
            tensors.push(("gate.weight".to_owned(), vec![count]));
        }
        if let Some(set) = &self.set {
            tensors.push(("set.overlap".to_owned(), vec![OVERLAP_FEATURES]));
            tensors.push(("set.strength".to_owned(), vec![1]));
            if set.abstains {
                let inputs = worth_inputs(self.key_cues().count());
                layer(&mut tensors, "set.worth.0".to_owned(), WORTH_WIDTH, inputs);
                layer(&mut tensors, "set.worth.1".to_owned(), 1, WORTH_WIDTH);
            }
        }
        tensors
    }

    /// The places of the cues that compare keys.
    pub fn key_cues(&self) -> impl Iterator<Item = usize> {
        let keyed = |cue: &CueConfig| matches!(cue.scorer, ScorerConfig::Cosine { .. });
        self.cues.iter().enumerate().filter(move |(_, cue)| keyed(cue)).map(|(place, _)| place)
    }

    /// Checks that every number is usable.
    ///
    /// # Errors
    /// [`Error::Retriever`] naming what is not.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |reason: String| Err(Error::Retriever { reason });
        if self.cues.is_empty() || self.cues.len() > MOST_CUES {
            return refuse(format!(
                "it has {} cues; 1 to {MOST_CUES} are allowed",
                self.cues.len()
            ));
        }
        if self.chunk_size == 0 {
            return refuse("its chunk size is 0".to_owned());
        }
        if !(self.gate.stride_scale > 0.0 && self.gate.stride_scale.is_finite()) {
            return refuse(format!("its stride scale is {}", self.gate.stride_scale));
        }
        if let Some(SetConfig { length_scale, time_scale, key, .. }) = &self.set {
            let scales = [length_scale, time_scale];
            if !scales.iter().all(|scale| **scale > 0.0 && scale.is_finite()) {
                return refuse(format!("its sets have scales {scales:?}; they must be positive"));
            }
            let compares =
                |name: &String| self.key_cues().any(|place| self.cues[place].name == *name);
            if let Some(name) = key.as_ref().filter(|name| !compares(name)) {
                return refuse(format!("its sets compare keys of {name:?}, which is no key cue"));
            }
        }
        for (place, CueConfig { name, scorer }) in self.cues.iter().enumerate() {
            if name.is_empty() || self.cues[..place].iter().any(|cue| cue.name == *name) {
                return refuse(format!("cue {place} has an empty or repeated name {name:?}"));
            }
            let fault = match *scorer {
                ScorerConfig::Metadata { layers, width, length_scale, time_scale, .. } => {
                    let scales = [length_scale, time_scale];
                    if !matches!(layers, 2 | 3) {
                        Some(format!("{layers} layers; 2 or 3 are allowed"))
                    } else if !(1..=WIDEST).contains(&width) {
                        Some(format!("width {width}; 1 to {WIDEST} are allowed"))
                    } else if !scales.iter().all(|scale| *scale > 0.0 && scale.is_finite()) {
                        Some(format!("scales {scales:?}; they must be positive"))
                    } else {
                        None
                    }
                }
                ScorerConfig::Cosine { dimension, adapter, adapter_width } => {
                    let identity = adapter == AdapterKind::Identity;
                    if !(1..=WIDEST).contains(&dimension) {
                        Some(format!("dimension {dimension}; 1 to {WIDEST} are allowed"))
                    } else if identity != (adapter_width == 0) || adapter_width > WIDEST {
                        Some(format!("adapter width {adapter_width} for {adapter:?}"))
                    } else {
                        None
                    }
                }
            };
            if let Some(fault) = fault {
                return refuse(format!("cue {name:?} has {fault}"));
            }
        }
        Ok(())
    }

    /// The index of the retriever's cue number `cue` in the schema of a memory; `None` for a metadata
    /// scorer, which needs none.
    ///
    /// # Errors
    /// [`Error::UnknownCue`] or [`Error::Dimension`] if the memory has no such cue.
    ///
    /// # Panics
    /// If the retriever has no such cue.
    pub fn cue_index(&self, cue: usize, schema: &Schema) -> Result<Option<usize>, Error> {
        let CueConfig { name, scorer } = &self.cues[cue];
        let ScorerConfig::Cosine { dimension: expected, .. } = *scorer else { return Ok(None) };
        let index = schema.index(name)?;
        let found = match schema.cues()[index].kind {
            CueKind::Metadata => 0,
            CueKind::Key { dimension, .. } => dimension,
        };
        if found == expected {
            Ok(Some(index))
        } else {
            Err(Error::Dimension { cue: name.clone(), expected, found })
        }
    }
}

impl ScorerConfig {
    /// The feature units of a metadata scorer.
    pub fn feature_scale(&self) -> Option<FeatureScale> {
        match *self {
            Self::Metadata { length_scale, time_scale, .. } => {
                Some(FeatureScale { length: length_scale, time: time_scale })
            }
            Self::Cosine { .. } => None,
        }
    }
}

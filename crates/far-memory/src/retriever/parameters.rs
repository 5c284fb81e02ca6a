//! The parameters of a retriever: it is built from them by their names, and lists them.

use super::config::{AdapterKind, RetrieverConfig, ScorerConfig};
use super::{CueScorer, Retriever};
use crate::FeatureScale;
use crate::cosine::QueryAdapter;
use crate::gate::Gate;
use crate::layer::Layer;
use crate::metadata_scorer::MetadataScorer;
use crate::set_term::SetTerm;
use crate::worth::Worth;
use std::collections::BTreeMap;

impl Retriever {
    /// Builds a retriever from parameters whose names and shapes were checked.
    pub(crate) fn assemble(
        config: RetrieverConfig,
        mut parameters: BTreeMap<String, Vec<f32>>,
    ) -> Self {
        let mut take = |name: String| parameters.remove(&name).expect("parameters were checked");
        let mut layer = |prefix: String| Layer {
            weight: take(format!("{prefix}.weight")),
            bias: take(format!("{prefix}.bias")),
        };
        let mut scorers = Vec::new();
        for cue in &config.cues {
            let name = &cue.name;
            scorers.push(match cue.scorer {
                ScorerConfig::Metadata { layers, .. } => {
                    let scale = cue.scorer.feature_scale().expect("a metadata scorer has units");
                    let layers =
                        (0..layers).map(|place| layer(format!("cue.{name}.layer.{place}")));
                    CueScorer::Metadata(MetadataScorer::new(scale, layers.collect()))
                }
                ScorerConfig::Cosine { adapter, .. } => {
                    let mut layers = || [0, 1].map(|i| layer(format!("cue.{name}.adapter.{i}")));
                    CueScorer::Cosine(match adapter {
                        AdapterKind::Identity => QueryAdapter::Identity,
                        AdapterKind::Network => QueryAdapter::Network(layers()),
                        AdapterKind::Residual => QueryAdapter::Residual(layers()),
                    })
                }
            });
        }
        let abstains = config.set.as_ref().is_some_and(|set| set.abstains);
        let worth = abstains.then(|| {
            let layers = [0, 1].map(|place| layer(format!("set.worth.{place}")));
            Box::new(Worth::new(layers, config.key_cues().collect()))
        });
        let cues = config.cues.len();
        let gate = (cues > 1)
            .then(|| Gate::new(take("gate.weight".to_owned()), cues, config.gate.stride_scale));
        let set = config.set.as_ref().map(|set| {
            let scale = FeatureScale { length: set.length_scale, time: set.time_scale };
            let [overlap, strength] =
                ["overlap", "strength"].map(|part| take(format!("set.{part}")));
            SetTerm::new(scale, overlap, strength, worth)
        });
        let names = config.cues.iter().map(|cue| cue.name.clone()).collect();
        Self { config, names, scorers, gate, set, threads: 1, pool_cap: None }
    }

    /// The parameters as [`RetrieverConfig::tensors`] lists them: name, shape and row-major numbers.
    pub fn tensors(&self) -> Vec<(String, Vec<usize>, &[f32])> {
        let parameters = self.parameters();
        let tensors = self.config.tensors().into_iter();
        tensors
            .map(|(name, shape)| {
                let values = parameters[&name];
                (name, shape, values)
            })
            .collect()
    }

    /// The parameters by name.
    pub(crate) fn parameters(&self) -> BTreeMap<String, &[f32]> {
        let mut parameters = BTreeMap::new();
        for (cue, scorer) in self.config.cues.iter().zip(&self.scorers) {
            let (kind, layers) = match scorer {
                CueScorer::Metadata(scorer) => ("layer", scorer.layers()),
                CueScorer::Cosine(QueryAdapter::Identity) => ("adapter", &[][..]),
                CueScorer::Cosine(
                    QueryAdapter::Network(layers) | QueryAdapter::Residual(layers),
                ) => ("adapter", &layers[..]),
            };
            for (place, layer) in layers.iter().enumerate() {
                let prefix = format!("cue.{}.{kind}.{place}", cue.name);
                parameters.insert(format!("{prefix}.weight"), layer.weight.as_slice());
                parameters.insert(format!("{prefix}.bias"), layer.bias.as_slice());
            }
        }
        if let Some(gate) = &self.gate {
            parameters.insert("gate.weight".to_owned(), gate.weight());
        }
        let set = self.set.iter().flat_map(SetTerm::parameters);
        parameters.extend(set.map(|(name, values)| (format!("set.{name}"), values)));
        parameters
    }
}

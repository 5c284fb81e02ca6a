//! The metadata cue while it learns: s = tanh(MLP(features of a memory and a query)).
//!
//! It has the same parameters under the same names as `far-memory`'s retriever file, and computes
//! the features plainly instead of folding the query into the first layer; a test holds both to
//! the same scores.

use crate::dit::Linear;
use far_memory::{
    CueConfig, FEATURES, FeatureScale, GateConfig, Pose, RecallQuery, Retriever, RetrieverConfig,
    ScorerConfig, features,
};
use far_tensor::{Activation, ArenaBuilder, Initialization, Parameters, Result, Tape, Tensor};
use std::collections::BTreeMap;

/// The name of the cue in retriever files.
const CUE: &str = "meta";

/// A metadata scorer whose parameters live in an arena.
pub struct TrainableMetadataScorer {
    config: RetrieverConfig,
    scale: FeatureScale,
    layers: Vec<Linear>,
}

impl TrainableMetadataScorer {
    /// Adds a scorer of two layers to an arena, for chunks of `chunk_size` memories.
    ///
    /// Layers begin as PyTorch's do; the last one is not zero, because standardization would
    /// divide by the deviation of equal scores.
    pub fn new(builder: &mut ArenaBuilder, chunk_size: usize) -> Self {
        let scorer = RetrieverConfig::metadata_scorer();
        let ScorerConfig::Metadata { width, length_scale, time_scale, .. } = scorer else {
            unreachable!("a metadata scorer is one")
        };
        let scale = FeatureScale { length: length_scale, time: time_scale };
        let layers =
            [[FEATURES, width], [width, 1]].into_iter().enumerate().map(|(place, sizes)| {
                let name = format!("cue.{CUE}.layer.{place}");
                let bias = Initialization::Uniform(1.0 / (sizes[0] as f32).sqrt());
                Linear::new(builder, &name, sizes, Initialization::FanIn, bias)
            });
        let layers = layers.collect();
        let cues = vec![CueConfig { name: CUE.to_owned(), scorer }];
        // One cue needs no gate; its settings stand in the file all the same.
        let gate = GateConfig { stride_products: false, stride_scale: 6.4 };
        Self { config: RetrieverConfig { cues, chunk_size, gate }, scale, layers }
    }

    /// The features of one memory for one query.
    pub fn features(&self, query: &RecallQuery, time: f64, pose: &Pose) -> [f32; FEATURES] {
        features(query, time, pose, self.scale)
    }

    /// Features [B, N, F] to raw scores [B, N] in (−1, 1).
    ///
    /// # Errors
    /// If the last axis is not [`FEATURES`] long.
    pub fn scores(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        features: &Tensor,
    ) -> Result<Tensor> {
        let shape = *features.shape();
        let [first, last] = &self.layers[..] else { unreachable!("it has two layers") };
        let hidden = first.forward_gelu(tape, parameters, features)?;
        let scores = last.forward(tape, parameters, &hidden)?;
        let scores = tape.activate(&scores, Activation::Tanh)?;
        scores.reshape(&shape.extents()[..shape.rank() - 1])
    }

    /// The scorer as a policy that recalls without the tensor engine.
    ///
    /// # Errors
    /// If a parameter is not finite.
    pub fn export(
        &self,
        parameters: &Parameters,
    ) -> std::result::Result<Retriever, far_memory::Error> {
        let tensors: BTreeMap<_, _> = parameters
            .stored()
            .map(|(name, shape, values)| (name.to_owned(), (shape.extents().to_vec(), values)))
            .collect();
        Retriever::from_tensors(self.config.clone(), tensors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_memory::{Cue, Memory, Observation, Recall, RecallPolicy, Schema, Scratch};
    use far_tensor::{Device, Random};

    /// Training and inference compute the same raw scores and recall the same memories.
    #[test]
    fn the_exported_retriever_agrees() {
        let mut builder = ArenaBuilder::new("retriever");
        let scorer = TrainableMetadataScorer::new(&mut builder, 1);
        let parameters = builder.build(3);
        let retriever = scorer.export(&parameters).unwrap();

        let mut random = Random::stream(1, "poses", 0);
        let mut pose = || {
            let mut number = |span: f32| span * (2.0 * random.uniform() - 1.0);
            Pose::from_yaw_pitch(
                [number(20.0), number(20.0), number(2.0)],
                number(3.1),
                number(0.6),
            )
        };
        let mut memory = Memory::new(Schema::new(vec![Cue::metadata(CUE)]).unwrap());
        let poses: Vec<Pose> = (0..300).map(|_| pose()).collect();
        for (index, pose) in poses.iter().enumerate() {
            memory.append(&Observation::new(index as f64 * 0.05, *pose)).unwrap();
        }
        let query = RecallQuery::new(16.0, pose(), pose()).with_stride(0.8);

        let rows: Vec<f32> = poses
            .iter()
            .enumerate()
            .flat_map(|(index, pose)| scorer.features(&query, index as f64 * 0.05, pose))
            .collect();
        let inputs = Tensor::from_slice(&rows, [1, poses.len(), FEATURES]).unwrap();
        let mut tape = Tape::inference(&Device::cpu());
        let scores = scorer.scores(&mut tape, &parameters, &inputs).unwrap();
        let standardized = tape.standardize(&scores, None, 1).unwrap();

        let mut recall = Recall::new();
        let snapshot = memory.snapshot();
        retriever.recall(&snapshot, &query, 8, &mut Scratch::new(), &mut recall).unwrap();
        let mut order: Vec<usize> = (0..poses.len()).collect();
        order.sort_by(|a, b| standardized.values()[*b].total_cmp(&standardized.values()[*a]));
        for (found, expected) in recall.iter().zip(&order) {
            assert_eq!(found.id.index(), *expected);
            assert!((found.raw[0] - scores.values()[*expected]).abs() < 1e-5);
            assert!((found.score - standardized.values()[*expected]).abs() < 1e-3);
        }
        assert_eq!(recall.len(), 8);
    }
}

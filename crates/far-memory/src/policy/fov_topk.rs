//! Field-of-view overlap without the greedy step: an ablation of WorldMem's residual.

use serde::{Deserialize, Serialize};

use super::rule::{Rule, Scene, Work};
use super::view::ViewConfig;
use crate::Error;

/// Score = |U ∩ V| / |U| over the sample points U that any target pose sees; the best K, at most
/// one of each chunk if a chunk size is set. A control for `worldmem`, which takes the same points
/// but removes what is already covered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FovTopKConfig {
    /// Field of view and sample points; set them for the dataset.
    pub view: ViewConfig,
    /// Take at most one memory of each run of this many; plain Top-K if absent.
    pub chunk_size: Option<usize>,
}

impl Rule for FovTopKConfig {
    fn view(&self) -> Option<&ViewConfig> {
        Some(&self.view)
    }

    fn select(&self, scene: &Scene, work: &mut Work) -> Result<(), Error> {
        work.coverage.survey(scene.ball, &self.view, scene.targets(), scene.candidates);
        let total = work.coverage.total().max(1) as f32;
        work.scores.clear();
        work.scores.extend(work.coverage.counts().iter().map(|&count| count as f32 / total));
        work.chunk_top(scene.slots, self.chunk_size.unwrap_or(1));
        Ok(())
    }

    fn chunk_size(&self) -> Option<usize> {
        self.chunk_size
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::episodes;
    use super::super::view::sees_reference;
    use super::*;
    use crate::selection::chunk_top_k_reference;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn agrees_with_plain_loops(
            episode in episodes(),
            slots in 1usize..10,
            chunk_size in prop::option::of(1usize..5),
        ) {
            let view = ViewConfig { points: 600, radius: 9.0, ..Default::default() };
            let ball = view.ball().expect("valid");
            let rule = FovTopKConfig { view, chunk_size };
            let origin = episode.horizon()[0].position;
            let sees = |pose, point| sees_reference(&rule.view, pose, origin, point);
            let union: Vec<[f32; 3]> = (0..ball.len())
                .map(|index| ball.point(index))
                .filter(|&point| episode.horizon().iter().any(|pose| sees(pose, point)))
                .collect();
            let scores: Vec<f32> = episode
                .candidates()
                .iter()
                .map(|candidate| {
                    let shared = union.iter().filter(|&&point| sees(&candidate.pose, point)).count();
                    shared as f32 / union.len().max(1) as f32
                })
                .collect();
            let expected = chunk_top_k_reference(&scores, chunk_size.unwrap_or(1), slots);
            prop_assert_eq!(episode.picks(&rule, slots), expected);
        }
    }
}

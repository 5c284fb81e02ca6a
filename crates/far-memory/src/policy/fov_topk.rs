//! Field-of-view overlap without the greedy step: an ablation of WorldMem's residual.

use serde::{Deserialize, Serialize};

use super::point_set::PointSet;
use super::requirement::Requirements;
use super::rule::{Rule, Scene, Work};
use super::view::ViewConfig;
use crate::Error;
use crate::selection::Ranked;

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

#[derive(Clone)]
pub(crate) struct FovTopK {
    config: FovTopKConfig,
    ball: PointSet,
}

impl FovTopK {
    pub(crate) fn new(config: FovTopKConfig) -> Result<Self, Error> {
        if let Some(size) = config.chunk_size {
            super::view::check_count("chunk_size", size)?;
        }
        Ok(Self { ball: config.view.ball()?, config })
    }
}

impl Rule for FovTopK {
    fn requirements(&self) -> Requirements {
        Requirements::views()
    }

    fn select(
        &self,
        scene: &Scene,
        slots: usize,
        work: &mut Work,
        picks: &mut Vec<Ranked>,
    ) -> Result<(), Error> {
        work.coverage.survey(&self.ball, &self.config.view, scene.targets(), scene.candidates);
        let total = work.coverage.total().max(1) as f32;
        work.scores.clear();
        work.scores.extend(work.coverage.counts().iter().map(|&count| count as f32 / total));
        work.chunk_top(slots, self.config.chunk_size.unwrap_or(1), picks);
        Ok(())
    }

    fn chunk_size(&self) -> Option<usize> {
        self.config.chunk_size
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
            let rule = FovTopK::new(FovTopKConfig { view, chunk_size }).expect("valid");
            let origin = episode.horizon()[0].position;
            let sees = |pose, point| sees_reference(&rule.config.view, pose, origin, point);
            let union: Vec<[f32; 3]> = (0..rule.ball.len())
                .map(|index| rule.ball.point(index))
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

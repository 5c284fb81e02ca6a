//! The most recent memories: the sliding window of Navigation World Models.

use serde::{Deserialize, Serialize};

use super::rule::{Rule, Scene, Work};
use crate::Error;

/// Scores a memory by its time and takes the latest. Source: Navigation World Models (Bar et al.,
/// 2025), whose context is the last 4 frames. It has no settings.
///
/// The score is minus the age in seconds. Memories of equal time rank by order of appending.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TemporalConfig {}

impl Rule for TemporalConfig {
    fn select(&self, scene: &Scene, work: &mut Work) -> Result<(), Error> {
        let times = scene.candidates.iter().map(|candidate| candidate.time);
        work.rank(times.map(|time| (time - scene.query.time) as f32), scene.slots);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::episodes;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn takes_the_tail_of_the_pool(episode in episodes(), slots in 0usize..8) {
            let expected: Vec<usize> = (0..episode.len()).rev().take(slots).collect();
            prop_assert_eq!(episode.chosen(&TemporalConfig {}, slots), expected);
        }
    }
}

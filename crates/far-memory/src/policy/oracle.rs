//! The oracle: recalls by utilities that the caller measured. The upper control.

use super::rule::{Rule, Scene, Work};
use crate::Error;

crate::settings! {
    /// Score = the given utility of the memory, for example minus the world model's loss with that
    /// memory as context; chunked Top-K over it. A memory without a utility, or with a NaN, is never
    /// recalled.
    ///
    /// Utilities need the future, which a query cannot hold. They are therefore part of the policy, and
    /// an evaluation makes a new one for every query.
    ///
    /// ```
    /// use far_memory::policy::{OracleConfig, PolicyConfig, RuleConfig};
    /// let rule = OracleConfig { utilities: vec![0.1, 0.9, 0.3], chunk_size: Some(1) };
    /// let policy = PolicyConfig::from(RuleConfig::Oracle(rule)).build()?;
    /// assert_eq!(policy.id(), "oracle");
    /// # Ok::<(), far_memory::Error>(())
    /// ```
    pub struct OracleConfig {
        /// Utility of each memory, by id.
        pub utilities: Vec<f32> = Vec::new(),
        /// Take at most one memory of each run of this many; plain Top-K if absent.
        pub chunk_size: Option<usize> = Some(10),
    }
}

impl Rule for OracleConfig {
    fn select(&self, scene: &Scene, work: &mut Work) -> Result<(), Error> {
        work.scores.clear();
        work.scores.extend(scene.candidates.iter().map(|candidate| {
            let utility = self.utilities.get(candidate.id.index());
            utility.copied().unwrap_or(f32::NEG_INFINITY)
        }));
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
    use super::*;
    use crate::selection::chunk_top_k_reference;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn agrees_with_sorting_utilities(
            episode in episodes(),
            levels in prop::collection::vec(-3i32..3, 40),
            slots in 0usize..8,
            chunk_size in 1usize..6,
        ) {
            let utilities: Vec<f32> =
                levels[..episode.len()].iter().map(|&level| 0.5 * level as f32).collect();
            let config = OracleConfig { utilities: utilities.clone(), chunk_size: Some(chunk_size) };
            let expected = chunk_top_k_reference(&utilities, chunk_size, slots);
            prop_assert_eq!(episode.picks(&config, slots), expected);
        }
    }
}

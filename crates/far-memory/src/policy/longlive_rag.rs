//! LongLive-RAG: the most similar keys, the latest frames left out.

use super::requirement::{KeyCues, Requirements};
use super::rule::{Rule, Scene, Work};
use crate::Error;

crate::settings! {
    /// Score = cosine of the query's key with the memory's; the last few memories are not searched,
    /// because the generator's window still holds them. Source: LongLive-RAG (Hu et al., 2026),
    /// 6 slots.
    ///
    /// In the source the query is the key of the last finished frame, not of the goal; here the caller
    /// chooses by the query embedding. A memory without a key is never recalled.
    pub struct LongLiveRagConfig {
        /// How many of the most recent memories are not searched (LongLive-RAG: 5).
        pub recency_guard: usize = 5,
        /// The cue whose keys are compared; the memory's first key cue if absent.
        pub cue: Option<String> = None,
    }
}

impl Rule for LongLiveRagConfig {
    fn requirements(&self) -> Requirements {
        Requirements::keys(KeyCues::setting(self.cue.as_ref()))
    }

    fn select(&self, scene: &Scene, work: &mut Work) -> Result<(), Error> {
        let cue = scene.key_cue(self.cue.as_deref())?;
        work.compare_keys(scene, cue)?;
        let searched = scene.candidates.len().saturating_sub(self.recency_guard);
        work.cosines[..searched].clone_into(&mut work.scores);
        work.top(scene.slots);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_ranked, episodes};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn agrees_with_plain_cosines(
            episode in episodes(),
            slots in 1usize..8,
            recency_guard in 0usize..8,
        ) {
            let rule = LongLiveRagConfig { recency_guard, cue: None };
            let scores: Vec<f32> = (0..episode.len().saturating_sub(recency_guard))
                .map(|index| {
                    episode.cosine(index, episode.query_key()).unwrap_or(f32::NEG_INFINITY)
                })
                .collect();
            assert_ranked(&scores, &episode.picks(&rule, slots), slots, 1e-5)?;
        }
    }
}

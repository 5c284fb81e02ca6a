//! FramePack: an order of importance, which decides how strongly each frame is compressed.

use serde::{Deserialize, Serialize};

use super::requirement::{KeyCues, Requirements};
use super::rule::{Rule, Scene, Work};
use super::view::check_weight;
use crate::Error;
use crate::selection::Ranked;

/// How FramePack orders the past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FramePackOrder {
    /// The most recent first (as released).
    Time,
    /// By the cosine of keys.
    Similarity,
    /// Cosine + λ · exp(−Δt²).
    #[default]
    Hybrid,
}

crate::settings! {
    /// Score = cosine + λ·exp(−(t − tᵢ)²), time in seconds; or either part alone. Source: FramePack
    /// (Zhang et al., 2025); its code orders by time only, its paper advises similarity for worlds that
    /// are revisited.
    ///
    /// In the paper the cosine is summed over the pixels of an estimate of the next section; here it is
    /// the cosine of the query embedding and the key, 0 for a memory without a key.
    /// [`FramePackConfig::kernel`] gives the compression at each rank.
    pub struct FramePackConfig {
        /// The ordering.
        pub order: FramePackOrder = FramePackOrder::Hybrid,
        /// λ of the hybrid ordering (not published).
        pub time_weight: f32 = 1.0,
        /// Whether the last slot holds the oldest memory (FramePack's code: yes, beside the others).
        pub start: bool = false,
        /// The cue whose keys are compared; the memory's first key cue if absent.
        pub cue: Option<String> = None,
    }
}

impl FramePackConfig {
    /// The released tiers as (ranks, patch of frames × height × width): one frame almost whole, two
    /// halved, sixteen quartered.
    pub const TIERS: [(usize, [usize; 3]); 3] = [(1, [1, 2, 2]), (2, [2, 4, 4]), (16, [4, 8, 8])];

    /// The patch that the frame at a rank is compressed with; `None` beyond the last tier.
    ///
    /// ```
    /// use far_memory::policy::FramePackConfig;
    /// assert_eq!(FramePackConfig::kernel(0), Some([1, 2, 2]));
    /// assert_eq!(FramePackConfig::kernel(18), Some([4, 8, 8]));
    /// assert_eq!(FramePackConfig::kernel(19), None);
    /// ```
    pub fn kernel(rank: usize) -> Option<[usize; 3]> {
        let mut end = 0;
        Self::TIERS.iter().find_map(|&(ranks, kernel)| {
            end += ranks;
            (rank < end).then_some(kernel)
        })
    }

    /// λ; 0 if recency does not count.
    fn time_weight(&self) -> f32 {
        match self.order {
            FramePackOrder::Hybrid => self.time_weight,
            FramePackOrder::Time | FramePackOrder::Similarity => 0.0,
        }
    }
}

impl Rule for FramePackConfig {
    fn check(&self) -> Result<(), Error> {
        check_weight("time_weight", self.time_weight)
    }

    fn requirements(&self) -> Requirements {
        match self.order {
            FramePackOrder::Time => Requirements::default(),
            _ => Requirements::keys(KeyCues::setting(self.cue.as_ref())),
        }
    }

    fn select(&self, scene: &Scene, work: &mut Work) -> Result<(), Error> {
        let age = |position: usize| scene.query.time - scene.candidates[position].time;
        let positions = 0..scene.candidates.len();
        work.scores.clear();
        if self.order == FramePackOrder::Time {
            // The order of exp(−Δt²), which itself underflows to equal scores after ten seconds.
            work.scores.extend(positions.map(|position| -age(position).abs() as f32));
        } else {
            let cue = scene.key_cue(self.cue.as_deref())?;
            work.compare_keys(scene, cue)?;
            for cosine in work.cosines.iter_mut().filter(|cosine| **cosine == f32::NEG_INFINITY) {
                *cosine = 0.0;
            }
            let weight = self.time_weight();
            let cosines = &work.cosines;
            work.scores
                .extend(positions.map(|place| cosines[place] + weight * recency(age(place))));
        }
        let start = self.start && scene.slots > 1 && scene.candidates.len() > 1;
        let start_score = work.scores[0];
        if start {
            work.scores[0] = f32::NEG_INFINITY;
        }
        work.top(scene.slots - usize::from(start));
        if start {
            work.picks.push(Ranked { score: start_score, position: 0 });
        }
        if self.order != FramePackOrder::Time {
            for pick in &work.picks {
                work.terms.extend([work.cosines[pick.position], recency(age(pick.position))]);
            }
        }
        Ok(())
    }

    fn terms(&self) -> Vec<(&'static str, f32)> {
        match self.order {
            FramePackOrder::Time => Vec::new(),
            _ => vec![("cosine", 1.0), ("recency", self.time_weight())],
        }
    }
}

/// exp(−Δt²), time in seconds.
fn recency(age: f64) -> f32 {
    (-age * age).exp() as f32
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_ranked, episodes};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn agrees_with_the_formulas(episode in episodes(), slots in 1usize..8, order in 0usize..3) {
            use FramePackOrder::{Hybrid, Similarity, Time};
            let order = [Time, Similarity, Hybrid][order];
            let rule = FramePackConfig { order, time_weight: 0.7, ..Default::default() };
            let scores = (0..episode.len()).map(|index| {
                let age = (episode.now() - episode.candidates()[index].time) as f32;
                let cosine = episode.cosine(index, episode.query_key()).unwrap_or(0.0);
                match order {
                    Time => -age,
                    Similarity => cosine,
                    Hybrid => cosine + 0.7 * (-age.powi(2)).exp(),
                }
            });
            assert_ranked(&scores.collect::<Vec<_>>(), &episode.picks(&rule, slots), slots, 1e-4)?;
        }

        #[test]
        fn the_start_takes_the_last_slot(episode in episodes(), slots in 2usize..8) {
            let rule = FramePackConfig { start: true, ..Default::default() };
            let chosen = episode.chosen(&rule, slots);
            prop_assert_eq!(chosen.len(), slots.min(episode.len()));
            prop_assert_eq!(chosen.iter().position(|&position| position == 0), Some(chosen.len() - 1));
        }
    }
}

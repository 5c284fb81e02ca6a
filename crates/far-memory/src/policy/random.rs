//! Memories drawn at random: the chance level.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use super::rule::{Rule, Scene, Work};
use crate::Error;

/// Draws uniformly without replacement: each memory of the pool gets a number from the query's
/// seed, in pool order, and the greatest numbers win. The score is that number, in [0, 1). It has
/// no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomConfig {}

impl Rule for RandomConfig {
    fn select(&self, scene: &Scene, work: &mut Work) -> Result<(), Error> {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(scene.query.seed);
        work.rank(scene.candidates.iter().map(|_| generator.random::<f32>()), scene.slots);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Episode, episodes};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_memory_comes_up_equally_often() {
        let episode = Episode::walk(10);
        let mut counts = [0u32; 10];
        for seed in 0..2000 {
            for pick in episode.clone().with_seed(seed).picks(&RandomConfig {}, 3) {
                counts[pick.position] += 1;
            }
        }
        // 600 expected each, with a deviation of about 20.
        assert!(counts.iter().all(|count| (500..700).contains(count)), "{counts:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn agrees_with_sorting_all_numbers(episode in episodes(), slots in 0usize..8) {
            let mut generator = Xoshiro256PlusPlus::seed_from_u64(episode.seed());
            let mut numbers: Vec<(f32, usize)> =
                (0..episode.len()).map(|index| (generator.random::<f32>(), index)).collect();
            numbers.sort_by(|a, b| b.partial_cmp(a).expect("finite"));
            let expected: Vec<usize> = numbers.iter().take(slots).map(|number| number.1).collect();
            prop_assert_eq!(episode.chosen(&RandomConfig {}, slots), expected);
        }
    }
}

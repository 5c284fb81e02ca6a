//! Which episodes train and which test, by two rules that a dataset can carry side by side.

use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use crate::stream::stream;

far_memory::named! {
    /// The part of a dataset that an episode belongs to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Split {
        /// Models learn from it.
        Train = "train",
        /// Settings are chosen by it.
        Validation = "validation",
        /// Results are reported on it.
        Test = "test",
    }
}

far_memory::named! {
    /// What a split keeps apart.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum SplitRule {
        /// No scene is in two parts: results speak of unseen worlds.
        SceneDisjoint = "scene-disjoint",
        /// Episodes are dealt out, scenes may repeat: results speak of unseen paths in known worlds.
        Episode = "episode",
    }
}

/// Deals consecutive numbers (episode ids, or scene numbers) to train and test.
///
/// Out of every `block` consecutive numbers exactly `test` go to the test part, chosen by the seed.
/// Unlike a shuffle of the whole range this does not depend on how many numbers there are, so a
/// recording that is made longer later keeps the parts it had.
///
/// ```
/// use far_data::{Deal, Split};
/// let deal = Deal { seed: 7, block: 5, test: 1 };
/// let tests = (0..100).filter(|&id| deal.split(id) == Split::Test).count();
/// assert_eq!(tests, 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deal {
    /// Decides which numbers of each block are for testing.
    pub seed: u64,
    /// Length of a block; must not be 0.
    pub block: u32,
    /// Numbers of each block that go to the test part.
    pub test: u32,
}

impl Deal {
    /// The part that number `index` belongs to.
    pub fn split(&self, index: u32) -> Split {
        let block = self.block.max(1);
        let mut order: Vec<u32> = (0..block).collect();
        order.shuffle(&mut stream(self.seed, "deal", u64::from(index / block), 0));
        if order[(index % block) as usize] < self.test { Split::Test } else { Split::Train }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_gives_exactly_its_share_to_the_test_part() {
        let deal = Deal { seed: 3, block: 10, test: 3 };
        for block in 0..20 {
            let tests = (0..10).filter(|i| deal.split(block * 10 + i) == Split::Test).count();
            assert_eq!(tests, 3);
        }
    }

    #[test]
    fn seeds_deal_differently() {
        let deal =
            |seed| (0..60).map(|i| Deal { seed, block: 5, test: 1 }.split(i)).collect::<Vec<_>>();
        assert_eq!(deal(1), deal(1));
        assert_ne!(deal(1), deal(2));
    }

    #[test]
    fn names_round_trip() {
        for split in [Split::Train, Split::Validation, Split::Test] {
            assert_eq!(Split::from_name(split.name()), Some(split));
        }
        assert_eq!(Split::from_name("Train"), None);
    }
}

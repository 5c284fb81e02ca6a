//! VRAG's history buffer: a few frames from each of several segments of growing length.

use super::rule::{Rule, Scene, Work};
use super::view::check_count;
use crate::Error;
use crate::selection::Ranked;

crate::settings! {
    /// Going back from now, the past is cut into segments of 4, 8, 16, 32 and 64 memories; each gives
    /// evenly spaced memories, beginning with its latest. Slots are dealt to the segments in turn, the
    /// nearest first. The score is minus the number of memories in between. Source: the "history
    /// buffer" baseline of VRAG (Chen et al., 2025): 124 frames, 2 of each segment, 10 slots.
    ///
    /// The source does not say which two frames of a segment it takes. With more than 10 slots each
    /// segment gives more.
    pub struct VragSegmentsConfig {
        /// Memories in the nearest segment (VRAG: 4).
        pub first_length: usize = 4,
        /// Ratio of the lengths of consecutive segments (VRAG: 2).
        pub ratio: usize = 2,
        /// Number of segments (VRAG: 5).
        pub segments: usize = 5,
    }
}

impl Rule for VragSegmentsConfig {
    fn check(&self) -> Result<(), Error> {
        check_count("first_length", self.first_length)?;
        check_count("ratio", self.ratio)?;
        check_count("segments", self.segments)
    }

    fn select(&self, scene: &Scene, work: &mut Work) -> Result<(), Error> {
        let count = scene.candidates.len();
        // Where each segment begins, counted back from the newest; the last entry ends the last.
        work.order.clear();
        let (mut begin, mut length) = (0usize, self.first_length);
        work.order.push(0);
        for _ in 0..self.segments {
            begin = begin.saturating_add(length).min(count);
            length = length.saturating_mul(self.ratio);
            work.order.push(begin);
        }
        let stretches = work.order.windows(2).filter(|pair| pair[0] < pair[1]).count();
        let each = scene.slots.div_ceil(stretches.max(1));
        for turn in 0..each {
            for pair in work.order.windows(2) {
                let length = pair[1] - pair[0];
                let taken = each.min(length);
                if turn < taken && work.picks.len() < scene.slots {
                    let back = pair[0] + turn * length / taken;
                    work.picks.push(Ranked { score: -(back as f32), position: count - 1 - back });
                }
            }
        }
        work.picks.sort_unstable_by_key(|pick| std::cmp::Reverse(pick.position));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Episode;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ten_slots_take_two_of_each_stretch() {
        let rule = VragSegmentsConfig::default();
        let back: Vec<usize> =
            Episode::walk(130).chosen(&rule, 10).iter().map(|position| 129 - position).collect();
        assert_eq!(back, [0, 2, 4, 8, 12, 20, 28, 44, 60, 92]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn every_stretch_has_its_share(records in 1usize..140, slots in 1usize..14) {
            let rule = VragSegmentsConfig::default();
            let chosen = Episode::walk(records).chosen(&rule, slots);
            // Count, by plain loops, how many each segment gave.
            let (mut begin, mut shares) = (0, Vec::new());
            for length in [4, 8, 16, 32, 64] {
                let inside = |position: &&usize| {
                    let back = records - 1 - **position;
                    (begin..begin + length).contains(&back)
                };
                if begin < records {
                    shares.push((chosen.iter().filter(inside).count(), length.min(records - begin)));
                }
                begin += length;
            }
            let mut distinct = chosen.clone();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), chosen.len());
            prop_assert!(chosen.len() <= slots);
            let fair = slots.div_ceil(shares.len());
            prop_assert!(shares.iter().all(|&(share, length)| share <= fair.min(length)));
            prop_assert!(shares.iter().all(|&(share, length)| share + 1 >= fair.min(length)));
        }
    }
}

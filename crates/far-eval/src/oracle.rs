//! The oracle: what could have been recalled, with knowledge of the future.
//!
//! It takes one memory after the other. The first is the one that helps most alone, each further one
//! the one that adds most to those taken before it, and where nothing adds anything it takes no more.
//! It keeps to no chunk. What an arm recalled competes besides, whole: greedy choices are not always the
//! best set, and a bound that a rule passes is none. So on the draw of noise by which it chooses, no
//! arm's set is worth more; on the draw that judges, only that draw's accidents can make it so.
//!
//! | when | sets that are measured |
//! |---|---|
//! | first slot | no memory, and every candidate alone |
//! | each further slot | the taken ones with each of the shortlist: the candidates that help most alone |
//! | last | what each arm recalled |

use crate::Result;

/// Chooses memories by the utility of sets.
#[derive(Clone, Copy, Debug)]
pub struct GreedyOracle {
    /// The most memories.
    pub slots: usize,
    /// How many candidates are tried from the second slot on.
    pub shortlist: usize,
}

/// What an oracle took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OracleChoice {
    /// The memories, in the order in which they were taken.
    pub frames: Vec<usize>,
    /// What each added to those before it, in nats; NaN in a set that an arm recalled.
    pub added: Vec<f32>,
    /// What the set is worth over no memory, in nats.
    pub utility: f32,
}

impl GreedyOracle {
    /// The best set found among the candidates, which ascend, and what `rivals` recalled. `utility`
    /// measures sets, all on the same noise; only differences count. Of equals the first is taken.
    ///
    /// # Errors
    /// If a set cannot be measured.
    pub fn choose(
        &self,
        candidates: &[usize],
        rivals: &[Vec<usize>],
        mut utility: impl FnMut(&[Vec<usize>]) -> Result<Vec<f32>>,
    ) -> Result<OracleChoice> {
        let mut sets = vec![Vec::new()];
        sets.extend(candidates.iter().map(|frame| vec![*frame]));
        let measured = utility(&sets)?;
        let nothing = measured[0];
        let mut taken = nothing;
        let mut open: Vec<(usize, f32)> =
            candidates.iter().copied().zip(measured[1..].iter().copied()).collect();
        let mut choice = OracleChoice::default();
        while choice.frames.len() < self.slots {
            let best = open.iter().enumerate().rev().max_by(|(_, a), (_, b)| a.1.total_cmp(&b.1));
            let Some((place, &(frame, worth))) = best else { break };
            if worth <= taken {
                break;
            }
            choice.frames.push(frame);
            choice.added.push(worth - taken);
            taken = worth;
            open.remove(place);
            if open.len() > self.shortlist {
                open.sort_by(|(_, one), (_, other)| other.total_cmp(one));
                open.truncate(self.shortlist);
                open.sort_unstable_by_key(|(frame, _)| *frame);
            }
            if choice.frames.len() < self.slots {
                let with = |(frame, _): &(usize, f32)| [&choice.frames[..], &[*frame]].concat();
                let measured = utility(&open.iter().map(with).collect::<Vec<_>>())?;
                open.iter_mut().zip(measured).for_each(|((_, worth), new)| *worth = new);
            }
        }
        for (rival, worth) in rivals.iter().zip(utility(rivals)?) {
            if worth > taken {
                taken = worth;
                choice.frames.clone_from(rival);
                choice.added = vec![f32::NAN; rival.len()];
            }
        }
        Ok(OracleChoice { utility: taken - nothing, ..choice })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_tensor::Random;

    /// One set after the other, every candidate that is left in every slot.
    fn reference(
        slots: usize,
        candidates: &[usize],
        rivals: &[Vec<usize>],
        utility: impl Fn(&[usize]) -> f32,
    ) -> Vec<usize> {
        let mut taken = Vec::new();
        for _ in 0..slots {
            let mut best: Option<(usize, f32)> = None;
            for frame in candidates.iter().filter(|frame| !taken.contains(*frame)) {
                let added = utility(&[&taken[..], &[*frame]].concat()) - utility(&taken);
                if added > 0.0 && best.is_none_or(|(_, most)| added > most) {
                    best = Some((*frame, added));
                }
            }
            taken.extend(best.map(|(frame, _)| frame));
        }
        let sets = std::iter::once(&taken).chain(rivals);
        let mut best = taken.clone();
        for set in sets {
            if utility(set) > utility(&best) {
                best.clone_from(set);
            }
        }
        best
    }

    /// A world in which memories show cells of the goal's view, each cell worth something, and
    /// repeated or foreign views cost a little.
    struct Cells {
        shown: Vec<u32>,
        worth: Vec<f32>,
        price: f32,
    }

    impl Cells {
        fn random(seed: u64, memories: usize) -> Self {
            let mut random = Random::stream(seed, "cells", 0);
            let shown = (0..memories).map(|_| random.bits() & random.bits() & 0xFFF).collect();
            // Powers of two apart, so that sums are exact and no two sets are worth the same.
            let worth = (0..12).map(|cell| (1 << cell) as f32 * 0.25).collect();
            Self { shown, worth, price: [0.0, 0.125, 40.0][random.below(3)] }
        }

        fn utility(&self, set: &[usize]) -> f32 {
            let seen = set.iter().fold(0, |seen, frame| seen | self.shown[*frame]);
            let worth = (0..12).filter(|cell| seen >> cell & 1 == 1).map(|cell| self.worth[cell]);
            100.0 + worth.sum::<f32>() - self.price * set.len() as f32
        }

        fn utilities(&self, sets: &[Vec<usize>]) -> Result<Vec<f32>> {
            Ok(sets.iter().map(|set| self.utility(set)).collect())
        }
    }

    fn rivals(seed: u64, memories: usize) -> Vec<Vec<usize>> {
        let mut random = Random::stream(seed, "rivals", 0);
        (0..6).map(|_| (0..3).map(|_| random.below(memories)).collect()).collect()
    }

    #[test]
    fn batches_choose_what_a_plain_loop_chooses() {
        for seed in 0..300 {
            let cells = Cells::random(seed, 20);
            let (candidates, slots) = ((0..20).collect::<Vec<_>>(), 1 + seed as usize % 5);
            let rivals = if seed % 2 == 0 { rivals(seed, 20) } else { Vec::new() };
            let oracle = GreedyOracle { slots, shortlist: candidates.len() };
            let chosen = oracle.choose(&candidates, &rivals, |sets| cells.utilities(sets)).unwrap();
            let expected = reference(slots, &candidates, &rivals, |set| cells.utility(set));
            assert_eq!(chosen.frames, expected, "world {seed}");
            let gain = cells.utility(&expected) - cells.utility(&[]);
            assert_eq!((chosen.utility, chosen.added.len()), (gain, expected.len()));
            if chosen.added.iter().all(|added| !added.is_nan()) {
                assert_eq!(chosen.added.iter().sum::<f32>(), gain);
            }
        }
    }

    #[test]
    fn no_rival_is_worth_more_whatever_the_shortlist() {
        for seed in 0..300 {
            let cells = Cells::random(seed, 20);
            let (candidates, rivals) = ((0..20).collect::<Vec<_>>(), rivals(seed, 20));
            let oracle = GreedyOracle { slots: 3, shortlist: 1 + seed as usize % 8 };
            let chosen = oracle.choose(&candidates, &rivals, |sets| cells.utilities(sets)).unwrap();
            let worth = cells.utility(&chosen.frames);
            assert!(worth >= cells.utility(&[]));
            assert!(rivals.iter().all(|rival| worth >= cells.utility(rival)));
        }
    }

    #[test]
    fn it_stops_where_nothing_helps_and_counts_few_passes() {
        let cells = Cells { shown: vec![0b1, 0b11, 0b10], worth: vec![1.0; 12], price: 0.5 };
        let oracle = GreedyOracle { slots: 3, shortlist: 2 };
        let mut measured = Vec::new();
        let chosen = oracle.choose(&[0, 1, 2], &[], |sets| {
            measured.push(sets.len());
            cells.utilities(sets)
        });
        let expected = OracleChoice { frames: vec![1], added: vec![1.5], utility: 1.5 };
        assert_eq!(chosen.unwrap(), expected);
        // No memory and three singles, the two others beside the one taken, no rival.
        assert_eq!(measured, [4, 2, 0]);
        let harmful = Cells { price: 9.0, ..cells };
        let chosen = oracle.choose(&[0, 1, 2], &[], |sets| harmful.utilities(sets)).unwrap();
        assert_eq!(chosen, OracleChoice::default());
    }
}

//! What taking memories one after another, each given the others, is worth against the best set: by
//! enumeration, where utility is submodular and where it is not.

use crate::toy::drawn;

const MEMORIES: usize = 8;
const FACES: usize = 20;
const SLOTS: usize = 3;

/// All sets of K memories as bits.
fn sets() -> impl Iterator<Item = usize> {
    (0..1usize << MEMORIES).filter(|set| set.count_ones() as usize == SLOTS)
}

/// K memories, each the best given those before it.
fn greedy(utility: impl Fn(usize) -> f64) -> usize {
    (0..SLOTS).fold(0, |taken, _| {
        let open = (0..MEMORIES).map(|memory| 1 << memory).filter(|memory| taken & memory == 0);
        let value = |memory: &usize| utility(taken | memory);
        let best = open.max_by(|a, b| value(a).total_cmp(&value(b)));
        taken | best.expect("more memories than slots")
    })
}

/// The K that are best alone.
fn singles(utility: impl Fn(usize) -> f64) -> usize {
    let mut order: Vec<usize> = (0..MEMORIES).map(|memory| 1 << memory).collect();
    order.sort_by(|a, b| utility(*b).total_cmp(&utility(*a)));
    order[..SLOTS].iter().sum()
}

fn best(utility: impl Fn(usize) -> f64) -> f64 {
    sets().map(utility).fold(f64::NEG_INFINITY, f64::max)
}

/// Faces of the goal's view that memories show, with weights: a face counts once.
fn coverage(seed: u64) -> impl Fn(usize) -> f64 {
    let shown = drawn(MEMORIES * FACES, seed, "shown");
    let weights = drawn(FACES, seed, "weights");
    move |set| {
        let sees = |memory: usize, face: usize| shown[memory * FACES + face] > 0.3;
        let seen = |face: &usize| {
            (0..MEMORIES).any(|memory| set >> memory & 1 == 1 && sees(memory, *face))
        };
        let covered = (0..FACES).filter(seen);
        covered.map(|face| 1.0 + f64::from(weights[face])).sum()
    }
}

#[test]
fn where_utility_is_submodular_greedy_is_near_the_best_and_singles_are_behind() {
    let bound = 1.0 - (-1f64).exp();
    let (mut by_greedy, mut by_singles, mut by_best) = (0.0, 0.0, 0.0);
    for seed in 0..60 {
        let utility = coverage(seed);
        // Submodular: what a memory adds only shrinks as the set grows.
        for set in 0..1usize << MEMORIES {
            for (memory, other) in [(0, 5), (3, 1), (7, 2)] {
                let (memory, other) = (1usize << memory, 1usize << other);
                if set & (memory | other) == 0 {
                    let gain = |set: usize| utility(set | memory) - utility(set);
                    assert!(gain(set | other) <= gain(set) + 1e-9);
                }
            }
        }
        let (most, found) = (best(&utility), utility(greedy(&utility)));
        assert!(found >= bound * most && found <= most + 1e-9, "{found} {most}");
        by_greedy += found;
        by_singles += utility(singles(&utility));
        by_best += most;
    }
    assert!(by_greedy > 0.98 * by_best, "{by_greedy} of {by_best}");
    assert!(by_singles < 0.95 * by_greedy, "singles show the same: {by_singles} of {by_greedy}");
}

#[test]
fn where_memories_do_not_meet_all_three_agree() {
    for seed in 0..20 {
        let worth = drawn(MEMORIES, seed, "worth");
        let utility = |set: usize| -> f64 {
            let members = (0..MEMORIES).filter(|memory| set >> memory & 1 == 1);
            members.map(|memory| f64::from(worth[memory])).sum()
        };
        assert_eq!(greedy(utility), singles(utility));
        assert!((utility(greedy(utility)) - best(utility)).abs() < 1e-9);
    }
}

#[test]
fn where_memories_only_help_together_greedy_can_miss_them() {
    // Memories 0, 1 and 2 are worth 9 together and nothing apart; any other is worth 1.
    let utility = |set: usize| {
        let together = if set & 7 == 7 { 9.0 } else { 0.0 };
        together + f64::from((set >> 3).count_ones())
    };
    assert_eq!(best(utility), 9.0);
    assert_eq!(utility(greedy(utility)), 3.0);
    assert_eq!(utility(singles(utility)), 3.0);
}

//! Memory pools: which explore frames can be recalled.

use rand::Rng;
use rand::seq::index::sample;

/// At most `most` of the frames 0..`length`, drawn uniformly without replacement, ascending: the
/// pool of a training example.
pub fn training_pool(random: &mut impl Rng, length: u32, most: u32) -> Vec<u32> {
    if length <= most {
        return (0..length).collect();
    }
    let mut frames: Vec<u32> =
        sample(random, length as usize, most as usize).iter().map(|frame| frame as u32).collect();
    frames.sort_unstable();
    frames
}

/// Every n-th of the frames 0..`length` with the smallest n that leaves at most `most`: the pool of
/// an evaluation.
///
/// ```
/// assert_eq!(far_data::evaluation_pool(10, 4), [0, 3, 6, 9]);
/// assert_eq!(far_data::evaluation_pool(3, 4), [0, 1, 2]);
/// ```
pub fn evaluation_pool(length: u32, most: u32) -> Vec<u32> {
    let step = length.div_ceil(most.max(1)).max(1);
    (0..length).step_by(step as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::stream;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pools_ascend_and_hold_what_they_may(length in 0u32..500, most in 1u32..300, seed: u64) {
            let drawn = training_pool(&mut stream(seed, "pool", 0, 0), length, most);
            prop_assert_eq!(drawn.len() as u32, length.min(most));
            let strided = evaluation_pool(length, most);
            prop_assert!(strided.len() as u32 <= most);
            prop_assert!(length == 0 || strided.len() as u32 * 2 > length.min(most));
            for pool in [drawn, strided] {
                prop_assert!(pool.windows(2).all(|pair| pair[0] < pair[1]));
                prop_assert!(pool.iter().all(|&frame| frame < length));
            }
        }
    }

    #[test]
    fn every_frame_is_drawn_equally_often() {
        let mut counts = [0u32; 20];
        for draw in 0..4000 {
            for frame in training_pool(&mut stream(1, "pool", draw, 0), 20, 5) {
                counts[frame as usize] += 1;
            }
        }
        // 1000 expected each, standard deviation 27.
        assert!(counts.iter().all(|&count| (880..1120).contains(&count)), "{counts:?}");
    }
}

//! VRAG: nearest global state, in order of time.

use super::requirement::Requirements;
use super::rule::{Rule, Scene, Work};
use super::view::check_weight;
use crate::{Error, wrap_angle};

crate::settings! {
    /// Score = −‖w ⊙ (s − s*)‖ over the state s = (x, y, z, yaw), against the state s* of the last
    /// frame to be predicted; the best are returned in order of time. Source: VRAG (Chen et al., 2025),
    /// 10 slots.
    ///
    /// The paper does not print how yaw is measured and wrapped: here it is in radians and the
    /// difference is wrapped to half a turn.
    pub struct VragConfig {
        /// Weights of x, y and z (per meter) and of yaw (per radian) (VRAG: 10, 10, 10, 3).
        pub weights: [f32; 4] = [10.0, 10.0, 10.0, 3.0],
    }
}

impl Rule for VragConfig {
    fn check(&self) -> Result<(), Error> {
        self.weights.iter().try_for_each(|&weight| check_weight("weights", weight))
    }

    fn requirements(&self) -> Requirements {
        Requirements::poses()
    }

    fn select(&self, scene: &Scene, work: &mut Work) -> Result<(), Error> {
        let goal = scene.goal();
        let goal_yaw = goal.yaw();
        let [wx, wy, wz, wyaw] = self.weights;
        let scores = scene.candidates.iter().map(|candidate| {
            let [x, y, z] =
                std::array::from_fn(|axis| candidate.pose.position[axis] - goal.position[axis]);
            let turn = wrap_angle(candidate.pose.yaw() - goal_yaw);
            let terms = [wx * x, wy * y, wz * z, wyaw * turn];
            -terms.iter().map(|term| term * term).sum::<f32>().sqrt()
        });
        work.rank(scores, scene.slots);
        work.picks.sort_unstable_by_key(|pick| pick.position);
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
        fn agrees_with_the_formula_and_is_chronological(episode in episodes(), slots in 0usize..8) {
            let rule = VragConfig::default();
            let goal = episode.goal();
            let expected = episode.candidates().iter().map(|candidate| {
                let mut sum = 0.0f64;
                for axis in 0..3 {
                    let difference = candidate.pose.position[axis] - goal.position[axis];
                    sum += (10.0 * f64::from(difference)).powi(2);
                }
                // The shortest way around the circle, found without wrapping.
                let (a, b) = (f64::from(candidate.pose.yaw()), f64::from(goal.yaw()));
                let turn = (a - b).sin().atan2((a - b).cos());
                -(sum + (3.0 * turn).powi(2)).sqrt() as f32
            });
            let mut picks = episode.picks(&rule, slots);
            prop_assert!(picks.windows(2).all(|pair| pair[0].position < pair[1].position));
            picks.sort_by(|a, b| b.score.total_cmp(&a.score));
            assert_ranked(&expected.collect::<Vec<_>>(), &picks, slots, 2e-2)?;
        }
    }
}

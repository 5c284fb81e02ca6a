//! CaR's uncompressed frame: the camera matrix closest to the goal's.

use super::requirement::Requirements;
use super::rule::{Rule, Scene, Work};
use super::view::check_positive;
use crate::Error;

crate::settings! {
    /// Score = −‖[E*⁻¹ E]₃ₓ₄ − [I | 0]‖ (Frobenius), where E is a memory's camera-to-world matrix and E*
    /// the last target's. Source: Compression-and-Retrieval (CaR, 2026), mode `closest`, which takes
    /// the one best.
    ///
    /// The source mixes rotation (no unit) with translation in whatever unit the poses have; here the
    /// length that counts as much as one unit of rotation is a setting.
    pub struct CarClosestConfig {
        /// Meters that count as one (CaR: 1, implicitly).
        pub length_scale: f32 = 1.0,
    }
}

impl Rule for CarClosestConfig {
    fn check(&self) -> Result<(), Error> {
        check_positive("length_scale", self.length_scale)
    }

    fn requirements(&self) -> Requirements {
        Requirements::poses()
    }

    fn select(&self, scene: &Scene, work: &mut Work) -> Result<(), Error> {
        let goal = scene.goal();
        let scores = scene.candidates.iter().map(|candidate| {
            // ‖R − I‖² = 6 − 2 tr R = 8 (1 − w²) = 8 ‖vector part‖², w being the real part of the
            // relative quaternion. The vector part keeps small rotations exact.
            let [_, x, y, z] = candidate.pose.relative_to(goal).rotation;
            let length = candidate.pose.distance(goal) / self.length_scale;
            -(8.0 * (x * x + y * y + z * z) + length * length).sqrt()
        });
        work.rank(scores, scene.slots);
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
        fn agrees_with_the_matrices(episode in episodes(), slots in 0usize..8) {
            let rule = CarClosestConfig { length_scale: 2.0 };
            let goal = episode.goal();
            let expected = episode.candidates().iter().map(|candidate| {
                let relative = candidate.pose.relative_to(&goal);
                let mut sum = 0.0f32;
                for column in 0..3 {
                    let axis = std::array::from_fn(|row| f32::from(row == column));
                    let end = relative.to_world(axis);
                    for row in 0..3 {
                        let difference = end[row] - relative.position[row] - axis[row];
                        sum += difference * difference;
                    }
                    sum += (0.5 * relative.position[column]).powi(2);
                }
                -sum.sqrt()
            });
            assert_ranked(&expected.collect::<Vec<_>>(), &episode.picks(&rule, slots), slots, 2e-3)?;
        }
    }
}

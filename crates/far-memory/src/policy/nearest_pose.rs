//! The memories closest to the goal in position and viewing direction: a geometric control.

use super::requirement::Requirements;
use super::rule::{Rule, Scene, Work};
use super::view::check_weight;
use crate::{Error, Pose};

crate::settings! {
    /// Score = −√(d² + (w·θ)²), with d the distance in meters to the last target pose and θ the angle
    /// in radians between the two viewing directions. No published source: a control for the rules
    /// that reason about visibility.
    pub struct NearestPoseConfig {
        /// Meters that one radian of rotation counts for. At 2, a view rotated by 90° is as far as one
        /// 3 meters away.
        pub meters_per_radian: f32 = 2.0,
    }
}

impl Rule for NearestPoseConfig {
    fn check(&self) -> Result<(), Error> {
        check_weight("meters_per_radian", self.meters_per_radian)
    }

    fn requirements(&self) -> Requirements {
        Requirements::poses()
    }

    fn select(&self, scene: &Scene, work: &mut Work) -> Result<(), Error> {
        let goal = scene.goal();
        let direction = goal.forward();
        let scores = scene.candidates.iter().map(|candidate| {
            let distance = candidate.pose.distance(goal);
            let angle = angle_between(&candidate.pose, direction);
            -distance.hypot(self.meters_per_radian * angle)
        });
        work.rank(scores, scene.slots);
        Ok(())
    }
}

/// Angle between a pose's viewing direction and a unit vector, exact also for small angles.
fn angle_between(pose: &Pose, direction: [f32; 3]) -> f32 {
    let forward = pose.forward();
    let chord: f32 =
        forward.iter().zip(direction).map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt();
    2.0 * (0.5 * chord).min(1.0).asin()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_ranked, episodes};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn agrees_with_the_angle_from_yaw_and_pitch(episode in episodes(), slots in 0usize..8) {
            let rule = NearestPoseConfig::default();
            let goal = episode.goal();
            let expected = episode.candidates().iter().map(|candidate| {
                let (a, b) = (&candidate.pose, &goal);
                let cosine = f64::from(a.pitch()).sin() * f64::from(b.pitch()).sin()
                    + f64::from(a.pitch()).cos()
                        * f64::from(b.pitch()).cos()
                        * f64::from(a.yaw() - b.yaw()).cos();
                let angle = f64::from(rule.meters_per_radian) * cosine.clamp(-1.0, 1.0).acos();
                -f64::from(a.distance(b)).hypot(angle) as f32
            });
            assert_ranked(&expected.collect::<Vec<_>>(), &episode.picks(&rule, slots), slots, 3e-3)?;
        }
    }
}

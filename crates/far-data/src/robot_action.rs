//! The column `robot_action`: what a robot was commanded in every frame, in as many numbers as it takes.
//!
//! Column `action` says how a camera moved and has meters and radians; commands are joint angles,
//! voltages or a gripper's width, in units of their own. `dataset.json` therefore keeps the mean and the
//! deviation of every number, by which models are given them.

use serde::{Deserialize, Serialize};

use crate::{DataError, Episode, NumericColumn, Result};

/// The column's name.
pub const ROBOT_ACTION: &str = "robot_action";

/// A deviation below this is that of a number that never changes.
const SMALLEST_DEVIATION: f64 = 1e-6;

/// Means and deviations of the numbers of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RobotAction {
    /// Mean of every number.
    pub mean: Vec<f32>,
    /// Standard deviation of every number, 1 for one that never changes.
    pub deviation: Vec<f32>,
}

impl RobotAction {
    /// Those of some commands; `None` when there is none.
    pub fn of<'a>(commands: impl Iterator<Item = &'a [f32]> + Clone) -> Option<Self> {
        let width = commands.clone().next()?.len();
        let count = commands.clone().count() as f64;
        let mut mean = vec![0.0f64; width];
        for command in commands.clone() {
            mean.iter_mut().zip(command).for_each(|(sum, number)| *sum += f64::from(*number));
        }
        mean.iter_mut().for_each(|sum| *sum /= count);
        let mut spread = vec![0.0f64; width];
        for command in commands {
            for ((sum, number), mean) in spread.iter_mut().zip(command).zip(&mean) {
                *sum += (f64::from(*number) - mean).powi(2);
            }
        }
        let deviation = |sum: f64| (sum / count).sqrt();
        let deviation = spread.into_iter().map(deviation);
        let deviation =
            deviation.map(|own| if own < SMALLEST_DEVIATION { 1.0 } else { own as f32 });
        Some(Self {
            mean: mean.into_iter().map(|mean| mean as f32).collect(),
            deviation: deviation.collect(),
        })
    }

    /// Numbers of a command.
    pub fn width(&self) -> usize {
        self.mean.len()
    }

    /// Whether it describes a command at all.
    pub(crate) fn is_valid(&self) -> bool {
        let finite = self.mean.iter().all(|mean| mean.is_finite());
        let positive = |deviation: &f32| deviation.is_finite() && *deviation > 0.0;
        finite
            && self.width() > 0
            && self.width() == self.deviation.len()
            && self.deviation.iter().all(positive)
    }

    /// The commands of an episode as they are stored.
    ///
    /// # Errors
    /// If the column is missing, has another width or holds a number that is not finite.
    pub fn stored(&self, episode: &Episode) -> Result<NumericColumn> {
        let column = episode.numbers(ROBOT_ACTION)?;
        if column.width != self.width() {
            let reason = format!(
                "`{ROBOT_ACTION}` has {} numbers, dataset.json says {}",
                column.width,
                self.width()
            );
            return Err(DataError::Episode { episode: episode.id(), reason });
        }
        Ok(column)
    }

    /// The commands of an episode without their means, in deviations: [frames, width].
    ///
    /// # Errors
    /// As [`RobotAction::stored`].
    pub fn standardized(&self, episode: &Episode) -> Result<NumericColumn> {
        let mut column = self.stored(episode)?;
        for command in column.values.chunks_exact_mut(self.width()) {
            for ((number, mean), deviation) in
                command.iter_mut().zip(&self.mean).zip(&self.deviation)
            {
                *number = (*number - mean) / deviation;
            }
        }
        Ok(column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_deviations_are_those_of_the_commands() {
        let commands = [[1.0f32, 7.0], [3.0, 7.0], [5.0, 7.0]];
        let found = RobotAction::of(commands.iter().map(|row| &row[..])).expect("commands");
        assert_eq!(found.mean, [3.0, 7.0]);
        assert!((found.deviation[0] - (8.0f32 / 3.0).sqrt()).abs() < 1e-6);
        assert_eq!(found.deviation[1], 1.0, "what never changes is not blown up");
        assert!(found.is_valid() && found.width() == 2);
        assert_eq!(RobotAction::of(std::iter::empty()), None);
    }

    #[test]
    fn what_describes_nothing_is_refused() {
        for (mean, deviation) in [
            (vec![], vec![]),
            (vec![0.0], vec![0.0]),
            (vec![0.0], vec![1.0, 1.0]),
            (vec![f32::NAN], vec![1.0]),
            (vec![0.0], vec![f32::INFINITY]),
        ] {
            assert!(!RobotAction { mean, deviation }.is_valid());
        }
    }
}

//! The units in which networks are given poses and times.

use crate::world_model::dit_world_model::ARCHITECTURE;
use crate::{Result, architecture};
use far_data::Dataset;
use far_memory::Displacement;
use far_tensor::Checkpoint;
use serde::{Deserialize, Serialize};

/// Numbers that say how one pose lies in the frame of another.
pub const POSE_FEATURES: usize = 7;

/// Units of the conditions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConditionScale {
    /// Meters that count as 1: about the root mean square of displacements in the training split.
    pub length: f32,
    /// Seconds that count as 1: 128 frames of the corpus.
    pub time: f32,
}

impl ConditionScale {
    /// The units for a dataset: as length the root mean square of the distance covered in 8, 16, 24
    /// and 32 frames of these episodes, which is about as far as goals and useful memories lie, as
    /// time 128 frames.
    ///
    /// # Errors
    /// If an episode cannot be read.
    pub fn of_dataset(dataset: &Dataset, episodes: &[u32]) -> Result<Self> {
        let (mut squares, mut pairs) = (0.0, 0usize);
        for id in episodes {
            let episode = dataset.episode(*id)?;
            let poses = episode.poses();
            for gap in [8, 16, 24, 32] {
                for (from, to) in poses.iter().zip(poses.iter().skip(gap)) {
                    squares += f64::from(from.distance(to)).powi(2);
                    pairs += 1;
                }
            }
        }
        let length = (squares / pairs.max(1) as f64).sqrt() as f32;
        // A camera that never moves has no unit of length; any will do.
        let length = if length > 1e-3 { length } else { 1.0 };
        Ok(Self { length, time: 128.0 / dataset.description().fps })
    }

    /// The units that the world model of a checkpoint was trained with; `None` if it has none. Data
    /// that is judged later, or has grown, has others.
    pub fn of_checkpoint(checkpoint: &Checkpoint) -> Option<Self> {
        architecture::scale(checkpoint.notes().get(ARCHITECTURE)?)
    }

    /// A displacement as network input: meters in units of length, angles as sine and cosine.
    pub fn pose_features(&self, displacement: Displacement) -> [f32; POSE_FEATURES] {
        let Displacement { forward, left, up, turn, tilt } = displacement;
        let [forward, left, up] = [forward, left, up].map(|meters| meters / self.length);
        [forward, left, up, turn.sin(), turn.cos(), tilt.sin(), tilt.cos()]
    }
}

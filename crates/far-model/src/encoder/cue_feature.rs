//! What a cue is made of: numbers that a recording has for each frame.
//!
//! Vision reads the latents that the world model reads as well. Any other cue (sound, touch) brings
//! a [`CueFeature`]: one file that turns an episode into rows of tokens. Encoders, pretraining,
//! memories and retrievers take them from there.

use crate::{CueEncoder, LatentShape, Result};
use far_data::{DatasetDescription, Episode};
use std::sync::Arc;

/// Turns the recording of a cue into rows that an encoder reads.
///
/// ```
/// use far_data::{DatasetDescription, Episode};
/// use far_model::{CueFeature, LatentShape, Result};
///
/// /// How high the camera is held.
/// struct Height;
///
/// impl CueFeature for Height {
///     fn cue(&self) -> &str {
///         "height"
///     }
///     fn recipe(&self) -> String {
///         "height of the eye in meters".into()
///     }
///     fn shape(&self) -> LatentShape {
///         LatentShape { channels: 1, height: 1, width: 1, patch: 1 }
///     }
///     fn lacking(&self, _: &DatasetDescription) -> Option<String> {
///         None
///     }
///     fn rows(&self, episode: &Episode) -> Result<Vec<f32>> {
///         Ok(episode.poses().iter().map(|pose| pose.position[2]).collect())
///     }
/// }
/// ```
pub trait CueFeature: Send + Sync {
    /// The cue's name in configurations, memories and `dataset.json`, as "audio".
    fn cue(&self) -> &str;

    /// Everything that decides the numbers, as text. Caches are named by it.
    fn recipe(&self) -> String;

    /// The tokens of a frame, in the layout of [`LatentShape`].
    fn shape(&self) -> LatentShape;

    /// What a dataset lacks of what the cue is made of; `None` when it has everything.
    fn lacking(&self, description: &DatasetDescription) -> Option<String>;

    /// The rows of all frames, [frames, elements]. A row must not depend on anything that is seen or
    /// heard after its frame: it is what the query of that frame is made of.
    ///
    /// # Errors
    /// If the recording cannot be read.
    fn rows(&self, episode: &Episode) -> Result<Vec<f32>>;

    /// The encoder of the cue where keys follow from rows without learning; `None`, as is usual, where
    /// a contrastive encoder learns what to compare.
    fn encoder(&self) -> Option<Arc<dyn CueEncoder>> {
        None
    }
}

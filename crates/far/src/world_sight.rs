//! Line-of-sight tests in recordings of the built-in worlds.

use far_data::DatasetDescription;
use far_eval::Sight;

/// Rebuilds the scenes of a dataset and tests lines of sight in them. Recordings of other worlds
/// have no known scenes.
pub struct WorldSight(pub DatasetDescription);

impl Sight for WorldSight {
    fn blocked(&self, episode: u32, lines: &[[[f32; 3]; 2]]) -> Option<Vec<bool>> {
        // A scene that cannot be rebuilt is unknown.
        let sight = far_world::Sight::of_episode(&self.0, episode).ok()??;
        Some(lines.iter().map(|[from, to]| sight.is_blocked(*from, *to)).collect())
    }
}

//! Where walls stand in recordings of the built-in worlds.

use far_data::DatasetDescription;
use far_eval::Sight;

/// Builds the scenes of a dataset again and looks.
pub struct WorldSight {
    description: DatasetDescription,
}

impl WorldSight {
    /// The sight of a dataset; scenes of foreign recordings are unknown to it.
    pub fn new(description: DatasetDescription) -> Self {
        Self { description }
    }
}

impl Sight for WorldSight {
    fn blocked(&self, episode: u32, lines: &[[[f32; 3]; 2]]) -> Option<Vec<bool>> {
        // A scene that cannot be built again is one that nobody knows.
        let sight = far_world::Sight::of_episode(&self.description, episode).ok()??;
        Some(lines.iter().map(|[from, to]| sight.is_blocked(*from, *to)).collect())
    }
}

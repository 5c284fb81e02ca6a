//! What can change its appearance: paint, lit windows, shutters, doors, lanterns, stalls.

use crate::material::MaterialId;
use crate::scene::Scene;

/// Something with several states of appearance.
#[derive(Clone, Debug)]
pub(super) struct Changeable {
    pub look: Look,
    /// The state at the start of an episode.
    pub start: u8,
}

/// The states, and how they are applied.
#[derive(Clone, Debug)]
pub(super) enum Look {
    /// A material of the grid shown as one of several.
    Walls { wall: MaterialId, options: Vec<MaterialId> },
    /// Props covered with one of several materials.
    Surface { props: Vec<usize>, options: Vec<MaterialId> },
    /// Two shutters, closed (0) or open (1).
    Shutters { props: [usize; 2] },
    /// A stall: absent (0) or there with one of several canopies and goods (1 and up).
    Stall { props: Vec<usize>, canopy: usize, goods: usize, colors: Vec<[MaterialId; 2]> },
}

impl Changeable {
    /// Number of states.
    pub fn options(&self) -> u8 {
        match &self.look {
            Look::Walls { options, .. } | Look::Surface { options, .. } => options.len() as u8,
            Look::Shutters { .. } => 2,
            Look::Stall { colors, .. } => 1 + colors.len() as u8,
        }
    }

    /// Applies state number `state` to a scene.
    pub fn apply(&self, state: u8, scene: &mut Scene) {
        let state = usize::from(state);
        match &self.look {
            Look::Walls { wall, options } => {
                scene.repaint.retain(|(own, _)| own != wall);
                scene.repaint.push((*wall, options[state]));
            }
            Look::Surface { props, options } => {
                for &index in props {
                    scene.props[index].materials = [options[state]; 6];
                }
            }
            Look::Shutters { props } => {
                for &index in props {
                    scene.props[index].open = state as f32;
                }
            }
            Look::Stall { props, canopy, goods, colors } => {
                for &index in props {
                    scene.props[index].visible = state > 0;
                }
                if state > 0 {
                    let [cloth, ware] = colors[state - 1];
                    scene.props[*canopy].materials = [cloth; 6];
                    scene.props[*goods].materials = [ware; 6];
                }
            }
        }
    }
}

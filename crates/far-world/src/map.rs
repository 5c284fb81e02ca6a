//! A map of a scene with a path.

use far_data::{EXPLORE_COLOR, Picture, RETURN_COLOR};

use crate::color::Color;
use crate::material::MaterialId;
use crate::scene::Scene;
use crate::world::{Course, Episode};

/// Draws the scene of an episode's last frame from above, cut open at the episode's map height,
/// with the path: outbound blue, return orange. `scale` is pixels per meter.
pub fn draw_map(episode: &mut dyn Episode, scale: u32) -> Picture {
    let Course { poses, boundary, map_height, .. } = episode.course().clone();
    let scene = episode.scene(poses.len() - 1);
    let mut picture = draw_ground(scene, map_height, scale);
    let grid = scene.stage.grid();
    for (index, pose) in poses.iter().enumerate() {
        let color = if index < boundary { EXPLORE_COLOR } else { RETURN_COLOR };
        let [x, y, _] = pose.position;
        let column = ((x - grid.origin()[0]) * scale as f32) as i64;
        let row = i64::from(picture.height) - 1 - ((y - grid.origin()[1]) * scale as f32) as i64;
        let radius = i64::from(scale.div_ceil(4).max(1));
        for dy in -radius..=radius {
            for dx in -radius..=radius {
                let (px, py) = (column + dx, row + dy);
                if dx * dx + dy * dy <= radius * radius && px >= 0 && py >= 0 {
                    picture.set_pixel(px as u32, py as u32, color);
                }
            }
        }
    }
    picture
}

/// The scene alone: the highest voxel or prop below the cut at each pixel, higher ones lighter.
fn draw_ground(scene: &Scene, cut: f32, scale: u32) -> Picture {
    let (grid, materials) = (scene.stage.grid(), scene.stage.materials());
    let voxel = grid.voxel();
    let [nx, ny, nz] = grid.count().map(|n| n as i32);
    let pixels = |cells: i32| (cells as f32 * voxel * scale as f32).ceil() as u32;
    let mut picture = Picture::filled(pixels(nx), pixels(ny), [20, 20, 24]);
    let top = grid.voxel_at([0.0, 0.0, cut.min(1e6)])[2].min(nz - 1);
    let shown = |own: MaterialId| {
        scene.repaint.iter().find(|(from, _)| *from == own).map_or(own, |(_, to)| *to)
    };
    let placed: Vec<_> = scene
        .props
        .iter()
        .filter(|prop| prop.visible && prop.placement().center[2] < cut)
        .collect();
    for row in 0..picture.height {
        for column in 0..picture.width {
            let x = grid.origin()[0] + (column as f32 + 0.5) / scale as f32;
            let y = grid.origin()[1] + (picture.height as f32 - row as f32 - 0.5) / scale as f32;
            let [i, j, _] = grid.voxel_at([x, y, 0.0]);
            let mut found: Option<(f32, MaterialId)> = (0..=top)
                .rev()
                .find(|&k| grid.is_solid([i, j, k]))
                .map(|k| (grid.corner([i, j, k + 1])[2], shown(grid.get([i, j, k]))));
            for prop in &placed {
                let center = prop.placement().center;
                let height = center[2] + 0.5 * prop.size[2];
                let over = found.is_none_or(|(z, _)| height > z) && height <= cut;
                if over && prop.contains([x, y, center[2]]) {
                    found = Some((height, prop.materials[5]));
                }
            }
            if let Some((height, material)) = found {
                let Color(color) =
                    materials.average_color(material).shade(0.85 + 0.04 * height.clamp(-2.0, 8.0));
                picture.set_pixel(column, row, color);
            }
        }
    }
    picture
}

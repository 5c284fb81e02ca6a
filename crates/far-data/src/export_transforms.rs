//! An episode as nerfstudio reads it: pictures and `transforms.json`, the way back of `transforms`.

use std::path::Path;

use crate::export_lerobot::check_export;
use crate::{DataError, Dataset, ImageEncoding, Result, durable};

/// Writes one episode into `out`: `images/NNNNNN.png` and `transforms.json` with camera-to-world
/// matrices in OpenGL axes, z up, and the time of every frame. Returns the number of frames.
///
/// # Errors
/// If `out` is there already, or the episode's frames are not in its file.
pub fn export_transforms(dataset: &Dataset, id: u32, out: &Path) -> Result<usize> {
    let description = dataset.description();
    check_export(dataset, id, out)?;
    let ending = if description.images == ImageEncoding::Jpeg { "jpg" } else { "png" };
    if !description.poses {
        let reason = "the dataset has no poses, which transforms.json is made of".into();
        return Err(DataError::Episode { episode: id, reason });
    }
    let episode = dataset.episode(id)?;
    let images = out.join("images");
    std::fs::create_dir_all(&images).map_err(DataError::io("create", &images))?;
    let mut frames = Vec::with_capacity(episode.len());
    for frame in 0..episode.len() {
        let name = format!("images/{frame:06}.{ending}");
        durable::write(&out.join(&name), &episode.picture_file(frame)?)?;
        let pose = &episode.poses()[frame];
        // Columns are the camera's right, up and back.
        let columns =
            [pose.right(), pose.down().map(|x| -x), pose.forward().map(|x| -x), pose.position];
        let mut matrix: Vec<[f32; 4]> =
            (0..3).map(|row| columns.map(|column| column[row])).collect();
        matrix.push([0.0, 0.0, 0.0, 1.0]);
        frames.push(serde_json::json!({
            "file_path": name, "transform_matrix": matrix, "time": episode.times()[frame],
        }));
    }
    let [width, height] = description.resolution.map(f64::from);
    let focal =
        |size: f64, degrees: f32| 0.5 * size / (0.5 * f64::from(degrees).to_radians()).tan();
    let view = description.field_of_view;
    let file = serde_json::json!({
        "camera_model": "PINHOLE",
        "fl_x": focal(width, view.horizontal_degrees), "fl_y": focal(height, view.vertical_degrees),
        "cx": 0.5 * width, "cy": 0.5 * height, "w": width, "h": height,
        "frames": frames,
    });
    let text = serde_json::to_string_pretty(&file).expect("plain data always serializes") + "\n";
    durable::write(&out.join("transforms.json"), text.as_bytes())?;
    Ok(episode.len())
}

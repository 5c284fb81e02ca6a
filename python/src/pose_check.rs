//! The check of poses against each other and against pictures, as `far data import` makes it.

use crate::failure::{Failure, Outcome};
use crate::pose_rows::{MATRIX, QUATERNION};
use crate::query_batch::flat;
use far_data::import::{Convention, RigidPose};
use far_data::{Picture, PoseCheck};
use far_memory::Camera;
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray4, PyUntypedArrayMethods};
use pyo3::prelude::*;

/// What `far_memory.Convention` says, in the importer's words.
#[derive(FromPyObject)]
struct Said {
    axes: String,
    up: String,
    handedness: String,
    transform: String,
    quaternion: Option<String>,
    unit: f64,
}

impl Said {
    fn convention(&self) -> Outcome<Convention> {
        let wrong = |cause: String| Failure::input(cause, "give far_memory.Convention(…)");
        Ok(Convention {
            axes: self.axes.to_lowercase().parse().map_err(wrong)?,
            left_handed: self.handedness == "left",
            up: self.up.trim_start_matches('+').parse().map_err(wrong)?,
            unit: self.unit,
            world_to_camera: self.transform == "world-to-camera",
        })
    }

    /// The pose of a row of 16 or 7 numbers, as it is stored.
    fn pose(&self, numbers: &[f64]) -> Result<RigidPose, String> {
        match *numbers {
            [x, y, z, a, b, c, d] if self.quaternion.as_deref() == Some("xyzw") => {
                RigidPose::from_quaternion([d, a, b, c], [x, y, z])
            }
            [x, y, z, a, b, c, d] => RigidPose::from_quaternion([a, b, c, d], [x, y, z]),
            _ => RigidPose::from_rows(numbers),
        }
    }
}

/// The report of a check as JSON, and its warnings.
#[pyfunction]
pub fn pose_report(
    py: Python<'_>,
    rows: PyReadonlyArray2<'_, f64>,
    convention: &Bound<'_, PyAny>,
    times: PyReadonlyArray1<'_, f64>,
    frames: Option<PyReadonlyArray4<'_, u8>>,
    view: [f32; 2],
) -> PyResult<(String, Vec<String>)> {
    let said: Said = convention.extract()?;
    let width = rows.shape()[1];
    if width != MATRIX && width != QUATERNION {
        let cause = format!("pose has rows of {width} numbers");
        return Err(
            Failure::input(cause, "give 4 × 4 matrices, or positions and quaternions").into()
        );
    }
    let poses = flat(rows.as_slice(), "the poses")?.chunks_exact(width).enumerate();
    let poses = poses
        .map(|(row, numbers)| {
            said.pose(numbers).map_err(|cause| {
                Failure::input(format!("pose {row} is no pose: {cause}"), "look at the convention")
            })
        })
        .collect::<Outcome<Vec<RigidPose>>>()?;
    let times = flat(times.as_slice(), "the times")?;
    let size = frames.as_ref().map(|frames| [frames.shape()[2] as u32, frames.shape()[1] as u32]);
    let pixels = match &frames {
        Some(frames) => flat(frames.as_slice(), "the frames")?,
        None => &[],
    };
    let check = PoseCheck {
        poses: &poses,
        convention: said.convention()?,
        times,
        camera: Camera::from_degrees(view[0], view[1]),
    };
    let report = py.detach(|| match size {
        None => check.run(None),
        Some([width, height]) => {
            let bytes = width as usize * height as usize * 3;
            check.run(Some(&mut |frame: usize| {
                let pixels = pixels[frame * bytes..(frame + 1) * bytes].to_vec();
                Ok(Picture { width, height, pixels })
            }))
        }
    });
    let report = report.map_err(Failure::from)?;
    Ok((serde_json::to_string(&report).expect("a report is plain data"), report.warnings()))
}

//! Poses as rows of numbers, in the convention the caller says, turned into the project's own.
//!
//! Project: world right-handed with Z up, camera x right, y down, z forward, camera to world. With W
//! the caller's world axes in the project's and C the project's camera axes in the caller's, a
//! camera-to-world rotation R and position t become W·R·C and unit·W·t.

use crate::failure::{Failure, Outcome};
use crate::query_batch::poses;
use far_memory::Pose;
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray2, PyReadonlyArray2, PyReadonlyArray3};
use pyo3::prelude::*;

/// Numbers of a row that holds a 4 × 4 matrix.
pub const MATRIX: usize = 16;
/// Numbers of a row that holds a position and a quaternion.
pub const QUATERNION: usize = 7;

/// How far a rotation's columns may be from unit length and right angles.
const TOLERANCE: f64 = 1e-2;

type Matrix = [[f64; 3]; 3];

/// What `far_memory.Convention` hands over.
#[derive(FromPyObject)]
struct GivenAxes<'py> {
    /// W and C, [2, 3, 3].
    matrices: PyReadonlyArray3<'py, f64>,
    inverse: bool,
    real_first: bool,
    unit: f64,
}

/// What the numbers of a pose mean.
#[derive(Clone, Copy, Debug)]
pub struct Axes {
    /// W: the caller's world axes in the project's.
    world: Matrix,
    /// C: the project's camera axes in the caller's.
    camera: Matrix,
    /// Whether poses are world-to-camera.
    inverse: bool,
    /// Whether quaternions begin with their real part.
    real_first: bool,
    /// Meters per unit of length.
    unit: f64,
}

impl<'py> FromPyObject<'_, 'py> for Axes {
    type Error = PyErr;

    fn extract(convention: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let GivenAxes { matrices, inverse, real_first, unit } = convention.extract()?;
        let numbers = matrices.as_slice().ok().filter(|numbers| numbers.len() == 18);
        let numbers = numbers.ok_or_else(|| {
            Failure::input("the convention has no two matrices", "give far_memory.Convention(…)")
        })?;
        let matrix = |first: usize| -> Matrix {
            std::array::from_fn(|row| {
                std::array::from_fn(|column| numbers[first + 3 * row + column])
            })
        };
        Ok(Self { world: matrix(0), camera: matrix(9), inverse, real_first, unit })
    }
}

impl Axes {
    /// The poses of `rows`, each of `width` numbers.
    pub fn poses(&self, rows: &[f64], width: usize, what: &str) -> Outcome<Vec<Pose>> {
        if width != MATRIX && width != QUATERNION {
            return Err(Failure::input(
                format!("{what} has rows of {width} numbers"),
                "give 4 × 4 matrices, or a pair of positions and quaternions",
            ));
        }
        let poses = rows.chunks_exact(width).enumerate();
        poses
            .map(|(row, numbers)| {
                self.pose(numbers).map_err(|(cause, hint)| {
                    Failure::input(format!("{what} {row} is no pose: {cause}"), hint)
                })
            })
            .collect()
    }

    fn pose(&self, numbers: &[f64]) -> Result<Pose, (String, &'static str)> {
        if let Some(place) = numbers.iter().position(|number| !number.is_finite()) {
            return Err((format!("number {place} is {}", numbers[place]), "poses must be finite"));
        }
        let (mut rotation, mut position) = match numbers.len() {
            MATRIX => from_matrix(numbers)?,
            _ => from_quaternion(numbers, self.real_first)?,
        };
        if self.inverse {
            rotation = transpose(&rotation);
            position = apply(&rotation, position).map(|coordinate| -coordinate);
        }
        let turned = multiply(&multiply(&self.world, &rotation), &self.camera);
        if determinant(&turned) < 0.0 {
            return Err((
                "with these axes and this handedness it mirrors space".to_owned(),
                "handedness is the world's; axes are the camera's x, y and z, for instance RDF for OpenCV",
            ));
        }
        let position =
            apply(&self.world, position).map(|coordinate| (coordinate * self.unit) as f32);
        let pose =
            Pose { position, rotation: far_memory::quaternion_of(&turned).map(|part| part as f32) };
        if pose.is_valid() {
            Ok(pose)
        } else {
            Err(("its position is beyond what 32-bit floats hold".to_owned(), "look at the unit"))
        }
    }
}

/// Poses in the project's convention, [n, 7], from rows of 16 or 7 numbers.
#[pyfunction]
pub fn canonical_poses<'py>(
    py: Python<'py>,
    rows: PyReadonlyArray2<'py, f64>,
    convention: Axes,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    Ok(pose_table(py, &poses(&convention, &rows, "pose")?))
}

/// Poses as positions and quaternions, [n, 7].
pub fn pose_table<'py>(py: Python<'py>, poses: &[Pose]) -> Bound<'py, PyArray2<f32>> {
    let mut table = Array2::zeros((poses.len(), QUATERNION));
    for (mut row, pose) in table.rows_mut().into_iter().zip(poses) {
        let numbers = pose.position.iter().chain(&pose.rotation);
        row.iter_mut().zip(numbers).for_each(|(slot, number)| *slot = *number);
    }
    table.into_pyarray(py)
}

fn from_matrix(numbers: &[f64]) -> Result<(Matrix, [f64; 3]), (String, &'static str)> {
    let last = &numbers[12..];
    let expected = [0.0, 0.0, 0.0, 1.0];
    if last.iter().zip(expected).any(|(found, expected)| (found - expected).abs() > 1e-4) {
        return Err((
            format!("its last row is {last:?}"),
            "a rigid transform ends with [0, 0, 0, 1]; transpose matrices that act on row vectors",
        ));
    }
    let rotation: Matrix =
        std::array::from_fn(|row| std::array::from_fn(|column| numbers[4 * row + column]));
    let product = multiply(&transpose(&rotation), &rotation);
    for (row, values) in product.iter().enumerate() {
        for (column, value) in values.iter().enumerate() {
            let wanted = if row == column { 1.0 } else { 0.0 };
            if (value - wanted).abs() > TOLERANCE {
                return Err((
                    format!(
                        "columns {row} and {column} of its rotation have the product {value:.4}, not {wanted}"
                    ),
                    "rotations have no scale and no shear; give the scale of lengths as unit",
                ));
            }
        }
    }
    Ok((rotation, std::array::from_fn(|axis| numbers[4 * axis + 3])))
}

fn from_quaternion(
    numbers: &[f64],
    real_first: bool,
) -> Result<(Matrix, [f64; 3]), (String, &'static str)> {
    let [w, x, y, z] = if real_first {
        [numbers[3], numbers[4], numbers[5], numbers[6]]
    } else {
        [numbers[6], numbers[3], numbers[4], numbers[5]]
    };
    let length = (w * w + x * x + y * y + z * z).sqrt();
    if (length - 1.0).abs() > TOLERANCE {
        return Err((
            format!("its quaternion has length {length:.4}"),
            "quaternions must have unit length",
        ));
    }
    let [w, x, y, z] = [w, x, y, z].map(|part| part / length);
    let rotation = [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
        [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
        [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
    ];
    Ok((rotation, [numbers[0], numbers[1], numbers[2]]))
}

fn multiply(a: &Matrix, b: &Matrix) -> Matrix {
    std::array::from_fn(|row| {
        std::array::from_fn(|column| (0..3).map(|inner| a[row][inner] * b[inner][column]).sum())
    })
}

fn transpose(matrix: &Matrix) -> Matrix {
    std::array::from_fn(|row| std::array::from_fn(|column| matrix[column][row]))
}

fn apply(matrix: &Matrix, vector: [f64; 3]) -> [f64; 3] {
    matrix.map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
}

fn determinant(m: &Matrix) -> f64 {
    m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1])
        - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
        + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
}

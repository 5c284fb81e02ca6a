//! A pose as a source stores it: a rotation and a translation in the source's own axes.

use std::array::from_fn;

/// How far rotations of a source may be from rigid: text files round, trackers drift.
const TOLERANCE: f64 = 0.02;

/// A rotation (or rotation with a mirror) and a translation, as found. What they turn into what is
/// said by a [`crate::import::Convention`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RigidPose {
    /// Rows of the 3 × 3 matrix.
    pub rotation: [[f64; 3]; 3],
    /// The last column of the 3 × 4 matrix.
    pub translation: [f64; 3],
}

impl RigidPose {
    /// From a quaternion (w, x, y, z), which is brought to unit length, and a translation.
    ///
    /// # Errors
    /// A sentence, when a number is not finite or the quaternion is far from unit length.
    pub fn from_quaternion(quaternion: [f64; 4], translation: [f64; 3]) -> Result<Self, String> {
        finite(&quaternion)?;
        finite(&translation)?;
        let length = quaternion.iter().map(|x| x * x).sum::<f64>().sqrt();
        if (length - 1.0).abs() > TOLERANCE {
            return Err(format!("the quaternion has length {length:.4} instead of 1"));
        }
        let [w, x, y, z] = quaternion.map(|number| number / length);
        let rotation = [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
            [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
            [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
        ];
        Ok(Self { rotation, translation })
    }

    /// From a 3 × 4 or 4 × 4 matrix, row by row.
    ///
    /// # Errors
    /// A sentence, when the matrix has another size, is not finite, or does not keep lengths and
    /// right angles. A mirror is kept: whether it belongs there is for the convention to say.
    pub fn from_rows(numbers: &[f64]) -> Result<Self, String> {
        if ![12, 16].contains(&numbers.len()) {
            return Err(format!(
                "{} numbers where a 3x4 or 4x4 matrix has 12 or 16",
                numbers.len()
            ));
        }
        finite(numbers)?;
        if numbers.len() == 16 && numbers[12..] != [0.0, 0.0, 0.0, 1.0] {
            return Err(format!("the last row is {:?} instead of 0 0 0 1", &numbers[12..]));
        }
        let rotation: [[f64; 3]; 3] = from_fn(|row| from_fn(|column| numbers[4 * row + column]));
        let square = product(&transposed(&rotation), &rotation);
        for (row, values) in square.iter().enumerate() {
            for (column, value) in values.iter().enumerate() {
                let due = if row == column { 1.0 } else { 0.0 };
                if (value - due).abs() > 2.0 * TOLERANCE {
                    return Err(format!(
                        "the 3x3 part is not a rotation: columns {row} and {column} have the product \
                         {value:.4} instead of {due}"
                    ));
                }
            }
        }
        Ok(Self { rotation, translation: from_fn(|row| numbers[4 * row + 3]) })
    }

    /// The pose that undoes this one: camera-to-world from world-to-camera and back.
    pub fn inverse(&self) -> Self {
        let rotation = transposed(&self.rotation);
        Self { rotation, translation: turned(&rotation, self.translation).map(|x| -x) }
    }

    /// The unit quaternion (w, x, y, z) of the rotation, w not negative.
    ///
    /// The largest of the four squares is taken as the divisor, so no division is by a small number.
    pub fn quaternion(&self) -> [f64; 4] {
        far_memory::quaternion_of(&self.rotation)
    }

    /// +1 for a rotation, −1 for one with a mirror.
    pub fn determinant(&self) -> f64 {
        determinant(&self.rotation)
    }
}

/// A number that is not one is named with its place.
fn finite(numbers: &[f64]) -> Result<(), String> {
    match numbers.iter().position(|number| !number.is_finite()) {
        Some(place) => Err(format!("number {} is {}", place + 1, numbers[place])),
        None => Ok(()),
    }
}

/// The matrix product a · b.
pub(crate) fn product(a: &[[f64; 3]; 3], b: &[[f64; 3]; 3]) -> [[f64; 3]; 3] {
    from_fn(|row| from_fn(|column| (0..3).map(|at| a[row][at] * b[at][column]).sum()))
}

/// The matrix with rows and columns exchanged: of a rotation, its inverse.
pub(crate) fn transposed(matrix: &[[f64; 3]; 3]) -> [[f64; 3]; 3] {
    from_fn(|row| from_fn(|column| matrix[column][row]))
}

/// The matrix applied to a vector.
pub(crate) fn turned(matrix: &[[f64; 3]; 3], vector: [f64; 3]) -> [f64; 3] {
    from_fn(|row| (0..3).map(|at| matrix[row][at] * vector[at]).sum())
}

/// The determinant of a 3 × 3 matrix.
pub(crate) fn determinant(m: &[[f64; 3]; 3]) -> f64 {
    m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1])
        - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
        + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
}

/// The turn by `angle` about the x axis, right-handed in right-handed axes.
pub(crate) fn about_x(angle: f64) -> [[f64; 3]; 3] {
    let (sin, cos) = angle.sin_cos();
    [[1.0, 0.0, 0.0], [0.0, cos, -sin], [0.0, sin, cos]]
}

/// The turn by `angle` about the y axis.
pub(crate) fn about_y(angle: f64) -> [[f64; 3]; 3] {
    let (sin, cos) = angle.sin_cos();
    [[cos, 0.0, sin], [0.0, 1.0, 0.0], [-sin, 0.0, cos]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quaternions_survive_the_matrix(raw in prop::array::uniform4(-1.0f64..1.0)) {
            let length = raw.iter().map(|x| x * x).sum::<f64>().sqrt();
            prop_assume!(length > 0.1);
            let sign = if raw[0] < 0.0 { -1.0 } else { 1.0 };
            let unit = raw.map(|x| sign * x / length);
            let pose = RigidPose::from_quaternion(unit, [1.0, 2.0, 3.0]).expect("unit length");
            let back = pose.quaternion();
            let same = |sign: f64| back.iter().zip(unit).all(|(a, b)| (a - sign * b).abs() < 1e-9);
            // A half turn has two quaternions with w = 0.
            prop_assert!(same(1.0) || (unit[0] < 1e-9 && same(-1.0)), "{unit:?} became {back:?}");
            prop_assert!((pose.determinant() - 1.0).abs() < 1e-9);
            let mut rows: Vec<f64> = Vec::new();
            (0..3).for_each(|row| {
                rows.extend(pose.rotation[row]);
                rows.push(pose.translation[row]);
            });
            prop_assert_eq!(RigidPose::from_rows(&rows), Ok(pose));
            let again = pose.inverse().inverse();
            prop_assert!((0..3).all(|at| (again.translation[at] - pose.translation[at]).abs() < 1e-9));
        }
    }

    #[test]
    fn what_is_not_a_pose_is_refused_in_words() {
        let wrong = |numbers: &[f64]| RigidPose::from_rows(numbers).expect_err("wrong");
        assert!(wrong(&[1.0; 7]).contains("7 numbers"));
        let mut lost = [0.0; 16];
        lost[5] = f64::NEG_INFINITY;
        assert!(wrong(&lost).contains("number 6 is -inf"));
        let mut double = [0.0; 12];
        [0, 5, 10].into_iter().for_each(|place| double[place] = 2.0);
        assert!(wrong(&double).contains("not a rotation"));
        let mut projective = [0.0; 16];
        [0, 5, 10, 15].into_iter().for_each(|place| projective[place] = 1.0);
        projective[12] = 1.0;
        assert!(wrong(&projective).contains("last row"));
        let long = RigidPose::from_quaternion([1.0, 1.0, 0.0, 0.0], [0.0; 3]);
        assert!(long.expect_err("too long").contains("length 1.4142"));
    }
}

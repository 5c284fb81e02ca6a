//! The directions of a camera's axes, by name or by letters.

use std::fmt;
use std::str::FromStr;

use super::rigid_pose::determinant;

/// The directions of a camera's x, y and z axes: three of right, left, up, down, forward, back.
///
/// Read from a name (`opencv`, `opengl`, `ros`, `unity`, `ned`) or from three first letters (`rdf`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CameraAxes([char; 3]);

impl CameraAxes {
    /// x right, y down, z forward: OpenCV, COLMAP, ours.
    pub const OPENCV: Self = Self(['r', 'd', 'f']);
    /// x right, y up, z back: OpenGL, Blender, nerfstudio, Habitat.
    pub const OPENGL: Self = Self(['r', 'u', 'b']);
    /// x forward, y left, z up: ROS.
    pub const ROS: Self = Self(['f', 'l', 'u']);
    /// x right, y up, z forward: Unity. Left-handed.
    pub const UNITY: Self = Self(['r', 'u', 'f']);
    /// x forward, y right, z down: aircraft, AirSim, TartanAir.
    pub const NED: Self = Self(['f', 'r', 'd']);

    /// The axes that have a name.
    pub const NAMED: [(&'static str, Self); 5] = [
        ("opencv", Self::OPENCV),
        ("opengl", Self::OPENGL),
        ("ros", Self::ROS),
        ("unity", Self::UNITY),
        ("ned", Self::NED),
    ];

    /// The matrix that turns our camera axes into these.
    pub(crate) fn matrix(self) -> [[f64; 3]; 3] {
        // Each axis of the source, written in our axes, is a row.
        self.0.map(|letter| match letter {
            'r' => [1.0, 0.0, 0.0],
            'l' => [-1.0, 0.0, 0.0],
            'd' => [0.0, 1.0, 0.0],
            'u' => [0.0, -1.0, 0.0],
            'f' => [0.0, 0.0, 1.0],
            _ => [0.0, 0.0, -1.0],
        })
    }

    /// Whether the three axes are left-handed, as Unity's are.
    pub fn is_left_handed(self) -> bool {
        determinant(&self.matrix()) < 0.0
    }
}

impl FromStr for CameraAxes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_lowercase();
        if let Some((_, axes)) = Self::NAMED.iter().find(|(name, _)| *name == lower) {
            return Ok(*axes);
        }
        let letters: Vec<char> = lower.chars().collect();
        let directions = ["rl", "ud", "fb"];
        let each_once = directions
            .iter()
            .all(|pair| letters.iter().filter(|&&l| pair.contains(l)).count() == 1);
        match letters.try_into() {
            Ok(letters) if each_once => Ok(Self(letters)),
            _ => Err(format!(
                "`{text}` is not opencv, opengl, ros, unity, ned, or three letters such as rdf (right, \
                 down, forward; also left, up, back)"
            )),
        }
    }
}

impl fmt::Display for CameraAxes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMED.iter().find(|(_, axes)| axes == self) {
            Some((name, _)) => formatter.write_str(name),
            None => self.0.iter().try_for_each(|letter| write!(formatter, "{letter}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_letters_are_axes() {
        assert_eq!("opencv".parse(), Ok(CameraAxes::OPENCV));
        assert_eq!("RUB".parse(), Ok(CameraAxes::OPENGL));
        assert_eq!("ldb".parse::<CameraAxes>().expect("axes").to_string(), "ldb");
        for wrong in ["", "rdd", "rdfx", "left", "rlf"] {
            assert!(wrong.parse::<CameraAxes>().is_err(), "{wrong}");
        }
        assert!(CameraAxes::UNITY.is_left_handed() && !CameraAxes::NED.is_left_handed());
    }
}

//! What a rule assumes about the camera and its range. It depends on the dataset, not on the rule:
//! record it with every result.

use super::point_set::PointSet;
use crate::{Camera, Error};

crate::settings! {
    /// Sample points in a ball around the query, seen through an angular field of view.
    ///
    /// The defaults are WorldMem's, made for Minecraft blocks. Indoors, use a radius of a few room
    /// sizes: in a 30 m ball almost every point lies behind walls.
    pub struct ViewConfig {
        /// Full horizontal field of view in degrees, below 180 (WorldMem: 105).
        pub horizontal_degrees: f32 = 105.0,
        /// Full vertical field of view in degrees, below 180 (WorldMem: 75).
        pub vertical_degrees: f32 = 75.0,
        /// Radius of the ball of sample points in meters (WorldMem: 30 blocks).
        pub radius: f32 = 30.0,
        /// Number of sample points (WorldMem: 10,000).
        pub points: usize = 10_000,
        /// Seed of the sample points. They are drawn once; WorldMem redraws them at every call, which
        /// makes its choice random within the sampling error.
        pub point_seed: u64 = 0,
    }
}

impl ViewConfig {
    /// The camera with this field of view.
    pub fn camera(&self) -> Camera {
        Camera::from_degrees(self.horizontal_degrees, self.vertical_degrees)
    }

    /// Takes the field of view from `camera` and the radius from `reach`, in meters.
    pub(crate) fn set_camera(&mut self, camera: &Camera, reach: f32) {
        [self.horizontal_degrees, self.vertical_degrees] = degrees(camera);
        self.radius = reach;
    }

    /// The sample points around the origin, after a check of the settings.
    pub(crate) fn ball(&self) -> Result<PointSet, Error> {
        check_angle("view.horizontal_degrees", self.horizontal_degrees)?;
        check_angle("view.vertical_degrees", self.vertical_degrees)?;
        check_positive("view.radius", self.radius)?;
        check_points("view.points", Some(self.points))?;
        Ok(PointSet::ball(self.points, self.radius, self.point_seed))
    }
}

crate::settings! {
    /// A pinhole frustum between two depths, cut into cells.
    ///
    /// The defaults are Matrix-Game 3.0's, in its scaled game units.
    pub struct FrustumConfig {
        /// Full horizontal field of view in degrees, below 180 (Matrix-Game: 90).
        pub horizontal_degrees: f32 = 90.0,
        /// Full vertical field of view in degrees, below 180 (Matrix-Game: 90).
        pub vertical_degrees: f32 = 90.0,
        /// Nearest depth in meters (Matrix-Game: 0.1).
        pub near: f32 = 0.1,
        /// Farthest depth in meters (Matrix-Game: 30).
        pub far: f32 = 30.0,
        /// Cells across, down and deep (Matrix-Game: 10 × 10 × 10). A cell stands for its center.
        pub cells: [usize; 3] = [10, 10, 10],
    }
}

impl FrustumConfig {
    /// The camera with this field of view.
    pub fn camera(&self) -> Camera {
        Camera::from_degrees(self.horizontal_degrees, self.vertical_degrees)
    }

    /// The two depths.
    pub(crate) fn depths(&self) -> [f32; 2] {
        [self.near, self.far]
    }

    /// Takes the field of view from `camera` and the far depth from `reach`, in meters.
    pub(crate) fn set_camera(&mut self, camera: &Camera, reach: f32) {
        [self.horizontal_degrees, self.vertical_degrees] = degrees(camera);
        self.far = reach;
        self.near = self.near.min(0.1 * reach);
    }

    /// Rejects settings that describe no frustum.
    pub(crate) fn check(&self) -> Result<(), Error> {
        check_angle("frustum.horizontal_degrees", self.horizontal_degrees)?;
        check_angle("frustum.vertical_degrees", self.vertical_degrees)?;
        check_positive("frustum.near", self.near)?;
        check_positive("frustum.far", self.far - self.near)?;
        let cells =
            self.cells.iter().try_fold(1usize, |product, &count| product.checked_mul(count));
        check_points("frustum.cells", cells)
    }
}

fn degrees(camera: &Camera) -> [f32; 2] {
    [camera.horizontal_field_of_view, camera.vertical_field_of_view].map(f32::to_degrees)
}

/// Rejects an opening angle outside (0°, 180°).
pub(crate) fn check_angle(option: &str, degrees: f32) -> Result<(), Error> {
    let inside = degrees > 0.0 && degrees < 180.0;
    inside.then_some(()).ok_or_else(|| refuse(option, degrees, "an angle inside (0, 180) degrees"))
}

/// Rejects a number that is not finite and above zero.
pub(crate) fn check_positive(option: &str, value: f32) -> Result<(), Error> {
    let positive = value > 0.0 && value.is_finite();
    positive.then_some(()).ok_or_else(|| refuse(option, value, "a number above 0"))
}

/// Rejects a weight that is negative or not finite.
pub(crate) fn check_weight(option: &str, value: f32) -> Result<(), Error> {
    let valid = value >= 0.0 && value.is_finite();
    valid.then_some(()).ok_or_else(|| refuse(option, value, "a number of at least 0"))
}

/// Rejects a count of zero.
pub(crate) fn check_count(option: &str, value: usize) -> Result<(), Error> {
    (value > 0).then_some(()).ok_or_else(|| refuse(option, value, "at least 1"))
}

/// Refuses no sample points at all, and more than could ever be looked at: they would take all of RAM.
fn check_points(option: &str, value: Option<usize>) -> Result<(), Error> {
    const MOST: usize = 1 << 24;
    let valid = value.is_some_and(|count| (1..=MOST).contains(&count));
    let found = value.map_or("beyond counting".to_owned(), |count| count.to_string());
    valid.then_some(()).ok_or_else(|| refuse(option, found, "1 to 16,777,216"))
}

fn refuse(option: &str, value: impl std::fmt::Display, wanted: &str) -> Error {
    Error::PolicyOption {
        option: option.to_owned(),
        value: value.to_string(),
        wanted: wanted.to_owned(),
    }
}

/// The angular visibility test of a single point, for the references of the rules.
#[cfg(test)]
pub(crate) fn sees_reference(
    view: &ViewConfig,
    pose: &crate::Pose,
    origin: [f32; 3],
    [x, y, z]: [f32; 3],
) -> bool {
    use super::sight::{AngularSight, Sight};
    AngularSight::new(pose, &view.camera(), origin).sees(x, y, z)
}

//! What the person who imports decides.

use super::{CameraAxes, Convention, Lens, ReturnRule, Up};

/// Parts of a convention that replace those of the format.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConventionChoice {
    /// Directions of the camera's axes.
    pub axes: Option<CameraAxes>,
    /// Whether the world is left-handed.
    pub left_handed: Option<bool>,
    /// Which way is up.
    pub up: Option<Up>,
    /// Meters in one unit of length.
    pub unit: Option<f64>,
    /// Whether poses turn world points into camera points.
    pub world_to_camera: Option<bool>,
}

impl ConventionChoice {
    /// `own` with the chosen parts replaced.
    pub fn over(&self, own: Convention) -> Convention {
        Convention {
            axes: self.axes.unwrap_or(own.axes),
            left_handed: self.left_handed.unwrap_or(own.left_handed),
            up: self.up.unwrap_or(own.up),
            unit: self.unit.unwrap_or(own.unit),
            world_to_camera: self.world_to_camera.unwrap_or(own.world_to_camera),
        }
    }
}

/// Settings of one import. The default keeps everything as the source has it.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportOptions {
    /// Parts of the convention that the format does not know, or knows wrongly.
    pub convention: ConventionChoice,
    /// Whether quaternions of a table of poses have the real part last.
    pub quaternions_xyzw: bool,
    /// The camera, when the source does not say.
    pub lens: Option<Lens>,
    /// Frames per second to keep.
    pub fps: Option<f64>,
    /// Frames per second of the recording, when the source has no times.
    pub source_fps: Option<f64>,
    /// Size of the stored pictures.
    pub resize: Option<[u32; 2]>,
    /// Whether the largest square in the middle is kept.
    pub square: bool,
    /// Frames per episode, cut from longer recordings.
    pub window: Option<usize>,
    /// Where the return begins.
    pub return_rule: ReturnRule,
    /// Share of scenes, recordings or windows that test.
    pub test_share: f64,
    /// Decides which ones.
    pub seed: u64,
    /// The camera to take where there are several, by its name in the source.
    pub camera: Option<String>,
    /// A column of the source with seven numbers: position and quaternion of the camera.
    pub pose_column: Option<String>,
    /// Whether the camera does not move, so that a source without poses has them all the same.
    pub still_camera: bool,
    /// Whether the dataset gets no poses, although the source may have some.
    pub no_poses: bool,
    /// Whether poses are imported although the pictures contradict them.
    pub trust_poses: bool,
    /// License of the data.
    pub license: String,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            convention: ConventionChoice::default(),
            quaternions_xyzw: false,
            lens: None,
            fps: None,
            source_fps: None,
            resize: None,
            square: false,
            window: None,
            return_rule: ReturnRule::Automatic,
            test_share: 0.2,
            seed: 0,
            camera: None,
            pose_column: None,
            still_camera: false,
            no_poses: false,
            trust_poses: false,
            license: String::new(),
        }
    }
}

impl ImportOptions {
    /// What changes the dataset's content, in one line: another line is another dataset.
    pub(crate) fn summary(&self) -> String {
        let mut parts = Vec::new();
        let mut add = |name: &str, value: Option<String>| {
            parts.extend(value.map(|value| format!("{name} {value}")));
        };
        add("fps", self.fps.map(|fps| fps.to_string()));
        add("size", self.resize.map(|[width, height]| format!("{width}x{height}")));
        add("crop", self.square.then(|| "square".into()));
        add("window", self.window.map(|window| window.to_string()));
        add(
            "return",
            Some(match self.return_rule {
                ReturnRule::Automatic => "auto".into(),
                ReturnRule::Last(share) => format!("last:{}%", 100.0 * share),
                ReturnRule::Column => "column".into(),
            }),
        );
        add("test share", Some(self.test_share.to_string()));
        add("camera", self.camera.clone());
        add("pose column", self.pose_column.clone());
        add("camera", self.still_camera.then(|| "still".into()));
        add("poses", self.no_poses.then(|| "left out".into()));
        add("quaternions", self.quaternions_xyzw.then(|| "xyzw".into()));
        parts.join(", ")
    }
}

//! `dataset.json`: what a whole dataset has in common.

use std::path::Path;

use far_memory::Camera;
use serde::{Deserialize, Serialize};

use crate::{DataError, Result, RobotAction, SplitRule};

/// The newest version of the format that this crate reads and writes.
pub const FORMAT_VERSION: u64 = 2;

/// The version of datasets with poses and without commands: programs that know nothing newer read them.
const WITH_POSES: u64 = 1;

/// The word that opens every `dataset.json`.
pub const FORMAT_NAME: &str = "far-dataset";

/// Cues that far computes itself. Others are columns of the dataset that a configuration names.
pub const BUILT_IN_CUES: [&str; 4] = ["metadata", "vision", "audio", "agent"];

/// How frames are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageEncoding {
    /// Column `image` holds one PNG file per frame.
    Png,
    /// Column `image` holds one JPEG file per frame.
    Jpeg,
    /// Column `image` holds height × width × 3 bytes, red first, rows from the top.
    Raw,
    /// Column `video_frame` counts frames of the video file named in the index.
    Video,
    /// There are no frames, for instance when only latents were kept.
    None,
}

impl ImageEncoding {
    /// Whether the frames are in the episode files.
    pub fn in_episodes(self) -> bool {
        matches!(self, Self::Png | Self::Jpeg | Self::Raw)
    }
}

far_memory::named! {
    /// A group of optional columns that every episode of a dataset has.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Signal {
        /// `events`: what happened since the previous frame, as numbers into the label vocabulary.
        Events = "events",
        /// `door_fraction`: how far the acted container or door is open, 0 to 1.
        DoorFraction = "door-fraction",
        /// `change_kind`, `change_mask`, `stale_frame`: how the frame differs from an older state.
        Change = "change",
        /// `agent_visible`, `agent_position`, the same with `_before`, and `silhouette`.
        Agent = "agent",
        /// `visible_faces`: ids of the surfaces in view.
        VisibleFaces = "visible-faces",
        /// `pose_key`, `visible_states`, `changed_states`, `made_states`: who is in view in which state.
        States = "states",
    }
}

/// The camera's full opening angles in degrees.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldOfView {
    /// Full horizontal angle in degrees, below 180.
    pub horizontal_degrees: f32,
    /// Full vertical angle in degrees, below 180.
    pub vertical_degrees: f32,
}

/// The program that made a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generator {
    /// Name of the world or importer.
    pub name: String,
    /// Version of its behavior: the same version and seed give the same bytes.
    pub version: u32,
    /// Seed of the whole recording.
    pub seed: u64,
    /// Different scenes of the recording, where it has another number than the world's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenes: Option<u32>,
}

/// Everything that is true of a whole dataset: the content of `dataset.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetDescription {
    /// Always [`FORMAT_NAME`].
    pub format: String,
    /// 1, or 2 for a dataset without poses or with commands of a robot.
    pub version: u64,
    /// Name of the corpus: "village", "apartment".
    pub corpus: String,
    /// Variant of the corpus, "" when it has only one.
    #[serde(default)]
    pub variant: String,
    /// Frames per second of the recording.
    pub fps: f32,
    /// What the camera sees.
    pub field_of_view: FieldOfView,
    /// Image size as [width, height] in pixels.
    pub resolution: [u32; 2],
    /// How frames are stored.
    pub images: ImageEncoding,
    /// Whether every frame has the camera's position and rotation. Version 1 always has them.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub poses: bool,
    /// The commands in column `robot_action`; absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub robot_action: Option<RobotAction>,
    /// Cues that can be computed from this dataset: "metadata", "vision", "audio", "agent".
    pub cues: Vec<String>,
    /// Optional columns that every episode has.
    #[serde(default)]
    pub signals: Vec<Signal>,
    /// Names of the event labels; column `events` counts into this list.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Rule behind column `split` and, when there are two, column `second_split`.
    pub splits: Vec<SplitRule>,
    /// Sample rate of the binaural audio in hertz; `null` when there is none.
    #[serde(default)]
    pub audio_rate: Option<u32>,
    /// How many frames back the columns with `_before` look.
    #[serde(default = "default_agent_lag")]
    pub agent_lag: u32,
    /// Radius in meters within which two views are compared for overlap: the size of the world.
    #[serde(default = "default_overlap_radius")]
    pub overlap_radius: f32,
    /// What made the dataset.
    pub generator: Generator,
    /// Where the data comes from and under which terms, for people.
    #[serde(default)]
    pub provenance: String,
    /// Name or address of the license; "" when it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub license: String,
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

/// 1.5 seconds at 10 frames per second, the paper's value for the second agent.
fn default_agent_lag() -> u32 {
    15
}

/// The radius of WorldMem's overlap rule.
fn default_overlap_radius() -> f32 {
    30.0
}

impl DatasetDescription {
    /// A description with PNG frames, no signals, an episode-level split and no audio.
    ///
    /// ```
    /// use far_data::DatasetDescription;
    /// let description = DatasetDescription::new("garden", 20.0, [64, 64], [90.0, 90.0]);
    /// assert!(description.validate().is_ok());
    /// ```
    pub fn new(corpus: &str, fps: f32, resolution: [u32; 2], field_of_view: [f32; 2]) -> Self {
        Self {
            format: FORMAT_NAME.into(),
            version: WITH_POSES,
            corpus: corpus.into(),
            variant: String::new(),
            fps,
            field_of_view: FieldOfView {
                horizontal_degrees: field_of_view[0],
                vertical_degrees: field_of_view[1],
            },
            resolution,
            images: ImageEncoding::Png,
            poses: true,
            robot_action: None,
            cues: vec!["metadata".into(), "vision".into()],
            signals: Vec::new(),
            labels: Vec::new(),
            splits: vec![SplitRule::Episode],
            audio_rate: None,
            agent_lag: default_agent_lag(),
            overlap_radius: default_overlap_radius(),
            generator: Generator { name: corpus.into(), version: 1, seed: 0, scenes: None },
            provenance: String::new(),
            license: String::new(),
        }
    }

    /// The same dataset without camera poses.
    pub fn without_poses(mut self) -> Self {
        (self.version, self.poses) = (FORMAT_VERSION, false);
        self
    }

    /// The same dataset with commands in column `robot_action`.
    pub fn with_robot_action(mut self, commands: RobotAction) -> Self {
        (self.version, self.robot_action) = (FORMAT_VERSION, Some(commands));
        self
    }

    /// The camera of every frame.
    pub fn camera(&self) -> Camera {
        let FieldOfView { horizontal_degrees, vertical_degrees } = self.field_of_view;
        Camera::from_degrees(horizontal_degrees, vertical_degrees)
    }

    /// Whether every episode has the columns of `signal`.
    pub fn has(&self, signal: Signal) -> bool {
        self.signals.contains(&signal)
    }

    /// The number of an event label, by name.
    pub fn label(&self, name: &str) -> Option<u16> {
        self.labels.iter().position(|label| label == name).map(|index| index as u16)
    }

    /// Whether one of the split columns follows `rule`, and if so whether it is the first.
    pub fn split_column(&self, rule: SplitRule) -> Option<usize> {
        self.splits.iter().position(|&own| own == rule)
    }

    /// Samples of audio that come before frame `frame`, counted from the start of the WAV file:
    /// ⌊frame · rate / fps⌋. Frame f is accompanied by the samples between this and the next.
    pub fn audio_start(&self, frame: usize) -> usize {
        let rate = f64::from(self.audio_rate.unwrap_or(0));
        (frame as f64 * rate / f64::from(self.fps) + 1e-6) as usize
    }

    /// Checks every rule that does not need the episodes; the error is a sentence.
    pub fn validate(&self) -> std::result::Result<(), String> {
        let FieldOfView { horizontal_degrees, vertical_degrees } = self.field_of_view;
        let angle = |degrees: f32| degrees > 0.0 && degrees < 180.0;
        let [width, height] = self.resolution;
        let cue = |name: &str| self.cues.iter().any(|cue| cue == name);
        let rules: &[(bool, &str)] = &[
            (self.format == FORMAT_NAME, "`format` must be \"far-dataset\""),
            (!self.corpus.is_empty(), "`corpus` must not be empty"),
            (self.poses || self.version > WITH_POSES, "`poses`: false needs `version`: 2"),
            (
                self.robot_action.is_none() || self.version > WITH_POSES,
                "`robot_action` needs `version`: 2",
            ),
            (
                self.robot_action.as_ref().is_none_or(RobotAction::is_valid),
                "`robot_action` must have as many deviations as means, finite and above 0",
            ),
            (
                self.poses || !(self.has(Signal::VisibleFaces) || self.has(Signal::States)),
                "`signals` has \"visible-faces\" or \"states\", which need poses",
            ),
            (self.fps.is_finite() && self.fps > 0.0, "`fps` must be above 0"),
            (
                angle(horizontal_degrees) && angle(vertical_degrees),
                "`field_of_view` angles must lie between 0 and 180 degrees",
            ),
            (
                (1..=16384).contains(&width) && (1..=16384).contains(&height),
                "`resolution` must be [width, height], each 1 to 16384",
            ),
            (
                (1..=2).contains(&self.splits.len()) && self.splits.first() != self.splits.get(1),
                "`splits` must name one rule or two different ones",
            ),
            (
                !self.has(Signal::Events) || !self.labels.is_empty(),
                "`signals` has \"events\", so `labels` must not be empty",
            ),
            (self.labels.len() <= usize::from(u16::MAX), "`labels` has more than 65535 names"),
            (
                self.audio_rate.is_none_or(|rate| (1000..=192_000).contains(&rate)),
                "`audio_rate` must lie between 1000 and 192000 hertz",
            ),
            (
                !cue("audio") || self.audio_rate.is_some(),
                "`cues` has \"audio\", so `audio_rate` must say how many samples a second has",
            ),
            (
                !cue("agent") || self.has(Signal::Agent),
                "`cues` has \"agent\", so `signals` must have \"agent\" too",
            ),
            (
                !self.has(Signal::Agent) || self.agent_lag > 0,
                "`agent_lag` must be at least one frame",
            ),
            (
                self.overlap_radius.is_finite() && self.overlap_radius > 0.0,
                "`overlap_radius` must be above 0",
            ),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, reason)) => Err((*reason).into()),
            None => Ok(()),
        }
    }

    /// Parses and checks the bytes of a `dataset.json`; `path` is named in errors.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self> {
        let wrong = |reason: String| DataError::Description { path: path.to_path_buf(), reason };
        // The version is read first: a newer version may have entries that this one refuses.
        let value: serde_json::Value =
            serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        let found = value
            .get("version")
            .and_then(serde_json::Value::as_u64)
            .ok_or_else(|| wrong("`version` must be a whole number".into()))?;
        if !(WITH_POSES..=FORMAT_VERSION).contains(&found) {
            let path = path.to_path_buf();
            return Err(DataError::Version { path, found, supported: FORMAT_VERSION });
        }
        let description: Self =
            serde_path_to_error::deserialize(value).map_err(|error| {
                match error.path().to_string().as_str() {
                    "." => wrong(error.inner().to_string()),
                    entry => wrong(format!("`{entry}`: {}", error.inner())),
                }
            })?;
        description.validate().map_err(wrong)?;
        Ok(description)
    }

    /// The bytes of `dataset.json`: readable JSON with a final newline.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data always serializes") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<DatasetDescription> {
        DatasetDescription::parse(text.as_bytes(), Path::new("dataset.json"))
    }

    #[test]
    fn a_description_survives_json() {
        let mut description = DatasetDescription::new("kitchen", 10.0, [256, 256], [90.0, 90.0]);
        description.signals = vec![Signal::Events, Signal::DoorFraction, Signal::Change];
        description.labels = vec!["open".into(), "close".into()];
        description.splits = vec![SplitRule::SceneDisjoint, SplitRule::Episode];
        description.audio_rate = Some(16_000);
        assert_eq!(parse(&description.to_json()).expect("valid"), description);
        assert_eq!(description.label("close"), Some(1));
        assert_eq!(description.audio_start(3), 4800);
    }

    #[test]
    fn another_version_is_named_before_anything_else() {
        let error = parse(r#"{"format": "far-dataset", "version": 9, "new": 1}"#).unwrap_err();
        assert!(matches!(error, DataError::Version { found: 9, supported: 2, .. }));
        assert!(error.hint().contains("update"));
    }

    #[test]
    fn datasets_without_poses_are_of_version_2() {
        let with = DatasetDescription::new("garden", 20.0, [64, 48], [90.0, 73.0]);
        assert!(!with.to_json().contains("poses"), "older programs read it");
        let without = with.without_poses();
        assert_eq!(parse(&without.to_json()).expect("valid"), without);
        let error = parse(&without.to_json().replace("\"version\": 2", "\"version\": 1"));
        assert!(error.unwrap_err().to_string().contains("`version`: 2"));
    }

    #[test]
    fn datasets_with_commands_are_of_version_2() {
        let commands = RobotAction { mean: vec![0.5, -90.0], deviation: vec![1.0, 12.5] };
        let plain = DatasetDescription::new("arm", 30.0, [64, 48], [90.0, 73.0]);
        assert!(!plain.to_json().contains("robot_action"));
        let with = plain.with_robot_action(commands);
        let text = with.to_json();
        assert_eq!(parse(&text).expect("valid"), with);
        for (from, to, words) in [
            ("\"version\": 2", "\"version\": 1", "`robot_action` needs"),
            ("12.5", "0", "above 0"),
            ("12.5", "12.5, 1", "as many deviations"),
            ("\"deviation\"", "\"spread\"", "spread"),
        ] {
            let error = parse(&text.replacen(from, to, 1)).expect_err(words);
            assert!(error.to_string().contains(words), "{error} should say {words}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let good = DatasetDescription::new("garden", 20.0, [64, 48], [90.0, 73.0]).to_json();
        for (from, to, word) in [
            ("\"fps\": 20.0", "\"fps\": 0", "fps"),
            ("90.0", "190.0", "field_of_view"),
            ("\"cues\"", "\"clues\"", "clues"),
            ("\"episode\"", "\"episode\", \"episode\"", "splits"),
            ("\"signals\": []", "\"signals\": [\"events\"]", "labels"),
            ("64,", "0,", "resolution"),
            (
                "\"version\": 1,\n    \"seed\"",
                "\"version\": \"1\",\n    \"seed\"",
                "generator.version",
            ),
            ("\"vision\"", "7", "cues[1]"),
            ("\"vision\"", "\"audio\"", "audio_rate"),
            ("\"vision\"", "\"agent\"", "signals"),
        ] {
            let error = parse(&good.replacen(from, to, 1)).expect_err(to);
            assert!(error.to_string().contains(word), "{error} should name {word}");
        }
        assert!(parse("{").is_err() && parse("[]").is_err() && parse("").is_err());
    }
}

//! `tum`: TUM RGB-D, `rgb.txt` (time, picture) and `groundtruth.txt` (time, position, quaternion).
//!
//! Pictures and poses run on two clocks of their own rates; each picture takes the pose nearest in
//! time, within 0.02 s. Quaternions have the real part last. The world is level, z up.

use super::super::source::exactly;
use super::super::{
    Convention, ImportOptions, Lens, PictureSource, RecordedFrame, Recording, RigidPose, Source,
};
use super::{Format, Parsed, each_folder, inside, name_of, numbered_lines, parse_lines};
use crate::Result;

/// Pictures and poses farther apart than this are not of one moment, in seconds.
const TOGETHER: f64 = 0.02;

/// TUM RGB-D.
pub const FORMAT: Format = Format {
    name: "tum",
    about: "TUM RGB-D: rgb.txt and groundtruth.txt (t tx ty tz qx qy qz qw)",
    convention: Convention::OURS,
    read,
};

fn read(source: &Source, _: &ImportOptions) -> Result<Vec<Recording>> {
    let has = |folder: &str, name: &str| source.has(inside(folder, name));
    let is_one = |folder: &str| has(folder, "rgb.txt") && has(folder, "groundtruth.txt");
    let read = |folder: &str| read_sequence(source, folder);
    each_folder(source, 3, is_one, "folder with rgb.txt and groundtruth.txt", read)
}

fn read_sequence(source: &Source, folder: &str) -> Result<Recording> {
    let [pictures, poses] = ["rgb.txt", "groundtruth.txt"].map(|name| inside(folder, name));
    let listed =
        parse_list(&source.text(&pictures)?).map_err(|reason| source.refuse(&pictures, reason))?;
    let track =
        parse_track(&source.text(&poses)?).map_err(|reason| source.refuse(&poses, reason))?;
    let mut frames = Vec::with_capacity(listed.len());
    for (time, picture) in &listed {
        let Some(pose) = nearest(&track, *time) else { continue };
        let picture = PictureSource::File(source.file(inside(folder, picture))?);
        frames.push(RecordedFrame::new(*time, pose, picture));
    }
    let name = name_of(source, folder);
    let lost = listed.len() - frames.len();
    let mut recording = Recording::new(&*name, scene_of(&name), frames);
    if lost > 0 {
        recording.notes.push(format!(
            "{name}: {lost} pictures have no pose within {TOGETHER} s and are left out"
        ));
    }
    recording.lens = lens_of(&name);
    Ok(recording)
}

/// `rgbd_dataset_freiburg1_desk` is a recording of the place `freiburg1`.
fn scene_of(name: &str) -> String {
    let word = name.split(['_', '/']).find(|word| word.starts_with("freiburg"));
    word.unwrap_or(name).to_string()
}

/// The intrinsics that the dataset's page gives for its three cameras; the default of its tools for
/// others.
fn lens_of(name: &str) -> Option<Lens> {
    let (focal, center) = match scene_of(name).as_str() {
        "freiburg1" => ([517.3, 516.5], [318.6, 255.3]),
        "freiburg2" => ([520.9, 521.0], [325.1, 249.7]),
        "freiburg3" => ([535.4, 539.2], [320.1, 247.6]),
        _ => ([525.0, 525.0], [319.5, 239.5]),
    };
    Lens::from_pixels(focal, center, [640.0, 480.0]).ok()
}

/// Lines that are not comments.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    numbered_lines(text).filter(|(_, line)| !line.trim_start().starts_with('#'))
}

fn parse_list(text: &str) -> Parsed<Vec<(f64, String)>> {
    parse_lines(lines(text), |line| {
        let words = line.trim().split_once(char::is_whitespace);
        let (time, path) = words.ok_or("a time and a path are due")?;
        let time = time.parse().map_err(|_| format!("`{time}` is not a time"))?;
        Ok((time, path.trim().to_string()))
    })
}

/// Times and poses, by ascending time.
fn parse_track(text: &str) -> Parsed<Vec<(f64, RigidPose)>> {
    let mut track = parse_lines(lines(text), |line| {
        let [time, x, y, z, qx, qy, qz, qw] = exactly(line)?;
        let pose = RigidPose::from_quaternion([qw, qx, qy, qz], [x, y, z])?;
        if !time.is_finite() {
            return Err(format!("the time is {time}"));
        }
        Ok((time, pose))
    })?;
    track.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(track)
}

fn nearest(track: &[(f64, RigidPose)], time: f64) -> Option<RigidPose> {
    let after = track.partition_point(|(own, _)| *own < time);
    let around = track[after.saturating_sub(1)..track.len().min(after + 1)].iter();
    let found = around.min_by(|a, b| (a.0 - time).abs().total_cmp(&(b.0 - time).abs()))?;
    ((found.0 - time).abs() <= TOGETHER).then_some(found.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pictures_take_the_nearest_pose_in_time() {
        let track =
            parse_track("# c\n1.00 1 0 0 0 0 0 1\n1.03 2 0 0 0 0 0 1\n\n1.01 3 0 0 0 0 0 1\n");
        let track = track.expect("read");
        let x = |time| nearest(&track, time).map(|pose| pose.translation[0]);
        assert_eq!([x(0.99), x(1.004), x(1.02), x(1.049)], [1.0, 1.0, 3.0, 2.0].map(Some));
        assert_eq!([x(0.97), x(1.06)], [None, None]);
        assert_eq!(nearest(&[], 1.0), None);
        assert!(parse_track("1 2 3").unwrap_err().contains("line 1: 3 numbers where 8"));
        assert!(parse_track("1 2 3 4 5 5 5 5").unwrap_err().contains("length 10"));
        assert!(parse_list("1.0").unwrap_err().contains("line 1"));
        assert_eq!(scene_of("rgbd_dataset_freiburg2_desk"), "freiburg2");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9. #\n\ta-z-]{0,200}") {
            let _ = (parse_list(&text), parse_track(&text));
        }
    }
}

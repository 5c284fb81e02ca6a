//! `realestate10k`: RealEstate10K, a text file per clip: the video's address, then a line per frame.
//!
//! A line has 19 numbers: time in microseconds, focal lengths and principal point as shares of the
//! picture, two unused ones, and a 3 × 4 world-to-camera matrix. Pictures are
//! `CLIP/TIME.png|jpg` below the folder `frames` or beside the text files, as common downloaders
//! leave them; or `CLIP.mp4`, of which the frame at that time is taken.

use std::path::Path;
use std::sync::Arc;

use super::super::source::exactly;
use super::super::{
    Convention, ImportOptions, Lens, PictureSource, RecordedFrame, Recording, RigidPose, Source, Up,
};
use super::{Format, Parsed, inside, numbered_lines, parse_lines, some_found};
use crate::{Result, Split};

/// Frames per second of the videos when nothing says so.
const FPS: f64 = 30.0;

/// RealEstate10K.
pub const FORMAT: Format = Format {
    name: "realestate10k",
    about: "RealEstate10K: CLIP.txt with pictures CLIP/TIME.png or CLIP.mp4",
    convention: Convention { up: Up::Axis(1, true), world_to_camera: true, ..Convention::OURS },
    read,
};

fn read(source: &Source, options: &ImportOptions) -> Result<Vec<Recording>> {
    let mut recordings = Vec::new();
    for (folder, split) in [("", None), ("train", Some(Split::Train)), ("test", Some(Split::Test))]
    {
        let names = if source.has(folder) { source.list(folder)? } else { Vec::new() };
        for clip in names.iter().filter_map(|name| name.strip_suffix(".txt")) {
            let mut recording = read_clip(source, folder, clip, options)?;
            recording.split = split;
            recordings.push(recording);
        }
    }
    some_found(source, recordings, "CLIP.txt, train/CLIP.txt or test/CLIP.txt")
}

fn read_clip(
    source: &Source,
    folder: &str,
    clip: &str,
    options: &ImportOptions,
) -> Result<Recording> {
    let path = inside(folder, &format!("{clip}.txt"));
    let parsed = parse(&source.text(&path)?).map_err(|reason| source.refuse(&path, reason))?;
    let fps = options.source_fps.unwrap_or(FPS);
    let video = inside(folder, &format!("{clip}.mp4"));
    let video = source.has(&video).then(|| source.file(&video)).transpose()?.map(Arc::<Path>::from);
    let mut frames = Vec::with_capacity(parsed.lines.len());
    for line in &parsed.lines {
        let picture = match &video {
            Some(path) => {
                let frame = (line.microseconds as f64 * 1e-6 * fps).round() as u64;
                PictureSource::Video { path: path.clone(), frame }
            }
            None => PictureSource::File(find_picture(source, folder, clip, line.microseconds)?),
        };
        frames.push(RecordedFrame::new(line.microseconds as f64 * 1e-6, line.pose, picture));
    }
    // Clips of one video show one house.
    let scene = if parsed.address.is_empty() { clip.to_string() } else { parsed.address };
    let mut recording = Recording::new(inside(folder, clip), scene, frames);
    recording.lens = parsed.lines.first().map(|line| line.lens);
    Ok(recording)
}

fn find_picture(
    source: &Source,
    folder: &str,
    clip: &str,
    time: u64,
) -> Result<std::path::PathBuf> {
    let places =
        ["frames", ""].map(|place| inside(place, folder).trim_end_matches('/').to_string());
    let names = places.iter().flat_map(|place| {
        ["png", "jpg"].map(|ending| inside(place, &format!("{clip}/{time}.{ending}")))
    });
    let found = names.into_iter().find(|name| source.has(name));
    source.file(found.unwrap_or_else(|| inside(folder, &format!("{clip}/{time}.png"))))
}

struct Clip {
    address: String,
    lines: Vec<Line>,
}

struct Line {
    microseconds: u64,
    lens: Lens,
    pose: RigidPose,
}

fn parse(text: &str) -> Parsed<Clip> {
    let address = text.lines().next().unwrap_or_default().trim().to_string();
    let lines = parse_lines(numbered_lines(text).filter(|(number, _)| *number > 0), parse_line)?;
    if lines.is_empty() {
        return Err("it has no frames".into());
    }
    Ok(Clip { address, lines })
}

fn parse_line(line: &str) -> Parsed<Line> {
    let numbers = exactly::<19>(line)?;
    let time = numbers[0];
    if !(0.0..9e15).contains(&time) {
        return Err(format!("the time is {time}"));
    }
    let lens = Lens::from_pixels([numbers[1], numbers[2]], [numbers[3], numbers[4]], [1.0, 1.0])?;
    Ok(Line { microseconds: time as u64, lens, pose: RigidPose::from_rows(&numbers[7..])? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_read_or_named() {
        let good = "https://house\n1000000 0.5 0.9 0.5 0.5 0 0 1 0 0 1 0 1 0 2 0 0 1 3\n";
        let clip = parse(good).expect("read");
        assert_eq!(
            (clip.address.as_str(), clip.lines[0].microseconds),
            ("https://house", 1_000_000)
        );
        assert_eq!(clip.lines[0].pose.translation, [1.0, 2.0, 3.0]);
        assert!((clip.lines[0].lens.angles([640, 360], [640, 360])[0] - 90.0).abs() < 1e-3);
        for (from, to, words) in [
            (" 3\n", "\n", "line 2: 18 numbers"),
            ("1000000 ", "-5 ", "the time is -5"),
            ("0.5 0.9", "0 0.9", "not a camera"),
            ("0 0 1 0 0 1", "0 0 1 0 0 nan", "is NaN"),
        ] {
            let reason = parse(&good.replacen(from, to, 1)).map(|_| ()).unwrap_err();
            assert!(reason.contains(words), "{reason} should say {words}");
        }
        assert!(parse("").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9. \n\te-]{0,200}") {
            let _ = parse(&text);
        }
    }
}

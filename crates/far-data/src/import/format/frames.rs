//! `frames`: pictures or a video, and a table of poses: for everything that has no format of its own.
//!
//! `poses.csv` has a header. Position `x,y,z` and rotation `qw,qx,qy,qz`; or the rows of a matrix
//! `m00 … m23`. Optional: `time` in seconds, `image` (a path; the pictures of the folder in order
//! unless given), `frame` (the number in `video.mp4`), `phase` (`explore` or `return`).

use std::path::Path;
use std::sync::Arc;

use super::super::{
    Convention, ImportOptions, PictureSource, RecordedFrame, Recording, ReturnRule, RigidPose,
    Source,
};
use super::{Format, Parsed, each_folder, inside, is_picture, name_of, scene_above};
use crate::{Phase, Result};

/// Names a video may have beside `poses.csv`.
const VIDEOS: [&str; 4] = ["video.mp4", "video.mkv", "video.avi", "video.webm"];

/// Pictures or a video with a CSV file of poses.
pub const FORMAT: Format = Format {
    name: "frames",
    about: "pictures or video.mp4 with poses.csv (x,y,z,qw,qx,qy,qz or m00..m23; time, image, phase)",
    convention: Convention::OURS,
    read,
};

fn read(source: &Source, options: &ImportOptions) -> Result<Vec<Recording>> {
    let is_one = |folder: &str| source.has(inside(folder, "poses.csv"));
    let read = |folder: &str| read_folder(source, folder, options);
    each_folder(source, 4, is_one, "folder with a poses.csv", read)
}

fn read_folder(source: &Source, folder: &str, options: &ImportOptions) -> Result<Recording> {
    let table_path = inside(folder, "poses.csv");
    let bytes = source.read(&table_path)?;
    let rows = parse_table(&bytes, options).map_err(|reason| source.refuse(&table_path, reason))?;
    let fps = options.source_fps.unwrap_or(10.0);
    let video = VIDEOS.iter().map(|name| inside(folder, name)).find(|path| source.has(path));
    let video: Option<Arc<Path>> = video.map(|path| source.file(path)).transpose()?.map(Arc::from);
    let listed = rows.iter().all(|row| row.image.is_none()) && video.is_none();
    let pictures =
        if listed { list_pictures(source, folder, rows.len(), &table_path)? } else { Vec::new() };
    let mut frames = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        let picture = match (&row.image, &video) {
            (Some(image), _) => PictureSource::File(source.file(inside(folder, image))?),
            (None, Some(path)) => PictureSource::Video {
                path: path.clone(),
                frame: row.frame.unwrap_or(index as u64),
            },
            (None, None) => match pictures.get(index) {
                Some(name) => PictureSource::File(source.file(name)?),
                None => {
                    return Err(source.refuse(&table_path, format!("row {index} names no image")));
                }
            },
        };
        let time = row.time.unwrap_or(index as f64 / fps);
        frames.push(RecordedFrame::new(time, row.pose, picture));
    }
    let mut recording =
        Recording::new(name_of(source, folder), scene_above(source, folder), frames);
    if rows.iter().all(|row| row.time.is_none()) {
        recording.fps = Some(fps);
    }
    recording.boundary = rows.iter().position(|row| row.phase == Some(Phase::Return));
    if recording.boundary.is_none() && rows.iter().any(|row| row.phase.is_some()) {
        recording.boundary = Some(rows.len());
    }
    if options.return_rule == ReturnRule::Column && recording.boundary.is_none() {
        return Err(
            source.refuse(&table_path, "there is no column `phase` with explore and return")
        );
    }
    Ok(recording)
}

fn list_pictures(source: &Source, folder: &str, rows: usize, table: &str) -> Result<Vec<String>> {
    for place in [inside(folder, "images"), folder.to_string()] {
        if !source.has(&place) {
            continue;
        }
        let names = source.list(&place)?;
        let found: Vec<String> = names
            .into_iter()
            .filter(|name| is_picture(name))
            .map(|name| inside(&place, &name))
            .collect();
        if found.len() == rows {
            return Ok(found);
        }
        if !found.is_empty() {
            let reason = format!("{rows} rows for {} pictures in {place:?}", found.len());
            return Err(source.refuse(table, reason));
        }
    }
    Err(source
        .refuse(table, "there are no pictures beside it, in `images` or named by a column `image`"))
}

/// One row of the table.
#[derive(Debug, PartialEq)]
struct Row {
    time: Option<f64>,
    pose: Option<RigidPose>,
    image: Option<String>,
    frame: Option<u64>,
    phase: Option<Phase>,
}

/// Where the columns are.
struct Header {
    names: Vec<String>,
}

impl Header {
    fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|own| own == name)
    }

    fn places(&self, names: &[&str]) -> Option<Vec<usize>> {
        names.iter().map(|name| self.place(name)).collect()
    }
}

fn parse_table(
    bytes: &[u8],
    ImportOptions { quaternions_xyzw, no_poses, .. }: &ImportOptions,
) -> Parsed<Vec<Row>> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(bytes);
    let names = reader.headers().map_err(|error| error.to_string())?;
    let header = Header { names: names.iter().map(str::to_lowercase).collect() };
    let quaternion = header.places(&["x", "y", "z", "qw", "qx", "qy", "qz"]);
    let matrix: Vec<String> = (0..12).map(|place| format!("m{}{}", place / 4, place % 4)).collect();
    let matrix = header.places(&matrix.iter().map(String::as_str).collect::<Vec<_>>());
    if quaternion.is_none() && matrix.is_none() && !no_poses {
        let found = header.names.join(",");
        return Err(format!(
            "columns x,y,z,qw,qx,qy,qz or m00..m23 are due, found {found}; --no-poses makes a dataset without poses"
        ));
    }
    let (quaternion, matrix) = (quaternion.as_deref(), matrix.as_deref());
    let mut rows = Vec::new();
    for (index, record) in reader.records().enumerate() {
        let record = record.map_err(|error| error.to_string())?;
        let row = parse_row(&header, &record, quaternion, matrix, *quaternions_xyzw);
        rows.push(row.map_err(|reason| format!("row {index}: {reason}"))?);
    }
    if rows.is_empty() {
        return Err("it has no rows".into());
    }
    Ok(rows)
}

fn parse_row(
    header: &Header,
    record: &csv::StringRecord,
    quaternion: Option<&[usize]>,
    matrix: Option<&[usize]>,
    xyzw: bool,
) -> Parsed<Row> {
    let text = |name: &str| {
        header.place(name).and_then(|place| record.get(place)).filter(|t| !t.is_empty())
    };
    let number = |place: usize| {
        let word = record.get(place).unwrap_or_default();
        word.parse::<f64>().map_err(|_| format!("`{word}` is not a number"))
    };
    let numbers =
        |places: &[usize]| places.iter().map(|&place| number(place)).collect::<Parsed<Vec<f64>>>();
    let pose = match (quaternion, matrix) {
        (Some(places), _) => {
            let found = numbers(places)?;
            let [a, b, c, d] = [found[3], found[4], found[5], found[6]];
            let order = if xyzw { [d, a, b, c] } else { [a, b, c, d] };
            Some(RigidPose::from_quaternion(order, [found[0], found[1], found[2]])?)
        }
        (None, Some(places)) => Some(RigidPose::from_rows(&numbers(places)?)?),
        (None, None) => None,
    };
    let time = text("time").map(|word| match word.parse::<f64>() {
        Ok(time) if time.is_finite() => Ok(time),
        _ => Err(format!("time `{word}` is not a number")),
    });
    let frame = text("frame").map(|word| {
        word.parse::<u64>().map_err(|_| format!("frame `{word}` is not a whole number"))
    });
    let phase = text("phase").map(|word| {
        Phase::from_name(word).ok_or_else(|| format!("phase `{word}` is not explore or return"))
    });
    Ok(Row {
        time: time.transpose()?,
        pose,
        image: text("image").map(String::from),
        frame: frame.transpose()?,
        phase: phase.transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_kinds_of_pose_are_read() {
        let table =
            "time,x,y,z,qw,qx,qy,qz,phase\n0,1,2,3,1,0,0,0,explore\n0.1,1,2,3,0,0,0,1,return\n";
        let rows = parse_table(table.as_bytes(), &ImportOptions::default()).expect("read");
        assert_eq!((rows.len(), translation(&rows[0])), (2, [1.0, 2.0, 3.0]));
        assert_eq!(rows[1].phase, Some(Phase::Return));
        let xyzw = ImportOptions { quaternions_xyzw: true, ..ImportOptions::default() };
        // The same numbers, real part last: (0, 0, 0, 1) is no rotation at all.
        let swapped = parse_table(table.as_bytes(), &xyzw).expect("read");
        let rotation = |row: &Row| row.pose.expect("a pose").rotation;
        assert_eq!(rotation(&swapped[1]), rotation(&rows[0]));
        let matrix = "m00,m01,m02,m03,m10,m11,m12,m13,m20,m21,m22,m23\n1,0,0,7,0,1,0,8,0,0,1,9\n";
        let rows = parse_table(matrix.as_bytes(), &ImportOptions::default()).expect("read");
        assert_eq!(translation(&rows[0]), [7.0, 8.0, 9.0]);
    }

    fn translation(row: &Row) -> [f64; 3] {
        row.pose.expect("a pose").translation
    }

    #[test]
    fn a_table_may_do_without_poses_when_told() {
        let options = ImportOptions { no_poses: true, ..ImportOptions::default() };
        let rows = parse_table(b"time,phase\n0,explore\n0.1,return\n", &options).expect("read");
        assert_eq!((rows.len(), rows[1].pose), (2, None));
    }

    #[test]
    fn mistakes_name_row_and_reason() {
        for (table, words) in [
            ("a,b\n1,2\n", "found a,b"),
            ("x,y,z,qw,qx,qy,qz\n", "no rows"),
            ("x,y,z,qw,qx,qy,qz\n1,2,3,1,0,0,zero\n", "row 0: `zero` is not a number"),
            ("x,y,z,qw,qx,qy,qz\n1,2,NaN,1,0,0,0\n", "row 0: number 3 is NaN"),
            ("x,y,z,qw,qx,qy,qz\n1,2,3,2,0,0,0\n", "length 2"),
            ("x,y,z,qw,qx,qy,qz,phase\n1,2,3,1,0,0,0,back\n", "phase `back`"),
            ("x,y,z,qw,qx,qy,qz\n1,2,3\n", "7 fields"),
        ] {
            let reason = parse_table(table.as_bytes(), &ImportOptions::default()).unwrap_err();
            assert!(reason.contains(words), "{reason} should say {words}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_table_or_an_error(text in "(x,y,z,qw,qx,qy,qz,time,phase\n)?[0-9.,\n\"a-z-]{0,200}") {
            let _ = parse_table(text.as_bytes(), &ImportOptions::default());
        }
    }
}

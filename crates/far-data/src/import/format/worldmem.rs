//! `worldmem`: WorldMem's Minecraft set, `NNNNNN.mp4` with `NNNNNN.npz`.
//!
//! The archive holds `poses`, one row per frame: x, y, z of the feet, pitch and yaw in the degrees of
//! the game (yaw clockwise from south, pitch positive downward). Folders `training`, `validation` and
//! `test` are the parts.

use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use super::super::rigid_pose::{about_x, about_y, product};
use super::super::{
    CameraAxes, Convention, ImportOptions, Lens, PictureSource, RecordedFrame, Recording,
    RigidPose, Source, Up,
};
use super::{Format, Parsed, some_found};
use crate::{Result, Split};

/// Blocks from feet to eyes in the game itself.
const EYE: f64 = 1.62;

/// Frames per second of the recorder.
const FPS: f64 = 10.0;

/// Bytes that the poses of an episode may unpack to: many days of walking.
const LARGEST_ARRAY: u64 = 1 << 28;

/// WorldMem's Minecraft set.
pub const FORMAT: Format = Format {
    name: "worldmem",
    about: "WorldMem's Minecraft set: NNNNNN.mp4 with NNNNNN.npz (poses: x y z pitch yaw)",
    convention: Convention { axes: CameraAxes::OPENGL, up: Up::Axis(1, false), ..Convention::OURS },
    read,
};

fn read(source: &Source, _: &ImportOptions) -> Result<Vec<Recording>> {
    let paths = source.files(5, ".npz")?;
    let recordings = paths.iter().map(|path| read_episode(source, path));
    some_found(source, recordings.collect::<Result<_>>()?, "NNNNNN.npz")
}

fn read_episode(source: &Source, path: &str) -> Result<Recording> {
    let poses = parse(&source.read(path)?).map_err(|reason| source.refuse(path, reason))?;
    let stem = path.trim_end_matches(".npz");
    let video: Arc<Path> = source.file(format!("{stem}.mp4"))?.into();
    let mut frames = Vec::with_capacity(poses.len());
    for (index, numbers) in poses.iter().enumerate() {
        if let Some(wrong) = numbers.iter().find(|number| !number.is_finite()) {
            return Err(source.refuse(path, format!("row {index} of `poses` holds {wrong}")));
        }
        let picture = PictureSource::Video { path: video.clone(), frame: index as u64 };
        frames.push(RecordedFrame::new(index as f64 / FPS, pose(*numbers), picture));
    }
    let mut folders = stem.split('/').rev().skip(1);
    let scene = folders.next().filter(|folder| split(folder).is_none());
    let scene = scene.map_or_else(|| stem.to_string(), String::from);
    let mut recording = Recording::new(stem, scene, frames);
    recording.split = stem.split('/').find_map(split);
    recording.fps = Some(FPS);
    recording.lens = "105x75".parse::<Lens>().ok();
    Ok(recording)
}

fn split(folder: &str) -> Option<Split> {
    match folder {
        "training" => Some(Split::Train),
        "validation" => Some(Split::Validation),
        "test" => Some(Split::Test),
        _ => None,
    }
}

fn pose([x, y, z, pitch, yaw]: [f64; 5]) -> RigidPose {
    let rotation =
        product(&about_y(std::f64::consts::PI - yaw.to_radians()), &about_x(-pitch.to_radians()));
    RigidPose { rotation, translation: [x, y + EYE, z] }
}

/// The rows of `poses.npy` in the archive.
fn parse(bytes: &[u8]) -> Parsed<Vec<[f64; 5]>> {
    let mut archive =
        zip::ZipArchive::new(Cursor::new(bytes)).map_err(|error| error.to_string())?;
    let entry = archive.by_name("poses.npy").map_err(|error| format!("`poses`: {error}"))?;
    // What an archive declares is not believed: unpacking stops at the limit.
    let mut array = Vec::new();
    entry.take(LARGEST_ARRAY + 1).read_to_end(&mut array).map_err(|error| error.to_string())?;
    if array.len() as u64 > LARGEST_ARRAY {
        return Err(format!("`poses` unpacks to more than {LARGEST_ARRAY} bytes"));
    }
    rows(&array)
}

/// Rows of five numbers of a NumPy array of 32- or 64-bit floats.
fn rows(array: &[u8]) -> Parsed<Vec<[f64; 5]>> {
    let body = array.strip_prefix(b"\x93NUMPY").ok_or("`poses` is not a NumPy array")?;
    let (length, start) = match body {
        [1, _, low, high, ..] => (usize::from(u16::from_le_bytes([*low, *high])), 4),
        [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 6),
        _ => return Err("`poses` has an unknown version".into()),
    };
    let header =
        body.get(start..).and_then(|rest| rest.get(..length)).ok_or("`poses` is cut short")?;
    let header: String = String::from_utf8_lossy(header).split_whitespace().collect();
    let data = &body[start + length..];
    let bytes_each = match () {
        () if header.contains("'descr':'<f8'") => 8,
        () if header.contains("'descr':'<f4'") => 4,
        () => return Err("`poses` should hold 32- or 64-bit floats".into()),
    };
    if !header.contains("'fortran_order':False") || !header.contains(",5)") {
        return Err(format!("`poses` should have five columns, its header is {header}"));
    }
    let number = |bytes: &[u8]| match bytes_each {
        8 => f64::from_le_bytes(bytes.try_into().expect("eight bytes")),
        _ => f64::from(f32::from_le_bytes(bytes.try_into().expect("four bytes"))),
    };
    let row = |bytes: &[u8]| {
        let mut numbers = bytes.chunks_exact(bytes_each).map(number);
        std::array::from_fn(|_| numbers.next().expect("five numbers"))
    };
    if data.is_empty() || !data.len().is_multiple_of(5 * bytes_each) {
        return Err("`poses` is cut short".into());
    }
    Ok(data.chunks_exact(5 * bytes_each).map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn array(kind: &str, data: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': (1, 5), }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn floats_of_both_sizes_are_read() {
        let wide: Vec<u8> =
            [1.0f64, 2.0, 3.0, 4.0, 5.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let narrow: Vec<u8> =
            [1.0f32, 2.0, 3.0, 4.0, 5.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let due = Ok(vec![[1.0, 2.0, 3.0, 4.0, 5.0]]);
        assert_eq!(rows(&array("<f8", &wide)), due);
        assert_eq!(rows(&array("<f4", &narrow)), due);
        assert!(rows(&array("<i8", &wide)).unwrap_err().contains("floats"));
        assert!(rows(&array("<f8", &wide[..39])).unwrap_err().contains("cut short"));
        assert!(rows(b"").is_err() && rows(b"\x93NUMPY").is_err());
        assert!(parse(b"PK").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (parse(&bytes), rows(&bytes));
            let _ = rows(&[b"\x93NUMPY".to_vec(), bytes].concat());
        }
    }
}

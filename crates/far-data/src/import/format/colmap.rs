//! `colmap`: a sparse model, text or binary: cameras and images; pictures in `images`.
//!
//! Poses are world to camera, quaternions with the real part first, OpenCV axes. The world is not
//! level and has no unit: it is brought upright by the cameras, `--unit` says how long one is.

use super::super::source::numbers;
use super::super::{
    Convention, ImportOptions, Lens, PictureSource, RecordedFrame, Recording, RigidPose, Source, Up,
};
use super::{Format, each_folder, inside, name_of};

/// Frames per second when nothing says so: models have no times.
const FPS: f64 = 10.0;

/// Names of camera models by their number, with how many parameters each has and whether the first
/// two are separate focal lengths.
const MODELS: [(&str, usize, bool); 11] = [
    ("SIMPLE_PINHOLE", 3, false),
    ("PINHOLE", 4, true),
    ("SIMPLE_RADIAL", 4, false),
    ("RADIAL", 5, false),
    ("OPENCV", 8, true),
    ("OPENCV_FISHEYE", 8, true),
    ("FULL_OPENCV", 12, true),
    ("FOV", 5, true),
    ("SIMPLE_RADIAL_FISHEYE", 4, false),
    ("RADIAL_FISHEYE", 5, false),
    ("THIN_PRISM_FISHEYE", 12, true),
];

/// COLMAP's sparse models.
pub const FORMAT: Format = Format {
    name: "colmap",
    about: "COLMAP: images and sparse/0 with cameras and images, .txt or .bin",
    convention: Convention { up: Up::Cameras, world_to_camera: true, ..Convention::OURS },
    read,
};

fn read(source: &Source, options: &ImportOptions) -> crate::Result<Vec<Recording>> {
    let is_one = |folder: &str| model_folder(source, folder).is_some();
    let read = |folder: &str| read_model(source, folder, options);
    each_folder(source, 3, is_one, "sparse/0/images.bin or images.txt", read)
}

/// Where the model of a recording is.
fn model_folder(source: &Source, folder: &str) -> Option<String> {
    let places = ["sparse/0", "sparse", "colmap/sparse/0", ""].map(|place| inside(folder, place));
    let has = |place: &String, name: &str| source.has(inside(place.trim_end_matches('/'), name));
    let found = places.iter().find(|place| has(place, "images.bin") || has(place, "images.txt"));
    found.map(|place| place.trim_end_matches('/').to_string())
}

fn read_model(source: &Source, folder: &str, options: &ImportOptions) -> crate::Result<Recording> {
    let place = model_folder(source, folder).unwrap_or_default();
    let binary = source.has(inside(&place, "images.bin"));
    let ending = if binary { "bin" } else { "txt" };
    let [cameras_path, images_path] =
        ["cameras", "images"].map(|name| inside(&place, &format!("{name}.{ending}")));
    let cameras = source.read(&cameras_path)?;
    let cameras = if binary { binary_cameras(&cameras) } else { text_cameras(&cameras) };
    let cameras = cameras.map_err(|reason| source.refuse(&cameras_path, reason))?;
    let images = source.read(&images_path)?;
    let images = if binary { binary_images(&images) } else { text_images(&images) };
    let mut images = images.map_err(|reason| source.refuse(&images_path, reason))?;
    images.sort_by(|a, b| a.name.cmp(&b.name));
    let fps = options.source_fps.unwrap_or(FPS);
    let mut frames = Vec::with_capacity(images.len());
    for (index, image) in images.iter().enumerate() {
        let name = inside(&inside(folder, "images"), &image.name);
        let picture = PictureSource::File(source.file(name)?);
        frames.push(RecordedFrame::new(index as f64 / fps, image.pose, picture));
    }
    let mut recording = Recording::new(name_of(source, folder), name_of(source, folder), frames);
    recording.fps = Some(fps);
    let used = images.first().map(|image| image.camera);
    let camera = cameras.iter().find(|camera| Some(camera.id) == used);
    let camera = camera
        .ok_or_else(|| source.refuse(&images_path, format!("camera {used:?} is not listed")))?;
    recording.lens = Some(camera.lens);
    if camera.distorted {
        recording.notes.push(format!("{cameras_path}: the lens distorts, which is not undone"));
    }
    Ok(recording)
}

#[derive(Debug, PartialEq)]
struct Camera {
    id: u64,
    lens: Lens,
    distorted: bool,
}

#[derive(Debug, PartialEq)]
struct Image {
    camera: u64,
    name: String,
    pose: RigidPose,
}

fn camera(id: u64, model: usize, size: [f64; 2], parameters: &[f64]) -> Result<Camera, String> {
    let (name, count, two) = MODELS[model];
    if parameters.len() != count {
        return Err(format!(
            "camera {id}: {} parameters where {name} has {count}",
            parameters.len()
        ));
    }
    let (focal, rest) = match two {
        true => ([parameters[0], parameters[1]], &parameters[2..]),
        false => ([parameters[0]; 2], &parameters[1..]),
    };
    let lens = Lens::from_pixels(focal, [rest[0], rest[1]], size)
        .map_err(|reason| format!("camera {id}: {reason}"))?;
    Ok(Camera { id, lens, distorted: rest[2..].iter().any(|number| number.abs() > 0.01) })
}

/// Lines that are not comments. Lines of points may be empty, so empty ones count.
fn lines(bytes: &[u8]) -> Result<Vec<&str>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8 text")?;
    Ok(text.lines().map(str::trim).filter(|line| !line.starts_with('#')).collect())
}

fn text_cameras(bytes: &[u8]) -> Result<Vec<Camera>, String> {
    let mut cameras = Vec::new();
    for line in lines(bytes)?.into_iter().filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let model = words.get(1).and_then(|word| MODELS.iter().position(|(name, ..)| name == word));
        let model = model.ok_or_else(|| format!("`{line}` names no known camera model"))?;
        let id =
            words[0].parse().map_err(|_| format!("`{}` is not a camera's number", words[0]))?;
        let found = numbers(&words[2..].join(" "))?;
        if found.len() < 2 {
            return Err(format!("camera {id} has no size"));
        }
        cameras.push(camera(id, model, [found[0], found[1]], &found[2..])?);
    }
    Ok(cameras)
}

fn text_images(bytes: &[u8]) -> Result<Vec<Image>, String> {
    let lines = lines(bytes)?;
    let mut images = Vec::new();
    // Every second line holds points. The last one may be missing.
    for line in lines.iter().step_by(2).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() < 10 {
            return Err(format!("`{line}` has {} words where an image has 10", words.len()));
        }
        let found = numbers(&words[..9].join(" "))?;
        let pose = RigidPose::from_quaternion(
            [found[1], found[2], found[3], found[4]],
            [found[5], found[6], found[7]],
        );
        let name = words[9..].join(" ");
        let pose = pose.map_err(|reason| format!("{name}: {reason}"))?;
        images.push(Image { camera: found[8] as u64, name, pose });
    }
    Ok(images)
}

/// Little-endian numbers of a binary model, read with care for its end.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or("it is cut short")?;
        self.0 = rest;
        Ok(*head)
    }

    fn long(&mut self) -> Result<u64, String> {
        self.take().map(u64::from_le_bytes)
    }

    fn int(&mut self) -> Result<u32, String> {
        self.take().map(u32::from_le_bytes)
    }

    fn double(&mut self) -> Result<f64, String> {
        self.take().map(f64::from_le_bytes)
    }

    fn doubles<const N: usize>(&mut self) -> Result<[f64; N], String> {
        let mut found = [0.0; N];
        for number in &mut found {
            *number = self.double()?;
        }
        Ok(found)
    }

    fn skip(&mut self, length: u64) -> Result<(), String> {
        let length = usize::try_from(length).map_err(|_| "it is cut short")?;
        self.0 = self.0.get(length..).ok_or("it is cut short")?;
        Ok(())
    }

    /// Text that ends with a zero.
    fn text(&mut self) -> Result<String, String> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or("it is cut short")?;
        let text = std::str::from_utf8(&self.0[..end]).map_err(|_| "a name is not UTF-8")?;
        self.0 = &self.0[end + 1..];
        Ok(text.to_string())
    }
}

fn binary_cameras(bytes: &[u8]) -> Result<Vec<Camera>, String> {
    let mut bytes = Bytes(bytes);
    let count = bytes.long()?;
    let mut cameras = Vec::new();
    for _ in 0..count {
        let id = u64::from(bytes.int()?);
        let model = bytes.int()? as usize;
        let size = [bytes.long()? as f64, bytes.long()? as f64];
        let (_, parameters, _) = MODELS
            .get(model)
            .ok_or_else(|| format!("camera {id} has the unknown model {model}"))?;
        let found =
            (0..*parameters).map(|_| bytes.double()).collect::<Result<Vec<f64>, String>>()?;
        cameras.push(camera(id, model, size, &found)?);
    }
    Ok(cameras)
}

fn binary_images(bytes: &[u8]) -> Result<Vec<Image>, String> {
    /// x, y and the number of a 3D point.
    const POINT: u64 = 24;
    let mut bytes = Bytes(bytes);
    let count = bytes.long()?;
    let mut images = Vec::new();
    for _ in 0..count {
        let id = bytes.int()?;
        let (rotation, translation) = (bytes.doubles()?, bytes.doubles()?);
        let camera = u64::from(bytes.int()?);
        let name = bytes.text()?;
        let points = bytes.long()?;
        bytes.skip(points.checked_mul(POINT).ok_or("it is cut short")?)?;
        let pose = RigidPose::from_quaternion(rotation, translation)
            .map_err(|reason| format!("image {id}, {name}: {reason}"))?;
        images.push(Image { camera, name, pose });
    }
    Ok(images)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_and_binary_say_the_same() {
        let text = "# images\n1 1 0 0 0 4 5 6 3 a b.png\n1 2 -1\n2 0 1 0 0 7 8 9 3 c.png\n\n";
        let read = text_images(text.as_bytes()).expect("read");
        let mut binary = 2u64.to_le_bytes().to_vec();
        for (id, rotation, translation, name, points) in [
            (1u32, [1.0, 0.0, 0.0, 0.0], [4.0, 5.0, 6.0], "a b.png", 1u64),
            (2, [0.0, 1.0, 0.0, 0.0], [7.0, 8.0, 9.0], "c.png", 0),
        ] {
            binary.extend(id.to_le_bytes());
            rotation.iter().chain(&translation).for_each(|x: &f64| binary.extend(x.to_le_bytes()));
            binary.extend(3u32.to_le_bytes());
            binary.extend(name.bytes().chain([0]));
            binary.extend(points.to_le_bytes());
            binary.extend(vec![0; 24 * points as usize]);
        }
        assert_eq!(binary_images(&binary), Ok(read));
        for length in 0..binary.len() {
            assert!(binary_images(&binary[..length]).is_err(), "cut at {length}");
        }
        let cameras = text_cameras(b"3 PINHOLE 640 480 320 320 320 240\n").expect("read");
        let mut binary = 1u64.to_le_bytes().to_vec();
        binary.extend(3u32.to_le_bytes());
        binary.extend(1u32.to_le_bytes());
        [640u64, 480].iter().for_each(|side| binary.extend(side.to_le_bytes()));
        [320.0f64, 320.0, 320.0, 240.0].iter().for_each(|x| binary.extend(x.to_le_bytes()));
        assert_eq!(binary_cameras(&binary), Ok(cameras));
    }

    #[test]
    fn gigantic_counts_are_refused_at_once() {
        let huge = u64::MAX.to_le_bytes();
        assert!(binary_images(&huge).is_err() && binary_cameras(&huge).is_err());
        assert!(text_cameras(b"1 LYTRO 1 1 1").unwrap_err().contains("camera model"));
        assert!(text_cameras(b"1 PINHOLE 640 480 320").unwrap_err().contains("4"));
        assert!(text_images(b"1 1 0 0").unwrap_err().contains("4 words"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = (binary_images(&bytes), binary_cameras(&bytes));
            let _ = (text_images(&bytes), text_cameras(&bytes));
        }
    }
}

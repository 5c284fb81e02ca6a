//! Made-up recordings that `scripts/make_import_sources.py` wrote, ready to be imported.

use std::path::{Path, PathBuf};

use far_data::Result;
use far_data::import::{ImportOptions, ImportPlan, Lens, find_format};

/// The folder of all sources.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import_sources")
}

/// A copy of a source with its pictures in their places.
pub fn source(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    copy(&fixtures().join(name), folder.path());
    let take = |name: &str| {
        let path = folder.path().join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let _ = std::fs::remove_file(path);
        text
    };
    // Videos are not opened here: the tests of the program decode them.
    for line in take("videos.txt").lines() {
        let place = folder.path().join(line.split(' ').next().expect("a path"));
        std::fs::create_dir_all(place.parent().expect("a folder")).expect("made");
        std::fs::write(place, "a video").expect("written");
    }
    let places = take("pictures.txt");
    for (frame, place) in places.lines().enumerate() {
        let place = folder.path().join(place);
        std::fs::create_dir_all(place.parent().expect("a folder")).expect("made");
        std::fs::copy(fixtures().join(format!("pictures/{frame:03}.png")), place).expect("copied");
    }
    folder
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(from).expect("listed") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(std::fs::copy(&path, target).expect("copied")),
        }
    }
}

/// Options that read a source of `frames` in the given words.
pub fn options(words: &str) -> ImportOptions {
    let mut options = ImportOptions { lens: Some(Lens::Horizontal(80.0)), ..Default::default() };
    let mut words = words.split_whitespace();
    let convention = &mut options.convention;
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("a value");
        match word {
            "axes" => convention.axes = Some(value().parse().expect("axes")),
            "up" => convention.up = Some(value().parse().expect("up")),
            "unit" => convention.unit = Some(value().parse().expect("a number")),
            "left" => convention.left_handed = Some(true),
            "inverse" => convention.world_to_camera = Some(true),
            "xyzw" => options.quaternions_xyzw = true,
            other => panic!("{other}"),
        }
    }
    options
}

/// Reads a source and decides.
pub fn plan(format: &str, source: &Path, options: &ImportOptions) -> Result<ImportPlan> {
    ImportPlan::new(find_format(format).expect("known"), source, options)
}

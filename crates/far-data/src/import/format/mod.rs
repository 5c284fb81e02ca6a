//! The formats, one file each.

mod colmap;
mod dataset;
mod frames;
mod lerobot;
mod loopnav;
mod realestate10k;
mod scannet;
mod seven_scenes;
mod soundspaces;
mod tartanair;
mod thor;
mod transforms;
mod tum;
mod worldmem;

use super::{Convention, ImportOptions, Recording, Source};
use crate::{DataError, Result};

/// How one kind of source is read.
pub trait Format: Sync {
    /// The word on the command line.
    fn name(&self) -> &'static str;

    /// What a source of this kind holds, in one line.
    fn about(&self) -> &'static str;

    /// What its poses mean.
    fn convention(&self) -> Convention;

    /// Reads tables and poses, not pictures: a source that is refused is refused before anything is
    /// written.
    ///
    /// # Errors
    /// If a file is missing, is not what the format says, or leads out of the source.
    fn read(&self, source: &Source, options: &ImportOptions) -> Result<Vec<Recording>>;
}

/// All formats, in the order in which they are listed.
pub static FORMATS: &[&dyn Format] = &[
    &frames::Frames,
    &seven_scenes::SevenScenes,
    &tum::Tum,
    &transforms::Transforms,
    &colmap::Colmap,
    &realestate10k::RealEstate10K,
    &scannet::ScanNet,
    &tartanair::TartanAir,
    &lerobot::LeRobot,
    &loopnav::LoopNav,
    &worldmem::WorldMem,
    &soundspaces::SoundSpaces,
    &thor::Thor,
    &dataset::OwnDataset,
];

/// The format of that name.
///
/// # Errors
/// If there is none; the message lists all.
pub fn find_format(name: &str) -> Result<&'static dyn Format> {
    FORMATS.iter().copied().find(|format| format.name() == name).ok_or_else(|| {
        let names: Vec<&str> = FORMATS.iter().map(|format| format.name()).collect();
        let reason = format!("`{name}` is not one of {}", names.join(", "));
        DataError::Setting { setting: "FORMAT", reason }
    })
}

/// Pictures of a folder by name, PNG and JPEG.
fn is_picture(name: &str) -> bool {
    let lower = name.to_lowercase();
    [".png", ".jpg", ".jpeg"].iter().any(|ending| lower.ends_with(ending))
}

/// A path below a folder of the source, "" being the source itself.
fn inside(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_string() } else { format!("{folder}/{name}") }
}

/// The name of a recording that lies in `folder` of the source.
fn name_of(source: &Source, folder: &str) -> String {
    if folder.is_empty() { source.name() } else { folder.to_string() }
}

/// The scene of a recording: the folder above its own, or the source.
fn scene_above(source: &Source, folder: &str) -> String {
    match folder.rsplit_once('/') {
        Some((scene, _)) => scene.to_string(),
        None => source.name(),
    }
}

/// A source without a single recording.
fn none_found(source: &Source, wanted: &str) -> DataError {
    source.refuse("", format!("there is no {wanted}"))
}

/// One JSON object per line.
fn json_lines<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> std::result::Result<Vec<T>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8 text")?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parsed: Vec<T> = lines
        .map(|(number, line)| {
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", number + 1))
        })
        .collect::<std::result::Result<_, String>>()?;
    if parsed.is_empty() {
        return Err("it has no lines".into());
    }
    Ok(parsed)
}

/// Pictures that the lines of a table name, or else those of the folder `place` in order.
fn numbered_pictures(
    source: &Source,
    folder: &str,
    place: &str,
    named: Vec<Option<String>>,
    table: &str,
) -> Result<Vec<std::path::PathBuf>> {
    if named.iter().any(Option::is_some) {
        let missing =
            |line: usize| source.refuse(table, format!("line {} names no image", line + 1));
        let of = |(line, name): (usize, Option<String>)| {
            source.file(inside(folder, &name.ok_or_else(|| missing(line))?))
        };
        return named.into_iter().enumerate().map(of).collect();
    }
    let place = inside(folder, place);
    let names: Vec<String> =
        source.list(&place)?.into_iter().filter(|name| is_picture(name)).collect();
    if names.len() != named.len() {
        let reason = format!("{} lines for {} pictures in {place}", named.len(), names.len());
        return Err(source.refuse(table, reason));
    }
    names.iter().map(|name| source.file(inside(&place, name))).collect()
}

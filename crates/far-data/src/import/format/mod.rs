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
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// The word on the command line.
    pub name: &'static str,
    /// What a source of this kind holds, in one line.
    pub about: &'static str,
    /// What its poses mean.
    pub convention: Convention,
    /// Reads tables and poses, not pictures: a source that is refused is refused before anything is
    /// written. Fails if a file is missing, is not what the format says, or leads out of the source.
    pub read: fn(&Source, &ImportOptions) -> Result<Vec<Recording>>,
}

/// All formats, in the order in which they are listed.
pub static FORMATS: [Format; 14] = [
    frames::FORMAT,
    seven_scenes::FORMAT,
    tum::FORMAT,
    transforms::FORMAT,
    colmap::FORMAT,
    realestate10k::FORMAT,
    scannet::FORMAT,
    tartanair::FORMAT,
    lerobot::FORMAT,
    loopnav::FORMAT,
    worldmem::FORMAT,
    soundspaces::FORMAT,
    thor::FORMAT,
    dataset::FORMAT,
];

/// The format of that name.
///
/// # Errors
/// If there is none; the message lists all.
pub fn find_format(name: &str) -> Result<&'static Format> {
    FORMATS.iter().find(|format| format.name == name).ok_or_else(|| {
        let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
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

/// The recordings; a source without a single one is refused.
fn some_found(source: &Source, found: Vec<Recording>, wanted: &str) -> Result<Vec<Recording>> {
    match found.is_empty() {
        true => Err(source.refuse("", format!("there is no {wanted}"))),
        false => Ok(found),
    }
}

/// The recordings of the folders that are one each, at most `depth` below the source.
fn each_folder(
    source: &Source,
    depth: usize,
    is_one: impl Fn(&str) -> bool,
    wanted: &str,
    read: impl Fn(&str) -> Result<Recording>,
) -> Result<Vec<Recording>> {
    let folders = source.recordings(depth, &is_one)?;
    let found = folders.iter().map(|folder| read(folder)).collect::<Result<_>>()?;
    some_found(source, found, wanted)
}

/// What a file's text says, or what is wrong with it.
type Parsed<T> = std::result::Result<T, String>;

/// The lines of a text with their numbers from 0, without empty ones.
fn numbered_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty())
}

/// What each line says; a mistake is named by its line.
fn parse_lines<'a, T>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    parse: impl Fn(&'a str) -> Parsed<T>,
) -> Parsed<Vec<T>> {
    let named = |number: usize| move |reason| format!("line {}: {reason}", number + 1);
    lines.map(|(number, line)| parse(line).map_err(named(number))).collect()
}

/// One JSON object per line.
fn json_lines<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Parsed<Vec<T>> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8 text")?;
    let object = |line| serde_json::from_str(line).map_err(|error| error.to_string());
    let parsed: Vec<T> = parse_lines(numbered_lines(text), object)?;
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

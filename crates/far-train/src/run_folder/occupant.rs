//! What is in a folder that a run is to have: nothing, a run that can go on, one that cannot, or something else.

use super::checkpoints::{CHECKPOINTS, Checkpoints};
use super::unfinished::PARTIAL;
use super::{CONFIG, ENVIRONMENT, LOCK, METRICS, RESULTS, RETRIEVERS, read, remove_all};
use crate::{Error, Result, TrainConfig};
use far_eval::KEPT_FOLDERS;
use far_memory::store::Disk;
use std::path::Path;

/// What is made of a run when its steps are done: its retrievers, and what evaluations, reports and exports
/// write besides what evaluations keep.
const MADE_OF_IT: [&str; 4] = [RETRIEVERS, "report", "command.txt", "tensorboard"];

/// What a folder's configuration means for another one.
pub(super) enum Found {
    /// It is the same.
    Same,
    /// There is none, or the run can go on with the other.
    Replaceable,
    /// The run never came to a checkpoint, and what it prepared is of no use to the other.
    Unprepared,
}

/// A folder counts as a run's if it has a configuration, or nothing that a run would not have
/// before its first one.
pub(super) fn check_is_run(path: &Path, disk: &dyn Disk) -> Result<()> {
    let mut names = disk.list().map_err(Error::file("list", path))?;
    names.sort();
    let early = |name: &str| name == LOCK || name == CHECKPOINTS || name.ends_with(PARTIAL);
    if names.iter().any(|name| name == CONFIG) {
        return Ok(());
    }
    match names.into_iter().find(|name| !early(name)) {
        None => Ok(()),
        Some(name) => Err(Error::OtherFolder { folder: path.to_path_buf(), kind: "run", name }),
    }
}

/// Compares a configuration with that of a folder. One that has no checkpoint yet holds nothing that
/// could be lost: a failed start does not block the next one.
pub(super) fn compare(
    path: &Path,
    disk: &dyn Disk,
    checkpoints: &Checkpoints,
    config: &TrainConfig,
) -> Result<Found> {
    let Some(text) = read(disk, CONFIG, path)? else { return Ok(Found::Replaceable) };
    let is_empty = checkpoints.steps()?.is_empty();
    let found = match TrainConfig::from_toml(&text, &path.join(CONFIG).to_string_lossy()) {
        Err(_) if is_empty => return Ok(Found::Unprepared),
        // Torn: the checkpoints say themselves whether they fit.
        _ if !text.ends_with('\n') => return Ok(Found::Replaceable),
        found => found?,
    };
    match config.first_obstacle(&found) {
        Some((key, wanted, found)) if !is_empty => {
            Err(Error::OtherConfig { folder: path.to_path_buf(), key, found, wanted })
        }
        _ if is_empty && !config.shares_preparation(&found) => Ok(Found::Unprepared),
        _ if text == config.to_commented_toml() => Ok(Found::Same),
        _ => Ok(Found::Replaceable),
    }
}

/// Removes what was made of a run.
pub(super) fn remove_made_of_it(path: &Path) -> Result<()> {
    let mut places = KEPT_FOLDERS.into_iter().chain(MADE_OF_IT).map(|name| path.join(name));
    places.try_for_each(|place| remove_all(&place))
}

/// Removes a run. Newest checkpoints go first and the configuration last: whatever is left when
/// this is interrupted is a run that can be resumed or discarded.
pub(super) fn discard(path: &Path, disk: &dyn Disk, checkpoints: &Checkpoints) -> Result<()> {
    checkpoints.remove(|_| true)?;
    checkpoints.sync()?;
    let present = disk.list().map_err(Error::file("list", path))?;
    let own = [RESULTS, METRICS, ENVIRONMENT, CONFIG];
    let made = present.iter().filter(|name| crate::artifact::is_artifact(name));
    let own = own.into_iter().filter(|name| present.iter().any(|found| found == name));
    for name in made.map(String::as_str).chain(own) {
        disk.remove(name).map_err(Error::file("remove", &path.join(name)))?;
    }
    disk.sync_directory().map_err(Error::file("sync", path))
}

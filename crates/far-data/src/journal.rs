//! Checksums of the episodes of an unfinished recording, until the index has them.
//!
//! `episodes.journal` gets a line before an episode has its final name: its id, and the SHA-256 of its
//! files. So a recording that goes on knows whether what it keeps is what was written. A line that a
//! crash cut short is that of an episode which has no final name yet.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::{DataError, EpisodeSummary, Result};

/// What stands for the sound of an episode that has none.
const SILENT: &str = "-";

/// The checksums of an episode's file and of its sound.
type Hashes = (String, Option<String>);

/// The journal of the dataset in a folder.
pub(crate) struct Journal {
    path: PathBuf,
    file: Option<File>,
}

impl Journal {
    /// The journal in `folder`; nothing is written yet.
    pub fn new(folder: &Path) -> Self {
        Self { path: folder.join("episodes.journal"), file: None }
    }

    /// The checksums that it holds; `None` if there is no journal. Of two lines the later one counts.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(&self) -> Result<Option<BTreeMap<u32, Hashes>>> {
        let bytes = match std::fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(DataError::io("read", &self.path)(error)),
        };
        let text = String::from_utf8_lossy(&bytes);
        Ok(Some(text.lines().filter_map(parse).collect()))
    }

    /// Adds a line and waits until it is on the disk.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn note(&mut self, summary: &EpisodeSummary) -> Result<()> {
        let Some(hash) = &summary.hash else { return Ok(()) };
        let sound = summary.audio_hash.as_deref().unwrap_or(SILENT);
        // The line before may have been cut short.
        let line = format!("\n{} {hash} {sound}\n", summary.id);
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let opened = OpenOptions::new().create(true).append(true).open(&self.path);
                self.file.insert(opened.map_err(DataError::io("create", &self.path))?)
            }
        };
        file.write_all(line.as_bytes()).map_err(DataError::io("write", &self.path))?;
        file.sync_data().map_err(DataError::io("sync", &self.path))
    }

    /// Removes it, once the index has everything.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn remove(&mut self) -> Result<()> {
        self.file = None;
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(DataError::io("remove", &self.path)(error))
            }
            _ => Ok(()),
        }
    }
}

fn parse(line: &str) -> Option<(u32, Hashes)> {
    let whole = |hash: &&str| hash.len() == 64;
    let mut words = line.split(' ');
    let id = words.next()?.parse().ok()?;
    let hash = words.next().filter(whole)?.to_owned();
    let sound = match words.next()? {
        SILENT => None,
        sound => Some(sound).filter(whole).map(|sound| Some(sound.to_owned()))?,
    };
    words.next().is_none().then_some((id, (hash, sound)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EpisodeFacts, Split};

    fn summary(id: u32, digit: &str, sound: Option<&str>) -> EpisodeSummary {
        let [hash, audio_hash] = [Some(digit), sound].map(|digit| digit.map(|it| it.repeat(64)));
        let facts = EpisodeFacts::new("lawn", Split::Train, 0);
        EpisodeSummary { id, facts, frames: 1, boundary: 1, hash, audio_hash }
    }

    #[test]
    fn lines_survive_a_torn_one_and_the_later_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = Journal::new(folder.path());
        assert_eq!(journal.read().expect("read"), None);
        journal.note(&summary(3, "a", None)).expect("noted");
        journal.note(&summary(4, "b", Some("c"))).expect("noted");
        let whole = std::fs::read(&journal.path).expect("read");
        for length in 0..whole.len() {
            std::fs::write(&journal.path, &whole[..length]).expect("torn");
            let mut journal = Journal::new(folder.path());
            let before = journal.read().expect("read").expect("there");
            assert!(before.keys().all(|id| [3, 4].contains(id)), "{before:?}");
            journal.note(&summary(3, "d", None)).expect("noted");
            let after = journal.read().expect("read").expect("there");
            assert_eq!(after[&3], ("d".repeat(64), None), "cut to {length} bytes");
            assert_eq!(after.contains_key(&4), before.contains_key(&4));
        }
        journal.remove().expect("removed");
        journal.remove().expect("it may be gone");
        assert_eq!(journal.read().expect("read"), None);
    }
}

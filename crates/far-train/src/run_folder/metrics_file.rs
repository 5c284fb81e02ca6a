//! `metrics.jsonl`: appended line by line, cut to a checkpoint when a run resumes.

use crate::{Error, Record, Result};
use far_memory::store::{Disk, DiskFile};
use serde::Deserialize;
use std::io;
use std::path::{Path, PathBuf};

/// The open file. Every record is handed to the system at once, so that a killed program loses no
/// line and others can follow; it is synced at checkpoints.
pub(super) struct MetricsFile {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    /// Length up to and including each line, with the line's step.
    lines: Vec<(u64, u64)>,
}

/// What every line has.
#[derive(Deserialize)]
struct Stamp {
    step: u64,
}

impl MetricsFile {
    /// Opens or makes the file, and cuts a torn last line.
    pub(super) fn open(path: &Path, disk: &dyn Disk, name: &str) -> Result<Self> {
        let bytes = match disk.read(name) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                disk.create(name)
                    .and_then(|_| disk.sync_directory())
                    .map_err(Error::file("create", path))?;
                Default::default()
            }
            Err(error) => return Err(Error::file("read", path)(error)),
        };
        let file = disk.open(name).map_err(Error::file("open", path))?;
        let lines = parse(path, &bytes)?;
        let mut metrics = Self { path: path.to_path_buf(), file, lines };
        if metrics.length() < bytes.len() as u64 {
            metrics.cut(metrics.lines.len())?;
        }
        Ok(metrics)
    }

    fn length(&self) -> u64 {
        self.lines.last().map_or(0, |(_, end)| *end)
    }

    /// Adds a line.
    pub(super) fn append(&mut self, record: &Record) -> Result<()> {
        let line = record.to_json() + "\n";
        let (start, end) = (self.length(), self.length() + line.len() as u64);
        self.file.write_at(start, line.as_bytes()).map_err(Error::file("write", &self.path))?;
        self.lines.push((record.step(), end));
        Ok(())
    }

    /// Makes all lines durable.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.file.sync().map_err(Error::file("sync", &self.path))
    }

    /// Removes the lines of later steps.
    pub(super) fn cut_after(&mut self, step: u64) -> Result<()> {
        let kept = self.lines.partition_point(|(line, _)| *line <= step);
        self.cut(kept)
    }

    /// Keeps only the first `kept` lines.
    pub(super) fn cut(&mut self, kept: usize) -> Result<()> {
        self.lines.truncate(kept);
        let length = self.length();
        let cut = self.file.set_length(length).and_then(|()| self.file.sync());
        cut.map_err(Error::file("shorten", &self.path))
    }
}

/// Steps and ends of all whole lines; what follows the last line break is torn.
fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<(u64, u64)>> {
    let mut lines = Vec::new();
    let (mut start, mut last) = (0, 0);
    while let Some(length) = bytes[start..].iter().position(|byte| *byte == b'\n') {
        let number = lines.len() + 1;
        let corrupt = |reason: String| Error::Corrupt { path: path.to_path_buf(), reason };
        let line = &bytes[start..start + length];
        start += length + 1;
        match serde_json::from_slice::<Stamp>(line) {
            Ok(Stamp { step }) if step >= last => {
                last = step;
                lines.push((step, start as u64));
            }
            Ok(Stamp { step }) => {
                return Err(corrupt(format!("line {number} is of step {step} after {last}")));
            }
            // After a power cut the end of the file may hold anything; the middle may not.
            Err(_) if bytes[start..].is_empty() => break,
            Err(error) => return Err(corrupt(format!("line {number} is no record: {error}"))),
        }
    }
    Ok(lines)
}

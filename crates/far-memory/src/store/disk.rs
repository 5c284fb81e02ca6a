//! The disk operations that a store uses, as a trait, so that tests can simulate failures.
//!
//! A [`Disk`] is one flat folder of named files. It separates three POSIX guarantees, because
//! records are usually lost by confusing them: bytes are durable after [`DiskFile::sync`], names
//! (created, renamed, removed) after [`Disk::sync_directory`], and a rename replaces its target
//! atomically. Nothing else is assumed: un-synced writes may be lost, torn or reordered.

use bytes::Bytes;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// One folder of files.
pub trait Disk: Send + Sync {
    /// A short name of the folder for messages, usually its path.
    fn describe(&self) -> String;

    /// The names of all files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// All bytes of a file now, as a copy.
    fn read(&self, name: &str) -> io::Result<Bytes>;

    /// All bytes of a file that will never change again, without a copy where possible.
    fn map(&self, name: &str) -> io::Result<Bytes>;

    /// Creates an empty file, replacing one of the same name, and opens it for writing.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Opens an existing file for writing.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Renames a file and replaces an existing one of that name, atomically.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes the names of files durable.
    fn sync_directory(&self) -> io::Result<()>;

    /// Takes the exclusive lock `name`, held until the guard is dropped or the process ends in any
    /// way. Fails with [`io::ErrorKind::WouldBlock`] if another holds it.
    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>>;
}

/// A file opened for writing.
pub trait DiskFile: Send + Sync {
    /// Writes all bytes at an offset, extending the file if needed.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file to a length, or extends it with zeros.
    fn set_length(&mut self, length: u64) -> io::Result<()>;

    /// Makes all bytes written so far durable. After a failure their state is unknown, and a second
    /// call proves nothing: operating systems may drop what they could not write.
    fn sync(&mut self) -> io::Result<()>;
}

/// The path of a file for messages.
pub(crate) fn path_of(disk: &dyn Disk, name: &str) -> String {
    Path::new(&disk.describe()).join(name).display().to_string()
}

/// A folder of the operating system.
#[derive(Clone, Debug)]
pub struct LocalDisk {
    folder: PathBuf,
}

impl LocalDisk {
    /// The folder at `path`, which must exist.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let folder = path.as_ref().to_path_buf();
        if folder.metadata()?.is_dir() {
            Ok(Self { folder })
        } else {
            Err(io::Error::from(io::ErrorKind::NotADirectory))
        }
    }

    /// The folder at `path`, created durably with its parents if missing: a power cut must not
    /// remove the folder of a durable store.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let missing = path.ancestors().take_while(|folder| !folder.is_dir()).count();
        std::fs::create_dir_all(&path)?;
        // The folder may have been made by a program that was killed before it synced the parents.
        for parent in path.ancestors().skip(1).take(missing.max(1)) {
            sync_folder(parent)?;
        }
        Self::open(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Disk for LocalDisk {
    fn describe(&self) -> String {
        self.folder.display().to_string()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(&self.folder)?
            .map(|entry| Ok(entry?.file_name().into_string().ok()))
            .collect::<io::Result<Vec<_>>>()?;
        // A name that is not UTF-8 does not belong to a store.
        Ok(names.into_iter().flatten().collect())
    }

    fn read(&self, name: &str) -> io::Result<Bytes> {
        // The length is fixed first, so that a reader beside a running writer sees a prefix of the
        // file and never a later write without an earlier one.
        let file = File::open(self.path(name))?;
        let length = file.metadata()?.len();
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(usize::try_from(length).map_err(io::Error::other)?)?;
        file.take(length).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }

    fn map(&self, name: &str) -> io::Result<Bytes> {
        let file = File::open(self.path(name))?;
        if file.metadata()?.len() == 0 {
            return Ok(Bytes::new());
        }
        // SAFETY: a store never changes or shortens a file once it is sealed, and removing its name
        // keeps the mapped bytes alive. Another program that truncates a sealed file breaks this,
        // as it does for every program that maps files; `docs/memory.md` documents it.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Bytes::from_owner(map))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        // A reader may still map the old file: a new one takes its name, the old one lives on.
        match std::fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).open(self.path(name))?;
        Ok(Box::new(LocalFile { file }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().write(true).open(self.path(name))?;
        Ok(Box::new(LocalFile { file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        sync_folder(&self.folder)
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        let path = self.path(name);
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&path)?;
        match file.try_lock() {
            Ok(()) => {
                // The holder is written only for the error message; the lock is the system's.
                file.set_len(0)?;
                write!(file, "{}", std::process::id())?;
                Ok(Box::new(HeldLock(file)))
            }
            Err(TryLockError::WouldBlock) => {
                let holder = std::fs::read_to_string(&path).unwrap_or_default();
                Err(io::Error::new(io::ErrorKind::WouldBlock, format!("process {holder}")))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Unlocks explicitly and not only by closing the file: a child process that is being started at
/// the same moment shares the open file until it calls `exec`.
struct HeldLock(File);

impl Drop for HeldLock {
    fn drop(&mut self) {
        // Closing the file releases the lock as well, if later.
        let _ = self.0.unlock();
    }
}

/// Syncs a folder's entries; Windows has no such call and journals names itself.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(windows) { Ok(()) } else { File::open(folder)?.sync_all() }
}

struct LocalFile {
    file: File,
}

impl DiskFile for LocalFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        use std::io::{Seek, SeekFrom};
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.write_all(bytes)
    }

    fn set_length(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        // The length is part of what `fdatasync` keeps; times of access are not worth a journal write.
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_is_refused_until_the_first_is_dropped() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let disk = LocalDisk::open(folder.path()).expect("folder exists");
        let held = disk.lock("lock").expect("free lock");
        let refused = disk.lock("lock").err().expect("held lock");
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        assert!(refused.to_string().contains(&std::process::id().to_string()));
        drop(held);
        disk.lock("lock").expect("free again");
    }

    #[test]
    fn bytes_land_where_they_were_written_and_a_created_file_starts_empty() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let disk = LocalDisk::create(folder.path().join("deep/er")).expect("made");
        let mut file = disk.create("a").expect("created");
        file.write_at(3, b"xyz").and_then(|()| file.write_at(0, b"ab")).expect("written");
        file.sync().and_then(|()| disk.sync_directory()).expect("synced");
        assert_eq!(&disk.read("a").expect("there")[..], b"ab\0xyz");
        let mapped = disk.map("a").expect("mapped");
        disk.create("a").expect("replaced");
        assert_eq!(&mapped[..], b"ab\0xyz", "the old file outlives its name");
        assert_eq!(disk.map("a").expect("empty").len(), 0);
        assert_eq!(disk.list().expect("listed"), ["a"]);
    }
}

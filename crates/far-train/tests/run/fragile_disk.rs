//! A disk behind a fuse: after so many changes the process counts as killed, in the middle of one.

use far_memory::store::{Disk, DiskFile, LocalDisk};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Changes that are still allowed, shared by everything that a process writes with.
#[derive(Clone)]
pub struct Fuse(Arc<AtomicI64>);

/// What every change does after the process was killed.
fn killed() -> io::Error {
    io::Error::other("killed")
}

impl Fuse {
    /// Blows at the change with this number, from 0.
    pub fn at(change: i64) -> Self {
        Self(Arc::new(AtomicI64::new(change)))
    }

    /// Never blows.
    pub fn none() -> Self {
        Self::at(i64::MAX)
    }

    /// Changes that were made, if the fuse began at this number.
    pub fn used(&self, begun: i64) -> i64 {
        begun - self.0.load(Ordering::Relaxed)
    }

    /// One change that happens whole or not at all.
    fn change<T>(&self, change: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if self.0.fetch_sub(1, Ordering::Relaxed) > 0 { change() } else { Err(killed()) }
    }

    /// One write, which is torn in the middle when the fuse blows.
    pub fn write(
        &self,
        bytes: &[u8],
        write: impl FnOnce(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        match self.0.fetch_sub(1, Ordering::Relaxed) {
            left if left > 0 => write(bytes),
            0 => write(&bytes[..bytes.len() / 2]).and_then(|()| Err(killed())),
            _ => Err(killed()),
        }
    }
}

/// A folder of the system behind a fuse.
pub struct FragileDisk {
    disk: LocalDisk,
    fuse: Fuse,
}

impl FragileDisk {
    pub fn new(path: &Path, fuse: &Fuse) -> Box<Self> {
        Box::new(Self { disk: LocalDisk::create(path).expect("a folder"), fuse: fuse.clone() })
    }

    fn file(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(FragileFile { file, fuse: self.fuse.clone() })
    }
}

impl Disk for FragileDisk {
    fn describe(&self) -> String {
        self.disk.describe()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn read(&self, name: &str) -> io::Result<bytes::Bytes> {
        self.disk.read(name)
    }

    fn map(&self, name: &str) -> io::Result<bytes::Bytes> {
        self.disk.map(name)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.fuse.change(|| self.disk.create(name)).map(|file| self.file(file))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open(name).map(|file| self.file(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.fuse.change(|| self.disk.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.fuse.change(|| self.disk.remove(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.fuse.change(|| Ok(()))
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        self.disk.lock(name)
    }
}

struct FragileFile {
    file: Box<dyn DiskFile>,
    fuse: Fuse,
}

impl DiskFile for FragileFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let Self { file, fuse } = self;
        fuse.write(bytes, |bytes| file.write_at(offset, bytes))
    }

    fn set_length(&mut self, length: u64) -> io::Result<()> {
        self.fuse.change(|| self.file.set_length(length))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.fuse.change(|| Ok(()))
    }
}

//! Files that are either whole or absent.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

use crate::{DataError, Result};

/// The name under which a file is written before it is complete.
pub(crate) fn partial(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".partial");
    path.with_file_name(name)
}

/// Gives a complete, synced file its final name.
pub(crate) fn publish(path: &Path) -> Result<()> {
    publish_from(&partial(path), path)
}

fn publish_from(temporary: &Path, path: &Path) -> Result<()> {
    std::fs::rename(temporary, path).map_err(DataError::io("rename", path))?;
    // The new name must survive a power cut too; not every system lets a folder be synced.
    if let Some(folder) = path.parent().and_then(|folder| File::open(folder).ok()) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// Writes a whole small file. Several processes or threads may write the same file at once, as those
/// that fill a cache together do: each has a partial file of its own, and the last one stays.
///
/// A partial file is locked while its writer lives, see `remove_abandoned`. Between its creation and its
/// lock it can be taken for abandoned; then it is written again.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}-{number}", std::process::id()));
        let temporary = partial(&path.with_file_name(name));
        let mut file = File::create(&temporary).map_err(DataError::io("create", &temporary))?;
        // Where a disk has no locks, nothing is ever found abandoned.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            continue;
        }
        file.write_all(bytes).map_err(DataError::io("write", &temporary))?;
        file.sync_all().map_err(DataError::io("sync", &temporary))?;
        match publish_from(&temporary, path) {
            Err(DataError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
            published => return published,
        }
    }
}

/// Removes the partial files of a folder that [`write`] was killed over: nobody holds their lock.
pub(crate) fn remove_abandoned(folder: &Path) -> Result<()> {
    remove_where(folder, |path| {
        is_partial(path)
            && File::open(path).is_ok_and(|file| {
                // The lock goes with the file.
                file.try_lock().is_ok()
            })
    })
}

/// Removes the partial files of a folder, if there is one, that are `ours`. No writer may live.
pub(crate) fn remove_partial(folder: &Path, ours: impl Fn(&str) -> bool) -> Result<()> {
    let is_ours = |path: &Path| path.file_name().and_then(|name| name.to_str()).is_some_and(&ours);
    remove_where(folder, |path| is_partial(path) && is_ours(path))
}

fn is_partial(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "partial")
}

fn remove_where(folder: &Path, is_unwanted: impl Fn(&Path) -> bool) -> Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(DataError::io("list", folder))?,
    };
    for path in
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_unwanted(path))
    {
        match std::fs::remove_file(&path) {
            // Somebody else was faster.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed.map_err(DataError::io("remove", &path))?,
        }
    }
    Ok(())
}

/// SHA-256 of a file in lower-case hexadecimal, as `sha256sum` prints it.
pub(crate) fn hash_file(path: &Path) -> Result<String> {
    let mut file = File::open(path).map_err(DataError::io("open", path))?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0u8; 1 << 16];
    loop {
        let length = file.read(&mut buffer).map_err(DataError::io("read", path))?;
        if length == 0 {
            return Ok(hexadecimal(&digest.finalize()));
        }
        digest.update(&buffer[..length]);
    }
}

/// SHA-256 of some bytes in lower-case hexadecimal.
pub fn hash_bytes(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_standard() {
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash_bytes(b"abc"), known);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("abc");
        write(&path, b"abc").expect("written");
        assert_eq!(hash_file(&path).expect("hashed"), known);
    }

    #[test]
    fn many_may_write_the_same_file_and_leave_nothing_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("shared");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..20).for_each(|_| write(&path, b"whole").expect("written")));
            }
        });
        assert_eq!(std::fs::read(&path).expect("read"), b"whole");
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 1);
    }
    #[test]
    fn abandoned_files_go_and_those_of_living_writers_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let [abandoned, living, whole] = ["a.1-0.partial", "b.2-0.partial", "c.safetensors"]
            .map(|name| folder.path().join(name));
        [&abandoned, &whole]
            .into_iter()
            .for_each(|path| std::fs::write(path, b"x").expect("written"));
        let writer = File::create(&living).expect("made");
        writer.try_lock().expect("locked");
        remove_abandoned(folder.path()).expect("removed");
        assert!(!abandoned.exists() && living.exists() && whole.exists());
        drop(writer);
        remove_abandoned(folder.path()).expect("removed");
        assert!(!living.exists() && whole.exists());
        remove_abandoned(&folder.path().join("missing")).expect("nothing to remove");
    }

    #[test]
    fn writing_survives_somebody_who_removes_abandoned_files_all_the_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("shared");
        let writing = std::sync::atomic::AtomicBool::new(true);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while writing.load(Ordering::Relaxed) {
                    remove_abandoned(folder.path()).expect("removed");
                }
            });
            let write = || (0..50).for_each(|_| write(&path, b"whole").expect("written"));
            let writers = [scope.spawn(write), scope.spawn(write)];
            writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
            writing.store(false, Ordering::Relaxed);
        });
        assert_eq!(std::fs::read(&path).expect("read"), b"whole");
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 1);
    }
}

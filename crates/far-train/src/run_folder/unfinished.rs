//! What is left of files whose writer was killed.
//!
//! A file that is being written has a name that ends in `.partial`, and its writer holds the lock of the
//! folder. Whoever takes the lock next is the only writer that lives, so what is there by such a name is
//! left over.

use crate::{Error, Result};
use far_memory::store::Disk;
use std::path::Path;

/// The suffix of a file that is being written.
pub(super) const PARTIAL: &str = ".partial";

/// Removes what is left over in a folder among those names that the lock is for.
pub(super) fn remove(path: &Path, disk: &dyn Disk, is_ours: impl Fn(&str) -> bool) -> Result<()> {
    for name in disk.list().map_err(Error::file("list", path))? {
        if (name.ends_with(PARTIAL) || is_anonymous(&name)) && is_ours(&name) {
            disk.remove(&name).map_err(Error::file("remove", &path.join(&name)))?;
        }
    }
    Ok(())
}

/// Whether a name is one that earlier versions gave to tensors that were being written: `.tmpAb12Cd`.
fn is_anonymous(name: &str) -> bool {
    let letters = name.strip_prefix(".tmp").filter(|letters| letters.len() == 6);
    letters.is_some_and(|letters| letters.bytes().all(|letter| letter.is_ascii_alphanumeric()))
}

/// Whether a name is that of `file`, or of its state, while some process writes it:
/// `encoder.safetensors.4711.partial`, `encoder.safetensors.partial.4711.partial`.
pub(super) fn is_of(file: &str, name: &str) -> bool {
    let process = || {
        let rest = name.strip_prefix(file)?;
        rest.strip_prefix(PARTIAL).unwrap_or(rest).strip_prefix('.')?.strip_suffix(PARTIAL)
    };
    process().is_some_and(|number| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_memory::store::LocalDisk;

    #[test]
    fn only_what_is_unfinished_and_ours_goes() {
        let folder = tempfile::tempdir().unwrap();
        let disk = LocalDisk::open(folder.path()).unwrap();
        let stay = [".tmp-notes", ".tmpAb12C", "a.json", "partial", "results.json.partial"];
        let go = [".tmpAb12Cd", "a.json.partial", "step-1.safetensors.partial.12.partial"];
        for name in stay.iter().chain(&go) {
            std::fs::write(folder.path().join(name), b"x").unwrap();
        }
        remove(folder.path(), &disk, |name| !name.starts_with("results")).unwrap();
        let mut left = disk.list().unwrap();
        left.sort();
        assert_eq!(left, stay);
    }

    #[test]
    fn the_state_of_a_file_is_not_left_over_but_its_unfinished_copies_are() {
        let ours = |name: &str| is_of("e.safetensors", name);
        assert!(ours("e.safetensors.12.partial") && ours("e.safetensors.partial.12.partial"));
        for other in ["", ".partial", ".b.12.partial", ".12", "12.partial", ".partial.partial"] {
            assert!(!ours(&format!("e.safetensors{other}")), "{other}");
        }
        assert!(!ours("other.safetensors.12.partial"));
    }
}

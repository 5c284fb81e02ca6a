//! Where what is computed from a dataset is kept.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::hash_bytes;

/// The environment variable that names a folder for everything that is computed once.
const CACHE: &str = "FAR_CACHE";

/// The folder for tensors that are computed from the dataset in `folder`: below `FAR_CACHE` if that is
/// set, else `cache` inside the dataset, or, where a dataset cannot be written, below `~/.cache/far`.
///
/// Outside of datasets every dataset has a folder of its own, named by its path.
pub fn cache_folder(folder: &Path) -> PathBuf {
    let set = std::env::var_os(CACHE).filter(|set| !set.is_empty());
    place(folder, set, std::env::home_dir(), can_write)
}

/// Whether files can be made in a folder, which need not be there yet.
pub fn can_write(folder: &Path) -> bool {
    let existing = folder.ancestors().find(|folder| folder.exists());
    let Some(existing) = existing.filter(|path| path.is_dir()) else { return false };
    let probe = existing.join(format!(".far-{}", std::process::id()));
    let made = std::fs::create_dir(&probe).is_ok();
    // Nobody else has this name; what cannot be removed was not made.
    let _ = std::fs::remove_dir(&probe);
    made
}

fn place(
    folder: &Path,
    set: Option<OsString>,
    home: Option<PathBuf>,
    can_write: impl FnOnce(&Path) -> bool,
) -> PathBuf {
    let inside = folder.join("cache");
    let outside = match set {
        Some(set) => Some(PathBuf::from(set)),
        None if can_write(&inside) => None,
        None => home.map(|home| home.join(".cache").join("far")),
    };
    let Some(outside) = outside else { return inside };
    let whole = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
    let name = whole.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let hash = hash_bytes(whole.as_os_str().as_encoded_bytes());
    outside.join("datasets").join(format!("{name}-{}", &hash[..12]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_inside_the_dataset_unless_it_cannot_be() {
        let (data, home) = (Path::new("/data/chess"), Some(PathBuf::from("/home/someone")));
        assert_eq!(place(data, None, home.clone(), |_| true), Path::new("/data/chess/cache"));
        let shown = |path: PathBuf| path.display().to_string();
        let apart = shown(place(data, None, home.clone(), |_| false));
        assert!(apart.starts_with("/home/someone/.cache/far/datasets/chess-"), "{apart}");
        let set = shown(place(data, Some("/scratch".into()), home.clone(), |_| true));
        assert!(set.starts_with("/scratch/datasets/chess-"), "{set}");
        let other = place(Path::new("/other/chess"), Some("/scratch".into()), home, |_| true);
        assert_ne!(shown(other), set, "equal names are different datasets");
    }

    #[test]
    fn probing_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(can_write(&folder.path().join("not/there/yet")));
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
        let file = folder.path().join("file");
        std::fs::write(&file, b"").expect("written");
        assert!(!can_write(&file.join("below")));
    }
}

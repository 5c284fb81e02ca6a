//! Where files of weights that were made once are looked for.

use std::ffi::OsString;
use std::path::PathBuf;

/// The environment variable that names another folder for files made once.
const CACHE: &str = "FAR_CACHE";

/// The place of a file: in the folder that `FAR_CACHE` names if it is there, or else in `~/.cache/far`;
/// `None` where there is no home folder.
pub(crate) fn place(file: &str) -> Option<PathBuf> {
    let named = place_in(file, std::env::var_os(CACHE), None);
    let usual = place_in(file, None, std::env::home_dir());
    let there = [&named, &usual].into_iter().flatten().find(|path| path.exists()).cloned();
    there.or(named).or(usual)
}

fn place_in(file: &str, named: Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    let named = named.filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let folder = named.or_else(|| Some(home?.join(".cache").join("far")))?;
    Some(folder.join(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_cache_is_where_the_documents_say() {
        let home = Some(PathBuf::from("/home/someone"));
        let path = place_in("a.safetensors", None, home.clone()).unwrap();
        assert_eq!(path, Path::new("/home/someone/.cache/far/a.safetensors"));
        let path = place_in("a.safetensors", Some("/elsewhere".into()), home).unwrap();
        assert_eq!(path, Path::new("/elsewhere/a.safetensors"));
        assert_eq!(place_in("a.safetensors", Some("".into()), None), None);
    }
}

//! Tokenizer and encoders of one run taken over by another.

use crate::artifact::is_artifact;
use crate::{Error, Result};
use std::path::Path;

/// Copies what another run made before its first step into a run's folder, where it has none yet, so
/// that it is not made again and both have the same.
///
/// # Errors
/// If there is nothing to copy, or the disk refuses.
pub fn share_preparation(from: &Path, to: &Path) -> Result<()> {
    let mut found = false;
    let entries = std::fs::read_dir(from).map_err(Error::file("list", from))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    for name in names.filter(|name| is_artifact(name)) {
        let (source, path) = (from.join(&name), to.join(&name));
        found = true;
        if !path.exists() {
            // Whole or absent: a copy that was cut short must not be taken for an encoder.
            let partial = to.join(format!("{name}.partial"));
            std::fs::copy(&source, &partial).map_err(Error::file("copy", &source))?;
            std::fs::rename(&partial, &path).map_err(Error::file("publish", &path))?;
        }
    }
    if found { Ok(()) } else { Err(Error::NotPrepared { folder: from.to_path_buf() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_copied_and_what_is_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        for run in [&from, &to] {
            std::fs::create_dir(run).unwrap();
        }
        let refused = share_preparation(&from, &to).unwrap_err();
        assert!(matches!(refused, Error::NotPrepared { .. }), "{refused}");
        let [tokenizer, encoder] = ["tokenizer.safetensors", "encoder-audio.safetensors"];
        for name in [tokenizer, encoder, "config.toml"] {
            std::fs::write(from.join(name), "made").unwrap();
        }
        std::fs::write(to.join(tokenizer), "own").unwrap();
        share_preparation(&from, &to).unwrap();
        let read = |name: &str| std::fs::read_to_string(to.join(name)).unwrap();
        assert_eq!((read(tokenizer).as_str(), read(encoder).as_str()), ("own", "made"));
        assert_eq!(std::fs::read_dir(&to).unwrap().count(), 2, "nothing is left over");
    }
}

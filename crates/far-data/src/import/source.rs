//! The folder or file that is imported: nothing outside it is read, and nothing without a limit.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use crate::{DataError, Result};

/// Bytes that a table or a picture may have. Larger ones are not what they say they are.
const LARGEST_FILE: u64 = 1 << 30;

/// What is imported.
#[derive(Clone, Debug)]
pub struct Source {
    root: PathBuf,
    /// The root without links, which every file must lie under.
    real: PathBuf,
}

impl Source {
    /// Looks at a folder, or at a file whose folder then is the root.
    pub fn open(path: &Path) -> Result<Self> {
        let missing = |_| DataError::Missing { what: "the source", path: path.to_path_buf() };
        let real = path.canonicalize().map_err(missing)?;
        Ok(Self { root: path.to_path_buf(), real })
    }

    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The name of the folder or file, for the dataset's description.
    pub fn name(&self) -> String {
        let name = self.real.file_stem().unwrap_or(self.real.as_os_str());
        name.to_string_lossy().into_owned()
    }

    /// Whether the source is a single file.
    pub fn is_file(&self) -> bool {
        self.real.is_file()
    }

    /// A file below the root, by a path that a file of the source may have named.
    ///
    /// # Errors
    /// If the path is absolute, climbs out by `..` or by a link, or there is no such file.
    pub fn file(&self, relative: impl AsRef<Path>) -> Result<PathBuf> {
        let relative = relative.as_ref();
        let climbs = relative
            .components()
            .any(|part| !matches!(part, Component::Normal(_) | Component::CurDir));
        if climbs {
            return Err(self.refuse(relative, "the path leads out of the source"));
        }
        let folder = if self.real.is_file() { self.real.parent() } else { Some(&*self.real) };
        let folder = folder.unwrap_or(&self.real);
        let path = folder.join(relative);
        let real = path
            .canonicalize()
            .map_err(|_| DataError::Missing { what: "a file of the source", path: path.clone() })?;
        if !real.starts_with(folder) {
            return Err(self.refuse(relative, "a link leads out of the source"));
        }
        Ok(path)
    }

    /// Whether a file or folder of that name lies below the root.
    pub fn has(&self, relative: impl AsRef<Path>) -> bool {
        self.real.join(relative).exists()
    }

    /// The bytes of a file below the root.
    pub fn read(&self, relative: impl AsRef<Path>) -> Result<Vec<u8>> {
        read_limited(&self.file(relative)?)
    }

    /// The text of a file below the root.
    pub fn text(&self, relative: impl AsRef<Path>) -> Result<String> {
        let path = self.file(relative)?;
        String::from_utf8(read_limited(&path)?)
            .map_err(|_| DataError::Source { path, reason: "it is not UTF-8 text".into() })
    }

    /// Names in a folder below the root, sorted, so that no order of the disk shows.
    pub fn list(&self, relative: impl AsRef<Path>) -> Result<Vec<String>> {
        let path = self.real.join(relative);
        let entries = std::fs::read_dir(&path).map_err(DataError::io("list", &path))?;
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(DataError::io("list", &path))?.file_name();
            // A name that is not UTF-8 cannot be one that a format looks for.
            names.extend(name.into_string().ok());
        }
        names.sort();
        Ok(names)
    }

    /// Folders below the root, `depth` levels down at most, that `is_one` says hold a recording; the
    /// root itself ("") when it does. Sorted; what lies inside one is not searched.
    pub fn recordings(&self, depth: usize, is_one: &dyn Fn(&str) -> bool) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let mut waiting = vec![(String::new(), depth)];
        while let Some((folder, depth)) = waiting.pop() {
            if is_one(&folder) {
                found.push(folder);
                continue;
            }
            if depth == 0 {
                continue;
            }
            for name in self.list(&folder)? {
                let inner = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                // Links are not followed: they may lead around in a circle.
                let path = self.real.join(&inner);
                if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
                    waiting.push((inner, depth - 1));
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// Files below the root, `depth` folders down at most, whose names end with `ending`. Sorted.
    pub fn files(&self, depth: usize, ending: &str) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let folders = std::cell::RefCell::new(Vec::new());
        // No folder is "one", so all are visited.
        self.recordings(depth, &|folder| {
            folders.borrow_mut().push(folder.to_string());
            false
        })?;
        for folder in folders.into_inner() {
            let names = self.list(&folder)?.into_iter().filter(|name| name.ends_with(ending));
            found.extend(names.map(|name| match folder.as_str() {
                "" => name,
                folder => format!("{folder}/{name}"),
            }));
        }
        found.sort();
        Ok(found)
    }

    /// An error about a file of the source.
    pub fn refuse(&self, relative: impl AsRef<Path>, reason: impl Into<String>) -> DataError {
        let path = match relative.as_ref() {
            empty if empty.as_os_str().is_empty() => self.root.clone(),
            relative => self.root.join(relative),
        };
        DataError::Source { path, reason: reason.into() }
    }
}

/// The bytes of a file, unless it is absurdly large.
pub(crate) fn read_limited(path: &Path) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(DataError::io("open", path))?;
    let length = file.metadata().map_err(DataError::io("read", path))?.len();
    let mut bytes = Vec::with_capacity(length.min(LARGEST_FILE) as usize);
    file.take(LARGEST_FILE + 1).read_to_end(&mut bytes).map_err(DataError::io("read", path))?;
    if bytes.len() as u64 > LARGEST_FILE {
        let reason = format!("it has more than {LARGEST_FILE} bytes");
        return Err(DataError::Source { path: path.to_path_buf(), reason });
    }
    Ok(bytes)
}

/// The numbers of a line, separated by blanks or commas; the error names the first that is none.
pub(crate) fn numbers(line: &str) -> std::result::Result<Vec<f64>, String> {
    line.split(|letter: char| letter.is_whitespace() || letter == ',')
        .filter(|word| !word.is_empty())
        .map(|word| word.parse().map_err(|_| format!("`{word}` is not a number")))
        .collect()
}

/// `N` numbers of a line, no more and no fewer.
pub(crate) fn exactly<const N: usize>(line: &str) -> std::result::Result<[f64; N], String> {
    let found = numbers(line)?;
    let count = found.len();
    found.try_into().map_err(|_| format!("{count} numbers where {N} were due"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let inside = folder.path().join("inside");
        std::fs::create_dir_all(inside.join("deep/scene")).expect("made");
        std::fs::write(folder.path().join("secret"), "s").expect("written");
        std::fs::write(inside.join("deep/scene/poses"), "1 2").expect("written");
        let source = Source::open(&inside).expect("there");
        assert_eq!(source.text("deep/scene/poses").expect("read"), "1 2");
        for path in ["../secret", "/etc/passwd", "deep/../../secret"] {
            let error = source.read(path).unwrap_err();
            assert!(error.to_string().contains("leads out"), "{error}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(folder.path().join("secret"), inside.join("link"))
                .expect("linked");
            assert!(source.read("link").unwrap_err().to_string().contains("link leads out"));
            std::os::unix::fs::symlink(&inside, inside.join("deep/circle")).expect("linked");
        }
        assert!(matches!(source.read("none"), Err(DataError::Missing { .. })));
        let found = source.recordings(4, &|folder| source.has(format!("{folder}/poses")));
        assert_eq!(found.expect("listed"), ["deep/scene"]);
        assert!(Source::open(&folder.path().join("none")).is_err());
    }

    #[test]
    fn words_become_numbers_or_are_named() {
        assert_eq!(numbers("1, 2.5\t-3e2 "), Ok(vec![1.0, 2.5, -300.0]));
        assert_eq!(numbers("1 two"), Err("`two` is not a number".into()));
        assert_eq!(exactly::<2>("1 2"), Ok([1.0, 2.0]));
        assert!(exactly::<2>("1 2 3").unwrap_err().contains("3 numbers where 2"));
    }
}

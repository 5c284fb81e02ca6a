//! Small text files of a run's folder: whole or absent, and named when something is wrong.

use super::metric::{Metric, MetricTable};
use crate::{Error, Result, Results};
use std::path::{Path, PathBuf};

/// Writes a file under another name first, so that a reader never meets half of it.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".partial");
    let partial = path.with_file_name(name);
    std::fs::write(&partial, text).map_err(Error::file("write", &partial))?;
    std::fs::rename(&partial, path).map_err(Error::file("rename", &partial))
}

/// The text of a file; `None` if there is none.
pub(super) fn read(path: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file("read", path)(error)),
    }
}

/// The files of a folder whose names are `wanted`, by name; none if there is no such folder.
pub(crate) fn list(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::file("read", folder))?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::file("read", folder))?;
        if entry.file_name().to_str().is_some_and(&wanted) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

impl Results {
    /// Writes `results.json` into a run's folder.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, run: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).expect("results have only text keys");
        write(&run.join("results.json"), &text)
    }

    /// Reads `results.json` of a run's folder.
    ///
    /// # Errors
    /// If it is missing, cannot be read or does not hold results.
    pub fn read(run: &Path) -> Result<Self> {
        let path = run.join("results.json");
        let text = read(&path)?;
        let text =
            text.ok_or_else(|| Error::MissingFile { what: "results.json", path: path.clone() })?;
        let results: Self = serde_json::from_str(&text)
            .map_err(|error| Error::malformed(&path, error.to_string()))?;
        Ok(results.counted())
    }

    /// Files of earlier versions do not count the clips of each value. In the main table these are all
    /// clips; of a tier or a probe the number is unknown.
    fn counted(mut self) -> Self {
        let paired = self.paired.values_mut().flat_map(|others| others.values_mut());
        for (id, value) in self.arms.values_mut().chain(paired).flatten() {
            if value.n == 0 && Metric::of(id).table == MetricTable::Main {
                value.n = self.clips;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interval;
    use crate::report::fixture::results;

    #[test]
    fn results_come_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        results().write(folder.path()).unwrap();
        assert_eq!(Results::read(folder.path()).unwrap(), results());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left over");
    }

    #[test]
    fn intervals_without_numbers_come_back_too() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = results();
        let nothing = Interval { mean: f64::NAN, lo: f64::NAN, hi: f64::NAN, n: 24 };
        results.arms.get_mut("none").unwrap().insert("recall_quality".into(), nothing);
        results.write(folder.path()).unwrap();
        let back = Results::read(folder.path()).unwrap();
        assert!(back.arms["none"]["recall_quality"].mean.is_nan());
    }

    #[test]
    fn results_without_pairs_and_curves_are_results() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"{ "corpus": "village", "clips": 2, "seed": 0, "device": "cpu",
            "judge": "common", "arms": { "none": { "psnr": {"mean": 1, "lo": 0, "hi": 2},
            "psnr_tier_5": {"mean": 1, "lo": 0, "hi": 2} } } }"#;
        std::fs::write(folder.path().join("results.json"), text).unwrap();
        let results = Results::read(folder.path()).unwrap();
        assert!(results.paired.is_empty() && results.train_seconds.is_none());
        let counts = ["psnr", "psnr_tier_5"].map(|id| results.arms["none"][id].n);
        assert_eq!(counts, [2, 0], "a tier has an unknown part of the clips");
    }

    #[test]
    fn a_missing_file_and_a_bad_file_say_which() {
        let folder = tempfile::tempdir().unwrap();
        let message = Results::read(folder.path()).unwrap_err().to_string();
        assert!(message.starts_with("results.json is missing: "), "{message}");
        std::fs::write(folder.path().join("results.json"), "{\"arms\": 3}").unwrap();
        let message = Results::read(folder.path()).unwrap_err().to_string();
        assert!(message.contains("results.json: ") && message.contains("line 1"), "{message}");
    }
}

//! Scores of several seeds become one result.

use crate::command_line;
use crate::file;
use crate::hint::Hint;
use far_eval::{Results, Scores};
use std::path::{Path, PathBuf};

/// Merges the scores in folders or files, and writes the results into a folder.
pub fn merged(paths: &[PathBuf], out: &Path) -> anyhow::Result<Results> {
    let mut scores = Vec::new();
    for path in paths {
        scores.extend(read(path)?);
    }
    let lacking = far_eval::keep_shared_metrics(&mut scores);
    if !lacking.is_empty() {
        let names = lacking.keys().cloned().collect::<Vec<_>>().join(", ");
        eprintln!("note: {names} left out, not measured under every seed");
    }
    let mut results = far_eval::merge(&scores).map_err(|error| {
        let hint = "merge comparisons that differ in training.seed alone, each seed once";
        Hint::error(error.to_string(), hint)
    })?;
    results.left_out = lacking;
    file::create_folder(out)?;
    results.write(out)?;
    command_line::write(out)?;
    Ok(results)
}

fn read(path: &Path) -> anyhow::Result<Vec<Scores>> {
    let hint = "give folders of `far compare` or `far eval`, or files of their scores/";
    let found = match path.is_dir() {
        true => Scores::read_all(path),
        false => Scores::read(path).map(|scores| vec![scores]),
    };
    let found = found.map_err(|error| Hint::error(error.to_string(), hint))?;
    if found.is_empty() {
        return Err(Hint::error(format!("there are no scores in {}", path.display()), hint));
    }
    Ok(found)
}

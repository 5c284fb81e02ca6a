//! `far data verify`: every byte, every rule.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use far_data::{Dataset, DatasetCheck, verify_episode};
use rayon::prelude::*;

use super::explain;
use crate::hint::Hint;
use crate::progress::{self, counted};

/// Problems that are printed one by one; the rest are counted.
const PRINTED: usize = 20;

/// Which dataset to check.
#[derive(Args)]
#[command(after_help = "Example: far data verify data/village")]
pub struct Arguments {
    /// The dataset's folder.
    path: PathBuf,
    /// Take rotations as they are, although the pictures contradict them.
    #[arg(long)]
    trust_poses: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// Checks all episodes and fails when one of them is wrong.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let dataset = Dataset::open(&arguments.path).map_err(explain)?;
    let ids: Vec<u32> = dataset.ids().collect();
    let bar = progress::bar(ids.len() as u64, "episodes");
    let results: Vec<_> = ids
        .par_iter()
        .map(|&id| {
            let result = verify_episode(&dataset, id)
                .map(|episode| (episode.len() as u64, episode.unknown_columns().to_vec()));
            bar.inc(1);
            result
        })
        .collect();
    bar.finish_and_clear();
    let mut frames = 0;
    let mut unknown = BTreeSet::new();
    let mut problems = Vec::new();
    for result in results {
        match result {
            Ok((length, columns)) => {
                frames += length;
                unknown.extend(columns);
            }
            Err(error) => problems.push(error),
        }
    }
    let episodes = problems.len();
    let mut warnings = Vec::new();
    if episodes == 0 {
        let whole = DatasetCheck::of(&dataset, arguments.trust_poses).map_err(explain)?;
        problems.extend(whole.problems);
        warnings.extend(whole.warnings);
    }
    if arguments.json {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let report = serde_json::json!({
            "path": arguments.path, "episodes": ids.len(), "frames": frames,
            "unknown_columns": unknown, "problems": problems, "warnings": warnings,
        });
        println!("{report}");
    } else {
        if !unknown.is_empty() {
            let names: Vec<String> = unknown.into_iter().collect();
            eprintln!("note: columns that far does not know are ignored: {}", names.join(", "));
        }
        warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
        problems.iter().take(PRINTED).for_each(|problem| alert!("wrong: {problem}"));
        if problems.is_empty() {
            let verdict = match warnings.len() {
                0 => "all good".to_owned(),
                1 => "no rule broken, 1 warning".to_owned(),
                many => format!("no rule broken, {many} warnings"),
            };
            let path = arguments.path.display();
            let episodes = counted(ids.len() as u64, "episodes");
            println!("{path}: {episodes}, {frames} frames, {verdict}");
        }
    }
    let message = match episodes {
        0 => format!("{} is wrong", arguments.path.display()),
        1 => format!("1 of {} episodes is wrong", ids.len()),
        many => format!("{many} of {} episodes are wrong", ids.len()),
    };
    match problems.first() {
        Some(first) => Err(Hint::error(message, first.hint())),
        None => Ok(()),
    }
}

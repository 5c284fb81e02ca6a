//! `far report`: one self-contained page that shows what was recalled, and why.

use super::eval::run_in;
use crate::file;
use crate::hint::Hint;
use clap::Args;
use far_eval::{Error, ReportRun, markdown, report_page, summary};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Arguments of `far report`.
#[derive(Args)]
#[command(after_help = "Example: far report runs/demo
Several runs on one page: far report runs/separate/* --out comparison.html
Tables for a document: far report runs/village --markdown > tables.md")]
pub struct Arguments {
    /// Folders of runs evaluated by `far eval`.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The page to write (default: report/index.html in the first run's folder).
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the tables of each run as Markdown instead of writing a page.
    #[arg(long, conflicts_with = "out")]
    markdown: bool,
    /// Print path, size and summaries of the page as JSON.
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
}

/// Writes the page.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { out, json, .. } = arguments;
    let runs: Vec<PathBuf> = arguments.runs.iter().map(|folder| run_in(folder)).collect();
    let read = runs.iter().map(|folder| read(folder));
    let read = read.collect::<anyhow::Result<Vec<ReportRun>>>()?;
    if arguments.markdown {
        let tables: Vec<String> =
            read.iter().map(|run| markdown(&run.name, &run.results)).collect();
        print!("{}", tables.join("\n"));
        return Ok(());
    }
    for (folder, run) in runs.iter().zip(&read) {
        if run.replays.is_empty() {
            eprintln!("note: {} has no replays: the page shows no frames", folder.display());
        }
    }
    let path = out.clone().unwrap_or_else(|| runs[0].join("report").join("index.html"));
    let page = report_page(&read);
    write(&path, &page)?;
    if *json {
        let summaries: Vec<_> = read.iter().map(|run| summary(&run.results)).collect();
        println!("{}", json!({ "page": path, "bytes": page.len(), "summaries": summaries }));
    } else {
        println!("{}", path.display());
    }
    Ok(())
}

/// Writes the page of one run to its default path and returns it.
pub fn write_page(run: &Path) -> anyhow::Result<PathBuf> {
    let path = run.join("report").join("index.html");
    write(&path, &report_page(&[read(run)?]))?;
    Ok(path)
}

fn write(path: &Path, page: &str) -> anyhow::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        file::create_folder(folder)?;
    }
    file::write(path, page)
}

fn read(folder: &Path) -> anyhow::Result<ReportRun> {
    if !folder.is_dir() {
        let hint = "give the folder of a `far demo` or `far train` run";
        return Err(Hint::error(format!("there is no run in {}", folder.display()), hint));
    }
    ReportRun::read(folder).map_err(|error| {
        let when = match &error {
            Error::MissingFile { .. } => "first",
            Error::MalformedFile { .. } => "again to rewrite it",
            _ => return error.into(),
        };
        let hint = format!("run `far eval {}` {when}", folder.display());
        Hint::error(error.to_string(), hint)
    })
}

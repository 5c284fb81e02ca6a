//! `far man`: the manual pages.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};

use crate::file;

/// Where the pages go.
#[derive(Args)]
#[command(after_help = "Example: far man --out ~/.local/share/man/man1 && man far-train")]
pub struct Arguments {
    /// Folder for far.1 and a page for every verb (default: print far.1).
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Writes the pages.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let command = crate::Arguments::command();
    let Some(out) = &arguments.out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page).context("cannot write the page")?;
        print!("{}", String::from_utf8_lossy(&page));
        return Ok(());
    };
    file::create_folder(out)?;
    clap_mangen::generate_to(command, out)
        .with_context(|| format!("cannot write to {}", out.display()))?;
    println!("{}", out.display());
    Ok(())
}

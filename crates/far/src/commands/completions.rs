//! `far completions`: what a shell needs to complete verbs and options.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Which shell.
#[derive(Args)]
#[command(
    after_help = "Bash:  far completions bash > ~/.local/share/bash-completion/completions/far\n\
    Zsh:   far completions zsh > ~/.zfunc/_far    (with fpath+=~/.zfunc before compinit)\n\
    Fish:  far completions fish > ~/.config/fish/completions/far.fish"
)]
pub struct Arguments {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::Arguments::command(), "far", &mut script);
    print!("{}", String::from_utf8_lossy(&script));
    Ok(())
}

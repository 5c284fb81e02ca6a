//! How errors are printed: the error, its causes, then a hint.

use crate::interrupt::{self, Interrupted};
use std::fmt;

/// Exit status of work that failed.
const FAILURE: u8 = 1;
/// Exit status of a command line or a setting that was not understood.
const USAGE: u8 = 2;

/// An error message with a suggestion, printed as a `hint:` line of its own.
#[derive(Debug)]
pub struct Hint {
    message: String,
    hint: String,
    /// Whether the command line or a setting was not understood.
    usage: bool,
}

impl Hint {
    /// An error with this message and hint.
    pub fn error(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        Self::make(message, hint, false)
    }

    /// The same for a command line or a setting that was not understood.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        Self::make(message, hint, true)
    }

    fn make(message: impl Into<String>, hint: impl Into<String>, usage: bool) -> anyhow::Error {
        anyhow::Error::new(Self { message: message.into(), hint: hint.into(), usage })
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Hint {}

/// The exit status of an error.
pub fn status(error: &anyhow::Error) -> u8 {
    let hint = error.chain().find_map(|cause| cause.downcast_ref::<Hint>());
    match hint {
        _ if error.is::<Interrupted>() => interrupt::STATUS,
        Some(hint) if hint.usage => USAGE,
        _ => FAILURE,
    }
}

/// Prints an error, its causes and the hint in the chain, if there is one.
pub fn print(error: &anyhow::Error) {
    if let Some(interrupted) = error.downcast_ref::<Interrupted>() {
        eprintln!("{interrupted}");
        return;
    }
    eprintln!("error: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("  caused by: {cause}");
    }
    if let Some(hint) = error.chain().find_map(|cause| cause.downcast_ref::<Hint>()) {
        eprintln!("\nhint: {}", hint.hint);
    }
}

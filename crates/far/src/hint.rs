//! How errors are printed: the error, its causes, then a hint.

use std::fmt;

/// An error message with a suggestion, printed as a `hint:` line of its own.
#[derive(Debug)]
pub struct Hint {
    message: String,
    hint: String,
}

impl Hint {
    /// An error with this message and hint.
    pub fn error(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self { message: message.into(), hint: hint.into() })
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Hint {}

/// Prints an error, its causes and the hint in the chain, if there is one.
pub fn print(error: &anyhow::Error) {
    eprintln!("error: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("  caused by: {cause}");
    }
    if let Some(hint) = error.chain().find_map(|cause| cause.downcast_ref::<Hint>()) {
        eprintln!("\nhint: {}", hint.hint);
    }
}

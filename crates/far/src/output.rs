//! What the program writes: results to stdout, progress and notes to stderr.
//!
//! `print!`, `println!` and `eprintln!` are defined here over the standard ones, which panic when their
//! file cannot be written, as on a full disk.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by `--quiet`.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Writes a result.
macro_rules! print {
    ($($part:tt)*) => { $crate::output::result(format_args!($($part)*)) };
}

/// Writes a result and ends the line.
macro_rules! println {
    () => { $crate::output::result(format_args!("\n")) };
    ($($part:tt)*) => { $crate::output::result(format_args!("{}\n", format_args!($($part)*))) };
}

/// Writes a note, unless `--quiet` asks for none.
macro_rules! eprintln {
    () => { $crate::output::note(format_args!("")) };
    ($($part:tt)*) => { $crate::output::note(format_args!($($part)*)) };
}

/// Writes what is wrong, also with `--quiet`.
macro_rules! alert {
    ($($part:tt)*) => { $crate::output::alert(format_args!($($part)*)) };
}

/// Leaves out notes and progress from now on, or not.
pub fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Whether notes and progress are left out.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Writes to stdout; if that fails, the program ends.
pub fn result(text: fmt::Arguments<'_>) {
    let mut stdout = std::io::stdout().lock();
    if let Err(error) = stdout.write_fmt(text).and_then(|()| stdout.flush()) {
        alert(format_args!("error: cannot write to standard output: {error}"));
        if error.kind() == ErrorKind::StorageFull {
            alert(format_args!("\nhint: free some space, then run the same command again"));
        }
        std::process::exit(1);
    }
}

/// Writes a line to stderr, unless notes are left out.
pub fn note(text: fmt::Arguments<'_>) {
    if !is_quiet() {
        alert(text);
    }
}

/// Writes a line to stderr; a failure is ignored.
pub fn alert(text: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

//! The command that was typed, kept beside the results that it made.

use far_train::Error;
use std::ffi::OsString;
use std::path::Path;

/// Writes `command.txt` into a run's folder, for the report.
///
/// # Errors
/// If it cannot be written.
pub fn write(run: &Path) -> far_train::Result<()> {
    let path = run.join("command.txt");
    let text = line(std::env::args_os().skip(1)) + "\n";
    std::fs::write(&path, text).map_err(|source| Error::File { action: "write", path, source })
}

/// The arguments as one line that a shell reads back as they were.
fn line(arguments: impl Iterator<Item = OsString>) -> String {
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    let words: Vec<String> = ["far".to_owned()].into_iter().chain(arguments).collect();
    // Only a NUL cannot be quoted, and no argument of a process has one.
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_arguments_back() {
        let given = ["eval", "my runs/a", "--set", "data.folder=\"x\"", "it's"];
        let text = line(given.iter().map(OsString::from));
        assert!(text.starts_with("far eval 'my runs/a' --set"), "{text}");
        let back = shlex::split(&text).expect("it is quoted well");
        assert_eq!(back[1..], given);
    }
}

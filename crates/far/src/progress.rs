//! Progress of long work on stderr, with rate and time left.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over `length` items called `unit`. Hidden if stderr is not a terminal.
pub fn bar(length: u64, unit: &'static str) -> ProgressBar {
    let template =
        format!("{{bar:32}} {{pos}}/{{len}} {unit}, {{per_sec:.1}}, {{eta}} left  {{msg}}");
    let style = ProgressStyle::with_template(&template).expect("the template is valid");
    ProgressBar::new(length).with_style(style)
}

//! Progress of long work on stderr, with rate and time left.

use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};
use std::fmt;

/// A bar over `length` items called `unit`. Hidden if stderr is not a terminal.
pub fn bar(length: u64, unit: &'static str) -> ProgressBar {
    let template =
        format!("{{bar:32}} {{human_pos}}/{{human_len}} {unit}, {{rate}}, {{eta}} left  {{msg}}");
    styled(length, &template)
}

/// A bar with a template of its own, in which `{rate}` is items per second with three digits.
pub fn styled(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the template is valid");
    let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
        let _ = out.write_str(&rate(state.per_sec()));
    };
    let bar = if crate::output::is_quiet() { ProgressBar::hidden() } else { ProgressBar::new(0) };
    bar.set_length(length);
    bar.with_style(style.with_key("rate", rate))
}

/// A rate as people read it: "0.42/s", "21.1/s", "167,257/s".
pub fn rate(per_second: f64) -> String {
    let digits = match per_second {
        small if small < 10.0 => 2,
        middle if middle < 100.0 => 1,
        _ => 0,
    };
    let text = format!("{per_second:.digits$}");
    let (whole, rest) =
        text.split_once('.').map_or((text.as_str(), ""), |(whole, rest)| (whole, rest));
    let grouped = whole.parse().map_or(whole.to_owned(), |whole| HumanCount(whole).to_string());
    let point = if rest.is_empty() { "" } else { "." };
    format!("{grouped}{point}{rest}/s")
}

/// A number of things with their name, which is a plural: "1 episode encoded", "2 passes".
pub fn counted(count: u64, unit: &str) -> String {
    let (noun, rest) = unit.split_at(unit.find(' ').unwrap_or(unit.len()));
    let noun = match count {
        1 => noun.strip_suffix("es").filter(|stem| stem.ends_with('s')).or(noun.strip_suffix('s')),
        _ => None,
    }
    .unwrap_or(noun);
    format!("{count} {noun}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        let one = ["episodes encoded", "passes evaluated", "updates"].map(|unit| counted(1, unit));
        assert_eq!(one, ["1 episode encoded", "1 pass evaluated", "1 update"]);
        assert_eq!(counted(12, "episodes with keys"), "12 episodes with keys");
    }

    #[test]
    fn rates_have_three_digits_and_thousands_are_apart() {
        let shown = [0.4167, 21.0861, 99.96, 100.0, 999.9, 167_256.728, 1_234_567.0].map(rate);
        let due = ["0.42/s", "21.1/s", "100.0/s", "100/s", "1,000/s", "167,257/s", "1,234,567/s"];
        assert_eq!(shown, due);
    }
}

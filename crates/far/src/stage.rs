//! One stage of long work: a bar on a terminal, elsewhere a line from time to time and one at its end.
//!
//! A verb of several stages gives them all at its beginning ([`begin`]); every line then says how long
//! the whole will take.

use crate::progress;
use indicatif::ProgressBar;
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two lines of one stage if stderr is not a terminal.
const LINE: Duration = Duration::from_secs(15);

/// Work with a known number of items.
pub struct Stage {
    bar: ProgressBar,
    lines: Option<Mutex<Lines>>,
    unit: &'static str,
}

/// What is written where there is no terminal.
struct Lines {
    begun: Instant,
    shown: Instant,
    /// Items that were done before.
    first: u64,
    done: u64,
    total: u64,
}

impl Stage {
    /// A stage over `total` items called `unit`.
    pub fn new(total: u64, unit: &'static str) -> Self {
        let now = Instant::now();
        let lines = Lines { begun: now, shown: now, first: 0, done: 0, total };
        let lines = (!std::io::stderr().is_terminal()).then(|| Mutex::new(lines));
        Self { bar: progress::bar(total, unit), lines, unit }
    }

    /// Reports items that were finished before this run.
    pub fn start_at(&self, done: u64) {
        self.bar.set_position(done);
        self.bar.reset_eta();
        self.with_lines(|lines| (lines.first, lines.done) = (done, done));
    }

    /// Reports how many items of how many are done.
    pub fn show(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
        let share = done as f64 / total.max(1) as f64;
        let present = Present { share, left: self.bar.eta().as_secs_f64() };
        if let Some(left) = left_in_all(Some(present)) {
            self.bar.set_message(left);
        }
        self.with_lines(|lines| {
            (lines.done, lines.total) = (done, total);
            if lines.shown.elapsed() >= LINE {
                lines.shown = Instant::now();
                eprintln!("{}", lines.line(self.unit, share));
            }
        });
    }

    /// Reports one more finished item.
    pub fn advance(&self) {
        let (done, total) = (self.bar.position() + 1, self.bar.length().unwrap_or(0));
        self.show(done, total);
    }

    /// Shows a message beside the bar.
    pub fn note(&self, text: String) {
        self.bar.set_message(text);
    }

    /// Removes the bar, or writes how long the stage took.
    pub fn end(&self) {
        self.bar.finish_and_clear();
        self.with_lines(|lines| {
            let (made, seconds) = (lines.done - lines.first, lines.begun.elapsed().as_secs_f64());
            if made > 0 {
                eprintln!("{} in {seconds:.0} s", progress::counted(lines.done, self.unit));
            }
        });
    }

    fn with_lines(&self, tell: impl FnOnce(&mut Lines)) {
        if let Some(lines) = &self.lines {
            tell(&mut lines.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl Lines {
    fn line(&self, unit: &str, share: f64) -> String {
        let made = (self.done - self.first) as f64;
        let after = |left: Option<String>| left.map_or(String::new(), |left| format!(", {left}"));
        if made == 0.0 {
            return format!("{}/{} {unit}{}", self.done, self.total, after(left_in_all(None)));
        }
        let rate = made / self.begun.elapsed().as_secs_f64().max(1e-9);
        let left = (self.total - self.done.min(self.total)) as f64 / rate.max(1e-9);
        let whole = after(left_in_all(Some(Present { share, left })));
        format!("{}/{} {unit}, {rate:.1}/s, {left:.0} s left{whole}", self.done, self.total)
    }
}

/// A verb of several stages: about how long each takes on two cores, and where it is.
struct Whole {
    expected: Vec<f64>,
    stage: usize,
    /// Seconds that finished stages were expected to take, and took.
    done: [f64; 2],
    entered: Instant,
}

static WHOLE: Mutex<Option<Whole>> = Mutex::new(None);

/// Begins a verb whose stages take about so many seconds each, with the first.
pub fn begin(expected: impl Into<Vec<f64>>) {
    let whole =
        Whole { expected: expected.into(), stage: 0, done: [0.0; 2], entered: Instant::now() };
    *WHOLE.lock().unwrap_or_else(PoisonError::into_inner) = Some(whole);
}

/// Goes on to the next stage, called by its name.
pub fn next(name: &str) {
    if let Some(whole) = WHOLE.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        whole.done[0] += whole.expected.get(whole.stage).copied().unwrap_or(0.0);
        whole.done[1] += whole.entered.elapsed().as_secs_f64();
        (whole.stage, whole.entered) = (whole.stage + 1, Instant::now());
    }
    let left = left_in_all(None).map_or(String::new(), |left| format!(": {left}"));
    eprintln!("{name}{left}");
}

/// How far the present stage is.
#[derive(Clone, Copy)]
pub struct Present {
    /// How much of it is done.
    pub share: f64,
    /// Seconds that it still takes by its own rate.
    pub left: f64,
}

/// About how long the verb still takes, if it has begun one; never less than its present stage.
pub fn left_in_all(present: Option<Present>) -> Option<String> {
    let whole = WHOLE.lock().unwrap_or_else(PoisonError::into_inner);
    let left = whole.as_ref()?.left(present);
    Some(match left {
        short if short < 100.0 => format!("about {:.0} s left in all", short.max(1.0)),
        long => format!("about {:.0} min left in all", long / 60.0),
    })
}

impl Whole {
    /// Expected seconds of what is left, corrected by how long finished stages took.
    fn left(&self, present: Option<Present>) -> f64 {
        let spent = self.entered.elapsed().as_secs_f64();
        let speed = if self.done[0] > 0.0 { self.done[1] / self.done[0] } else { 1.0 };
        let stage = self.expected.get(self.stage).copied().unwrap_or(0.0);
        // Once a tenth is done, the stage itself says best how long it takes.
        let forecast = (speed * stage - spent).max(0.0);
        let here = match present {
            Some(Present { share, left }) if share > 0.1 => left,
            Some(Present { left, .. }) => forecast.max(left),
            None => forecast,
        };
        let later: f64 = self.expected.iter().skip(self.stage + 1).sum();
        here + speed * later
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_what_was_expected_and_what_was_taken() {
        let expected = vec![10.0, 20.0, 30.0];
        let mut whole = Whole { expected, stage: 0, done: [0.0; 2], entered: Instant::now() };
        assert!((whole.left(None) - 60.0).abs() < 1.0);
        // The first stage took twice as long as expected: so will the others.
        (whole.stage, whole.done) = (1, [10.0, 20.0]);
        assert!((whole.left(None) - 100.0).abs() < 1.0);
        let left = |share, left| whole.left(Some(Present { share, left }));
        assert!((left(0.05, 5.0) - 100.0).abs() < 1.0, "too early to say that it is faster");
        assert!((left(0.05, 70.0) - 130.0).abs() < 1.0, "the whole takes no less than its stage");
        assert!((left(0.5, 5.0) - 65.0).abs() < 1.0);
        (whole.stage, whole.done) = (3, [60.0, 120.0]);
        assert!(whole.left(None) < 1.0);
    }

    #[test]
    fn a_line_has_rate_and_time_left() {
        let begun = Instant::now() - Duration::from_secs(10);
        let lines = Lines { begun, shown: begun, first: 20, done: 40, total: 60 };
        let line = lines.line("walks recorded", 0.66);
        assert!(line.starts_with("40/60 walks recorded, 2.0/s, 10 s left"), "{line}");
        let none = Lines { done: 20, ..lines };
        assert_eq!(
            none.line("walks recorded", 0.33),
            "20/60 walks recorded",
            "no rate is known yet"
        );
    }
}

//! Progress of several trainings: a bar for each on a terminal, otherwise a line from time to time.

use crate::output;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two lines of one training if stderr is not a terminal.
const LINE: Duration = Duration::from_secs(15);

/// Shows the progress of trainings on stderr.
pub struct Board {
    bars: Option<MultiProgress>,
    /// Trainings that are finished, and how many there are.
    done: AtomicUsize,
    all: usize,
    whole: Mutex<Whole>,
}

/// Steps of all trainings together.
struct Whole {
    begun: Instant,
    shown: Instant,
    made: u64,
    steps: u64,
    bar: Option<ProgressBar>,
}

impl Board {
    /// A display of `all` trainings, of which `done` are finished already; `steps` are left to make.
    pub fn new(done: usize, all: usize, steps: u64) -> Self {
        let shown = std::io::stderr().is_terminal() && !output::is_quiet();
        let bars = shown.then(MultiProgress::new);
        let bar = bars.as_ref().map(|bars| {
            let style =
                ProgressStyle::with_template("all arms           {bar:24} {pos}/{len}  {eta} left");
            let bar = ProgressBar::new(steps).with_style(style.expect("the template is valid"));
            bars.add(bar)
        });
        let now = Instant::now();
        let whole = Mutex::new(Whole { begun: now, shown: now, made: 0, steps, bar });
        Self { bars, done: AtomicUsize::new(done), all, whole }
    }

    /// Counts steps that were made, and says from time to time how long all will take.
    fn made(&self, steps: u64) {
        let mut whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        whole.made = (whole.made + steps).min(whole.steps);
        if let Some(bar) = &whole.bar {
            bar.set_position(whole.made);
        } else if whole.shown.elapsed() >= LINE && whole.made > 0 {
            whole.shown = Instant::now();
            let rate = whole.made as f64 / whole.begun.elapsed().as_secs_f64().max(1e-9);
            let left = (whole.steps - whole.made) as f64 / rate / 60.0;
            eprintln!("all arms           step {}/{}  {left:.0} min left", whole.made, whole.steps);
        }
    }

    /// Adds a training that starts.
    pub fn lane(&self, name: &str, steps: u64) -> Lane<'_> {
        let bar = self.bars.as_ref().map(|bars| {
            let style = ProgressStyle::with_template("{prefix:18} {bar:24} {pos}/{len}  {msg}");
            let bar = ProgressBar::new(steps).with_style(style.expect("the template is valid"));
            let bar = bars.add(bar.with_prefix(name.to_owned()));
            bar.set_message("preparing");
            bar
        });
        Lane { board: self, name: name.to_owned(), bar, shown: None, step: None }
    }

    fn say(&self, text: &str) {
        match &self.bars {
            // If the terminal fails, there is nothing to show it on.
            Some(bars) => drop(bars.println(text)),
            None => eprintln!("{text}"),
        }
    }
}

/// The display of one training.
pub struct Lane<'a> {
    board: &'a Board,
    name: String,
    bar: Option<ProgressBar>,
    shown: Option<Instant>,
    /// The last step that was heard of.
    step: Option<u64>,
}

impl Lane<'_> {
    /// Shows a line of the training's output.
    pub fn hear(&mut self, line: &str) {
        if line.starts_with("warning:") {
            self.board.say(&format!("{}: {line}", self.name));
            return;
        }
        let Some((step, rest)) = progress(line) else { return };
        // What a training had made before counts as made.
        self.board.made(step.saturating_sub(self.step.unwrap_or(0)));
        self.step = Some(step);
        match &self.bar {
            Some(bar) => {
                bar.set_position(step);
                bar.set_message(rest.trim().to_owned());
            }
            None if self.shown.is_none_or(|shown| shown.elapsed() >= LINE) => {
                self.shown = Some(Instant::now());
                eprintln!("{:<18} {line}", self.name);
            }
            None => {}
        }
    }

    /// Removes the training from the display and prints its outcome; `finished` ones are counted.
    pub fn end(self, outcome: &str, finished: bool) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if let Some(bar) = self.board.whole.lock().ok().and_then(|whole| whole.bar.clone()) {
            let last = self.board.done.load(Ordering::Relaxed) + 1 >= self.board.all;
            if last {
                bar.finish_and_clear();
            }
        }
        let Board { done, all, .. } = self.board;
        let done = done.fetch_add(usize::from(finished), Ordering::Relaxed) + usize::from(finished);
        self.board.say(&format!("{:<18} {outcome}  ({done} of {all})", self.name));
    }
}

/// The step and the rest of a line such as `step 40/300  loss 0.31 …`.
fn progress(line: &str) -> Option<(u64, &str)> {
    let (step, rest) = line.strip_prefix("step ")?.split_once('/')?;
    let end = rest.find(' ').unwrap_or(rest.len());
    Some((step.parse().ok()?, &rest[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_training_are_understood_and_others_are_not() {
        let line = "step 40/300  loss 0.3100  12.0 steps/s  22 s left";
        assert_eq!(progress(line), Some((40, "  loss 0.3100  12.0 steps/s  22 s left")));
        assert_eq!(progress("step 300/300"), Some((300, "")));
        for other in ["arm: far-multi on cpu", "step x/3", "step 4", ""] {
            assert_eq!(progress(other), None);
        }
    }
}

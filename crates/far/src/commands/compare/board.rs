//! Progress of several trainings: a bar for each on a terminal, otherwise a line from time to time.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Time between two lines of one training if stderr is not a terminal.
const LINE: Duration = Duration::from_secs(15);

/// Shows the progress of trainings on stderr.
pub struct Board {
    bars: Option<MultiProgress>,
    done: AtomicUsize,
    all: usize,
}

impl Board {
    /// A display of `all` trainings, of which `done` are finished already.
    pub fn new(done: usize, all: usize) -> Self {
        let bars = std::io::stderr().is_terminal().then(MultiProgress::new);
        Self { bars, done: AtomicUsize::new(done), all }
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
        Lane { board: self, name: name.to_owned(), bar, shown: None }
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
}

impl Lane<'_> {
    /// Shows a line of the training's output.
    pub fn hear(&mut self, line: &str) {
        if line.starts_with("warning:") {
            self.board.say(&format!("{}: {line}", self.name));
            return;
        }
        let Some((step, rest)) = progress(line) else { return };
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

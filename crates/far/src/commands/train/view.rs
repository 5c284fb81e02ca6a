//! Shows a run during training: live curves on a terminal, otherwise a line from time to time.

use super::curve::Curve;
use super::health;
use crate::stage::{self, Present};
use crate::{output, progress};
use far_train::{Error, EvaluationRecord, StepReport, Watch};
use indicatif::ProgressBar;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Characters across each of the two plots, so that both fit into 80.
const COLUMNS: usize = 30;
/// Characters down.
const ROWS: usize = 4;
/// Time between two updates on a terminal.
const REFRESH: Duration = Duration::from_millis(200);
/// Default time between two lines if stderr is not a terminal.
const LINE: Duration = Duration::from_secs(15);

/// Shows the progress of a run on stderr.
pub struct View {
    steps: u64,
    bar: Option<ProgressBar>,
    line: Duration,
    loss: Curve,
    quality: Curve,
    detail: String,
    began: Instant,
    first: u64,
    step: u64,
    shown: Option<Instant>,
}

impl View {
    /// A view of a run of `steps` steps.
    pub fn new(steps: u64) -> Self {
        let shown = std::io::stderr().is_terminal() && !output::is_quiet();
        let template = "{msg}\n{bar:32} {human_pos}/{human_len} steps, {rate}, {eta} left";
        let bar = shown.then(|| progress::styled(steps, template));
        Self {
            steps,
            bar,
            line: LINE,
            loss: Curve::falling("loss"),
            quality: Curve::share("recall quality"),
            detail: String::new(),
            began: Instant::now(),
            first: 0,
            step: 0,
            shown: None,
        }
    }

    /// Sets the time between two lines if stderr is not a terminal.
    pub fn with_lines_every(self, line: Duration) -> Self {
        Self { line, ..self }
    }

    /// Removes the curves; the result goes to stdout.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// The loss as it was last shown: smoothed, for that of one step varies.
    pub fn loss(&self) -> Option<f64> {
        self.loss.smooth()
    }

    /// Recall quality of the last evaluation.
    pub fn recall_quality(&self) -> Option<f64> {
        self.quality.last()
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => eprintln!("{text}"),
        }
    }

    fn refresh(&mut self) {
        let due = if self.bar.is_some() { REFRESH } else { self.line };
        if self.shown.is_some_and(|shown| shown.elapsed() < due) && self.step < self.steps {
            return;
        }
        self.shown = Some(Instant::now());
        match &self.bar {
            Some(bar) => {
                bar.set_message(self.picture());
                bar.set_position(self.step);
            }
            None => eprintln!("{}", self.line()),
        }
    }

    /// Both curves side by side, with their numbers.
    fn picture(&self) -> String {
        let across = 0.0..=self.steps as f64;
        let plots = [&self.loss, &self.quality];
        let [left, right] = plots.map(|curve| curve.plot(COLUMNS, ROWS, across.clone()));
        let rows = left.iter().zip(&right).map(|(left, right)| format!("{left}  {right}"));
        let mut lines: Vec<String> = rows.collect();
        if !self.detail.is_empty() {
            lines.push(self.detail.clone());
        }
        lines.extend(self.left_in_all());
        lines.join("\n")
    }

    /// How long all stages of the verb take, where training is one of several.
    fn left_in_all(&self) -> Option<String> {
        let share = self.step as f64 / self.steps.max(1) as f64;
        stage::left_in_all(Some(Present { share, left: self.left() }))
    }

    /// Steps per second since the run began or was resumed.
    fn rate(&self) -> f64 {
        (self.step - self.first) as f64 / self.began.elapsed().as_secs_f64().max(1e-9)
    }

    /// Seconds that the steps to come take at this rate.
    fn left(&self) -> f64 {
        (self.steps - self.step) as f64 / self.rate().max(1e-9)
    }

    fn line(&self) -> String {
        let number = |name: &str, value: Option<f64>| {
            value.map_or(String::new(), |value| format!("  {name} {value:.4}"))
        };
        format!(
            "step {}/{}{}{}  {:.1} steps/s  {:.0} s left{}",
            self.step,
            self.steps,
            number("loss", self.loss.smooth()),
            number("recall quality", self.quality.last()),
            self.rate(),
            self.left(),
            self.left_in_all().map_or(String::new(), |left| format!(", {left}")),
        )
    }
}

impl Watch for View {
    fn begin(&mut self, resumed: Option<u64>, refused: &[Error]) {
        for error in refused {
            self.say(&format!("warning: a checkpoint could not be read: {error}"));
        }
        if let Some(step) = resumed {
            self.say(&format!("resuming after step {step}"));
        }
        (self.first, self.step) = (resumed.unwrap_or(0), resumed.unwrap_or(0));
        self.began = Instant::now();
        if let Some(bar) = &self.bar {
            bar.set_position(self.step);
            bar.reset_eta();
        }
    }

    fn step(&mut self, report: &StepReport) {
        self.step = report.step.step;
        self.loss.push(self.step as f64, report.step.loss.map_or(f64::NAN, f64::from));
        if let Some(retriever) = report.retrievers.first() {
            self.detail = health::describe(retriever);
        }
        self.refresh();
    }

    fn evaluation(&mut self, record: &EvaluationRecord) {
        if let Some(Some(quality)) = record.values.get("recall_quality") {
            self.quality.push(record.step as f64, *quality);
        }
        self.shown = None;
        self.refresh();
    }

    fn checkpoint(&mut self, _: u64) {}
}

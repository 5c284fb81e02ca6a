//! A training loop whose state is one number, and somebody who looks on.

use crate::fragile_disk::Fuse;
use far_train::{
    Error, EvaluationRecord, Result, RetrieverRecord, StepRecord, StepReport, TrainingLoop, Watch,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The state: a number that every step mixes with its own.
pub struct Toy {
    pub step: u64,
    state: u64,
    fuse: Fuse,
}

impl Toy {
    pub fn new(fuse: Fuse) -> Self {
        Self { step: 0, state: 1, fuse }
    }

    fn value(&self) -> f32 {
        (self.state >> 40) as f32 / (1 << 24) as f32
    }
}

impl TrainingLoop for Toy {
    fn completed(&self) -> u64 {
        self.step
    }

    fn step(&mut self) -> Result<StepReport> {
        self.step += 1;
        self.state = (self.state ^ self.step).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17);
        let (step, loss) = (self.step, Some(self.value()));
        let record = StepRecord { step, loss, ..StepRecord::default() };
        let retriever = self.step.is_multiple_of(3).then(|| RetrieverRecord {
            step,
            update: step / 3,
            loss,
            ..RetrieverRecord::default()
        });
        Ok(StepReport { step: record, retrievers: retriever.into_iter().collect() })
    }

    fn evaluate(&mut self) -> Result<EvaluationRecord> {
        let values = [("recall_quality".to_owned(), Some(f64::from(self.value())))].into();
        Ok(EvaluationRecord { step: self.step, values })
    }

    fn save(&self, path: &Path) -> Result<()> {
        let bytes = format!("{} {}\n", self.step, self.state).repeat(20);
        let io = |source| Error::File { action: "write", path: path.into(), source };
        self.fuse.write(bytes.as_bytes(), |bytes| std::fs::write(path, bytes)).map_err(io)
    }

    fn load(&mut self, path: &Path) -> Result<()> {
        let corrupt = || Error::Corrupt { path: path.into(), reason: "torn".into() };
        let text = std::fs::read_to_string(path).map_err(|_| corrupt())?;
        let lines: Vec<&str> = text.lines().collect();
        let whole =
            lines.len() == 20 && text.ends_with('\n') && lines.iter().all(|l| *l == lines[0]);
        let (step, state) = lines
            .first()
            .filter(|_| whole)
            .and_then(|line| line.split_once(' '))
            .ok_or_else(corrupt)?;
        self.step = step.parse().map_err(|_| corrupt())?;
        self.state = state.parse().map_err(|_| corrupt())?;
        Ok(())
    }
}

/// Remembers where the run began and which checkpoints it wrote.
#[derive(Default)]
pub struct Notes {
    pub resumed: Option<u64>,
    pub refused: usize,
    pub checkpoints: Vec<u64>,
    /// Asks for a stop after this step.
    pub stop_after: Option<(u64, Arc<AtomicBool>)>,
}

impl Watch for Notes {
    fn begin(&mut self, resumed: Option<u64>, refused: &[Error]) {
        (self.resumed, self.refused) = (resumed, refused.len());
    }

    fn step(&mut self, report: &StepReport) {
        if let Some((step, stop)) = &self.stop_after {
            stop.store(report.step.step == *step, Ordering::Relaxed);
        }
    }

    fn evaluation(&mut self, _: &EvaluationRecord) {}

    fn checkpoint(&mut self, step: u64) {
        self.checkpoints.push(step);
    }
}

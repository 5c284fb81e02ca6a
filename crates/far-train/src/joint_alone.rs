//! The two parts of Algorithm 1 that a step cannot do without, each by itself: what the whole step is
//! measured against.

use crate::step_times::StepTimes;
use crate::{Joint, Result};
use std::time::{Duration, Instant};

/// How long parts of a step take by themselves, again and again on the same examples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimesAlone {
    /// The world model's update.
    pub network: Vec<Duration>,
    /// Utilities of the first retriever's candidates; empty where none learns.
    pub credit: Vec<Duration>,
}

impl Joint<'_> {
    /// Measures the parts by themselves, the network `updates` times and the credit `credits` times.
    /// The world model learns from it, but the step does not count.
    ///
    /// # Errors
    /// As [`Joint::step`].
    pub fn measure_alone(&mut self, updates: usize, credits: usize) -> Result<TimesAlone> {
        let prepared = self.prepare()?;
        let (contexts, futures) = self.contexts(&prepared, &mut StepTimes::default())?;
        let mut alone = TimesAlone::default();
        for _ in 0..updates {
            let begun = Instant::now();
            self.train(&prepared, &contexts, &futures)?;
            alone.network.push(begun.elapsed());
        }
        let examples = self.taught(&prepared);
        let weights = self.utility_weights(&examples)?;
        let (credit, step) = (self.credit(weights.as_deref()), self.steps());
        let Some(learner) = self.retrievers().first() else { return Ok(alone) };
        let questions = learner.questions(&examples, &credit);
        let pools = learner.candidates(&questions, &credit, step)?;
        for _ in 0..credits {
            let begun = Instant::now();
            credit.utilities(&questions, &pools, step)?;
            alone.credit.push(begun.elapsed());
        }
        Ok(alone)
    }
}

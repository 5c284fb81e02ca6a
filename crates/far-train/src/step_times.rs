//! Where the time of a step of Algorithm 1 goes, by the clock of the host.

use std::time::{Duration, Instant};

/// The parts of a step, one after another, and what another thread did beside the step before.
///
/// Parts of the loop end when their results are on the host, so that the time of a GPU belongs to the
/// part that it worked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTimes {
    /// Waiting for examples that were not ready.
    pub waiting: Duration,
    /// Recall, for contexts and for candidates.
    pub recall: Duration,
    /// Putting contexts together.
    pub contexts: Duration,
    /// The world model's update.
    pub network: Duration,
    /// Utilities of candidates.
    pub credit: Duration,
    /// The retriever's update.
    pub retriever: Duration,
    /// Meanwhile: drawing the examples and the noise of the next step.
    pub drawing: Duration,
    /// Meanwhile: embedding the queries of the next step.
    pub encoding: Duration,
}

impl StepTimes {
    /// The parts by name, in the order of the loop.
    pub fn parts(&self) -> [(&'static str, Duration); 6] {
        [
            ("waiting", self.waiting),
            ("recall", self.recall),
            ("contexts", self.contexts),
            ("network", self.network),
            ("credit", self.credit),
            ("retriever", self.retriever),
        ]
    }

    /// What another thread does meanwhile, by name.
    pub fn meanwhile(&self) -> [(&'static str, Duration); 2] {
        [("drawing", self.drawing), ("encoding", self.encoding)]
    }

    /// Adds the times of another step.
    pub fn add(&mut self, other: &Self) {
        self.waiting += other.waiting;
        self.recall += other.recall;
        self.contexts += other.contexts;
        self.network += other.network;
        self.credit += other.credit;
        self.retriever += other.retriever;
        self.drawing += other.drawing;
        self.encoding += other.encoding;
    }
}

/// Does some work and adds its time.
pub(crate) fn timed<T>(time: &mut Duration, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let value = work();
    *time += begun.elapsed();
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_adds_up() {
        let seconds = Duration::from_secs;
        let one = StepTimes {
            waiting: seconds(1),
            recall: seconds(2),
            contexts: seconds(3),
            network: seconds(4),
            credit: seconds(5),
            retriever: seconds(6),
            drawing: seconds(7),
            encoding: seconds(8),
        };
        let mut both = one;
        both.add(&one);
        let all = |times: &StepTimes| -> Vec<Duration> {
            times.parts().into_iter().chain(times.meanwhile()).map(|(_, time)| time).collect()
        };
        assert_eq!(all(&one), (1..=8).map(seconds).collect::<Vec<_>>());
        assert_eq!(all(&both), (1..=8).map(|n| seconds(2 * n)).collect::<Vec<_>>());
        let mut spent = Duration::ZERO;
        assert_eq!(timed(&mut spent, || 3), 3);
    }
}

//! Training examples as Rust's sampler draws them.

use crate::dataset::ANCHORS;
use crate::failure::{Failure, Kind};
use far_data::{Anchor, Dataset, SamplingConfig, TrainingSampler};
use pyo3::prelude::*;
use self_cell::self_cell;
use std::path::PathBuf;

self_cell!(
    struct Drawn {
        owner: Dataset,
        #[covariant]
        dependent: TrainingSampler,
    }
);

/// The stream of training examples of a dataset.
#[pyclass(frozen, module = "far_memory._native")]
pub struct Examples {
    drawn: Drawn,
}

/// Episode, current frame, pool, goal frames, kind and frame of the anchor.
type Observation = (u32, u32, Vec<u32>, Vec<u32>, &'static str, Option<u32>);

#[pymethods]
impl Examples {
    /// A stream over the dataset in a folder. The settings are JSON; what is left out has the values of its corpus.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, settings: &str) -> PyResult<Self> {
        let wrong = |cause: serde_json::Error| {
            Failure::new(
                Kind::Input,
                format!("these settings are not understood: {cause}"),
                "settings() shows them all",
            )
        };
        let given: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(settings).map_err(wrong)?;
        let opened = py.detach(|| {
            let dataset = Dataset::open(&path)?;
            let usual = SamplingConfig::of_corpus(&dataset.description().corpus);
            let usual = serde_json::to_value(usual).expect("settings are plain data");
            let serde_json::Value::Object(mut all) = usual else {
                unreachable!("settings are a table")
            };
            all.extend(given);
            let config: SamplingConfig =
                serde_json::from_value(serde_json::Value::Object(all)).map_err(wrong)?;
            let drawn = Drawn::try_new(dataset, |dataset| TrainingSampler::new(dataset, config))?;
            Ok::<_, Failure>(drawn)
        });
        Ok(Self { drawn: opened? })
    }

    /// All settings as JSON.
    fn settings(&self) -> String {
        let config = self.drawn.borrow_dependent().config();
        serde_json::to_string(config).expect("settings are plain data")
    }

    /// One observation of a step with its goals.
    fn observation(&self, py: Python<'_>, step: u64, number: u32) -> PyResult<Observation> {
        let sampler = self.drawn.borrow_dependent();
        let config = sampler.config();
        let count = config.batch / config.goals_per_observation;
        if number >= count {
            let cause = format!("there is no observation {number}");
            return Err(Failure::input(cause, format!("a step has {count} of them")).into());
        }
        let examples = py.detach(|| sampler.observation(step, number)).map_err(Failure::from)?;
        let first = &examples[0];
        let (kind, frame) = match first.anchor {
            Anchor::None => (ANCHORS[0], None),
            Anchor::Event(frame) => (ANCHORS[1], Some(frame)),
            Anchor::Reveal(frame) => (ANCHORS[2], Some(frame)),
        };
        let goals = examples.iter().map(|example| example.future.frame).collect();
        let query = &first.query;
        Ok((query.episode, query.current, first.memory.frames.to_vec(), goals, kind, frame))
    }
}

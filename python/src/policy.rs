//! Rules by id and trained retrievers from files, ready to recall.

use crate::failure::{Failure, Kind, Outcome};
use far_memory::policy::{PolicyConfig, RuleConfig};
use far_memory::{RecallPolicy, Retriever};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple, PyType};

/// A rule with its settings, or a trained retriever.
#[pyclass(frozen, module = "far_memory._native")]
pub struct Policy {
    /// What recalls.
    pub policy: Box<dyn RecallPolicy>,
    source: Source,
}

/// What a policy was made from, so that it can be shown and pickled.
enum Source {
    Rule(PolicyConfig),
    Retriever { retriever: Retriever, threads: usize },
}

impl Policy {
    fn from_rule(text: &str) -> Outcome<Self> {
        let config: PolicyConfig = serde_json::from_str(text).map_err(|cause| {
            Failure::new(
                Kind::Policy,
                format!("this is no rule: {cause}"),
                "far_memory.rules() lists the ids, Policy(id).settings what a rule can be told",
            )
        })?;
        let policy = config.clone().build()?;
        Ok(Self { policy, source: Source::Rule(config) })
    }

    /// The same policy once more, for somebody who keeps it.
    pub fn again(&self) -> Outcome<Box<dyn RecallPolicy>> {
        Ok(match &self.source {
            Source::Rule(config) => config.clone().build()?,
            Source::Retriever { retriever, threads } => {
                Box::new(retriever.clone().with_threads(*threads))
            }
        })
    }

    fn from_retriever(retriever: Retriever, threads: usize) -> Self {
        let policy = Box::new(retriever.clone().with_threads(threads));
        Self { policy, source: Source::Retriever { retriever, threads } }
    }
}

#[pymethods]
impl Policy {
    /// A rule from its id and settings as JSON.
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        // A wrong id deserves the list of ids rather than a complaint about JSON.
        if let Ok(document) = serde_json::from_str::<serde_json::Value>(text)
            && let Some(id) = document.get("id").and_then(|id| id.as_str())
        {
            PolicyConfig::from_id(id).map_err(Failure::from)?;
        }
        Ok(Self::from_rule(text)?)
    }

    /// A trained retriever from the bytes of its file.
    #[classmethod]
    #[pyo3(signature = (data, threads=1))]
    fn from_bytes(_class: &Bound<'_, PyType>, data: &[u8], threads: usize) -> PyResult<Self> {
        let retriever = Retriever::from_bytes(data).map_err(Failure::from)?;
        Ok(Self::from_retriever(retriever, threads))
    }

    /// The bytes of the retriever's file; None for a rule.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        match &self.source {
            Source::Rule(_) => None,
            Source::Retriever { retriever, .. } => Some(PyBytes::new(py, &retriever.to_bytes())),
        }
    }

    /// The id of the rule; "far" for a retriever.
    #[getter]
    fn id(&self) -> &str {
        self.policy.id()
    }

    /// The settings of a rule, or the configuration of a retriever, as JSON.
    #[getter]
    fn settings(&self) -> String {
        let text = match &self.source {
            Source::Rule(config) => serde_json::to_string(config),
            Source::Retriever { retriever, .. } => serde_json::to_string(retriever.config()),
        };
        text.expect("settings are plain data")
    }

    fn __repr__(&self) -> String {
        match &self.source {
            Source::Rule(_) => format!("Policy({})", self.settings()),
            Source::Retriever { threads, .. } => {
                format!("Policy.from_bytes({}, threads={threads})", self.settings())
            }
        }
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, class) = (slf.py(), slf.get_type());
        let policy = slf.get();
        Ok(match &policy.source {
            Source::Rule(_) => {
                (class.into_any(), PyTuple::new(py, [PyString::new(py, &policy.settings())])?)
            }
            Source::Retriever { retriever, threads } => (
                class.getattr("from_bytes")?,
                (PyBytes::new(py, &retriever.to_bytes()), *threads).into_pyobject(py)?,
            ),
        })
    }
}

/// The ids of all rules; "far" stands for a trained retriever.
#[pyfunction]
pub fn rules() -> Vec<&'static str> {
    RuleConfig::IDS.to_vec()
}

/// How many memories the source of a rule recalls, where it says so.
#[pyfunction]
pub fn published_slots(id: &str) -> PyResult<Option<usize>> {
    Ok(RuleConfig::from_id(id).map_err(Failure::from)?.published_slots())
}

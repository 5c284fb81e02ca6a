//! Datasets and their episodes, for reading.

use crate::failure::{Failure, Kind, Outcome};
use crate::pose_rows::pose_table;
use crate::query_batch::flat;
use far_data::{Split, SplitRule};
use numpy::ndarray::Array4;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArray4, PyReadonlyArray1};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// The kinds of a training example's anchor, as numbers.
pub const ANCHORS: [&str; 3] = ["none", "event", "reveal"];

/// The part of a dataset by its name.
pub fn split(name: &str) -> Outcome<Split> {
    Split::from_name(name).ok_or_else(|| {
        Failure::input(format!("there is no part {name:?}"), "give train, validation or test")
    })
}

/// A dataset, open for reading.
#[pyclass(frozen, module = "far_memory._native")]
pub struct Dataset {
    inner: far_data::Dataset,
}

/// An open episode.
#[pyclass(frozen, module = "far_memory._native")]
pub struct Episode {
    inner: Arc<far_data::Episode>,
}

#[pymethods]
impl Dataset {
    /// Opens the dataset in a folder.
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        Ok(Self { inner: far_data::Dataset::open(&path).map_err(Failure::from)? })
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }

    /// `dataset.json`.
    fn description(&self) -> String {
        self.inner.description().to_json()
    }

    /// Ids of all episodes.
    fn ids(&self) -> Vec<u32> {
        self.inner.ids().collect()
    }

    /// Ids of the episodes in one part, under the dataset's first rule or one that is named.
    #[pyo3(signature = (part, rule=None))]
    fn select(&self, part: &str, rule: Option<&str>) -> PyResult<Vec<u32>> {
        let rules = [SplitRule::SceneDisjoint, SplitRule::Episode];
        let rule = match rule {
            None => self.inner.description().splits[0],
            Some(name) => rules.into_iter().find(|rule| rule.name() == name).ok_or_else(|| {
                Failure::input(
                    format!("there is no rule {name:?}"),
                    "give scene-disjoint or episode",
                )
            })?,
        };
        Ok(self.inner.select(rule, split(part)?).map_err(Failure::from)?)
    }

    /// Frames, first return frame, scene and part of an episode, without opening it.
    fn summary(&self, id: u32) -> PyResult<(u32, u32, String, &'static str)> {
        let summary = self.inner.summary(id).map_err(Failure::from)?;
        Ok((summary.frames, summary.boundary, summary.facts.scene, summary.facts.split.name()))
    }

    /// Opens an episode.
    fn episode(&self, py: Python<'_>, id: u32) -> PyResult<Episode> {
        let inner = py.detach(|| self.inner.episode(id)).map_err(Failure::from)?;
        Ok(Episode { inner })
    }
}

impl Dataset {
    /// The same dataset, opened once more for somebody who keeps it.
    pub fn reopened(&self) -> Outcome<far_data::Dataset> {
        Ok(far_data::Dataset::open(self.inner.folder())?)
    }
}

impl Episode {
    fn check(&self, frame: i64) -> Outcome<usize> {
        usize::try_from(frame).ok().filter(|frame| *frame < self.inner.len()).ok_or_else(|| {
            Failure::new(
                Kind::Input,
                format!("episode {} has no frame {frame}", self.inner.id()),
                format!("it has frames 0 to {}", self.inner.len() - 1),
            )
        })
    }

    /// Decoded pictures of some frames, [frames, height, width, 3].
    fn pictures(&self, frames: &[i64]) -> Outcome<Array4<u8>> {
        let [width, height] = self.inner.description().resolution.map(|size| size as usize);
        let mut pixels = Vec::with_capacity(frames.len() * height * width * 3);
        for frame in frames {
            pixels.extend_from_slice(&self.inner.picture(self.check(*frame)?)?.pixels);
        }
        Array4::from_shape_vec((frames.len(), height, width, 3), pixels).map_err(|_| {
            Failure::new(Kind::Dataset, "pictures have several sizes", "record the dataset again")
        })
    }
}

#[pymethods]
impl Episode {
    fn __len__(&self) -> usize {
        self.inner.len()
    }

    /// Index of the first return frame.
    #[getter]
    fn boundary(&self) -> usize {
        self.inner.boundary()
    }

    /// Seconds of every frame.
    fn times<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, self.inner.times())
    }

    /// Poses of every frame in the project's convention, [frames, 7].
    fn poses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        if !self.inner.description().poses {
            let hint = "its times, pictures and events can be read";
            return Err(Failure::new(Kind::Dataset, "the dataset has no poses", hint).into());
        }
        Ok(pose_table(py, self.inner.poses()))
    }

    /// Labels of what happened since the previous frame.
    fn events(&self, frame: i64) -> PyResult<Vec<u16>> {
        Ok(self.inner.events(self.check(frame)?).to_vec())
    }

    /// Pictures of some frames, [frames, height, width, 3].
    fn frames<'py>(
        &self,
        py: Python<'py>,
        frames: PyReadonlyArray1<'py, i64>,
    ) -> PyResult<Bound<'py, PyArray4<u8>>> {
        let frames = flat(frames.as_slice(), "the frames")?;
        Ok(py.detach(|| self.pictures(frames))?.into_pyarray(py))
    }

    /// The ids of the surfaces in view in a frame, where the dataset has them.
    fn visible_faces(&self, frame: i64) -> PyResult<Vec<u32>> {
        Ok(self.inner.visible_faces(self.check(frame)?).to_vec())
    }
}

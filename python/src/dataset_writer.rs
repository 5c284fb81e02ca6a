//! Writes a dataset from a caller's own trajectories.

use crate::dataset::split;
use crate::failure::{Failure, Kind, Outcome};
use crate::pose_rows::Axes;
use crate::query_batch::{flat, misfit, poses};
use far_data::{
    DatasetDescription, EpisodeFacts, EpisodeWriter, Frame, FrameImage, Phase, Picture,
};
use far_memory::Pose;
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray4, PyUntypedArrayMethods};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

/// A dataset being written. Threads write episodes side by side; closing waits for them.
#[pyclass(frozen, module = "far_memory._native")]
pub struct DatasetWriter {
    /// `None` when it is closed: the folder's lock is free then.
    inner: RwLock<Option<far_data::DatasetWriter>>,
}

#[pymethods]
impl DatasetWriter {
    /// Begins a dataset in a folder, or continues one with the same description.
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        corpus: &str,
        fps: f32,
        resolution: [u32; 2],
        field_of_view: [f32; 2],
    ) -> PyResult<Self> {
        let description = DatasetDescription::new(corpus, fps, resolution, field_of_view);
        let inner = py.detach(|| far_data::DatasetWriter::create(&path, description));
        Ok(Self { inner: RwLock::new(Some(inner.map_err(Failure::from)?)) })
    }

    /// Writes one episode: times [n], poses, frames [n, height, width, 3], and the index of the first return frame.
    #[allow(clippy::too_many_arguments, reason = "each is a column or a fact of the episode")]
    fn episode(
        &self,
        py: Python<'_>,
        id: u32,
        scene: &str,
        part: &str,
        seed: u64,
        times: PyReadonlyArray1<'_, f64>,
        poses_given: PyReadonlyArray2<'_, f64>,
        convention: Axes,
        frames: PyReadonlyArray4<'_, u8>,
        boundary: usize,
    ) -> PyResult<()> {
        let times = flat(times.as_slice(), "the times")?;
        let poses = poses(&convention, &poses_given, "pose")?;
        let shape = frames.shape();
        for (what, found) in [("poses", poses.len()), ("frames", shape[0])] {
            if found != times.len() {
                return Err(misfit(what, found, times.len()).into());
            }
        }
        if shape[3] != 3 {
            let cause = format!("frames have {} channels", shape[3]);
            return Err(Failure::input(cause, "give RGB frames [n, height, width, 3]").into());
        }
        let (height, width) = (shape[1] as u32, shape[2] as u32);
        let pixels = flat(frames.as_slice(), "the frames")?;
        let facts = EpisodeFacts::new(scene, split(part)?, seed);
        let columns = Columns { times, poses: &poses, pixels, size: [width, height], boundary };
        Ok(py.detach(|| self.write(id, facts, &columns))?)
    }

    /// Writes the index; returns how many episodes there are.
    fn finish(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(py.detach(|| self.with(|writer| Ok(writer.finish()?)))?)
    }

    /// Lets go of the folder at once; episodes that are complete stay. Closing again does nothing.
    fn close(&self, py: Python<'_>) {
        py.detach(|| *self.inner.write().unwrap_or_else(PoisonError::into_inner) = None);
    }
}

/// The columns of an episode.
struct Columns<'a> {
    times: &'a [f64],
    poses: &'a [Pose],
    pixels: &'a [u8],
    size: [u32; 2],
    boundary: usize,
}

impl DatasetWriter {
    fn with<T>(&self, work: impl FnOnce(&far_data::DatasetWriter) -> Outcome<T>) -> Outcome<T> {
        let writer = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        writer.as_ref().map_or_else(|| Err(closed()), work)
    }

    fn write(&self, id: u32, facts: EpisodeFacts, columns: &Columns<'_>) -> Outcome<()> {
        let [width, height] = columns.size;
        let bytes = width as usize * height as usize * 3;
        if bytes == 0 {
            return Err(Failure::new(
                Kind::Input,
                "frames have no pixels",
                "give [n, height, width, 3]",
            ));
        }
        self.with(|writer| Self::write_rows(writer.episode(id, facts)?, columns))
    }

    fn write_rows(mut episode: EpisodeWriter<'_>, columns: &Columns<'_>) -> Outcome<()> {
        let [width, height] = columns.size;
        let bytes = width as usize * height as usize * 3;
        let rows = columns.times.iter().zip(columns.poses).zip(columns.pixels.chunks_exact(bytes));
        for (index, ((time, pose), pixels)) in rows.enumerate() {
            let phase = if index < columns.boundary { Phase::Explore } else { Phase::Return };
            let image = FrameImage::Pixels(Picture { width, height, pixels: pixels.to_vec() });
            episode.push(Frame::new(*time, *pose, phase, image))?;
        }
        episode.finish()?;
        Ok(())
    }
}

fn closed() -> Failure {
    let hint = "make another one for the same folder: it goes on where this one ended";
    Failure::new(Kind::Closed, "the writer is closed", hint)
}

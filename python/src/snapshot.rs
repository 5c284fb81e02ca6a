//! A memory at one moment: recall, and columns that are read where they lie.

use crate::failure::{Failure, Outcome};
use crate::memory::{Memory, cue_list};
use crate::policy::Policy;
use crate::query_batch::{GivenQueries, QueryBatch, flat};
use crate::recall_batch::{RecallArrays, RecallBatch};
use far_memory::store::Store;
use far_memory::{
    FEATURES, FeatureScale, Keys, MemoryId, OVERLAP_FEATURES, Payload, Sighting, features,
    line_of_sight, overlap_features,
};
use numpy::ndarray::{Array2, Array3, ArrayView1, ArrayView2};
use numpy::{Element, IntoPyArray, PyArray1, PyArray2, PyArray3, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use std::path::PathBuf;

/// Keys, [ids, dimension], and which of them are there.
type GatheredKeys<'py> = (Bound<'py, PyArray2<f32>>, Bound<'py, PyArray1<bool>>);

/// The records that a memory had when it was taken.
#[pyclass(frozen, module = "far_memory._native")]
pub struct Snapshot {
    inner: far_memory::Snapshot,
}

impl Snapshot {
    /// A snapshot for Python.
    pub fn new(inner: far_memory::Snapshot) -> Self {
        Self { inner }
    }

    fn cue(&self, name: &str) -> Outcome<usize> {
        let cue = self.inner.schema().index(name)?;
        if self.inner.schema().keys().all(|(index, ..)| index != cue) {
            return Err(Failure::input(
                format!("cue {name:?} is time and pose; it has no keys"),
                "read times() and poses()",
            ));
        }
        Ok(cue)
    }
}

#[pymethods]
impl Snapshot {
    fn __len__(&self) -> usize {
        self.inner.len()
    }

    /// The cues: name, dimension (None for metadata), and whether keys are 16-bit numbers.
    fn cues(&self) -> Vec<(String, Option<usize>, bool)> {
        cue_list(self.inner.schema())
    }

    /// Recalls at most `slots` memories for every query.
    fn recall<'py>(
        &self,
        py: Python<'py>,
        policy: &Bound<'py, Policy>,
        queries: GivenQueries<'py>,
        slots: usize,
    ) -> PyResult<RecallArrays<'py>> {
        let queries = QueryBatch::new(&queries, self.inner.schema())?;
        let policy = &policy.get().policy;
        let recalled = py.detach(|| RecallBatch::new(&**policy, &self.inner, &queries, slots))?;
        recalled.into_arrays(py)
    }

    /// The features of the metadata cue, [queries, records, 26]; every query must search as many records.
    fn features<'py>(
        &self,
        py: Python<'py>,
        queries: GivenQueries<'py>,
        length_scale: f32,
        time_scale: f32,
    ) -> PyResult<Bound<'py, PyArray3<f32>>> {
        if ![length_scale, time_scale].iter().all(|scale| *scale > 0.0 && scale.is_finite()) {
            let cause = format!("the scales are {length_scale} m and {time_scale} s");
            return Err(Failure::input(cause, "scales must be positive").into());
        }
        let queries = QueryBatch::new(&queries, self.inner.schema())?;
        let scale = FeatureScale { length: length_scale, time: time_scale };
        let array = py.detach(|| self.feature_rows(&queries, scale))?;
        Ok(array.into_pyarray(py))
    }

    /// The ids that each query searches, [queries, records]; every query must search as many.
    fn searched<'py>(
        &self,
        py: Python<'py>,
        queries: GivenQueries<'py>,
    ) -> PyResult<Bound<'py, PyArray2<i64>>> {
        let queries = QueryBatch::new(&queries, self.inner.schema())?;
        let mut ids = Vec::new();
        for query in queries.iter() {
            let pool = self.inner.pool(&query.pool, query.pool_cap).map_err(Failure::from)?;
            ids.extend(pool.iter().map(|id| id.0 as i64));
        }
        let rows = queries.iter().len();
        let shape = (rows, ids.len() / rows.max(1));
        let array = Array2::from_shape_vec(shape, ids).map_err(|_| unequal_pools())?;
        Ok(array.into_pyarray(py))
    }

    /// Keys of a cue where they lie, read-only: one array for each block of 65,536 records.
    fn keys<'py>(slf: &Bound<'py, Self>, cue: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let snapshot = slf.get();
        let cue = snapshot.cue(cue)?;
        let blocks = snapshot.inner.blocks().map(|block| {
            match block.keys(cue).expect("the cue was checked to be a key cue") {
                Keys::F32(values) => rows_in_place(slf, values, block.len()),
                Keys::F16(values) => rows_in_place(slf, values, block.len()),
            }
        });
        blocks.collect()
    }

    /// The keys of some records as 32-bit floats, [ids, dimension], and which of them have one.
    fn gather<'py>(
        &self,
        py: Python<'py>,
        cue: &str,
        ids: PyReadonlyArray1<'py, i64>,
    ) -> PyResult<GatheredKeys<'py>> {
        let cue = self.cue(cue)?;
        let ids = self.known(flat(ids.as_slice(), "the ids")?)?;
        let key = self.inner.schema().keys().find(|key| key.0 == cue);
        let dimension = key.map_or(0, |(_, _, dimension, _)| dimension);
        let mut keys = Array2::zeros((ids.len(), dimension));
        let mut present = vec![false; ids.len()];
        for ((mut row, there), id) in keys.rows_mut().into_iter().zip(&mut present).zip(ids) {
            if let (Some(key), Some(row)) = (self.inner.key(cue, *id as usize), row.as_slice_mut())
            {
                key.copy_to(row);
                *there = true;
            }
        }
        Ok((keys.into_pyarray(py), present.into_pyarray(py)))
    }

    /// How far memories are from others for the goal of one query, as retrievers of sets compare them, with
    /// the keys of a cue or without: [ids, others, features].
    #[allow(clippy::too_many_arguments, reason = "each says something about the comparison")]
    fn overlaps<'py>(
        &self,
        py: Python<'py>,
        queries: GivenQueries<'py>,
        ids: PyReadonlyArray1<'py, i64>,
        others: PyReadonlyArray1<'py, i64>,
        cue: Option<&str>,
        length_scale: f32,
        time_scale: f32,
    ) -> PyResult<Bound<'py, PyArray3<f32>>> {
        let queries = QueryBatch::new(&queries, self.inner.schema())?;
        let query = queries.iter().next().ok_or_else(unequal_pools)?;
        let cue = cue.map(|cue| self.cue(cue)).transpose()?;
        let seen =
            |ids: &PyReadonlyArray1<'py, i64>| -> Outcome<Vec<(Sighting, Option<Vec<f32>>)>> {
                let ids = self.known(flat(ids.as_slice(), "the ids")?)?;
                Ok(ids.iter().map(|id| self.sighting(cue, *id as usize)).collect())
            };
        let (own, others) = (seen(&ids)?, seen(&others)?);
        let scale = FeatureScale { length: length_scale, time: time_scale };
        let sight = line_of_sight(query);
        let mut numbers = Vec::with_capacity(own.len() * others.len() * OVERLAP_FEATURES);
        for (first, key) in &own {
            for (second, other) in &others {
                let keys = key.as_ref().zip(other.as_ref());
                let cosine = keys.map(|(a, b)| a.iter().zip(b).map(|(a, b)| a * b).sum());
                numbers.extend(overlap_features(sight, first, second, cosine, scale));
            }
        }
        let array = Array3::from_shape_vec((own.len(), others.len(), OVERLAP_FEATURES), numbers);
        Ok(array.map_err(|_| unequal_pools())?.into_pyarray(py))
    }

    /// Which records have a key of the cue.
    fn present<'py>(&self, py: Python<'py>, cue: &str) -> PyResult<Bound<'py, PyArray1<bool>>> {
        let cue = self.cue(cue)?;
        let blocks = self.inner.blocks();
        let present =
            blocks.flat_map(|block| (0..block.len()).map(move |row| block.is_present(cue, row)));
        Ok(present.collect::<Vec<_>>().into_pyarray(py))
    }

    /// Times in seconds where they lie, read-only: one array for each block.
    fn times<'py>(slf: &Bound<'py, Self>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let blocks = slf.get().inner.blocks();
        blocks
            .map(|block| {
                // SAFETY: as in `rows_in_place`.
                let array = unsafe {
                    PyArray1::borrow_from_array(
                        &ArrayView1::from(block.times()),
                        slf.clone().into_any(),
                    )
                };
                read_only(array.into_any())
            })
            .collect()
    }

    /// Positions and rotations (w, x, y, z), camera to world, in the project's convention: [records, 7].
    fn poses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let mut numbers = Vec::with_capacity(7 * self.inner.len());
        for block in self.inner.blocks() {
            let positions = block.positions();
            for (row, rotation) in block.rotations().iter().enumerate() {
                numbers.extend(positions.map(|axis| axis[row]));
                numbers.extend_from_slice(rotation);
            }
        }
        let array = Array2::from_shape_vec((self.inner.len(), 7), numbers);
        Ok(array.map_err(|_| unequal_pools())?.into_pyarray(py))
    }

    /// What the caller keeps with a record: bytes, str or None.
    fn payload<'py>(&self, py: Python<'py>, id: u64) -> PyResult<Option<Bound<'py, PyAny>>> {
        if id >= self.inner.len() as u64 {
            return Err(Failure::input(
                format!("there is no memory {id}; the snapshot has {}", self.inner.len()),
                "ids count from 0; −1 marks an empty slot of a recall",
            )
            .into());
        }
        Ok(match self.inner.payload(MemoryId(id)) {
            Payload::None => None,
            Payload::Bytes(bytes) => Some(PyBytes::new(py, bytes).into_any()),
            Payload::Reference(text) => Some(PyString::new(py, text).into_any()),
        })
    }

    /// A memory of its own that begins with these records.
    fn fork(&self) -> Memory {
        Memory::in_ram(self.inner.fork())
    }

    /// Writes the records to a new store.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        Ok(py.detach(|| Store::save(&self.inner, path)).map_err(Failure::from)?)
    }
}

impl Snapshot {
    /// The snapshot itself.
    pub fn inner(&self) -> &far_memory::Snapshot {
        &self.inner
    }

    /// Ids that are all there.
    fn known<'a>(&self, ids: &'a [i64]) -> Outcome<&'a [i64]> {
        let length = self.inner.len() as i64;
        match ids.iter().find(|id| !(0..length).contains(*id)) {
            None => Ok(ids),
            Some(id) => Err(Failure::input(
                format!("there is no memory {id}; the snapshot has {length}"),
                "ids count from 0",
            )),
        }
    }

    /// When and from where a memory was seen, and its key of a cue.
    fn sighting(&self, cue: Option<usize>, index: usize) -> (Sighting, Option<Vec<f32>>) {
        let key = cue.and_then(|cue| self.inner.key(cue, index)).map(|key| {
            let mut numbers = vec![0.0; key.len()];
            key.copy_to(&mut numbers);
            numbers
        });
        (Sighting::new(self.inner.time(index), self.inner.pose(index).as_ref()), key)
    }

    fn feature_rows(&self, queries: &QueryBatch, scale: FeatureScale) -> Outcome<Array3<f32>> {
        let mut numbers = Vec::new();
        for query in queries.iter() {
            for id in self.inner.pool(&query.pool, query.pool_cap)?.iter() {
                let index = id.index();
                let (time, pose) = (self.inner.time(index), self.inner.pose(index));
                let features = features(query, time, pose.as_ref(), scale);
                numbers.extend(features.unwrap_or([0.0; FEATURES]));
            }
        }
        let rows = queries.iter().len();
        let shape = (rows, numbers.len() / (rows.max(1) * FEATURES), FEATURES);
        Array3::from_shape_vec(shape, numbers).map_err(|_| unequal_pools())
    }
}

fn unequal_pools() -> Failure {
    Failure::input("the queries search pools of different sizes", "ask for one query at a time")
}

/// Rows of numbers as a read-only array that keeps the snapshot alive.
fn rows_in_place<'py, T: Element>(
    owner: &Bound<'py, Snapshot>,
    values: &[T],
    rows: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let view = ArrayView2::from_shape((rows, values.len() / rows.max(1)), values);
    let view = view.map_err(|error| Failure::input(error.to_string(), "report this"))?;
    // SAFETY: published rows never move or change while the snapshot, the array's owner, lives; the
    // array is made read-only before anybody sees it.
    let array = unsafe { PyArray2::borrow_from_array(&view, owner.clone().into_any()) };
    read_only(array.into_any())
}

fn read_only(array: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let flags = PyDict::new(array.py());
    flags.set_item("write", false)?;
    array.call_method("setflags", (), Some(&flags))?;
    Ok(array)
}

//! What a batch of recalls returns, as arrays of a fixed number of slots.

use crate::failure::{Failure, Outcome};
use crate::query_batch::QueryBatch;
use crate::work::with_work;
use far_memory::{Recall, RecallPolicy, Snapshot};
use numpy::ndarray::{Array1, Array2, Array3};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArray3};
use pyo3::prelude::*;

/// Numbers that one answer may hold: what keeps a mistyped k from asking for all of RAM.
const MOST_NUMBERS: usize = 1 << 28;

/// n recalls of at most k memories, explained by c cues. Slots without a memory have id −1.
pub struct RecallBatch {
    ids: Vec<i64>,
    scores: Vec<f32>,
    chunks: Vec<i64>,
    weights: Vec<f32>,
    raw: Vec<f32>,
    standardized: Vec<f32>,
    not_a_number: Vec<i64>,
    cues: Vec<String>,
    queries: usize,
    slots: usize,
}

impl RecallBatch {
    /// Recalls for every query, on this thread.
    pub fn new(
        policy: &dyn RecallPolicy,
        snapshot: &Snapshot,
        queries: &QueryBatch,
        slots: usize,
    ) -> Outcome<Self> {
        let count = queries.iter().len();
        if slots.checked_mul(count.max(1)).is_none_or(|numbers| numbers > MOST_NUMBERS) {
            return Err(Failure::input(
                format!("{count} recalls of {slots} memories are too many at once"),
                "ask for fewer memories, or in smaller batches",
            ));
        }
        let mut batch = Self {
            ids: vec![-1; count * slots],
            scores: vec![f32::NAN; count * slots],
            chunks: vec![-1; count * slots],
            weights: Vec::new(),
            raw: Vec::new(),
            standardized: Vec::new(),
            not_a_number: vec![0; count],
            cues: Vec::new(),
            queries: count,
            slots,
        };
        with_work(|scratch, recall| {
            for (row, query) in queries.iter().enumerate() {
                policy.recall(snapshot, query, slots, scratch, recall)?;
                batch.write(row, recall);
            }
            Ok(batch)
        })
    }

    fn write(&mut self, row: usize, recall: &Recall) {
        let cues = recall.cues().len();
        if row == 0 {
            self.cues = recall.cues().to_vec();
            self.weights = vec![0.0; self.queries * cues];
            self.raw = vec![f32::NAN; self.queries * self.slots * cues];
            self.standardized = vec![f32::NAN; self.queries * self.slots * cues];
        }
        self.weights[row * cues..(row + 1) * cues].copy_from_slice(recall.weights());
        self.not_a_number[row] = recall.not_a_number() as i64;
        for memory in recall.iter() {
            let slot = row * self.slots + memory.rank;
            self.ids[slot] = memory.id.0 as i64;
            self.scores[slot] = memory.score;
            self.chunks[slot] = memory.chunk.map_or(-1, i64::from);
            self.raw[slot * cues..(slot + 1) * cues].copy_from_slice(memory.raw);
            self.standardized[slot * cues..(slot + 1) * cues].copy_from_slice(memory.standardized);
        }
    }

    /// The arrays, in the order of the fields of `far_memory.Recall`.
    pub fn into_arrays<'py>(self, py: Python<'py>) -> PyResult<RecallArrays<'py>> {
        let (rows, slots, cues) = (self.queries, self.slots, self.cues.len());
        let table = |values| Array2::from_shape_vec((rows, slots), values);
        let cube = |values| Array3::from_shape_vec((rows, slots, cues), values);
        let failed =
            |error: numpy::ndarray::ShapeError| Failure::input(error.to_string(), "report this");
        Ok((
            Array2::from_shape_vec((rows, slots), self.ids).map_err(failed)?.into_pyarray(py),
            table(self.scores).map_err(failed)?.into_pyarray(py),
            Array2::from_shape_vec((rows, slots), self.chunks).map_err(failed)?.into_pyarray(py),
            self.cues,
            Array2::from_shape_vec((rows, cues), self.weights).map_err(failed)?.into_pyarray(py),
            cube(self.raw).map_err(failed)?.into_pyarray(py),
            cube(self.standardized).map_err(failed)?.into_pyarray(py),
            Array1::from_vec(self.not_a_number).into_pyarray(py),
        ))
    }
}

/// Ids, scores, chunks, cues, weights, raw and standardized scores, and how many were not a number.
pub type RecallArrays<'py> = (
    Bound<'py, PyArray2<i64>>,
    Bound<'py, PyArray2<f32>>,
    Bound<'py, PyArray2<i64>>,
    Vec<String>,
    Bound<'py, PyArray2<f32>>,
    Bound<'py, PyArray3<f32>>,
    Bound<'py, PyArray3<f32>>,
    Bound<'py, PyArray1<i64>>,
);

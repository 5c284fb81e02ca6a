//! Keys of a batch: for each cue a matrix of rows, and which rows have a key.

use crate::failure::{Failure, Outcome};
use crate::query_batch::flat;
use far_memory::{CueKind, Schema};
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};

/// One cue's keys as Python hands them over: name, rows, and a mask if some rows have none.
pub type GivenKeys<'py> = (String, PyReadonlyArray2<'py, f32>, Option<PyReadonlyArray1<'py, bool>>);

/// One cue's keys, borrowed from arrays that are contiguous.
pub struct KeyRows<'a> {
    /// Name of the cue.
    pub cue: &'a str,
    values: &'a [f32],
    dimension: usize,
    present: Option<&'a [bool]>,
}

impl<'a> KeyRows<'a> {
    /// Borrows and checks the keys of a batch of `rows` records or queries.
    pub fn all(given: &'a [GivenKeys<'_>], schema: &Schema, rows: usize) -> Outcome<Vec<Self>> {
        given.iter().map(|keys| Self::one(keys, schema, rows)).collect()
    }

    fn one((cue, values, mask): &'a GivenKeys<'_>, schema: &Schema, rows: usize) -> Outcome<Self> {
        let kind = schema.cues()[schema.index(cue)?].kind;
        let CueKind::Key { dimension, .. } = kind else {
            return Err(Failure::input(
                format!("cue {cue:?} is time and pose; it takes no key"),
                "leave it out of keys",
            ));
        };
        let shape = values.shape();
        if shape != [rows, dimension] {
            return Err(Failure::input(
                format!(
                    "keys of cue {cue:?} have shape {shape:?} instead of [{rows}, {dimension}]"
                ),
                "give one key of the cue's dimension for each row",
            ));
        }
        let present =
            mask.as_ref().map(|mask| flat(mask.as_slice(), "the mask of keys")).transpose()?;
        if let Some(present) = present
            && present.len() != rows
        {
            return Err(Failure::input(
                format!("the mask of cue {cue:?} has {} entries instead of {rows}", present.len()),
                "give one entry for each row",
            ));
        }
        let values = flat(values.as_slice(), "keys")?;
        let keys = Self { cue, values, dimension, present };
        for row in 0..rows {
            if let Some(key) = keys.row(row)
                && let Some(place) = key.iter().position(|value| !value.is_finite())
            {
                return Err(Failure::input(
                    format!("key {row} of cue {cue:?} has {} at {place}", key[place]),
                    "keys must be finite; mark rows without a key by a mask",
                ));
            }
        }
        Ok(keys)
    }

    /// The key of a row, if it has one.
    pub fn row(&self, row: usize) -> Option<&'a [f32]> {
        let there = self.present.is_none_or(|present| present[row]);
        there.then(|| &self.values[row * self.dimension..(row + 1) * self.dimension])
    }
}

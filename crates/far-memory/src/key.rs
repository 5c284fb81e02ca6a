//! The stored keys of one cue: a column of rows and a presence bit for each row.

use crate::column::Column;
use crate::{Error, KeyPrecision};
use half::f16;
use half::slice::HalfFloatSliceExt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The numbers of a key column, row after row.
pub enum KeyValues {
    /// 32-bit numbers.
    F32(Column<f32>),
    /// 16-bit numbers.
    F16(Column<f16>),
}

impl KeyValues {
    /// Keys of 32-bit numbers, copied.
    pub fn from_f32(values: &[f32]) -> Self {
        Self::F32(Column::from_slice(values))
    }

    pub(crate) fn zeroed(precision: KeyPrecision, count: usize) -> Self {
        match precision {
            KeyPrecision::F32 => Self::F32(Column::zeroed(count)),
            KeyPrecision::F16 => Self::F16(Column::zeroed(count)),
        }
    }

    fn precision(&self) -> KeyPrecision {
        match self {
            Self::F32(_) => KeyPrecision::F32,
            Self::F16(_) => KeyPrecision::F16,
        }
    }

    fn capacity(&self) -> usize {
        match self {
            Self::F32(column) => column.capacity(),
            Self::F16(column) => column.capacity(),
        }
    }
}

/// The keys of one cue in one block.
pub struct KeyColumn {
    values: KeyValues,
    dimension: usize,
    /// One bit per row. Atomic because a word can hold published and new rows.
    present: Box<[AtomicU64]>,
    /// The first row without a key, so that a scan over a complete column checks once.
    first_missing: AtomicU32,
}

impl KeyColumn {
    /// An empty column for `rows` keys.
    pub(crate) fn zeroed(precision: KeyPrecision, dimension: usize, rows: usize) -> Self {
        Self::unmarked(KeyValues::zeroed(precision, rows * dimension), dimension, rows)
    }

    fn unmarked(values: KeyValues, dimension: usize, rows: usize) -> Self {
        let present = (0..rows.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self { values, dimension, present, first_missing: AtomicU32::new(u32::MAX) }
    }

    /// A column from loaded or mapped numbers, `dimension` per row. Rows must have unit length (or
    /// be zero, or hold a NaN that recall will skip); `present` marks the rows that have a key.
    ///
    /// # Errors
    /// [`Error::Block`] if the numbers are not `present.len() × dimension`.
    pub fn new(values: KeyValues, dimension: usize, present: &[bool]) -> Result<Self, Error> {
        let expected = present.len().checked_mul(dimension);
        if expected != Some(values.capacity()) {
            return Err(Error::Block {
                reason: format!(
                    "{} numbers are not {} keys of dimension {dimension}",
                    values.capacity(),
                    present.len()
                ),
            });
        }
        let column = Self::unmarked(values, dimension, present.len());
        present.iter().enumerate().for_each(|(row, &there)| column.mark(row, there));
        Ok(column)
    }

    /// Numbers per key.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// How the numbers are stored.
    pub fn precision(&self) -> KeyPrecision {
        self.values.precision()
    }

    /// Rows the column has room for.
    pub fn rows(&self) -> usize {
        self.values.capacity() / self.dimension
    }

    /// Records whether a new row has a key.
    pub(crate) fn mark(&self, row: usize, there: bool) {
        if there {
            self.present[row / 64].fetch_or(1 << (row % 64), Ordering::Relaxed);
        } else {
            self.first_missing.fetch_min(row as u32, Ordering::Relaxed);
        }
    }

    /// Whether a published row has a key.
    pub(crate) fn is_present(&self, row: usize) -> bool {
        self.present[row / 64].load(Ordering::Relaxed) >> (row % 64) & 1 == 1
    }

    /// Whether all of the first `length` published rows have a key.
    pub(crate) fn is_complete(&self, length: usize) -> bool {
        self.first_missing.load(Ordering::Relaxed) as usize >= length
    }

    /// Writes the key of one row.
    ///
    /// # Safety
    /// As for [`Column::write`].
    pub(crate) unsafe fn write(&self, row: usize, key: &[f32]) {
        let first = row * self.dimension;
        match &self.values {
            // SAFETY: guaranteed by the caller.
            KeyValues::F32(column) => unsafe { column.write(first, key) },
            KeyValues::F16(column) => {
                for (place, &value) in key.iter().enumerate() {
                    // SAFETY: guaranteed by the caller.
                    unsafe { column.write(first + place, &[f16::from_f32(value)]) };
                }
            }
        }
    }

    /// Copies the first `length` rows into the larger empty column `target`.
    ///
    /// # Safety
    /// The rows are published, and there is no other reference to `target`.
    pub(crate) unsafe fn copy_to(&self, target: &Self, length: usize) {
        // SAFETY: guaranteed by the caller for both sides.
        unsafe {
            match (self.read(length), &target.values) {
                (Keys::F32(source), KeyValues::F32(column)) => column.write(0, source),
                (Keys::F16(source), KeyValues::F16(column)) => column.write(0, source),
                _ => unreachable!("a block grows with its own schema"),
            }
        }
        (0..length).for_each(|row| target.mark(row, self.is_present(row)));
    }

    /// The numbers of the first `length` rows.
    ///
    /// # Safety
    /// As for [`Column::read`].
    pub(crate) unsafe fn read(&self, length: usize) -> Keys<'_> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match &self.values {
                KeyValues::F32(column) => Keys::F32(column.read(length * self.dimension)),
                KeyValues::F16(column) => Keys::F16(column.read(length * self.dimension)),
            }
        }
    }
}

/// Stored keys, one or many rows, in their storage precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys<'a> {
    /// 32-bit numbers.
    F32(&'a [f32]),
    /// 16-bit numbers.
    F16(&'a [f16]),
}

impl<'a> Keys<'a> {
    /// How many numbers there are.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F16(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers `first..end`.
    ///
    /// # Panics
    /// If the range is out of bounds.
    pub fn range(&self, first: usize, end: usize) -> Keys<'a> {
        match self {
            Self::F32(values) => Keys::F32(&values[first..end]),
            Self::F16(values) => Keys::F16(&values[first..end]),
        }
    }

    /// The dot product with `query`, in plain order: the reference, and fast enough for a few rows.
    pub fn dot(&self, query: &[f32]) -> f32 {
        match self {
            Self::F32(values) => values.iter().zip(query).map(|(key, query)| key * query).sum(),
            Self::F16(values) => {
                values.iter().zip(query).map(|(key, query)| key.to_f32() * query).sum()
            }
        }
    }

    /// Copies the numbers as 32-bit floats.
    ///
    /// # Panics
    /// If `target` has another length.
    pub fn copy_to(&self, target: &mut [f32]) {
        match self {
            Self::F32(values) => target.copy_from_slice(values),
            Self::F16(values) => values.convert_to_f32_slice(target),
        }
    }
}

/// Scales a vector to unit length, computing in f64. A zero vector stays zero; a vector that
/// already has unit length within 1e-6 is left as it is, so that normalizing twice changes no bit.
pub fn normalize(vector: &mut [f32]) {
    let square: f64 = vector.iter().map(|&value| f64::from(value) * f64::from(value)).sum();
    if square > 0.0 && (square - 1.0).abs() > 1e-6 {
        let inverse = 1.0 / square.sqrt();
        vector.iter_mut().for_each(|value| *value = (f64::from(*value) * inverse) as f32);
    }
}

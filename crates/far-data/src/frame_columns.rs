//! Reading single values out of mapped columns, of an episode or of the index.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, UInt32Type};
use arrow_array::{Array, ArrayRef, RecordBatch};

/// The record batches of a file, addressed by row of the whole file.
///
/// Types were checked when the file was opened, so a column that is there has the type its
/// accessor expects; a row out of range is a mistake of the caller and panics.
pub(crate) struct FrameColumns {
    batches: Vec<RecordBatch>,
    /// First row of each batch, and the number of rows at the end.
    starts: Vec<usize>,
}

impl FrameColumns {
    /// Columns over these batches.
    pub fn new(batches: Vec<RecordBatch>) -> Self {
        let mut starts = vec![0];
        for batch in &batches {
            starts.push(starts[starts.len() - 1] + batch.num_rows());
        }
        Self { batches, starts }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    /// A uint32, or `None` when null or absent.
    pub fn unsigned(&self, column: &str, row: usize) -> Option<u32> {
        self.number::<UInt32Type>(column, row)
    }

    /// A boolean; `false` when null or absent.
    pub fn flag(&self, column: &str, row: usize) -> bool {
        self.array(column, row)
            .is_some_and(|(array, row)| array.is_valid(row) && array.as_boolean().value(row))
    }

    /// A text, or `None` when null or absent.
    pub fn text(&self, column: &str, row: usize) -> Option<&str> {
        let (array, row) = self.array(column, row)?;
        array.is_valid(row).then(|| array.as_string::<i32>().value(row))
    }

    /// Bytes, or `None` when null or absent.
    pub fn bytes(&self, column: &str, row: usize) -> Option<&[u8]> {
        let (array, row) = self.array(column, row)?;
        array.is_valid(row).then(|| array.as_binary::<i32>().value(row))
    }

    /// N floats, or `None` when null or absent.
    pub fn vector<const N: usize>(&self, column: &str, row: usize) -> Option<[f32; N]> {
        let (array, row) = self.array(column, row)?;
        if array.is_null(row) {
            return None;
        }
        let lists = array.as_fixed_size_list();
        let start = lists.value_offset_at(row);
        let values = lists.values().as_primitive::<Float32Type>().values();
        values.get(start..start + N)?.try_into().ok()
    }

    /// The values of a list, empty when null or absent.
    pub fn list<T: ArrowPrimitiveType>(&self, column: &str, row: usize) -> &[T::Native] {
        let Some((array, row)) = self.array(column, row) else { return &[] };
        let lists = array.as_list::<i32>();
        if lists.is_null(row) {
            return &[];
        }
        let offsets = lists.value_offsets();
        let values = lists.values().as_primitive::<T>().values();
        &values[offsets[row] as usize..offsets[row + 1] as usize]
    }

    /// A number, or `None` when null or absent.
    pub fn number<T: ArrowPrimitiveType>(&self, column: &str, row: usize) -> Option<T::Native> {
        let (array, row) = self.array(column, row)?;
        array.is_valid(row).then(|| array.as_primitive::<T>().value(row))
    }

    fn array(&self, column: &str, row: usize) -> Option<(&ArrayRef, usize)> {
        assert!(row < self.len(), "row {row} of {}", self.len());
        let batch = self.starts.partition_point(|&start| start <= row) - 1;
        Some((self.batches[batch].column_by_name(column)?, row - self.starts[batch]))
    }
}

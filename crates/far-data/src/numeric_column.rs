//! A column of numbers that the format does not know: readings of a sensor, one row per frame.

use std::path::Path;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field, Fields, Schema};

use crate::arrow_file::{ArrowFile, type_name};
use crate::{DataError, Result};

/// What such a column may be.
const KINDS: &str = "float32 or fixed_size_list<float32, n>";

/// The numbers of one column of an episode, the same count for every frame.
#[derive(Clone, Debug, PartialEq)]
pub struct NumericColumn {
    /// Numbers per frame, at least 1.
    pub width: usize,
    /// All numbers, [frames, width], every one finite.
    pub values: Vec<f32>,
}

impl NumericColumn {
    /// Reads the column `name` of a file with this schema; `path` is named in errors.
    pub(crate) fn read(bytes: &Buffer, schema: &Schema, path: &Path, name: &str) -> Result<Self> {
        let wrong = |expected: &str, found: String| DataError::Column {
            path: path.to_path_buf(),
            column: name.to_owned(),
            expected: expected.to_owned(),
            found,
        };
        let Ok(field) = schema.field_with_name(name) else {
            return Err(wrong(KINDS, "no such column".into()));
        };
        let width = match field.data_type() {
            DataType::Float32 => 1,
            DataType::FixedSizeList(item, width)
                if *width > 0 && item.data_type() == &DataType::Float32 =>
            {
                *width as usize
            }
            other => return Err(wrong(KINDS, type_name(other))),
        };
        let expected = Fields::from(vec![Field::new(name, field.data_type().clone(), false)]);
        let file = ArrowFile::decode(bytes.clone(), path, &expected, &[])?;
        let mut values = Vec::with_capacity(file.rows() * width);
        for batch in &file.batches {
            let column = batch.column(0);
            match field.data_type() {
                DataType::Float32 => {
                    values.extend_from_slice(column.as_primitive::<Float32Type>().values());
                }
                _ => {
                    let lists = column.as_fixed_size_list();
                    let numbers = lists.values().as_primitive::<Float32Type>().values();
                    let start = lists.value_offset_at(0);
                    values.extend_from_slice(&numbers[start..start + lists.len() * width]);
                }
            }
        }
        if let Some(place) = values.iter().position(|value| !value.is_finite()) {
            let found = format!("{} in row {}", values[place], place / width);
            return Err(wrong("finite numbers", found));
        }
        Ok(Self { width, values })
    }

    /// The numbers of a frame.
    ///
    /// # Panics
    /// If there is no such frame.
    pub fn row(&self, frame: usize) -> &[f32] {
        &self.values[frame * self.width..(frame + 1) * self.width]
    }
}

//! Joins separate rows of the host into one tensor on the device.

use crate::storage::Storage;
use crate::tensor::Origin;
use crate::{Error, Result, Shape, Tape, Tensor};
use rayon::prelude::*;
use std::sync::Arc;

impl Tape {
    /// A constant of this shape from equally long rows, one after the other.
    ///
    /// Each row is copied once, directly to the device: for many large rows that is most of the
    /// cost.
    ///
    /// # Errors
    /// If the rows differ in length or do not match the shape.
    pub fn gathered(&self, rows: &[&[f32]], shape: impl Into<Shape>) -> Result<Tensor> {
        let shape = shape.into();
        let width = rows.first().map_or(0, |row| row.len());
        let equal = rows.iter().all(|row| row.len() == width);
        if !equal || rows.len() * width != shape.elements() {
            let count = rows.iter().map(|row| row.len()).sum::<usize>();
            let requirement = format!("{} rows with {count} numbers were given", rows.len());
            return Err(Error::Unsupported { operation: "gathered", shape, requirement });
        }
        if let Some(cuda) = self.cuda() {
            let storage = Storage::given(cuda.upload_rows(rows)?);
            return Ok(Tensor::new(shape, Arc::new(storage), 0, Origin::Constant));
        }
        let mut buffer = self.device().buffer(shape.elements());
        let places = buffer.par_chunks_mut(width.max(1));
        places.zip(rows).for_each(|(place, row)| place.copy_from_slice(row));
        Ok(Tensor::of_host(shape, buffer, Origin::Constant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    #[test]
    fn rows_follow_each_other() {
        let tape = Tape::inference(&Device::cpu());
        let rows: [&[f32]; 3] = [&[1.0, 2.0], &[3.0, 4.0], &[1.0, 2.0]];
        let tensor = tape.gathered(&rows, [3, 1, 2]).unwrap();
        assert_eq!(tensor.values(), [1.0, 2.0, 3.0, 4.0, 1.0, 2.0]);
        assert_eq!(tape.gathered(&[], [0, 2]).unwrap().values(), [0.0; 0]);
    }

    #[test]
    fn rows_that_do_not_fit_are_refused() {
        let tape = Tape::inference(&Device::cpu());
        for (rows, shape) in [
            (&[&[1.0, 2.0][..], &[3.0]][..], [3, 1]),
            (&[&[1.0, 2.0][..]][..], [2, 2]),
            (&[][..], [1, 1]),
        ] {
            let error = tape.gathered(rows, shape).unwrap_err().to_string();
            assert!(error.contains("rows with"), "{error}");
        }
    }
}

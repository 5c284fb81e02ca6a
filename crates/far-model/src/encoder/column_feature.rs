//! A cue that is a column of numbers in the dataset: what a sensor read at each frame.

use crate::{CueFeature, Error, LatentShape, Result};
use far_data::{DataError, Dataset, DatasetDescription, Episode};

/// The numbers of a column, divided by a scale: one token per frame.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnFeature {
    cue: String,
    column: String,
    scale: f32,
    width: usize,
}

impl ColumnFeature {
    /// The column of a dataset as a cue; as many numbers per frame as its first episode has.
    ///
    /// # Errors
    /// If that episode cannot be read, or has no such column of numbers.
    pub fn of(dataset: &Dataset, cue: &str, column: &str, scale: f32) -> Result<Self> {
        let first = dataset.ids().next().expect("a dataset has an episode");
        let width = dataset.episode(first)?.numbers(column)?.width;
        Ok(Self { cue: cue.to_owned(), column: column.to_owned(), scale, width })
    }
}

impl CueFeature for ColumnFeature {
    fn cue(&self) -> &str {
        &self.cue
    }

    fn recipe(&self) -> String {
        format!("{} numbers of column {} divided by {}", self.width, self.column, self.scale)
    }

    fn shape(&self) -> LatentShape {
        LatentShape { channels: self.width, height: 1, width: 1, patch: 1 }
    }

    fn lacking(&self, _: &DatasetDescription) -> Option<String> {
        // The column was found when the feature was made.
        None
    }

    fn rows(&self, episode: &Episode) -> Result<Vec<f32>> {
        let found = episode.numbers(&self.column)?;
        if found.width != self.width {
            let vector = |width: usize| format!("fixed_size_list<float32, {width}>");
            return Err(Error::Data(DataError::Column {
                path: format!("episode {}", episode.id()).into(),
                column: self.column.clone(),
                expected: vector(self.width),
                found: vector(found.width),
            }));
        }
        Ok(found.values.into_iter().map(|value| value / self.scale).collect())
    }
}

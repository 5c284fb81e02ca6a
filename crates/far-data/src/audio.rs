//! The binaural sound of an episode.

use std::path::Path;

use hound::{SampleFormat, WavReader};

use crate::{DataError, DatasetDescription, Result};

/// The sound of a whole episode.
#[derive(Clone, Debug, PartialEq)]
pub struct Audio {
    /// Samples per second.
    pub rate: u32,
    /// Left and right, in [−1, 1].
    pub samples: Vec<[f32; 2]>,
}

impl Audio {
    /// Reads a WAV file with two channels, 16-bit whole numbers or 32-bit floats.
    pub fn open(path: &Path) -> Result<Self> {
        let corrupt = |error: hound::Error| match error {
            hound::Error::IoError(source) if source.kind() == std::io::ErrorKind::NotFound => {
                DataError::Missing { what: "the episode's audio", path: path.to_path_buf() }
            }
            other => DataError::corrupt(path, other),
        };
        let mut reader = WavReader::open(path).map_err(corrupt)?;
        let spec = reader.spec();
        let values: Vec<f32> = match (spec.channels, spec.sample_format, spec.bits_per_sample) {
            (2, SampleFormat::Int, 16) => reader
                .samples::<i16>()
                .map(|sample| sample.map(|value| f32::from(value) / f32::from(i16::MAX)))
                .collect::<std::result::Result<_, _>>()
                .map_err(corrupt)?,
            (2, SampleFormat::Float, 32) => {
                reader.samples::<f32>().collect::<std::result::Result<_, _>>().map_err(corrupt)?
            }
            (channels, format, bits) => {
                let found = format!("{channels} channels of {bits}-bit {format:?}");
                let reason = format!("{found} where two channels of 16-bit whole numbers were due");
                return Err(DataError::corrupt(path, reason));
            }
        };
        let samples = values.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
        Ok(Self { rate: spec.sample_rate, samples })
    }

    /// The last `seconds` of sound up to and including frame `frame`: what has been heard by then.
    pub fn until_frame(
        &self,
        description: &DatasetDescription,
        frame: usize,
        seconds: f32,
    ) -> &[[f32; 2]] {
        let end = description.audio_start(frame + 1).min(self.samples.len());
        let length = (f64::from(seconds) * f64::from(self.rate)).round() as usize;
        &self.samples[end.saturating_sub(length)..end]
    }
}

//! Streams one episode to disk, frame by frame.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_ipc::writer::FileWriter;
use arrow_schema::{Schema, SchemaRef};
use far_memory::{Displacement, Pose};
use hound::{SampleFormat, WavSpec, WavWriter};

use crate::frame_batch::{FrameRow, record_batch};
use crate::frame_check::FrameCheck;
use crate::frame_schema::{self, column};
use crate::{
    AgentState, DataError, DatasetWriter, EpisodeFacts, EpisodeSummary, Frame, FrameImage,
    ImageEncoding, Phase, Result, arrow_file, durable,
};

/// Frames that are gathered before they go to disk as one record batch.
const BATCH_ROWS: usize = 128;

/// Writes one episode. Dropped before [`EpisodeWriter::finish`], it leaves nothing behind.
///
/// Made by [`DatasetWriter::episode`]; several may be open at once, on any threads.
pub struct EpisodeWriter<'a> {
    dataset: &'a DatasetWriter,
    id: u32,
    facts: EpisodeFacts,
    schema: SchemaRef,
    /// Columns of numbers besides those of the format, with their widths.
    columns: Vec<(String, usize)>,
    check: FrameCheck<'a>,
    rows: Vec<FrameRow>,
    frames: u32,
    boundary: Option<u32>,
    previous: Option<Pose>,
    /// The second agent in the last `agent_lag` frames, oldest first.
    recent: VecDeque<AgentState>,
    path: PathBuf,
    arrow: Option<FileWriter<BufWriter<File>>>,
    sound: Option<Sound>,
}

/// The WAV file beside the episode, with a second handle to sync it by.
struct Sound {
    path: PathBuf,
    file: File,
    writer: WavWriter<BufWriter<File>>,
}

impl<'a> EpisodeWriter<'a> {
    pub(crate) fn begin(
        dataset: &'a DatasetWriter,
        id: u32,
        facts: EpisodeFacts,
        columns: &[(String, usize)],
    ) -> Result<Self> {
        let description = dataset.description();
        if facts.second_split.is_some() != (description.splits.len() == 2) {
            let splits = description.splits.len();
            let reason = format!(
                "a second split is given but dataset.json has {splits} rules, or the other way around"
            );
            return Err(DataError::Episode { episode: id, reason });
        }
        let fields = frame_schema::fields_with(description, columns)
            .map_err(|reason| DataError::Episode { episode: id, reason })?;
        let path = dataset.episode_path(id);
        let note = serde_json::to_string(&facts).expect("plain data always serializes");
        let arrow = arrow_file::begin(&durable::partial(&path), fields.clone(), Some(note))?;
        let sound = description.audio_rate.map(|rate| Sound::begin(dataset.audio_path(id), rate));
        Ok(Self {
            dataset,
            id,
            facts,
            schema: Arc::new(Schema::new(fields)),
            columns: columns.to_vec(),
            check: FrameCheck::new(description, id),
            rows: Vec::with_capacity(BATCH_ROWS),
            frames: 0,
            boundary: None,
            previous: None,
            recent: VecDeque::new(),
            path,
            arrow: Some(arrow),
            sound: sound.transpose()?,
        })
    }

    /// Number of frames pushed so far: the index that the next frame will have.
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Appends a frame after checking every rule of the format.
    pub fn push(&mut self, mut frame: Frame) -> Result<()> {
        self.check.next(&frame)?;
        let due: usize = self.columns.iter().map(|(_, width)| width).sum();
        if frame.numbers.len() != due {
            let reason = format!(
                "frame {} has {} further numbers where {due} were due",
                self.frames,
                frame.numbers.len()
            );
            return Err(DataError::Episode { episode: self.id, reason });
        }
        let (image, video_frame) = self.encode(std::mem::take(&mut frame.image))?;
        self.hear(&frame.audio)?;
        frame.audio = Vec::new();
        let moved =
            frame.pose.zip(self.previous).map(|(pose, previous)| pose.displacement_from(&previous));
        let Displacement { forward, left, up, turn, tilt } =
            frame.action.or(moved).unwrap_or_default();
        let lag = self.dataset.description().agent_lag as usize;
        let agent_before = if self.recent.len() == lag { self.recent.pop_front() } else { None };
        self.recent.push_back(frame.agent);
        if frame.phase == Phase::Return && self.boundary.is_none() {
            self.boundary = Some(self.frames);
        }
        self.previous = frame.pose;
        self.rows.push(FrameRow {
            frame,
            image,
            video_frame,
            action: [forward, left, up, turn, tilt],
            agent_before: agent_before.unwrap_or_default(),
        });
        self.frames += 1;
        if self.rows.len() == BATCH_ROWS { self.flush() } else { Ok(()) }
    }

    /// Completes the episode: everything is on the disk when this returns.
    pub fn finish(mut self) -> Result<EpisodeSummary> {
        if self.frames == 0 {
            let reason = "it has no frames".to_string();
            return Err(DataError::Episode { episode: self.id, reason });
        }
        self.flush()?;
        let arrow = self.arrow.take().expect("open until finished");
        arrow_file::finish(arrow, &durable::partial(&self.path))?;
        // The Arrow file is published last: when it is there, the episode is complete.
        let audio_hash = self.sound.take().map(Sound::finish).transpose()?;
        let summary = EpisodeSummary {
            id: self.id,
            facts: self.facts.clone(),
            frames: self.frames,
            boundary: self.boundary.unwrap_or(self.frames),
            hash: Some(durable::hash_file(&durable::partial(&self.path))?),
            audio_hash,
        };
        self.dataset.publish(summary.clone())?;
        Ok(summary)
    }

    fn flush(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let path = &self.path;
        let failed = |error| arrow_file::write_error(path, error);
        let batch = record_batch(&self.schema, &self.columns, &self.rows).map_err(failed)?;
        self.arrow.as_mut().expect("open until finished").write(&batch).map_err(failed)?;
        self.rows.clear();
        Ok(())
    }

    /// The bytes for column `image` and the number for column `video_frame`.
    fn encode(&self, image: FrameImage) -> Result<(Vec<u8>, u64)> {
        let description = self.dataset.description();
        let [width, height] = description.resolution;
        let wrong = |reason: String| {
            let (episode, row) = (Some(self.id), self.frames as usize);
            Err(DataError::Row { episode, row, column: column::IMAGE, reason })
        };
        match (image, description.images) {
            (FrameImage::Pixels(picture), ImageEncoding::Png | ImageEncoding::Raw) => {
                let due = width as usize * height as usize * 3;
                if [picture.width, picture.height] != [width, height] || picture.pixels.len() != due
                {
                    let found = [picture.width, picture.height];
                    return wrong(format!(
                        "is {found:?} pixels where {:?} were due",
                        [width, height]
                    ));
                }
                let raw = description.images == ImageEncoding::Raw;
                Ok((if raw { picture.pixels } else { picture.to_png() }, 0))
            }
            (
                FrameImage::Encoded(bytes),
                ImageEncoding::Png | ImageEncoding::Jpeg | ImageEncoding::Raw,
            ) if !bytes.is_empty() => Ok((bytes, 0)),
            (FrameImage::VideoFrame(frame), ImageEncoding::Video) => Ok((Vec::new(), frame)),
            (FrameImage::Absent, ImageEncoding::None) => Ok((Vec::new(), 0)),
            (_, encoding) => {
                wrong(format!("this kind of picture does not fit `images`: {encoding:?}"))
            }
        }
    }

    /// Appends the sound of the next frame.
    fn hear(&mut self, samples: &[[f32; 2]]) -> Result<()> {
        let row = self.frames as usize;
        let description = self.dataset.description();
        let due = description.audio_start(row + 1) - description.audio_start(row);
        if samples.len() != due {
            let reason = format!("{} samples where {due} were due", samples.len());
            return Err(DataError::Row { episode: Some(self.id), row, column: "audio", reason });
        }
        self.sound.as_mut().map_or(Ok(()), |sound| sound.push(samples))
    }
}

impl Drop for EpisodeWriter<'_> {
    fn drop(&mut self) {
        if self.arrow.take().is_some() {
            // Best effort: a leftover is overwritten by the next attempt anyway.
            let _ = std::fs::remove_file(durable::partial(&self.path));
            if let Some(sound) = self.sound.take() {
                let _ = std::fs::remove_file(durable::partial(&sound.path));
            }
        }
    }
}

impl Sound {
    fn begin(path: PathBuf, sample_rate: u32) -> Result<Self> {
        let temporary = durable::partial(&path);
        let file = File::create(&temporary).map_err(DataError::io("create", &temporary))?;
        let copy = file.try_clone().map_err(DataError::io("open", &temporary))?;
        let spec = WavSpec {
            channels: 2,
            sample_rate,
            bits_per_sample: 16,
            sample_format: SampleFormat::Int,
        };
        let writer =
            WavWriter::new(BufWriter::new(copy), spec).map_err(|e| failed(&temporary, e))?;
        Ok(Self { path, file, writer })
    }

    fn push(&mut self, samples: &[[f32; 2]]) -> Result<()> {
        for value in samples.iter().flatten() {
            // NaN becomes silence, too loud is clipped: `as` saturates.
            let value = (value * f32::from(i16::MAX)).round() as i16;
            self.writer.write_sample(value).map_err(|error| failed(&self.path, error))?;
        }
        Ok(())
    }

    fn finish(self) -> Result<String> {
        self.writer.finalize().map_err(|error| failed(&self.path, error))?;
        self.file.sync_all().map_err(DataError::io("sync", &self.path))?;
        durable::publish(&self.path)?;
        durable::hash_file(&self.path)
    }
}

fn failed(path: &std::path::Path, error: hound::Error) -> DataError {
    let source = match error {
        hound::Error::IoError(source) => source,
        other => std::io::Error::other(other.to_string()),
    };
    DataError::Io { operation: "write", path: path.to_path_buf(), source }
}

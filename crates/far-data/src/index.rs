//! `episodes.arrow`: one row per episode, ascending by id.

use std::path::Path;
use std::sync::Arc;

use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Fields, Schema};

use crate::arrow_file::{self, ArrowFile};
use crate::frame_columns::FrameColumns;
use crate::{DataError, EpisodeFacts, EpisodeSummary, Pair, Result, Split, durable};

/// Columns that a file may leave out.
const OPTIONAL: [&str; 9] =
    ["second_split", "route", "tier", "seed", "pair", "pair_role", "video", "hash", "audio_hash"];

/// The columns of the index, in file order.
fn fields() -> Fields {
    let value = |name, data_type| Field::new(name, data_type, false);
    let maybe = |name, data_type| Field::new(name, data_type, true);
    vec![
        value("id", DataType::UInt32),
        value("scene", DataType::Utf8),
        value("split", DataType::Utf8),
        maybe("second_split", DataType::Utf8),
        value("frames", DataType::UInt32),
        value("boundary", DataType::UInt32),
        value("route", DataType::Utf8),
        maybe("tier", DataType::UInt32),
        value("seed", DataType::UInt64),
        maybe("pair", DataType::UInt32),
        maybe("pair_role", DataType::Utf8),
        maybe("video", DataType::Utf8),
        maybe("hash", DataType::Utf8),
        maybe("audio_hash", DataType::Utf8),
    ]
    .into()
}

/// Writes the index in one piece; `summaries` must ascend by id.
pub(crate) fn write(path: &Path, summaries: &[EpisodeSummary]) -> Result<()> {
    let temporary = durable::partial(path);
    let mut writer = arrow_file::begin(&temporary, fields(), None)?;
    let batch = record_batch(summaries);
    writer.write(&batch).map_err(|error| arrow_file::write_error(&temporary, error))?;
    arrow_file::finish(writer, &temporary)?;
    durable::publish(path)
}

fn record_batch(summaries: &[EpisodeSummary]) -> RecordBatch {
    let rows = || summaries.iter();
    let facts = || summaries.iter().map(|summary| &summary.facts);
    let text = |values: StringArray| Arc::new(values) as ArrayRef;
    let number = |values: UInt32Array| Arc::new(values) as ArrayRef;
    let columns = vec![
        number(rows().map(|s| Some(s.id)).collect()),
        text(facts().map(|f| Some(&f.scene)).collect()),
        text(facts().map(|f| Some(f.split.name())).collect()),
        text(facts().map(|f| f.second_split.map(Split::name)).collect()),
        number(rows().map(|s| Some(s.frames)).collect()),
        number(rows().map(|s| Some(s.boundary)).collect()),
        text(facts().map(|f| Some(&f.route)).collect()),
        number(facts().map(|f| f.tier).collect()),
        Arc::new(UInt64Array::from_iter_values(facts().map(|f| f.seed))) as ArrayRef,
        number(facts().map(|f| f.pair.as_ref().map(|pair| pair.episode)).collect()),
        text(facts().map(|f| f.pair.as_ref().map(|pair| &pair.role)).collect()),
        text(facts().map(|f| f.video.as_ref()).collect()),
        text(rows().map(|s| s.hash.as_ref()).collect()),
        text(rows().map(|s| s.audio_hash.as_ref()).collect()),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields())), columns).expect("columns fit the schema")
}

/// The mapped index: rows are read when asked for.
pub(crate) struct Index {
    columns: FrameColumns,
    /// Ascending.
    ids: Vec<u32>,
}

impl Index {
    /// Maps the index and checks ids, splits, lengths and boundaries of every row.
    pub fn open(path: &Path, second_split: bool) -> Result<Self> {
        let file = ArrowFile::open(path, "the index episodes.arrow", &fields(), &OPTIONAL)?;
        let columns = FrameColumns::new(file.batches);
        if columns.len() == 0 {
            return Err(DataError::corrupt(path, "it lists no episodes"));
        }
        let id = |row| columns.unsigned("id", row).expect("required");
        let index = Self { ids: (0..columns.len()).map(id).collect(), columns };
        index.check(second_split)?;
        Ok(index)
    }

    /// Number of episodes.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Id of the episode in row `row`, which must exist.
    pub fn id(&self, row: usize) -> u32 {
        self.ids[row]
    }

    /// The row of an episode.
    pub fn row(&self, id: u32) -> Option<usize> {
        self.ids.binary_search(&id).ok()
    }

    /// The part of an episode under the first or the second rule.
    pub fn split(&self, row: usize, rule: usize) -> Option<Split> {
        let column = if rule == 0 { "split" } else { "second_split" };
        self.columns.text(column, row).and_then(Split::from_name)
    }

    /// Number of frames and index of the first return frame.
    pub fn lengths(&self, row: usize) -> (u32, u32) {
        let number = |column| self.columns.unsigned(column, row).expect("required");
        (number("frames"), number("boundary"))
    }

    /// The scene's name.
    pub fn scene(&self, row: usize) -> &str {
        self.columns.text("scene", row).expect("required")
    }

    /// The whole row.
    pub fn summary(&self, row: usize) -> EpisodeSummary {
        let owned = |column| self.columns.text(column, row).map(str::to_owned);
        let (frames, boundary) = self.lengths(row);
        EpisodeSummary {
            id: self.id(row),
            facts: EpisodeFacts {
                scene: self.scene(row).to_owned(),
                split: self.split(row, 0).expect("checked on open"),
                second_split: self.split(row, 1),
                route: owned("route").unwrap_or_default(),
                tier: self.columns.unsigned("tier", row),
                seed: self.columns.number::<UInt64Type>("seed", row).unwrap_or(0),
                pair: self
                    .columns
                    .unsigned("pair", row)
                    .map(|episode| Pair { episode, role: owned("pair_role").unwrap_or_default() }),
                video: owned("video"),
            },
            frames,
            boundary,
            hash: owned("hash"),
            audio_hash: owned("audio_hash"),
        }
    }

    fn check(&self, second_split: bool) -> Result<()> {
        let wrong =
            |row, column, reason| Err(DataError::Row { episode: None, row, column, reason });
        for (row, id) in self.ids.iter().enumerate() {
            if let Some(before) = self.ids[..row].last().filter(|before| *before >= id) {
                let reason = format!("{id} comes after {before}: ids ascend, each once");
                return wrong(row, "id", reason);
            }
            let (frames, boundary) = self.lengths(row);
            if frames == 0 {
                return wrong(row, "frames", format!("episode {id} has no frames"));
            }
            if boundary > frames {
                return wrong(row, "boundary", format!("{boundary} lies beyond {frames} frames"));
            }
            for (rule, column) in [(0, "split"), (1, "second_split")] {
                let text = self.columns.text(column, row);
                let valid = match text {
                    Some(text) => Split::from_name(text).is_some(),
                    None => rule == 1 && !second_split,
                };
                if !valid {
                    let text = text.unwrap_or("null");
                    let reason = format!("\"{text}\" is not train, validation or test");
                    return wrong(row, column, reason);
                }
            }
        }
        Ok(())
    }
}

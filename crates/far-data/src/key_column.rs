//! Embeddings that somebody else computed, put into a dataset as a column of numbers.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::reader::FileReader;
use arrow_schema::{Field, FieldRef, Fields, Schema};

use crate::arrow_file::{self, NOTE_KEY};
use crate::dataset_writer::episode_path;
use crate::frame_batch::slices;
use crate::summary::episode_stem;
use crate::write_lock::WriteLock;
use crate::{
    CachedTensors, DataError, Dataset, ROBOT_ACTION, Result, durable, frame_schema, index,
};

/// Adds the keys of a safetensors file to every episode as column `name`, which a configuration can
/// then use as a cue (`[cues.NAME] column = "…"`); a column of that name that is there is replaced.
/// Returns the number of keys and their length.
///
/// The file holds one tensor `keys` of shape [frames of all episodes, n], in the order of the ids, or
/// one per episode, [frames, n], called by the six digits of the id. Everything is checked before a
/// file is changed. `dataset` must be opened again afterward.
///
/// # Errors
/// If a tensor is missing, has another shape, or holds a number that is not finite; if the format
/// itself has a column of that name.
pub fn add_key_column(dataset: &Dataset, name: &str, keys: &Path) -> Result<(usize, usize)> {
    check_name(dataset, name)?;
    let _lock = WriteLock::take(dataset.folder())?;
    let file = CachedTensors::open(keys)?;
    add_keys(dataset, name, split(dataset, &file, keys)?)
}

/// The same with keys made on the spot: `make` gives those of an episode, [frames, width].
///
/// # Errors
/// As [`add_key_column`], and what `make` says.
pub fn add_made_keys<E: From<DataError>>(
    dataset: &Dataset,
    name: &str,
    width: usize,
    mut make: impl FnMut(u32) -> std::result::Result<Vec<f32>, E>,
) -> std::result::Result<(usize, usize), E> {
    check_name(dataset, name)?;
    let _lock = WriteLock::take(dataset.folder())?;
    let mut columns = Vec::with_capacity(dataset.len());
    for id in dataset.ids() {
        let rows = dataset.lengths(id)?.0 as usize;
        let values = make(id)?;
        if values.len() != rows * width || values.iter().any(|value| !value.is_finite()) {
            let reason = format!("its keys are not {rows} rows of {width} finite numbers");
            return Err(DataError::Episode { episode: id, reason }.into());
        }
        columns.push((id, KeyRows { rows, width, values }));
    }
    Ok(add_keys(dataset, name, columns)?)
}

fn check_name(dataset: &Dataset, name: &str) -> Result<()> {
    let wrong = |reason| DataError::Setting { setting: "--name", reason };
    if name == ROBOT_ACTION && dataset.description().robot_action.is_some() {
        return Err(wrong(format!("`{name}` holds the robot's commands")));
    }
    frame_schema::check_name(name, &frame_schema::fields(dataset.description())).map_err(wrong)
}

fn add_keys(dataset: &Dataset, name: &str, columns: Vec<(u32, KeyRows)>) -> Result<(usize, usize)> {
    let mut summaries = Vec::with_capacity(columns.len());
    let (mut count, mut width) = (0, 0);
    for (id, column) in columns {
        let mut summary = dataset.summary(id)?;
        let path = episode_path(dataset.folder(), id);
        rewrite(&path, name, &column)?;
        summary.hash = Some(durable::hash_file(&path)?);
        summaries.push(summary);
        count += column.rows;
        width = column.width;
    }
    index::write(&dataset.folder().join("episodes.arrow"), &summaries)?;
    Ok((count, width))
}

/// The keys of one episode.
struct KeyRows {
    rows: usize,
    width: usize,
    values: Vec<f32>,
}

/// The keys of every episode, by id, all checked.
fn split(dataset: &Dataset, file: &CachedTensors, path: &Path) -> Result<Vec<(u32, KeyRows)>> {
    let wrong = |reason: String| DataError::Source { path: path.to_path_buf(), reason };
    let ids: Vec<u32> = dataset.ids().collect();
    let lengths = ids
        .iter()
        .map(|&id| dataset.lengths(id).map(|(frames, _)| frames as usize))
        .collect::<Result<Vec<usize>>>()?;
    let together = file.tensor("keys").ok();
    let mut begin = 0;
    let mut columns = Vec::with_capacity(ids.len());
    for (&id, &rows) in ids.iter().zip(&lengths) {
        let values = match &together {
            Some(all) => {
                let [total, width] = two(&all.shape).map_err(wrong)?;
                let due: usize = lengths.iter().sum();
                if total != due {
                    return Err(wrong(format!("`keys` has {total} rows for {due} frames")));
                }
                let values = all.values[begin * width..(begin + rows) * width].to_vec();
                begin += rows;
                KeyRows { rows, width, values }
            }
            None => {
                let tensor = file.tensor(&episode_stem(id))?;
                let [found, width] = two(&tensor.shape).map_err(wrong)?;
                if found != rows {
                    return Err(wrong(format!("episode {id} has {found} keys for {rows} frames")));
                }
                KeyRows { rows, width, values: tensor.values }
            }
        };
        if let Some(at) = values.values.iter().position(|value| !value.is_finite()) {
            let frame = at / values.width;
            return Err(wrong(format!("the key of episode {id}, frame {frame} is not finite")));
        }
        columns.push((id, values));
    }
    match columns.windows(2).find(|pair| pair[0].1.width != pair[1].1.width) {
        Some(pair) => Err(wrong(format!("keys of episode {} have another length", pair[1].0))),
        None => Ok(columns),
    }
}

fn two(shape: &[usize]) -> std::result::Result<[usize; 2], String> {
    match shape {
        &[rows, width] if (1..=65_536).contains(&width) => Ok([rows, width]),
        other => Err(format!("keys of shape {other:?} where [frames, n] was due")),
    }
}

/// Writes an episode's file again with the column, which replaces one of the same name.
fn rewrite(path: &Path, name: &str, keys: &KeyRows) -> Result<()> {
    let failed = |error| arrow_file::write_error(path, error);
    let file = File::open(path).map_err(DataError::io("open", path))?;
    let reader = FileReader::try_new(file, None).map_err(failed)?;
    let schema = reader.schema();
    let kept: Vec<usize> =
        (0..schema.fields().len()).filter(|&at| schema.field(at).name() != name).collect();
    let field = Arc::new(Field::new(name, frame_schema::vector(keys.width as i32), false));
    let fields: Vec<FieldRef> =
        kept.iter().map(|&at| schema.fields()[at].clone()).chain([field]).collect();
    let fields = Fields::from(fields);
    let note = schema.metadata().get(NOTE_KEY).cloned();
    let temporary = durable::partial(path);
    let mut writer = arrow_file::begin(&temporary, fields.clone(), note)?;
    let schema = Arc::new(Schema::new(fields));
    let mut row = 0;
    for batch in reader {
        let batch = batch.map_err(failed)?;
        let rows = row..row + batch.num_rows();
        row = rows.end;
        let values = &keys.values[rows.start * keys.width..rows.end * keys.width];
        let column = slices(values.chunks_exact(keys.width), keys.width);
        let columns = kept.iter().map(|&at| batch.column(at).clone()).chain([column]).collect();
        let batch = RecordBatch::try_new(schema.clone(), columns).map_err(failed)?;
        writer.write(&batch).map_err(failed)?;
    }
    arrow_file::finish(writer, &temporary)?;
    durable::publish(path)
}

//! Damaged, shuffled, foreign and hostile datasets are refused with an error that names the place
//! and says what to do.

mod fixture;

use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, FixedSizeListArray, Float32Array, RecordBatch, StringArray,
    UInt32Array,
};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field, Schema};
use far_data::*;
use fixture::*;

/// A dataset of four episodes without hashes, so that the rows themselves must be found wrong.
fn dataset() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write_dataset(folder.path(), 4);
    edit(&folder.path().join("episodes.arrow"), |batch| drop_column(batch, "hash"));
    folder
}

/// Reads an Arrow file, changes its batches, writes it again.
fn edit(path: &Path, change: impl Fn(RecordBatch) -> RecordBatch) {
    let file = std::fs::File::open(path).expect("there");
    let batches: Vec<RecordBatch> = FileReader::try_new(file, None)
        .expect("arrow")
        .map(|b| change(b.expect("a batch")))
        .collect();
    let file = std::fs::File::create(path).expect("writable");
    let mut writer = FileWriter::try_new(file, &batches[0].schema()).expect("arrow");
    batches.iter().for_each(|batch| writer.write(batch).expect("written"));
    writer.finish().expect("written");
}

fn drop_column(batch: RecordBatch, name: &str) -> RecordBatch {
    let keep: Vec<usize> =
        (0..batch.num_columns()).filter(|&i| batch.schema().field(i).name() != name).collect();
    batch.project(&keep).expect("columns exist")
}

fn set_column(batch: RecordBatch, name: &str, column: ArrayRef) -> RecordBatch {
    let schema = batch.schema();
    let mut columns = batch.columns().to_vec();
    let index = schema.index_of(name).expect("column exists");
    let mut fields: Vec<Arc<Field>> = schema.fields().to_vec();
    fields[index] = Arc::new(Field::new(name, column.data_type().clone(), true));
    columns[index] = column;
    let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
    RecordBatch::try_new(Arc::new(schema), columns).expect("lengths fit")
}

/// Changes the positions of an episode's first batch.
fn set_position(batch: RecordBatch, row: usize, value: f32) -> RecordBatch {
    let column = batch.column_by_name("position").expect("there").clone();
    let lists = column.as_any().downcast_ref::<FixedSizeListArray>().expect("vectors");
    let mut values =
        lists.values().as_any().downcast_ref::<Float32Array>().expect("floats").values().to_vec();
    values[3 * row + 1] = value;
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    let changed = FixedSizeListArray::new(item, 3, Arc::new(Float32Array::from(values)), None);
    set_column(batch, "position", Arc::new(changed))
}

/// Opens and verifies everything; the first error with its hint.
fn failure(folder: &Path) -> (DataError, String) {
    let error = match Dataset::open(folder) {
        Ok(dataset) => dataset
            .ids()
            .find_map(|id| verify_episode(&dataset, id).err())
            .expect("the damage is found"),
        Err(error) => error,
    };
    let text = format!("{error}");
    assert!(error.hint().len() > 20, "a hint says what to do: {text}");
    (error, text)
}

#[test]
fn a_good_dataset_verifies() {
    let folder = dataset();
    let dataset = Dataset::open(folder.path()).expect("opens");
    for id in dataset.ids() {
        verify_episode(&dataset, id).expect("verifies");
    }
}

#[test]
fn a_truncated_episode_is_damaged_at_every_length() {
    let folder = dataset();
    let path = episode_file(folder.path(), 2);
    let bytes = std::fs::read(&path).expect("there");
    let description = Arc::new(description());
    for length in (0..bytes.len()).step_by(4099).chain(bytes.len() - 12..bytes.len()) {
        let opened = Episode::from_bytes(bytes[..length].to_vec(), 2, description.clone());
        assert!(matches!(opened.err(), Some(DataError::Corrupt { .. })), "{length} bytes");
    }
    std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("writable");
    let (error, text) = failure(folder.path());
    assert!(matches!(error, DataError::Corrupt { .. }) && text.contains("000002.arrow"), "{text}");
}

#[test]
fn a_truncated_index_is_damaged() {
    let folder = dataset();
    let path = folder.path().join("episodes.arrow");
    let bytes = std::fs::read(&path).expect("there");
    for length in [0, 5, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..length]).expect("writable");
        let (error, text) = failure(folder.path());
        assert!(matches!(error, DataError::Corrupt { .. }) && text.contains("episodes.arrow"));
    }
}

#[test]
fn shuffled_frames_are_found_by_their_times() {
    let folder = dataset();
    edit(&episode_file(folder.path(), 1), |batch| {
        let (half, rows) = (batch.num_rows() / 2, batch.num_rows());
        let parts = [batch.slice(half, rows - half), batch.slice(0, half)];
        let joined = arrow_select::concat::concat_batches(&batch.schema(), &parts);
        joined.expect("same schema")
    });
    let (error, text) = failure(folder.path());
    assert!(
        matches!(error, DataError::Row { episode: Some(1), row: 64, column: "time", .. }),
        "{text}"
    );
}

#[test]
fn swapped_episode_files_are_found() {
    let folder = dataset();
    let (a, b) = (episode_file(folder.path(), 0), episode_file(folder.path(), 3));
    let (first, second) = (std::fs::read(&a).expect("there"), std::fs::read(&b).expect("there"));
    std::fs::write(&a, second).expect("writable");
    std::fs::write(&b, first).expect("writable");
    let (error, text) = failure(folder.path());
    assert!(matches!(error, DataError::Episode { episode: 0, .. }), "{text}");
}

#[test]
fn a_changed_byte_is_found_by_its_hash() {
    let folder = tempfile::tempdir().expect("a folder");
    write_dataset(folder.path(), 1);
    let path = episode_file(folder.path(), 0);
    let mut bytes = std::fs::read(&path).expect("there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).expect("writable");
    failure(folder.path());
}

#[test]
fn another_version_is_refused() {
    let folder = dataset();
    let path = folder.path().join("dataset.json");
    let text = std::fs::read_to_string(&path).expect("there");
    std::fs::write(
        &path,
        text.replace("\"version\": 1,\n  \"corpus\"", "\"version\": 9,\n  \"corpus\""),
    )
    .expect("writable");
    let (error, _) = failure(folder.path());
    assert!(
        matches!(error, DataError::Version { found: 9, .. }) && error.hint().contains("update far")
    );
}

#[test]
fn positions_that_are_not_numbers_name_their_row() {
    for value in [f32::NAN, f32::INFINITY] {
        let folder = dataset();
        edit(&episode_file(folder.path(), 3), move |batch| {
            if batch.num_rows() == 128 { set_position(batch, 77, value) } else { batch }
        });
        let (error, text) = failure(folder.path());
        let place =
            matches!(error, DataError::Row { episode: Some(3), row: 77, column: "position", .. });
        assert!(place, "{text}");
    }
}

#[test]
fn episodes_without_frames_are_refused() {
    let folder = dataset();
    edit(&folder.path().join("episodes.arrow"), |batch| {
        set_column(batch, "frames", Arc::new(UInt32Array::from(vec![300, 0, 300, 300])))
    });
    let (error, text) = failure(folder.path());
    assert!(
        matches!(error, DataError::Row { episode: None, row: 1, column: "frames", .. }),
        "{text}"
    );

    let folder = dataset();
    edit(&episode_file(folder.path(), 0), |batch| batch.slice(0, 0));
    assert!(failure(folder.path()).1.contains("no frames"));

    let folder = dataset();
    edit(&folder.path().join("episodes.arrow"), |batch| batch.slice(0, 0));
    assert!(failure(folder.path()).1.contains("no episodes"));
    let writer =
        DatasetWriter::create(tempfile::tempdir().expect("a folder").path(), description());
    let writer = writer.expect("begins");
    let empty = writer.episode(0, facts(0)).and_then(EpisodeWriter::finish);
    assert!(empty.is_err());
}

#[test]
fn missing_files_are_named() {
    let folder = dataset();
    std::fs::remove_file(folder.path().join("episodes/000002.wav")).expect("there");
    assert!(failure(folder.path()).1.contains("000002.wav"));
    std::fs::remove_file(episode_file(folder.path(), 1)).expect("there");
    let (error, text) = failure(folder.path());
    assert!(matches!(error, DataError::Missing { .. }) && text.contains("000001.arrow"));
    std::fs::remove_file(folder.path().join("dataset.json")).expect("there");
    let (error, _) = failure(folder.path());
    assert!(matches!(error, DataError::Missing { what: "dataset.json", .. }));
}

#[test]
fn wrong_lengths_are_named() {
    let folder = dataset();
    edit(&episode_file(folder.path(), 2), |batch| batch.slice(0, batch.num_rows() - 1));
    assert!(failure(folder.path()).1.contains("`frames` is 297 in its file, 300"));

    let folder = dataset();
    let path = folder.path().join("episodes/000001.wav");
    let bytes = std::fs::read(&path).expect("there");
    std::fs::write(&path, &bytes[..bytes.len() - 4000]).expect("writable");
    failure(folder.path());
}

#[test]
fn wrong_columns_are_named() {
    let folder = dataset();
    edit(&episode_file(folder.path(), 0), |batch| drop_column(batch, "rotation"));
    let (_, text) = failure(folder.path());
    assert!(text.contains("`rotation`") && text.contains("no such column"), "{text}");

    let folder = dataset();
    edit(&episode_file(folder.path(), 0), |batch| {
        let times = vec!["now"; batch.num_rows()];
        set_column(batch, "time", Arc::new(StringArray::from(times)))
    });
    let (_, text) = failure(folder.path());
    assert!(text.contains("`time` should be float64, found string"), "{text}");

    let folder = dataset();
    edit(&episode_file(folder.path(), 0), |batch| {
        let phases: Vec<Option<&str>> = vec![None; batch.num_rows()];
        set_column(batch, "phase", Arc::new(StringArray::from(phases)))
    });
    assert!(failure(folder.path()).1.contains("a value in every row"));
}

#[test]
fn columns_that_cannot_be_skipped_are_named() {
    let folder = dataset();
    edit(&episode_file(folder.path(), 0), |batch| {
        let schema = batch.schema();
        let words: DictionaryArray<Int32Type> = (0..batch.num_rows()).map(|_| "word").collect();
        let words: ArrayRef = Arc::new(words);
        let mut fields: Vec<Arc<Field>> = schema.fields().to_vec();
        fields.push(Arc::new(Field::new("words", words.data_type().clone(), false)));
        let columns = batch.columns().iter().cloned().chain([words]).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("lengths fit")
    });
    let (error, text) = failure(folder.path());
    assert!(matches!(error, DataError::Unsupported { .. }) && text.contains("`words`"), "{text}");
    assert!(error.hint().contains("dictionary"));
}

#[test]
fn a_scene_on_both_sides_of_a_disjoint_split_is_refused() {
    let folder = dataset();
    edit(&folder.path().join("episodes.arrow"), |batch| {
        let parts = vec!["train", "test", "train", "train"];
        set_column(batch, "split", Arc::new(StringArray::from(parts)))
    });
    let (error, text) = failure(folder.path());
    assert!(matches!(error, DataError::Row { row: 1, column: "split", .. }), "{text}");
    assert!(text.contains("scene-0"), "{text}");
}

#[test]
fn hostile_bytes_are_errors_and_never_panics() {
    let folder = dataset();
    let bytes = std::fs::read(episode_file(folder.path(), 0)).expect("there");
    let description = Arc::new(description());
    // The footer and the headers decide what is sliced: hit each of their bytes.
    let tail = bytes.len() - 6000;
    for position in (0..2500).step_by(29).chain((tail..bytes.len()).step_by(61)) {
        for value in [0x7f, 0xff] {
            let mut hostile = bytes.clone();
            hostile[position] = value;
            if let Ok(episode) = Episode::from_bytes(hostile, 0, description.clone()) {
                (0..episode.len()).for_each(|index| drop(episode.frame(index)));
            }
        }
    }
}

#[test]
fn what_fuzzing_found_stays_an_error() {
    let mut description = description();
    (description.resolution, description.labels) = ([8, 6], vec!["open".into(), "close".into()]);
    let description = Arc::new(description);
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/open_episode");
    let mut hostile = 0;
    for entry in std::fs::read_dir(seeds).expect("seeds are there") {
        let path = entry.expect("an entry").path();
        let bytes = std::fs::read(&path).expect("readable");
        let opened = Episode::from_bytes(bytes, 0, description.clone());
        let good =
            !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("crash"));
        assert_eq!(opened.is_ok(), good, "{}", path.display());
        hostile += usize::from(!good);
    }
    assert!(hostile > 0);
}

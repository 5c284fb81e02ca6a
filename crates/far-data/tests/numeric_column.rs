//! Columns of numbers that the format does not know are read when asked for, or refused by name.

mod fixture;

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, Float64Array, RecordBatch};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field, Schema};
use far_data::{DataError, Dataset, NumericColumn};
use fixture::{FRAMES, episode_file, write_dataset};
use proptest::prelude::*;

fn vectors(width: i32, numbers: impl IntoIterator<Item = Option<f32>>) -> ArrayRef {
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    let numbers = Arc::new(Float32Array::from_iter(numbers));
    Arc::new(FixedSizeListArray::new(item, width, numbers, None))
}

/// Adds a column to episode 0; `column` is given the rows of each batch.
fn add(folder: &Path, name: &str, column: impl Fn(std::ops::Range<usize>) -> ArrayRef) {
    let path = episode_file(folder, 0);
    let file = std::fs::File::open(&path).expect("there");
    let reader = FileReader::try_new(file, None).expect("arrow");
    let batches: Vec<RecordBatch> = reader.map(|batch| batch.expect("a batch")).collect();
    let mut row = 0;
    let batches = batches.into_iter().map(|batch| {
        let column = column(row..row + batch.num_rows());
        row += batch.num_rows();
        let field = Arc::new(Field::new(name, column.data_type().clone(), true));
        let fields = batch.schema().fields().iter().cloned().chain([field]).collect::<Vec<_>>();
        let columns = batch.columns().iter().cloned().chain([column]).collect();
        let schema = Schema::new_with_metadata(fields, batch.schema().metadata().clone());
        RecordBatch::try_new(Arc::new(schema), columns).expect("lengths fit")
    });
    let batches: Vec<RecordBatch> = batches.collect();
    let file = std::fs::File::create(&path).expect("writable");
    let mut writer = FileWriter::try_new(file, &batches[0].schema()).expect("arrow");
    batches.iter().for_each(|batch| writer.write(batch).expect("written"));
    writer.finish().expect("written");
}

fn read(folder: &Path, name: &str) -> Result<NumericColumn, DataError> {
    Dataset::open(folder)?.episode(0)?.numbers(name)
}

#[test]
fn numbers_come_back_whether_one_or_many_per_frame() {
    let folder = tempfile::tempdir().expect("a folder");
    write_dataset(folder.path(), 1);
    let value = |place: usize| place as f32 * 0.25;
    add(folder.path(), "force", |rows| Arc::new(Float32Array::from_iter_values(rows.map(value))));
    add(folder.path(), "touch", |rows| {
        vectors(3, (3 * rows.start..3 * rows.end).map(|place| Some(value(place))))
    });
    let force = read(folder.path(), "force").expect("numbers");
    assert_eq!((force.width, force.values.len()), (1, FRAMES));
    let touch = read(folder.path(), "touch").expect("numbers");
    assert_eq!((touch.width, touch.values.len()), (3, 3 * FRAMES));
    for frame in [0, 127, 128, FRAMES - 1] {
        assert_eq!(force.row(frame), [value(frame)]);
        assert_eq!(touch.row(frame), [0, 1, 2].map(|number| value(3 * frame + number)));
    }
    // The format's own columns of numbers can be read the same way, and nobody else minds.
    assert_eq!(read(folder.path(), "action").expect("numbers").width, 5);
    let dataset = Dataset::open(folder.path()).expect("it opens");
    assert_eq!(dataset.episode(0).expect("an episode").unknown_columns(), ["force", "touch"]);
}

#[test]
fn what_is_wrong_with_a_column_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    write_dataset(folder.path(), 1);
    let wrong = |name: &str| {
        let error = read(folder.path(), name).expect_err("it is wrong");
        assert!(matches!(error, DataError::Column { .. }), "{error}");
        assert!(error.hint().contains("docs/dataset.md"));
        error.to_string()
    };
    assert!(wrong("touch").ends_with("found no such column"));
    assert!(wrong("time").contains("float32 or fixed_size_list<float32, n>, found float64"));
    assert!(wrong("image").contains("found binary"));
    add(folder.path(), "double", |rows| {
        Arc::new(Float64Array::from_iter_values(rows.map(|row| row as f64)))
    });
    assert!(wrong("double").contains("found float64"));
    let at = |row: usize, odd: f32| if row == 150 { odd } else { 1.0 };
    for (name, odd) in [("burst", f32::NAN), ("loud", f32::INFINITY)] {
        add(folder.path(), name, |rows| {
            vectors(2, rows.flat_map(|row| [Some(1.0), Some(at(row, odd))]))
        });
    }
    assert!(wrong("burst").contains("should be finite numbers, found NaN in row 150"));
    assert!(wrong("loud").contains("found inf in row 150"));
    add(folder.path(), "gaps", |rows| {
        Arc::new(Float32Array::from_iter(rows.map(|row| (row != 3).then_some(1.0))))
    });
    assert!(wrong("gaps").contains("a value in every row, found 1 nulls"));
    add(folder.path(), "holes", |rows| {
        vectors(2, rows.flat_map(|row| [Some(0.0), (row != 3).then_some(1.0)]))
    });
    assert!(wrong("holes").contains("a value in every row"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn any_width_is_read_row_by_row(width in 1..9usize, seed in any::<u32>()) {
        let folder = tempfile::tempdir().expect("a folder");
        write_dataset(folder.path(), 1);
        let value = |place: usize| (place as u32).wrapping_mul(seed) as f32;
        add(folder.path(), "touch", |rows| {
            vectors(width as i32, (width * rows.start..width * rows.end).map(|at| Some(value(at))))
        });
        let found = read(folder.path(), "touch").expect("numbers");
        prop_assert_eq!(found.width, width);
        let expected: Vec<f32> = (0..width * FRAMES).map(value).collect();
        prop_assert_eq!(found.values, expected);
    }
}

//! A few columns of a Parquet file, row by row.

use std::cell::Cell;
use std::sync::Once;

use bytes::Bytes;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use parquet::schema::types::Type;

/// Rows that a table may declare: a year of video.
const LARGEST_TABLE: i64 = 1 << 30;

/// A Parquet file, open.
pub(crate) struct ParquetTable {
    reader: SerializedFileReader<Bytes>,
}

impl ParquetTable {
    /// Reads the footer.
    pub fn open(bytes: Vec<u8>) -> Result<Self, String> {
        let reader = guarded(|| {
            SerializedFileReader::new(Bytes::from(bytes)).map_err(|error| error.to_string())
        })?;
        let rows = reader.metadata().file_metadata().num_rows();
        if !(0..=LARGEST_TABLE).contains(&rows) {
            return Err(format!("it declares {rows} rows"));
        }
        Ok(Self { reader })
    }

    /// Names of the columns.
    pub fn columns(&self) -> Vec<&str> {
        let schema = self.reader.metadata().file_metadata().schema();
        schema.get_fields().iter().map(|field| field.name()).collect()
    }

    /// Rows with the columns that are asked for; those that are not there are an error.
    pub fn rows(
        &self,
        wanted: &[&str],
    ) -> Result<impl Iterator<Item = Result<TableRow, String>> + '_, String> {
        let schema = self.reader.metadata().file_metadata().schema();
        let found = schema.get_fields().iter().filter(|field| wanted.contains(&field.name()));
        let found: Vec<_> = found.cloned().collect();
        if let Some(missing) =
            wanted.iter().find(|name| found.iter().all(|field| field.name() != **name))
        {
            return Err(format!(
                "there is no column `{missing}`, only {}",
                self.columns().join(", ")
            ));
        }
        let projection = Type::group_type_builder(schema.name())
            .with_fields(found)
            .build()
            .map_err(|error| error.to_string())?;
        let mut rows = guarded(|| {
            self.reader.get_row_iter(Some(projection)).map_err(|error| error.to_string())
        })?;
        let mut failed = false;
        Ok(std::iter::from_fn(move || {
            // What a failed reader would give next means nothing.
            if failed {
                return None;
            }
            let row = guarded(|| rows.next().transpose().map_err(|error| error.to_string()));
            failed = row.is_err();
            row.map(|row| row.map(TableRow)).transpose()
        }))
    }
}

thread_local! {
    /// Whether this thread reads with the parquet crate just now.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Reads with the parquet crate, which panics on some damaged files. Nobody is told of such a panic:
/// the error that it becomes says enough.
fn guarded<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                others(panic);
            }
        }));
    });
    let outside = GUARDED.replace(true);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read));
    GUARDED.set(outside);
    result.unwrap_or_else(|_| Err("the file is damaged".to_owned()))
}

/// One row.
pub(crate) struct TableRow(Row);

impl TableRow {
    fn field(&self, name: &str) -> Option<&Field> {
        self.0.get_column_iter().find(|(own, _)| *own == name).map(|(_, field)| field)
    }

    /// A number of any kind.
    pub fn number(&self, name: &str) -> Result<f64, String> {
        self.field(name).and_then(number).ok_or_else(|| format!("column `{name}` is not a number"))
    }

    /// A whole number that is not negative.
    pub fn index(&self, name: &str) -> Result<u64, String> {
        let found = self.number(name)?;
        let whole = (0.0..=9e15).contains(&found) && found.fract() == 0.0;
        whole.then_some(found as u64).ok_or_else(|| format!("column `{name}` holds {found}"))
    }

    /// A list of numbers.
    pub fn numbers(&self, name: &str) -> Result<Vec<f64>, String> {
        let wrong = || format!("column `{name}` is not a list of numbers");
        match self.field(name) {
            Some(Field::ListInternal(list)) => {
                list.elements().iter().map(|field| number(field).ok_or_else(wrong)).collect()
            }
            _ => Err(wrong()),
        }
    }

    /// One number or a list of them.
    pub fn vector(&self, name: &str) -> Result<Vec<f64>, String> {
        match self.field(name).and_then(number) {
            Some(single) => Ok(vec![single]),
            None => self.numbers(name),
        }
    }

    /// The bytes of a picture: of the column itself, or of its part `bytes`.
    pub fn picture(&self, name: &str) -> Result<Vec<u8>, String> {
        let inner = match self.field(name) {
            Some(Field::Group(group)) => {
                group.get_column_iter().find(|(own, _)| *own == "bytes").map(|(_, field)| field)
            }
            other => other,
        };
        match inner {
            Some(Field::Bytes(bytes)) => Ok(bytes.data().to_vec()),
            _ => Err(format!("column `{name}` holds no picture")),
        }
    }
}

fn number(field: &Field) -> Option<f64> {
    match field {
        Field::Byte(value) => Some(f64::from(*value)),
        Field::Short(value) => Some(f64::from(*value)),
        Field::Int(value) => Some(f64::from(*value)),
        Field::Long(value) => Some(*value as f64),
        Field::UInt(value) => Some(f64::from(*value)),
        Field::ULong(value) => Some(*value as f64),
        Field::Float(value) => Some(f64::from(*value)),
        Field::Double(value) => Some(*value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Vec<u8> {
        let path = "tests/import_sources/lerobot-v3/data/chunk-000/file-000.parquet";
        std::fs::read(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("there")
    }

    /// Reads all of it.
    fn read(bytes: Vec<u8>) -> Result<usize, String> {
        let table = ParquetTable::open(bytes)?;
        let rows = table.rows(&["timestamp", "observation.camera_pose"])?;
        let mut count = 0;
        for row in rows {
            let row = row?;
            row.number("timestamp")?;
            row.numbers("observation.camera_pose")?;
            count += 1;
        }
        Ok(count)
    }

    #[test]
    fn columns_are_read_by_name() {
        assert_eq!(read(sample()), Ok(36));
        let table = ParquetTable::open(sample()).expect("a table");
        let error = table.rows(&["pose"]).err().expect("no such column");
        assert!(error.contains("`pose`") && error.contains("timestamp"), "{error}");
        let row = table.rows(&["index"]).expect("there").nth(3).expect("a row").expect("whole");
        assert_eq!(row.index("index"), Ok(3));
        assert!(row.picture("index").is_err() && row.numbers("index").is_err());
        assert!(read(sample()[..100].to_vec()).is_err() && read(Vec::new()).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn flipped_bytes_are_read_or_refused(places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
            let mut bytes = sample();
            for (place, value) in places {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
            let _ = read(bytes);
        }
    }
}

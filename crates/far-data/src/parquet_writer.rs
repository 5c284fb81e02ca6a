//! A Parquet file of a few kinds of columns, written as one row group.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, FloatType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use crate::{DataError, Result, durable};

/// A column by the kind of its values, one or one list per row.
pub(crate) enum Values {
    /// Whole numbers.
    Whole(Vec<i64>),
    /// Numbers of 32 bits.
    Single(Vec<f32>),
    /// Texts.
    Text(Vec<String>),
    /// A list of so many numbers per row.
    Lists(usize, Vec<f32>),
    /// A list with one text per row.
    TextLists(Vec<String>),
    /// The bytes of a picture and its name, as Hugging Face's `datasets` stores them.
    Pictures(Vec<Vec<u8>>),
}

/// Writes the columns, durably.
pub(crate) fn write(path: &Path, columns: &[(&str, Values)]) -> Result<()> {
    let failed = |error: ParquetError| {
        let source = std::io::Error::other(error.to_string());
        DataError::Io { operation: "write", path: path.to_path_buf(), source }
    };
    let temporary = durable::partial(path);
    let file = File::create(&temporary).map_err(DataError::io("create", &temporary))?;
    let kept = file.try_clone().map_err(DataError::io("open", &temporary))?;
    write_columns(file, columns).map_err(failed)?;
    kept.sync_all().map_err(DataError::io("sync", &temporary))?;
    durable::publish(path)
}

fn write_columns(file: File, columns: &[(&str, Values)]) -> parquet::errors::Result<()> {
    let fields = columns.iter().map(|(name, values)| values.field(name));
    let schema = Type::group_type_builder("schema")
        .with_fields(fields.collect::<parquet::errors::Result<Vec<_>>>()?)
        .build()?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for (_, values) in columns {
        values.write(&mut group)?;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

fn leaf(name: &str, kind: Physical, text: bool) -> parquet::errors::Result<TypePtr> {
    let kind = Type::primitive_type_builder(name, kind).with_repetition(Repetition::REQUIRED);
    let kind = if text { kind.with_converted_type(ConvertedType::UTF8) } else { kind };
    kind.build().map(Arc::new)
}

fn list(name: &str, element: TypePtr) -> parquet::errors::Result<TypePtr> {
    let repeated = Type::group_type_builder("list")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![element])
        .build()?;
    let outer = Type::group_type_builder(name)
        .with_repetition(Repetition::REQUIRED)
        .with_converted_type(ConvertedType::LIST)
        .with_fields(vec![Arc::new(repeated)]);
    outer.build().map(Arc::new)
}

impl Values {
    fn field(&self, name: &str) -> parquet::errors::Result<TypePtr> {
        match self {
            Self::Whole(_) => leaf(name, Physical::INT64, false),
            Self::Single(_) => leaf(name, Physical::FLOAT, false),
            Self::Text(_) => leaf(name, Physical::BYTE_ARRAY, true),
            Self::Lists(..) => list(name, leaf("element", Physical::FLOAT, false)?),
            Self::TextLists(_) => list(name, leaf("element", Physical::BYTE_ARRAY, true)?),
            Self::Pictures(_) => {
                let bytes = leaf("bytes", Physical::BYTE_ARRAY, false)?;
                let path = leaf("path", Physical::BYTE_ARRAY, true)?;
                let group = Type::group_type_builder(name)
                    .with_repetition(Repetition::REQUIRED)
                    .with_fields(vec![bytes, path]);
                group.build().map(Arc::new)
            }
        }
    }

    fn write(&self, group: &mut SerializedRowGroupWriter<'_, File>) -> parquet::errors::Result<()> {
        let texts = |texts: &[String]| -> Vec<ByteArray> {
            texts.iter().map(|text| ByteArray::from(text.as_str())).collect()
        };
        match self {
            Self::Whole(values) => column::<Int64Type>(group, values, 0),
            Self::Single(values) => column::<FloatType>(group, values, 0),
            Self::Text(values) => column::<ByteArrayType>(group, &texts(values), 0),
            Self::Lists(width, values) => column::<FloatType>(group, values, *width),
            Self::TextLists(values) => column::<ByteArrayType>(group, &texts(values), 1),
            Self::Pictures(pictures) => {
                let bytes: Vec<ByteArray> =
                    pictures.iter().map(|bytes| ByteArray::from(bytes.clone())).collect();
                column::<ByteArrayType>(group, &bytes, 0)?;
                let names = (0..pictures.len()).map(|frame| format!("frame-{frame:06}.png"));
                column::<ByteArrayType>(group, &texts(&names.collect::<Vec<_>>()), 0)
            }
        }
    }
}

/// Writes the next leaf; `width` is how many values make a row's list, 0 for no list.
fn column<T: parquet::data_type::DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
    width: usize,
) -> parquet::errors::Result<()> {
    let mut writer =
        group.next_column()?.ok_or_else(|| ParquetError::General("no column is left".into()))?;
    let levels = (width > 0).then(|| {
        let definitions = vec![1i16; values.len()];
        let repetitions: Vec<i16> = (0..values.len()).map(|at| i16::from(at % width > 0)).collect();
        (definitions, repetitions)
    });
    let levels = levels.as_ref().map(|(defined, repeated)| (&defined[..], &repeated[..])).unzip();
    writer.typed::<T>().write_batch(values, levels.0, levels.1)?;
    writer.close()
}

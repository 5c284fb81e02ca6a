//! Columns with 64-bit offsets, as polars writes texts, bytes and lists, brought to the 32-bit offsets
//! that the format's own readers use. Only offsets are copied; values stay where they are mapped.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{Array, ArrayRef, GenericByteArray, GenericListArray, RecordBatch};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema};

/// The type with 32-bit offsets, at every depth.
pub(crate) fn narrow_type(data_type: &DataType) -> DataType {
    let item = |field: &Arc<Field>| {
        Arc::new(field.as_ref().clone().with_data_type(narrow_type(field.data_type())))
    };
    match data_type {
        DataType::LargeUtf8 => DataType::Utf8,
        DataType::LargeBinary => DataType::Binary,
        DataType::List(field) | DataType::LargeList(field) => DataType::List(item(field)),
        other => other.clone(),
    }
}

/// The batch with 32-bit offsets in every column.
///
/// # Errors
/// A sentence, if a column holds more than 2 GiB in one batch.
pub(crate) fn narrow(batch: RecordBatch) -> Result<RecordBatch, String> {
    let schema = batch.schema();
    if schema.fields().iter().all(|field| narrow_type(field.data_type()) == *field.data_type()) {
        return Ok(batch);
    }
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        let column = narrow_array(column)
            .ok_or_else(|| format!("column `{}` has more than 2 GiB in one batch", field.name()))?;
        fields.push(field.as_ref().clone().with_data_type(column.data_type().clone()));
        columns.push(column);
    }
    let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
    RecordBatch::try_new(Arc::new(schema), columns).map_err(|error| error.to_string())
}

fn narrow_array(column: &ArrayRef) -> Option<ArrayRef> {
    use arrow_array::types::{BinaryType, LargeBinaryType, LargeUtf8Type, Utf8Type};
    Some(match column.data_type() {
        DataType::LargeUtf8 => bytes::<LargeUtf8Type, Utf8Type>(column.as_bytes())?,
        DataType::LargeBinary => bytes::<LargeBinaryType, BinaryType>(column.as_bytes())?,
        DataType::LargeList(field) => {
            let list = column.as_list::<i64>();
            let values = narrow_array(list.values())?;
            let field = field.as_ref().clone().with_data_type(values.data_type().clone());
            let offsets = offsets(list.offsets())?;
            Arc::new(GenericListArray::new(field.into(), offsets, values, list.nulls().cloned()))
        }
        _ => column.clone(),
    })
}

fn bytes<L, S>(column: &GenericByteArray<L>) -> Option<ArrayRef>
where
    L: ByteArrayType<Offset = i64>,
    S: ByteArrayType<Offset = i32>,
{
    let (offsets, values) = (offsets(column.offsets())?, column.values().clone());
    Some(Arc::new(GenericByteArray::<S>::new(offsets, values, column.nulls().cloned())))
}

fn offsets(wide: &OffsetBuffer<i64>) -> Option<OffsetBuffer<i32>> {
    let narrow: Option<Vec<i32>> = wide.iter().map(|offset| i32::try_from(*offset).ok()).collect();
    Some(OffsetBuffer::new(ScalarBuffer::from(narrow?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::{Int64Type, UInt32Type};
    use arrow_array::{Int64Array, LargeBinaryArray, LargeListArray, LargeStringArray};

    #[test]
    fn values_and_nulls_stay_and_offsets_become_narrow() {
        let texts: ArrayRef =
            Arc::new(LargeStringArray::from(vec![Some("explore"), None, Some("")]));
        let files: ArrayRef =
            Arc::new(LargeBinaryArray::from(vec![Some(&b"png"[..]), Some(b""), None]));
        let rows = vec![Some(vec![Some(3u32), Some(4)]), None, Some(vec![])];
        let lists: ArrayRef =
            Arc::new(LargeListArray::from_iter_primitive::<UInt32Type, _, _>(rows));
        let plain: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let columns = [("phase", texts), ("image", files), ("faces", lists), ("n", plain)];
        let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
        let narrow = narrow(batch.slice(0, 3)).expect("small");
        let column = |name: &str| narrow.column_by_name(name).expect("there").clone();
        let phase = column("phase");
        assert_eq!((phase.as_string::<i32>().value(0), phase.is_null(1)), ("explore", true));
        assert_eq!(column("image").as_binary::<i32>().value(0), b"png");
        let faces = column("faces");
        assert_eq!(faces.as_list::<i32>().value(0).as_primitive::<UInt32Type>().values(), &[3, 4]);
        assert!(faces.is_null(1));
        assert_eq!(column("n").as_primitive::<Int64Type>().values(), &[1, 2, 3]);
    }
}

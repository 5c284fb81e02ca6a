//! A snapshot as one plain Arrow IPC file, for any program that reads Arrow.

use super::record_batch::{arrow_schema, record_batch};
use super::sealed;
use crate::{BLOCK_RECORDS, Error, Snapshot};
use std::io::Write;
use std::ops::Range;

/// Writes the records `range` of a snapshot as an Arrow IPC file, one batch per block at most.
///
/// The columns are those of a sealed file: `id`, `time`, `position`, `rotation`, one `key_NAME` per
/// key cue, `payload`, `reference`.
///
/// # Errors
/// [`Error::OutsideSnapshot`] if the range reaches beyond the snapshot, [`Error::Disk`] if `target`
/// fails.
pub fn write_arrow(
    snapshot: &Snapshot,
    range: Range<usize>,
    target: &mut impl Write,
) -> Result<(), Error> {
    if range.end > snapshot.len() {
        return Err(Error::OutsideSnapshot {
            id: range.end as u64 - 1,
            length: snapshot.len() as u64,
        });
    }
    let columns = arrow_schema(snapshot.schema());
    let mut start = range.start;
    let batches = std::iter::from_fn(|| {
        let end = (start + 1).next_multiple_of(BLOCK_RECORDS).min(range.end);
        let rows = std::mem::replace(&mut start, end)..end;
        (!rows.is_empty()).then(|| Ok(record_batch(snapshot, &columns, rows)?))
    });
    sealed::write_arrow(&columns, batches, target)
}

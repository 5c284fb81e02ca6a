//! The bytes of the active log: a file header, then frames, each with two checksums.
//!
//! ```text
//! file header, 32 bytes           frame, 32 bytes + length
//!  0  "FARLOG01"                   0  length of the batch in bytes, a multiple of 8    u32
//!  8  number of the log    u64     4  crc32c of the batch                              u32
//! 16  first record         u64     8  durable: bytes of this log known to be synced    u64
//! 24  zero                 u32    16  first record of the batch                        u64
//! 28  crc32c of 0..28      u32    24  records in the batch                             u32
//!                                 28  crc32c of log number, file offset, bytes 0..28   u32
//!                                 32  the batch: one Arrow IPC record batch message
//! ```
//! All numbers are little-endian. `durable` distinguishes a torn tail from damage: if a later frame
//! records that these bytes had been synced before it was written, a bad frame here cannot be an
//! unfinished write. A frame without records marks an orderly close and exists only for this
//! record.

use crate::Error;
use std::io;
use std::ops::Range;

/// Bytes before the first frame.
pub(crate) const LOG_HEADER: usize = 32;
/// Bytes of a frame before its batch.
pub(crate) const FRAME_HEADER: usize = 32;
/// Frames, and the batches in them, start at multiples of this.
pub(crate) const FRAME_ALIGNMENT: usize = 8;
/// The longest batch that is written or accepted.
pub(crate) const MAX_BATCH: usize = 1 << 30;

const MAGIC: &[u8; 8] = b"FARLOG01";

/// Where a log is wrong and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Byte offset in the file.
    pub offset: usize,
    /// What was found there.
    pub reason: String,
}

impl Error {
    /// `operation` failed on `file`.
    pub(crate) fn disk(
        operation: &'static str,
        file: impl Into<String>,
    ) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Disk { operation, file: file.into(), source }
    }

    /// A file that is damaged.
    pub(crate) fn corrupt(file: String, Damage { offset, reason }: Damage) -> Self {
        Self::Corrupt { file, offset: offset as u64, reason }
    }
}

/// One whole frame found in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Id of its first record.
    pub first: u64,
    /// How many records it has; zero for the mark of an orderly close.
    pub records: usize,
    /// Where its batch lies in the file.
    pub batch: Range<usize>,
}

/// What a log holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    /// The whole frames, in order.
    pub frames: Vec<Frame>,
    /// Bytes up to the end of the last whole frame; what follows is a torn tail.
    pub end: usize,
    /// Bytes that some frame records as synced.
    pub durable: usize,
    /// Id after the last record.
    pub next: u64,
}

/// The first bytes of log `number`, whose first record will be `first`.
pub(crate) fn log_header(number: u64, first: u64) -> [u8; LOG_HEADER] {
    let mut bytes = [0; LOG_HEADER];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes[16..24].copy_from_slice(&first.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[..28]);
    bytes[28..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The header of a frame at byte `offset` of log `number`.
///
/// # Panics
/// If the batch is longer than [`MAX_BATCH`] or not padded to [`FRAME_ALIGNMENT`]; the log splits
/// batches so that this cannot happen.
pub(crate) fn frame_header(
    number: u64,
    offset: usize,
    durable: usize,
    first: u64,
    records: usize,
    batch: &[u8],
) -> [u8; FRAME_HEADER] {
    assert!(batch.len() <= MAX_BATCH && batch.len().is_multiple_of(FRAME_ALIGNMENT));
    let mut bytes = [0; FRAME_HEADER];
    bytes[..4].copy_from_slice(&(batch.len() as u32).to_le_bytes());
    bytes[4..8].copy_from_slice(&crc32c::crc32c(batch).to_le_bytes());
    bytes[8..16].copy_from_slice(&(durable as u64).to_le_bytes());
    bytes[16..24].copy_from_slice(&first.to_le_bytes());
    bytes[24..28].copy_from_slice(&(records as u32).to_le_bytes());
    let checksum = header_checksum(number, offset, &bytes);
    bytes[28..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Includes the frame's position, so that a copy of a frame inside a payload is not taken for one.
fn header_checksum(number: u64, offset: usize, header: &[u8]) -> u32 {
    let seed = crc32c::crc32c(&number.to_le_bytes());
    let seed = crc32c::crc32c_append(seed, &(offset as u64).to_le_bytes());
    crc32c::crc32c_append(seed, &header[..28])
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"))
}

/// The header at `offset`, if its checksum holds.
fn header_at(bytes: &[u8], number: u64, offset: usize) -> Option<&[u8]> {
    let header = bytes.get(offset..)?.get(..FRAME_HEADER)?;
    (header_checksum(number, offset, header) == u32_at(header, 28)).then_some(header)
}

/// Finds all whole frames of log `number`, whose first record must be `first`.
///
/// # Errors
/// [`Damage`] if the file cannot be what this store wrote: a wrong file header, a bad frame in a
/// synced part, or a gap between records. An unfinished tail is no damage.
pub(crate) fn scan(bytes: &[u8], number: u64, first: u64) -> Result<Scan, Damage> {
    let damage = |offset, reason: String| Err(Damage { offset, reason });
    if bytes.get(..LOG_HEADER) != Some(&log_header(number, first)) {
        return damage(0, format!("the header of log {number} is damaged"));
    }
    let mut scan = Scan { frames: Vec::new(), end: LOG_HEADER, durable: LOG_HEADER, next: first };
    while let Some(header) = header_at(bytes, number, scan.end) {
        let start = scan.end + FRAME_HEADER;
        let length = u32_at(header, 0) as usize;
        let Some(batch) = bytes[start..].get(..length) else { break };
        if crc32c::crc32c(batch) != u32_at(header, 4) {
            break;
        }
        let frame_first = u64_at(header, 16);
        if frame_first != scan.next {
            let reason = format!("record {} expected, {frame_first} found", scan.next);
            return damage(scan.end, reason);
        }
        let records = u32_at(header, 24) as usize;
        let Some(next) = scan.next.checked_add(records as u64) else {
            return damage(scan.end, format!("{records} records after {frame_first} overflow"));
        };
        // A claim beyond the frame's own start can only be in a crafted file.
        scan.durable = scan.durable.max((u64_at(header, 8) as usize).min(scan.end));
        scan.frames.push(Frame { first: frame_first, records, batch: start..start + length });
        (scan.end, scan.next) = (start + length, next);
    }
    match proof_of_damage(bytes, number, scan.end) {
        Some(witness) => damage(
            scan.end,
            format!("a frame is damaged that the frame at {witness} records as synced"),
        ),
        None => Ok(scan),
    }
}

/// The first later frame header which records that bytes beyond `end` had been synced.
fn proof_of_damage(bytes: &[u8], number: u64, end: usize) -> Option<usize> {
    let first = end.next_multiple_of(FRAME_ALIGNMENT);
    (first..bytes.len()).step_by(FRAME_ALIGNMENT).skip(1).find(|&offset| {
        header_at(bytes, number, offset).is_some_and(|header| {
            let durable = u64_at(header, 8);
            durable > end as u64 && durable <= offset as u64
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NUMBER: u64 = 7;

    /// A log of batches with `records` each; a sync after every frame whose flag is set.
    fn log_of(frames: &[(Vec<u8>, bool)], records: usize) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = log_header(NUMBER, 100).to_vec();
        let (mut durable, mut next, mut ends) = (LOG_HEADER, 100, vec![LOG_HEADER]);
        for (batch, synced) in frames {
            let mut batch = batch.clone();
            batch.resize(batch.len().next_multiple_of(FRAME_ALIGNMENT), 0);
            let header = frame_header(NUMBER, bytes.len(), durable, next, records, &batch);
            bytes.extend(header);
            bytes.extend(&batch);
            next += records as u64;
            ends.push(bytes.len());
            if *synced {
                durable = bytes.len();
            }
        }
        (bytes, ends)
    }

    fn batches() -> impl Strategy<Value = Vec<(Vec<u8>, bool)>> {
        proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 0..80), any::<bool>()),
            0..8,
        )
    }

    proptest! {
        #[test]
        fn what_was_written_is_found(frames in batches(), records in 0usize..5) {
            let (bytes, ends) = log_of(&frames, records);
            let found = scan(&bytes, NUMBER, 100).expect("whole log");
            prop_assert_eq!(found.frames.len(), frames.len());
            prop_assert_eq!(found.end, *ends.last().expect("at least the header"));
            prop_assert_eq!(found.next, 100 + (records * frames.len()) as u64);
            for (frame, (batch, _)) in found.frames.iter().zip(&frames) {
                prop_assert_eq!(&bytes[frame.batch.clone()][..batch.len()], &batch[..]);
            }
        }

        #[test]
        fn a_cut_keeps_exactly_the_whole_frames(frames in batches(), cut in any::<prop::sample::Index>()) {
            let (bytes, ends) = log_of(&frames, 1);
            let cut = LOG_HEADER + cut.index(bytes.len() - LOG_HEADER + 1);
            let found = scan(&bytes[..cut], NUMBER, 100).expect("a cut is no damage");
            let whole = ends.iter().filter(|&&end| end <= cut).count() - 1;
            prop_assert_eq!(found.frames.len(), whole);
            prop_assert_eq!(found.end, ends[whole]);
        }

        #[test]
        fn a_flipped_bit_is_found_and_in_a_proven_part_it_is_damage(
            frames in batches(), place in any::<prop::sample::Index>(), bit in 0u8..8,
        ) {
            let (mut bytes, ends) = log_of(&frames, 1);
            let whole = scan(&bytes, NUMBER, 100).expect("whole log");
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
            match scan(&bytes, NUMBER, 100) {
                Err(damage) => {
                    prop_assert!(damage.offset <= place);
                    prop_assert!(place < LOG_HEADER || place < whole.durable);
                }
                Ok(found) => {
                    // The damaged frame and what follows it are reported as a torn tail.
                    let before = ends.iter().filter(|&&end| end <= place).count() - 1;
                    prop_assert_eq!(found.frames.len(), before);
                    prop_assert!(found.end <= place && place >= whole.durable);
                }
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut log = log_header(NUMBER, 0).to_vec();
            log.extend(bytes);
            let _ = scan(&log, NUMBER, 0).map(|found| assert!(found.end <= log.len()));
        }
    }

    #[test]
    fn a_frame_copied_elsewhere_or_from_another_log_is_not_a_frame() {
        let (bytes, ends) = log_of(&[(vec![1; 8], true), (vec![2; 8], true)], 1);
        let mut moved = bytes[..LOG_HEADER].to_vec();
        moved.extend(&bytes[ends[1]..]);
        assert_eq!(scan(&moved, NUMBER, 100).expect("torn").frames.len(), 0);
        assert_eq!(scan(&bytes, NUMBER + 1, 100).expect_err("another log").offset, 0);
    }
}

//! The checksum of a checkpoint: one crc32c over its notes and over the name, type, shape and bytes of
//! every tensor, as eight hexadecimal digits.
//!
//! It is one of the notes, so it says nothing of itself; a file without it was written by another
//! program and is taken as it is.

use std::collections::BTreeMap;

/// The note that holds the checksum.
pub(super) const CHECKSUM: &str = "checksum";

/// A checksum being computed: all notes first, then tensors in the order of their names.
pub(super) struct Checksum(u32);

impl Checksum {
    /// Begins with the notes, of which the checksum's own does not count.
    pub(super) fn new(notes: &BTreeMap<String, String>) -> Self {
        let mut checksum = Self(0);
        for (key, note) in notes.iter().filter(|(key, _)| *key != CHECKSUM) {
            checksum.add(key.as_bytes());
            checksum.add(note.as_bytes());
        }
        checksum
    }

    /// Adds a tensor.
    pub(super) fn tensor(&mut self, name: &str, kind: &str, shape: &[usize], bytes: &[u8]) {
        self.add(name.as_bytes());
        self.add(kind.as_bytes());
        shape.iter().for_each(|extent| self.add(&(*extent as u64).to_le_bytes()));
        self.add(bytes);
    }

    /// Adds bytes with their length, so that no two sequences of parts look alike.
    fn add(&mut self, bytes: &[u8]) {
        self.0 = crc32c::crc32c_append(self.0, &(bytes.len() as u64).to_le_bytes());
        self.0 = crc32c::crc32c_append(self.0, bytes);
    }

    /// The digits.
    pub(super) fn finish(self) -> String {
        format!("{:08x}", self.0)
    }
}

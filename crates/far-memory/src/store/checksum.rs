//! Checksums of a sealed file: one hash of the whole file, and one crc32c per chunk to locate
//! damage.
//!
//! BLAKE3 identifies the whole file (`b3sum` prints the same). A crc32c for every [`CHUNK`] bytes
//! locates the first damage, and lets opening a store check the chunks that describe the file's
//! layout without reading all of it.

use serde::{Deserialize, Serialize};

/// Bytes under one crc32c.
pub(crate) const CHUNK: usize = 1 << 20;

/// The length, hash and chunk checksums of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FileChecksum {
    /// Length of the file.
    pub bytes: u64,
    /// Hash of the whole file, in hexadecimal.
    pub blake3: String,
    /// The crc32c of each chunk, eight hexadecimal digits each, one after the other.
    pub crc32c: String,
}

impl FileChecksum {
    /// The checksum of a file with these contents.
    #[cfg(test)]
    pub fn of(contents: &[u8]) -> Self {
        let mut checksum = RunningChecksum::default();
        checksum.update(contents);
        checksum.finish()
    }

    /// Whether the number of chunk checksums fits the length.
    pub fn is_consistent(&self) -> bool {
        let chunks = self.bytes.div_ceil(CHUNK as u64);
        chunks.checked_mul(8) == Some(self.crc32c.len() as u64)
            && self.crc32c.bytes().all(|digit| digit.is_ascii_hexdigit())
    }

    /// The offset of the first chunk that touches `from..to` and differs, or `None`.
    ///
    /// The length of `contents` must have been compared already.
    pub fn first_damage(&self, contents: &[u8], from: usize, to: usize) -> Option<usize> {
        let chunks = contents.chunks(CHUNK).enumerate().skip(from / CHUNK);
        chunks.take_while(|(chunk, _)| chunk * CHUNK < to).find_map(|(chunk, bytes)| {
            let expected = self.crc32c.get(8 * chunk..8 * chunk + 8);
            (expected != Some(&hexadecimal(crc32c::crc32c(bytes)))).then_some(chunk * CHUNK)
        })
    }

    /// The offset of the first difference in the whole file, by all checksums, or `None`.
    pub fn any_damage(&self, contents: &[u8]) -> Option<usize> {
        if contents.len() as u64 != self.bytes {
            return Some(contents.len().min(usize::try_from(self.bytes).unwrap_or(usize::MAX)));
        }
        self.first_damage(contents, 0, contents.len())
            .or_else(|| (blake3::hash(contents).to_hex().as_str() != self.blake3).then_some(0))
    }
}

/// The checksum of a file that is being written in order.
#[derive(Default)]
pub(crate) struct RunningChecksum {
    bytes: u64,
    hash: blake3::Hasher,
    chunk: u32,
    crc32c: String,
}

impl RunningChecksum {
    /// Adds the next bytes of the file.
    pub fn update(&mut self, mut next: &[u8]) {
        self.hash.update(next);
        while !next.is_empty() {
            let room = CHUNK - (self.bytes % CHUNK as u64) as usize;
            let (now, later) = next.split_at(room.min(next.len()));
            self.chunk = crc32c::crc32c_append(self.chunk, now);
            self.bytes += now.len() as u64;
            if now.len() == room {
                self.crc32c += &hexadecimal(std::mem::take(&mut self.chunk));
            }
            next = later;
        }
    }

    /// Bytes added so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The checksum of all added bytes.
    pub fn finish(mut self) -> FileChecksum {
        if !self.bytes.is_multiple_of(CHUNK as u64) {
            self.crc32c += &hexadecimal(self.chunk);
        }
        let blake3 = self.hash.finalize().to_hex().to_string();
        FileChecksum { bytes: self.bytes, blake3, crc32c: self.crc32c }
    }
}

fn hexadecimal(checksum: u32) -> String {
    format!("{checksum:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_in_pieces_gives_the_checksum_of_the_whole() {
        let contents: Vec<u8> = (0..2 * CHUNK + 77).map(|byte| (byte * 31 % 251) as u8).collect();
        let mut running = RunningChecksum::default();
        let (mut rest, mut step) = (&contents[..], 1);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(step.min(rest.len()));
            running.update(now);
            (rest, step) = (later, step * 3);
        }
        let whole = FileChecksum::of(&contents);
        assert_eq!(running.finish(), whole);
        assert!(whole.is_consistent() && whole.crc32c.len() == 3 * 8);
        assert_eq!(whole.blake3, blake3::hash(&contents).to_hex().as_str());
        assert_eq!(whole.any_damage(&contents), None);
        assert_eq!(FileChecksum::of(&contents[..CHUNK]).crc32c.len(), 8);
    }

    #[test]
    fn damage_is_placed_in_its_chunk() {
        let mut contents = vec![7u8; 2 * CHUNK + 77];
        let checksum = FileChecksum::of(&contents);
        for place in [0, CHUNK - 1, CHUNK, 2 * CHUNK + 76] {
            contents[place] ^= 1;
            assert_eq!(checksum.any_damage(&contents), Some(place / CHUNK * CHUNK));
            let others = checksum.first_damage(&contents, 0, place / CHUNK * CHUNK);
            assert_eq!(others, None, "only the chunks asked for are checked");
            contents[place] ^= 1;
        }
        assert_eq!(checksum.any_damage(&contents[..9]), Some(9));
    }
}

//! Random numbers addressed by what they are for, so that order and number of workers do not matter.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The random numbers of one purpose, step and index under one seed.
///
/// ChaCha is a counter-based generator: its 256-bit key *is* (seed, purpose, step, index), so two
/// addresses never share a stream, nothing has to be skipped on resume, and its output is fixed by
/// a published specification on every platform. Eight rounds are plenty for sampling.
pub(crate) fn stream(seed: u64, purpose: &str, step: u64, index: u64) -> ChaCha8Rng {
    let mut key = [0u8; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let name = purpose.as_bytes();
    let length = name.len().min(8);
    key[8..8 + length].copy_from_slice(&name[..length]);
    key[16..24].copy_from_slice(&step.to_le_bytes());
    key[24..].copy_from_slice(&index.to_le_bytes());
    ChaCha8Rng::from_seed(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn every_part_of_the_address_changes_the_stream() {
        let first = |mut stream: ChaCha8Rng| stream.next_u64();
        let base = (1, "a", 2, 3);
        let values: BTreeSet<u64> =
            [base, (9, "a", 2, 3), (1, "b", 2, 3), (1, "a", 9, 3), (1, "a", 2, 9)]
                .map(|(seed, purpose, step, index)| first(stream(seed, purpose, step, index)))
                .into();
        assert_eq!(values.len(), 5);
    }
}

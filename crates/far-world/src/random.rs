//! Random numbers addressed by purpose, so that the order of calls does not matter.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The random numbers of one purpose and index under one seed.
///
/// ChaCha's 256-bit key is the address itself, so two addresses never share a stream.
///
/// ```
/// use far_world::random;
/// use rand::RngExt;
/// let draw = |purpose, index| random(7, purpose, index).random::<u64>();
/// assert_eq!(draw("route", 3), draw("route", 3));
/// assert_ne!(draw("route", 3), draw("scene", 3));
/// ```
pub fn random(seed: u64, purpose: &str, index: u64) -> ChaCha8Rng {
    let mut key = [0u8; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&index.to_le_bytes());
    let name = purpose.as_bytes();
    let length = name.len().min(16);
    key[16..16 + length].copy_from_slice(&name[..length]);
    ChaCha8Rng::from_seed(key)
}

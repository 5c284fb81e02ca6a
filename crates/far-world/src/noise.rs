//! Hash-based noise: the same number for the same place and seed, in any order of calls.

/// A well-mixed 32-bit number for an integer place.
#[inline]
pub fn hash(x: i32, y: i32, z: i32, seed: u32) -> u32 {
    let mut h = seed ^ 0x9e37_79b9;
    for value in [x, y, z] {
        h = (h ^ value as u32).wrapping_mul(0x85eb_ca6b);
        h ^= h >> 13;
        h = h.wrapping_mul(0xc2b2_ae35);
        h ^= h >> 16;
    }
    h
}

/// A number in [0, 1) for an integer place.
#[inline]
pub fn unit(x: i32, y: i32, z: i32, seed: u32) -> f32 {
    (hash(x, y, z, seed) >> 8) as f32 / (1 << 24) as f32
}

/// Smooth value noise in [0, 1) that repeats every `period` lattice steps along both axes.
pub fn smooth(x: f32, y: f32, period: i32, seed: u32) -> f32 {
    let (cell_x, cell_y) = (x.floor(), y.floor());
    let corner = |dx: i32, dy: i32| {
        let column = (cell_x as i32 + dx).rem_euclid(period);
        let row = (cell_y as i32 + dy).rem_euclid(period);
        unit(column, row, 0, seed)
    };
    let ease = |t: f32| t * t * (3.0 - 2.0 * t);
    let (u, v) = (ease(x - cell_x), ease(y - cell_y));
    let low = corner(0, 0) * (1.0 - u) + corner(1, 0) * u;
    let high = corner(0, 1) * (1.0 - u) + corner(1, 1) * u;
    low * (1.0 - v) + high * v
}

/// Several octaves of [`smooth`], in [0, 1); the first octave has `period` lattice steps.
pub fn fractal(x: f32, y: f32, period: i32, octaves: u32, seed: u32) -> f32 {
    let (mut total, mut weight, mut norm) = (0.0, 1.0, 0.0);
    for octave in 0..octaves {
        let factor = (1 << octave) as f32;
        let repeated = period << octave;
        total += weight * smooth(x * factor, y * factor, repeated, seed.wrapping_add(octave));
        norm += weight;
        weight *= 0.5;
    }
    total / norm
}

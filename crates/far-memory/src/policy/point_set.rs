//! Sample points that represent the space around a query, and bit sets over them.
//!
//! Coordinates lie in one array per axis, padded with NaN (never in view) to whole blocks of 512
//! points. Within a block, bit `k` of word `l` belongs to point `16 k + l`: sixteen neighboring
//! points are then tested by the same instruction, each into its own word.

use pulp::{Simd, WithSimd};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::sight::Sight;
use crate::{Camera, Pose};

const LANES: usize = 16;
const BITS: usize = 32;
const BLOCK: usize = LANES * BITS;

/// A list of points, ready for visibility tests.
#[derive(Clone, Debug, Default)]
pub(crate) struct PointSet {
    axes: [Vec<f32>; 3],
    length: usize,
}

impl PointSet {
    /// Points spread evenly through a ball around the origin: the radius is
    /// R · u^⅓, azimuth and cosine of the polar angle are uniform.
    pub(crate) fn ball(points: usize, radius: f32, seed: u64) -> Self {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut set = Self::default();
        for _ in 0..points {
            let distance = radius * generator.random::<f32>().cbrt();
            let (sin, cos) = (std::f32::consts::TAU * generator.random::<f32>()).sin_cos();
            let height = 2.0 * generator.random::<f32>() - 1.0;
            let level = (1.0 - height * height).max(0.0).sqrt();
            set.push([distance * level * cos, distance * level * sin, distance * height]);
        }
        set.pad();
        set
    }

    /// Empties the set, keeping its storage.
    pub(crate) fn clear(&mut self) {
        self.axes.iter_mut().for_each(Vec::clear);
        self.length = 0;
    }

    /// Appends a point; [`PointSet::pad`] must follow the last one.
    pub(crate) fn push(&mut self, point: [f32; 3]) {
        for (axis, value) in self.axes.iter_mut().zip(point) {
            axis.push(value);
        }
        self.length += 1;
    }

    /// Appends the cell centers of a pose's frustum, cut into `[across, down, deep]` cells between
    /// the two depths; depth is cut evenly. Points are relative to `origin`.
    pub(crate) fn push_frustum(
        &mut self,
        pose: &Pose,
        camera: &Camera,
        [near, far]: [f32; 2],
        [across, down, deep]: [usize; 3],
        origin: [f32; 3],
    ) {
        let [horizontal, vertical] = camera.half_tangents();
        let center = |index: usize, cells: usize| (index as f32 + 0.5) / cells as f32;
        for layer in 0..deep {
            let depth = near + (far - near) * center(layer, deep);
            for row in 0..down {
                let y = (2.0 * center(row, down) - 1.0) * depth * vertical;
                for column in 0..across {
                    let x = (2.0 * center(column, across) - 1.0) * depth * horizontal;
                    let point = pose.to_world([x, y, depth]);
                    self.push(std::array::from_fn(|axis| point[axis] - origin[axis]));
                }
            }
        }
    }

    /// Pads the last block with points that are never in view.
    pub(crate) fn pad(&mut self) {
        let padded = self.length.next_multiple_of(BLOCK);
        self.axes.iter_mut().for_each(|axis| axis.resize(padded, f32::NAN));
    }

    /// Number of points.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Words in a bit set over these points.
    pub(crate) fn words(&self) -> usize {
        self.length.next_multiple_of(BLOCK) / BITS
    }

    /// The point with this index.
    pub(crate) fn point(&self, index: usize) -> [f32; 3] {
        std::array::from_fn(|axis| self.axes[axis][index])
    }

    /// Replaces the set by those points of `source` whose bit is set, in the same order.
    pub(crate) fn keep(&mut self, source: &PointSet, bits: &[u32]) {
        self.clear();
        for index in 0..source.length {
            if test(bits, index) {
                self.push(source.point(index));
            }
        }
        self.pad();
    }

    /// For each sight, in order, writes the bit set of the points it sees into the next
    /// [`PointSet::words`] words of `rows`.
    pub(crate) fn mark<S: Sight>(&self, sights: &[S], rows: &mut [u32]) {
        debug_assert_eq!(rows.len(), sights.len() * self.words());
        pulp::Arch::new().dispatch(Mark { set: self, sights, rows });
    }
}

/// Whether the bit of a point is set.
pub(crate) fn test(bits: &[u32], index: usize) -> bool {
    let (block, inside) = (index / BLOCK, index % BLOCK);
    bits[block * LANES + inside % LANES] >> (inside / LANES) & 1 == 1
}

/// How many points are in both sets.
#[inline(always)]
pub(crate) fn count_shared(a: &[u32], b: &[u32]) -> u32 {
    a.iter().zip(b).map(|(a, b)| (a & b).count_ones()).sum()
}

/// How many points are in the set.
pub(crate) fn count(bits: &[u32]) -> u32 {
    count_shared(bits, bits)
}

/// Removes the points of `other` from `bits`.
pub(crate) fn subtract(bits: &mut [u32], other: &[u32]) {
    bits.iter_mut().zip(other).for_each(|(bits, other)| *bits &= !other);
}

/// Adds the points of `other` to `bits`.
pub(crate) fn unite(bits: &mut [u32], other: &[u32]) {
    bits.iter_mut().zip(other).for_each(|(bits, other)| *bits |= other);
}

struct Mark<'a, S> {
    set: &'a PointSet,
    sights: &'a [S],
    rows: &'a mut [u32],
}

impl<S: Sight> WithSimd for Mark<'_, S> {
    type Output = ();

    #[inline(always)]
    fn with_simd<V: Simd>(self, _: V) {
        let words = self.set.words();
        if words == 0 {
            return;
        }
        let [x, y, z] = self.set.axes.each_ref().map(|axis| axis.as_chunks::<LANES>().0);
        for (sight, row) in self.sights.iter().zip(self.rows.chunks_exact_mut(words)) {
            let sight = *sight;
            for (block, row) in row.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                let mut bits = [0u32; LANES];
                for step in 0..BITS {
                    let group = block * BITS + step;
                    let (x, y, z) = (&x[group], &y[group], &z[group]);
                    for lane in 0..LANES {
                        bits[lane] |= u32::from(sight.sees(x[lane], y[lane], z[lane])) << step;
                    }
                }
                *row = bits;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sight::{AngularSight, FrustumSight};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_ball_is_filled_evenly_and_depends_on_its_seed_alone() {
        let ball = PointSet::ball(10_000, 30.0, 7);
        assert_eq!(ball.len(), 10_000);
        let distance = |index| ball.point(index).iter().map(|x| x * x).sum::<f32>().sqrt();
        assert!((0..10_000).all(|index| distance(index) <= 30.001));
        // Half of the volume lies within R · 2^(−1/3).
        let inner = (0..10_000).filter(|&index| distance(index) < 30.0 * 0.5f32.cbrt()).count();
        assert!((4_800..5_200).contains(&inner), "{inner}");
        let above = (0..10_000).filter(|&index| ball.point(index)[2] > 0.0).count();
        assert!((4_800..5_200).contains(&above), "{above}");
        assert_eq!(ball.point(1234), PointSet::ball(10_000, 30.0, 7).point(1234));
        assert_ne!(ball.point(1234), PointSet::ball(10_000, 30.0, 8).point(1234));
    }

    #[test]
    fn a_frustum_sees_all_of_its_own_cells() {
        let camera = Camera::from_degrees(90.0, 60.0);
        let pose = Pose::from_yaw_pitch([4.0, 5.0, 6.0], 1.0, 0.4);
        let mut set = PointSet::default();
        set.push_frustum(&pose, &camera, [0.1, 30.0], [10, 10, 10], [1.0, 1.0, 1.0]);
        set.pad();
        let mut bits = vec![0; set.words()];
        set.mark(&[FrustumSight::new(&pose, &camera, [0.1, 30.0], [1.0; 3])], &mut bits);
        assert_eq!((set.len(), count(&bits)), (1000, 1000));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn marking_agrees_with_one_test_per_point(
            points in 0usize..1200,
            seed in any::<u64>(),
            eyes in prop::collection::vec((prop::array::uniform3(-5f32..5.0), -4f32..4.0, -1f32..1.0), 1..4),
        ) {
            let set = PointSet::ball(points, 8.0, seed);
            let camera = Camera::from_degrees(105.0, 75.0);
            let sights: Vec<_> = eyes
                .iter()
                .map(|&(eye, yaw, pitch)| {
                    AngularSight::new(&Pose::from_yaw_pitch(eye, yaw, pitch), &camera, [0.0; 3])
                })
                .collect();
            let mut rows = vec![0; sights.len() * set.words()];
            set.mark(&sights, &mut rows);
            let mut union = vec![0; set.words()];
            for (index, sight) in sights.iter().enumerate() {
                let row = &rows[index * set.words()..][..set.words()];
                let seen = |point: usize| {
                    let [x, y, z] = set.point(point);
                    sight.sees(x, y, z)
                };
                prop_assert!((0..points).all(|point| test(row, point) == seen(point)));
                prop_assert_eq!(count(row) as usize, (0..points).filter(|&p| seen(p)).count());
                unite(&mut union, row);
            }
            let mut kept = PointSet::default();
            kept.keep(&set, &union);
            prop_assert_eq!(kept.len() as u32, count(&union));
            subtract(&mut union, &rows[..set.words()]);
            prop_assert_eq!(count_shared(&union, &rows[..set.words()]), 0);
        }
    }
}

//! The metadata cue: `s_i = tanh(MLP([z_i, z_t, a]))` over time, pose and action.
//!
//! The network has one or two hidden layers with GELU. For one query its first layer is folded (see
//! `feature.rs`), and the memories of a tile are the lanes of the vector registers: every weight is
//! broadcast, every sum stays in a register, and nothing is added across lanes.

use crate::activation::{gelu, gelu_reference, tanh};
use crate::feature::{FEATURES, FeatureScale, INPUTS, QueryFrame, features};
use crate::layer::Layer;
use crate::prefetch::Prefetch;
use crate::{Pose, RecallQuery};
use pulp::Simd;

/// Memories scored together. Small enough that inputs, hidden values and keys stay in the caches.
pub(crate) const TILE: usize = 256;

/// Numbers per folded hidden unit: input weights, bias, and the unit's weight in the output (used
/// with one hidden layer), padded to one cache line.
const ROW: usize = 16;

/// Hidden units computed together: enough independent sums to hide the latency of each.
const UNITS: usize = 4;

/// The scoring network of the metadata cue.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataScorer {
    scale: FeatureScale,
    /// Two or three layers: `[width, FEATURES]`, optionally `[width, width]`, `[1, width]`.
    layers: Vec<Layer>,
}

impl MetadataScorer {
    /// A scorer from layers whose shapes were checked.
    pub(crate) fn new(scale: FeatureScale, layers: Vec<Layer>) -> Self {
        debug_assert!(matches!(layers.len(), 2 | 3));
        Self { scale, layers }
    }

    /// Width of the hidden layers.
    pub(crate) fn width(&self) -> usize {
        self.layers[0].bias.len()
    }

    /// The layers, first to last.
    pub(crate) fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Multiplications and additions of the folded network for one memory.
    pub fn operations_per_memory(&self) -> usize {
        let width = self.width();
        2 * width * (INPUTS + 1 + (self.layers.len() - 2) * width)
    }

    /// The score of one memory from the definition: the reference. `None` if the query has a pose and
    /// the memory has none.
    pub fn score_reference(
        &self,
        query: &RecallQuery,
        time: f64,
        pose: Option<&Pose>,
    ) -> Option<f32> {
        let mut values = features(query, time, pose, self.scale)?.to_vec();
        for (place, layer) in self.layers.iter().enumerate() {
            values = layer.apply_reference(&values);
            if place + 1 < self.layers.len() {
                values.iter_mut().for_each(|value| *value = gelu_reference(*value));
            }
        }
        Some(values[0].tanh())
    }

    /// Folds a query into the first layer.
    pub(crate) fn fold(&self, query: &RecallQuery, folded: &mut FoldedScorer) {
        let frame = QueryFrame::new(query, self.scale);
        let first = &self.layers[0];
        folded.rows.clear();
        for (unit, weights) in first.weight.chunks_exact(FEATURES).enumerate() {
            let (inputs, bias) = frame.fold(weights, first.bias[unit]);
            let mut row = [0.0; ROW];
            row[..INPUTS].copy_from_slice(&inputs);
            row[INPUTS] = bias;
            if let [_, output] = self.layers.as_slice() {
                row[INPUTS + 1] = output.weight[unit];
            }
            folded.rows.push(row);
        }
        // Units of weight zero pad the last group.
        folded.rows.resize(folded.rows.len().next_multiple_of(UNITS), [0.0; ROW]);
        folded.frame = Some(frame);
    }
}

/// A scorer with a query folded in.
#[derive(Default)]
pub(crate) struct FoldedScorer {
    frame: Option<QueryFrame>,
    rows: Vec<[f32; ROW]>,
}

impl FoldedScorer {
    /// Whether records without a pose have no score.
    pub(crate) fn needs_poses(&self) -> bool {
        self.frame.is_some_and(|frame| frame.posed)
    }
}

/// The inputs of up to [`TILE`] memories as columns, and a buffer for the hidden layer.
pub(crate) struct MetadataTile {
    inputs: [Lanes; INPUTS],
    scores: Lanes,
    hidden: Vec<f32>,
}

/// One column of a tile, aligned for the widest registers.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Lanes([f32; TILE]);

impl Default for MetadataTile {
    fn default() -> Self {
        let zero = Lanes([0.0; TILE]);
        Self { inputs: [zero; INPUTS], scores: zero, hidden: Vec::new() }
    }
}

/// The stored numbers of a run of memories, as slices of equal length.
pub(crate) struct StoredMetadata<'a> {
    pub(crate) times: &'a [f64],
    pub(crate) positions: [&'a [f32]; 3],
    pub(crate) angles: [&'a [f32]; 4],
}

impl FoldedScorer {
    fn frame(&self) -> &QueryFrame {
        self.frame.as_ref().expect("a query was folded in")
    }

    /// Writes a run of memories to `first..` in the tile.
    #[inline(always)]
    pub(crate) fn load(&self, tile: &mut MetadataTile, first: usize, stored: &StoredMetadata<'_>) {
        let frame = self.frame();
        for (axis, column) in stored.positions.iter().enumerate() {
            let target = &mut tile.inputs[axis].0[first..][..column.len()];
            for (target, &coordinate) in target.iter_mut().zip(*column) {
                *target = frame.offset(axis, coordinate);
            }
        }
        for (place, column) in stored.angles.iter().enumerate() {
            tile.inputs[3 + place].0[first..][..column.len()].copy_from_slice(column);
        }
        let target = &mut tile.inputs[9].0[first..][..stored.times.len()];
        for (target, &time) in target.iter_mut().zip(stored.times) {
            *target = frame.gap(time);
        }
    }

    /// Scores the first `count` memories of the tile into `scores`, and prefetches the bytes of
    /// `prefetch` meanwhile.
    #[inline(always)]
    pub(crate) fn score<S: Simd>(
        &self,
        simd: S,
        scorer: &MetadataScorer,
        tile: &mut MetadataTile,
        prefetch: Prefetch<'_>,
        scores: &mut [f32],
    ) {
        let count = scores.len();
        let lanes = S::F32_LANES;
        // Lanes past `count` hold values of an earlier tile; they are computed and ignored.
        let vectors = count.div_ceil(lanes);
        for vector in 0..vectors {
            let x = S::as_simd_f32s(&tile.inputs[0].0).0[vector];
            let y = S::as_simd_f32s(&tile.inputs[1].0).0[vector];
            let z = S::as_simd_f32s(&tile.inputs[2].0).0[vector];
            let gap = S::as_simd_f32s(&tile.inputs[9].0).0[vector];
            let values = self.frame().nonlinear(simd, [x, y, z], gap);
            for (column, value) in tile.inputs[7..].iter_mut().zip(values) {
                S::as_mut_simd_f32s(&mut column.0).0[vector] = value;
            }
        }
        let pairs = vectors.div_ceil(2);
        for pair in 0..pairs {
            let prefetch = prefetch.part(pair, pairs);
            let sums = match scorer.layers.as_slice() {
                [_, output] => self.one_hidden_layer(simd, output.bias[0], tile, pair, prefetch),
                layers => self.two_hidden_layers(simd, layers, tile, pair, prefetch),
            };
            let target = &mut S::as_mut_simd_f32s(&mut tile.scores.0).0[2 * pair..];
            for (target, sum) in target.iter_mut().zip(sums) {
                *target = tanh(simd, sum);
            }
        }
        scores.copy_from_slice(&tile.scores.0[..count]);
    }

    /// [`UNITS`] folded hidden units of one vector of memories.
    #[inline(always)]
    fn units<S: Simd>(
        simd: S,
        rows: &[[f32; ROW]],
        tile: &MetadataTile,
        vector: usize,
    ) -> [S::f32s; UNITS] {
        let mut sums = [simd.splat_f32s(0.0); UNITS];
        for (sum, row) in sums.iter_mut().zip(rows) {
            *sum = simd.splat_f32s(row[INPUTS]);
        }
        for (place, column) in tile.inputs.iter().enumerate() {
            let input = S::as_simd_f32s(&column.0).0[vector];
            for (sum, row) in sums.iter_mut().zip(rows) {
                *sum = simd.mul_add_e_f32s(simd.splat_f32s(row[place]), input, *sum);
            }
        }
        gelu(simd, sums)
    }

    /// The output before its tanh for a pair of vectors of memories.
    #[inline(always)]
    fn one_hidden_layer<S: Simd>(
        &self,
        simd: S,
        bias: f32,
        tile: &MetadataTile,
        pair: usize,
        prefetch: Prefetch<'_>,
    ) -> [S::f32s; 2] {
        let mut sums = [simd.splat_f32s(bias); 2];
        for (member, sum) in sums.iter_mut().enumerate() {
            let prefetch = prefetch.part(member, 2);
            let groups = self.rows.len() / UNITS;
            for (group, rows) in self.rows.chunks_exact(UNITS).enumerate() {
                prefetch.part(group, groups).fetch();
                let values = Self::units(simd, rows, tile, 2 * pair + member);
                for (value, row) in values.into_iter().zip(rows) {
                    let weight = simd.splat_f32s(row[INPUTS + 1]);
                    *sum = simd.mul_add_e_f32s(weight, value, *sum);
                }
            }
        }
        sums
    }

    /// The output before its tanh with two hidden layers; the weights of the second are broadcast
    /// to both vectors of the pair.
    #[inline(always)]
    fn two_hidden_layers<S: Simd>(
        &self,
        simd: S,
        layers: &[Layer],
        tile: &mut MetadataTile,
        pair: usize,
        prefetch: Prefetch<'_>,
    ) -> [S::f32s; 2] {
        let (second, output) = (&layers[1], &layers[2]);
        let width = second.bias.len();
        let mut hidden = std::mem::take(&mut tile.hidden);
        hidden.resize(self.rows.len() * 2 * S::F32_LANES, 0.0);
        let (vectors, _) = S::as_mut_simd_f32s(&mut hidden);
        for (group, rows) in self.rows.chunks_exact(UNITS).enumerate() {
            for member in 0..2 {
                let values = Self::units(simd, rows, tile, 2 * pair + member);
                for (place, value) in values.into_iter().enumerate() {
                    vectors[2 * (group * UNITS + place) + member] = value;
                }
            }
        }
        let mut outputs = [simd.splat_f32s(output.bias[0]); 2];
        let groups = width.div_ceil(UNITS);
        for group in 0..groups {
            prefetch.part(group, groups).fetch();
            let mut rows: [&[f32]; UNITS] = [&[]; UNITS];
            let mut sums = [[simd.splat_f32s(0.0); 2]; UNITS];
            for place in 0..UNITS {
                // A short last group repeats its last unit and ignores the copies.
                let unit = (group * UNITS + place).min(width - 1);
                rows[place] = &second.weight[unit * width..][..width];
                sums[place] = [simd.splat_f32s(second.bias[unit]); 2];
            }
            for (place, hidden) in vectors.chunks_exact(2).take(width).enumerate() {
                for (sums, row) in sums.iter_mut().zip(rows) {
                    let weight = simd.splat_f32s(row[place]);
                    for (sum, value) in sums.iter_mut().zip(hidden) {
                        *sum = simd.mul_add_e_f32s(weight, *value, *sum);
                    }
                }
            }
            for (sums, unit) in sums.into_iter().zip(group * UNITS..width) {
                let weight = simd.splat_f32s(output.weight[unit]);
                for (output, value) in outputs.iter_mut().zip(gelu(simd, sums)) {
                    *output = simd.mul_add_e_f32s(weight, value, *output);
                }
            }
        }
        tile.hidden = hidden;
        outputs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::angle_sines;
    use crate::instruction_set::on_each;
    use proptest::prelude::*;
    use pulp::WithSimd;

    struct Score<'a>(&'a MetadataScorer, &'a RecallQuery, &'a [(f64, Pose)]);

    impl WithSimd for Score<'_> {
        type Output = Vec<f32>;

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> Vec<f32> {
            let mut folded = FoldedScorer::default();
            self.0.fold(self.1, &mut folded);
            let mut tile = MetadataTile::default();
            for (place, (time, pose)) in self.2.iter().enumerate() {
                let (position, angles) = (pose.position, angle_sines(pose));
                let stored = StoredMetadata {
                    times: &[*time],
                    positions: position.each_ref().map(std::slice::from_ref),
                    angles: angles.each_ref().map(std::slice::from_ref),
                };
                folded.load(&mut tile, place, &stored);
            }
            let mut scores = vec![0.0; self.2.len()];
            folded.score(simd, self.0, &mut tile, Prefetch::NONE, &mut scores);
            scores
        }
    }

    fn layer(random: &mut fastrand::Rng, outputs: usize, inputs: usize) -> Layer {
        let bound = 1.5 / (inputs as f32).sqrt();
        let mut numbers = |count| (0..count).map(|_| (2.0 * random.f32() - 1.0) * bound).collect();
        Layer { weight: numbers(outputs * inputs), bias: numbers(outputs) }
    }

    fn pose(random: &mut fastrand::Rng) -> Pose {
        // Ten kilometers from the origin, where naive folding loses digits.
        let position = [1e4 + 20.0 * random.f32(), -1e4 + 20.0 * random.f32(), random.f32()];
        Pose::from_yaw_pitch(position, 6.3 * random.f32(), 3.0 * (random.f32() - 0.5))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn the_folded_network_agrees_with_the_definition(
            seed in any::<u64>(),
            width in 1usize..60,
            hidden in 1usize..3,
            memories in 1usize..TILE,
        ) {
            let random = &mut fastrand::Rng::with_seed(seed);
            let mut layers = vec![layer(random, width, FEATURES)];
            layers.extend((1..hidden).map(|_| layer(random, width, width)));
            layers.push(layer(random, 1, width));
            let scorer = MetadataScorer::new(FeatureScale { length: 4.0, time: 1.5 }, layers);
            let query = RecallQuery::new(1e6, pose(random), pose(random)).with_stride(0.7);
            let records: Vec<(f64, Pose)> =
                (0..memories).map(|_| (1e6 - 3e3 * random.f64(), pose(random))).collect();
            for scores in on_each(|| Score(&scorer, &query, &records)) {
                for ((time, pose), score) in records.iter().zip(scores) {
                    let expected = scorer.score_reference(&query, *time, Some(pose)).expect("posed");
                    prop_assert!((score - expected).abs() < 1e-5, "{} {}", score, expected);
                }
            }
        }
    }
}

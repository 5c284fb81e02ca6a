//! The pass over the searched records: scores of every cue, tile by tile, and their statistics.

use crate::cosine::cosines;
use crate::fusion::CueTerm;
use crate::key::Keys;
use crate::metadata_scorer::{FoldedScorer, MetadataTile, StoredMetadata, TILE};
use crate::prefetch::Prefetch;
use crate::retriever::CueScorer;
use crate::selection::ChunkTopK;
use crate::set_term::SetBuffers;
use crate::standardization::{MISSING, PartStatistics, Statistics};
use crate::worker::{SharedSlice, Workers};
use crate::{BLOCK_RECORDS, BlockView, PoolView, Snapshot};
use pulp::{Arch, Simd, WithSimd};
use std::ops::Range;

/// Tiles per thread from which waking the thread pays off.
const TILES_PER_THREAD: usize = 16;

/// One cue with the query folded in or adapted.
#[derive(Default)]
pub(crate) struct PreparedCue {
    /// Index of a key cue in the memory's schema; `None` for metadata and for a cue without a query.
    pub(crate) index: Option<usize>,
    pub(crate) folded: FoldedScorer,
    /// The adapted query at unit length.
    pub(crate) query: Vec<f32>,
    pub(crate) hidden: Vec<f32>,
}

/// Everything a recall reuses.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) prepared: Vec<PreparedCue>,
    /// Raw scores in pool order, cue after cue.
    pub(crate) raw: Vec<f32>,
    /// Sums of each tile, cue by cue within a tile.
    pub(crate) parts: Vec<PartStatistics>,
    pub(crate) statistics: Vec<Option<Statistics>>,
    pub(crate) weights: Vec<f32>,
    pub(crate) terms: Vec<Option<CueTerm>>,
    pub(crate) selection: ChunkTopK,
    pub(crate) set: SetBuffers,
    threads: Vec<ThreadBuffers>,
    workers: Option<Workers>,
}

/// What one thread reuses.
#[derive(Default)]
struct ThreadBuffers {
    tile: MetadataTile,
    widened: Vec<f32>,
    runs: Vec<Run>,
}

/// Consecutive records of one block within a tile.
#[derive(Clone, Copy)]
struct Run {
    /// Position in the tile.
    place: usize,
    block: usize,
    row: usize,
    length: usize,
}

/// What is scored.
pub(crate) struct RecallPass<'a> {
    pub(crate) scorers: &'a [CueScorer],
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) pool: PoolView<'a>,
}

impl RecallPass<'_> {
    /// Fills the raw scores and the sums of all tiles. Tiles do not depend on the number of threads, so
    /// neither does any bit of the result.
    pub(crate) fn run(&self, threads: usize, buffers: &mut Buffers) {
        let length = self.pool.len();
        let cues = self.scorers.len();
        let tiles = length.div_ceil(TILE);
        let Buffers { prepared, raw, parts, threads: thread_buffers, workers, .. } = buffers;
        raw.resize(cues * length, 0.0);
        parts.resize(cues * tiles, PartStatistics::default());
        let raw = SharedSlice::new(raw);
        let parts = SharedSlice::new(parts);
        let active = threads.min(tiles / TILES_PER_THREAD).max(1);
        let score = |tiles: Range<usize>, buffers: &mut ThreadBuffers| {
            Arch::new().dispatch(ScoreTiles { pass: self, prepared, raw, parts, tiles, buffers });
        };
        if active == 1 {
            thread_buffers.resize_with(1.max(thread_buffers.len()), ThreadBuffers::default);
            return score(0..tiles, &mut thread_buffers[0]);
        }
        // Small pools leave some threads idle rather than starting others.
        if workers.as_ref().is_none_or(|workers| workers.count() != threads) {
            *workers = Some(Workers::new(threads));
        }
        thread_buffers.resize_with(threads.max(thread_buffers.len()), ThreadBuffers::default);
        let thread_buffers = SharedSlice::new(thread_buffers);
        workers.as_mut().expect("made above").run(&|number| {
            if number < active {
                // SAFETY: each thread takes the buffers with its own number.
                let buffers = unsafe { &mut thread_buffers.part(number, 1)[0] };
                score(number * tiles / active..(number + 1) * tiles / active, buffers);
            }
        });
    }

    /// The records `first..first + count` of the pool as runs.
    fn runs(&self, first: usize, count: usize, runs: &mut Vec<Run>) {
        runs.clear();
        let range = self.pool.as_range();
        let mut place = 0;
        while place < count {
            let index = self.pool.id(first + place).index();
            let (block, row) = (index / BLOCK_RECORDS, index % BLOCK_RECORDS);
            let longest = (count - place).min(BLOCK_RECORDS - row);
            let length = if range.is_some() {
                longest
            } else {
                let next =
                    |step: &usize| self.pool.id(first + place + step).index() == index + step;
                (1..longest).take_while(next).count() + 1
            };
            runs.push(Run { place, block, row, length });
            place += length;
        }
    }
}

/// Scores a range of tiles.
struct ScoreTiles<'a, 'b> {
    pass: &'a RecallPass<'a>,
    prepared: &'a [PreparedCue],
    raw: SharedSlice<'a, f32>,
    parts: SharedSlice<'a, PartStatistics>,
    tiles: Range<usize>,
    buffers: &'b mut ThreadBuffers,
}

impl WithSimd for ScoreTiles<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { pass, prepared, raw, parts, tiles, buffers } = self;
        let ThreadBuffers { tile: inputs, widened, runs } = buffers;
        let length = pass.pool.len();
        let cues = pass.scorers.len();
        for tile in tiles {
            let first = tile * TILE;
            let count = TILE.min(length - first);
            pass.runs(first, count, runs);
            // SAFETY: threads have different tiles.
            let parts = unsafe { parts.part(tile * cues, cues) };
            // SAFETY: tiles do not overlap, nor do the scores of different cues.
            let scores = |cue: usize| unsafe { raw.part(cue * length + first, count) };
            // Metadata first: while its network computes, the keys of the same tile are prefetched.
            for (cue, scorer) in pass.scorers.iter().enumerate() {
                let CueScorer::Metadata(scorer) = scorer else { continue };
                let folded = &prepared[cue].folded;
                for run in runs.iter() {
                    let block = pass.snapshot.block(run.block);
                    folded.load(inputs, run.place, &stored_metadata(&block, run));
                }
                let ahead = keys_ahead(pass, prepared, runs);
                folded.score(simd, scorer, inputs, ahead, scores(cue));
                if folded.needs_poses() {
                    mark_unposed(pass.snapshot, runs, scores(cue));
                }
                parts[cue] = PartStatistics::of(simd, scores(cue));
            }
            for (cue, scorer) in pass.scorers.iter().enumerate() {
                let CueScorer::Cosine(_) = scorer else { continue };
                let scores = scores(cue);
                let prepared = &prepared[cue];
                match prepared.index {
                    None => scores.fill(MISSING),
                    Some(index) => {
                        for run in runs.iter() {
                            let scores = &mut scores[run.place..][..run.length];
                            let block = pass.snapshot.block(run.block);
                            let keys = stored_keys(&block, index, run, prepared.query.len());
                            cosines(simd, keys, &prepared.query, widened, scores);
                            mark_missing(&block, index, run, scores);
                        }
                    }
                }
                parts[cue] = PartStatistics::of(simd, scores);
            }
        }
    }
}

#[inline(always)]
fn stored_metadata<'a>(block: &BlockView<'a>, run: &Run) -> StoredMetadata<'a> {
    let rows = run.row..run.row + run.length;
    StoredMetadata {
        times: &block.times()[rows.clone()],
        positions: block.positions().map(|column| &column[rows.clone()]),
        angles: block.angles().map(|column| &column[rows.clone()]),
    }
}

#[inline(always)]
fn stored_keys<'a>(block: &BlockView<'a>, cue: usize, run: &Run, dimension: usize) -> Keys<'a> {
    let keys = block.keys(cue).expect("the cue was checked to be a key cue");
    keys.range(run.row * dimension, (run.row + run.length) * dimension)
}

#[inline(always)]
fn mark_missing(block: &BlockView<'_>, cue: usize, run: &Run, scores: &mut [f32]) {
    if !block.is_complete(cue) {
        for (score, row) in scores.iter_mut().zip(run.row..) {
            if !block.is_present(cue, row) {
                *score = MISSING;
            }
        }
    }
}

/// Records without a pose have no score of a query with one.
#[inline(always)]
fn mark_unposed(snapshot: &Snapshot, runs: &[Run], scores: &mut [f32]) {
    for run in runs {
        let block = snapshot.block(run.block);
        if !block.has_poses() {
            let scores = &mut scores[run.place..][..run.length];
            for (score, row) in scores.iter_mut().zip(run.row..) {
                if block.pose(row).is_none() {
                    *score = MISSING;
                }
            }
        }
    }
}

/// The keys of the first key cue, if the tile is one run.
#[inline(always)]
fn keys_ahead<'a>(pass: &RecallPass<'a>, prepared: &[PreparedCue], runs: &[Run]) -> Prefetch<'a> {
    let cue = prepared.iter().find_map(|cue| Some((cue.index?, cue.query.len())));
    match (runs, cue) {
        ([run], Some((cue, dimension))) => {
            match stored_keys(&pass.snapshot.block(run.block), cue, run, dimension) {
                Keys::F32(keys) => Prefetch::new(keys),
                Keys::F16(keys) => Prefetch::new(keys),
            }
        }
        _ => Prefetch::NONE,
    }
}

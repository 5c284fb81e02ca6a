//! Coverage of the space that the targets see: which of its sample points each memory also sees.

use pulp::{Simd, WithSimd};

use super::point_set::{self, PointSet};
use super::rule::Candidate;
use super::sight::AngularSight;
use super::view::ViewConfig;
use crate::Pose;
use crate::scratch::refill;
use crate::selection::Ranked;

/// The points in view of the targets, and for every candidate the bit set of those it sees.
///
/// Only points in the union U of the targets' views enter any rule, so the candidates are tested
/// against U alone: about a fifth of the ball for one target.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    points: PointSet,
    sights: Vec<AngularSight>,
    target_rows: Vec<u32>,
    rows: Vec<u32>,
    remaining: Vec<u32>,
    counts: Vec<u32>,
    taken: Vec<bool>,
}

impl Coverage {
    /// Marks the points of `ball`, moved to the first target, that the targets see, and which of
    /// these each candidate sees.
    pub(crate) fn survey(
        &mut self,
        ball: &PointSet,
        view: &ViewConfig,
        targets: &[Pose],
        candidates: &[Candidate],
    ) {
        let camera = view.camera();
        let origin = targets[0].position;
        let mark = |set: &PointSet, sights: &[AngularSight], rows: &mut Vec<u32>| {
            refill(rows, sights.len() * set.words(), 0);
            set.mark(sights, rows);
        };
        self.sights.clear();
        self.sights.extend(targets.iter().map(|pose| AngularSight::new(pose, &camera, origin)));
        mark(ball, &self.sights, &mut self.target_rows);
        self.unite_targets(ball.words());
        self.points.keep(ball, &self.remaining);
        mark(&self.points, &self.sights, &mut self.target_rows);

        self.sights.clear();
        let poses = candidates.iter().map(|candidate| &candidate.pose);
        self.sights.extend(poses.map(|pose| AngularSight::new(pose, &camera, origin)));
        mark(&self.points, &self.sights, &mut self.rows);
        self.unite_targets(self.points.words());
        refill(&mut self.taken, self.sights.len(), false);
    }

    /// Number of points in view of the targets, |U|.
    pub(crate) fn total(&self) -> u32 {
        self.points.len() as u32
    }

    /// For each candidate, the number of points of U not yet covered that it sees.
    pub(crate) fn counts(&mut self) -> &[u32] {
        let words = self.points.words();
        refill(&mut self.counts, self.taken.len(), 0);
        pulp::Arch::new().dispatch(Count {
            rows: &self.rows,
            remaining: &self.remaining,
            counts: &mut self.counts[..],
            words,
        });
        &self.counts
    }

    /// Number of points that both a target and a candidate see.
    pub(crate) fn shared_with_target(&self, target: usize, candidate: usize) -> u32 {
        let words = self.points.words();
        let target = &self.target_rows[target * words..(target + 1) * words];
        point_set::count_shared(target, &self.rows[candidate * words..(candidate + 1) * words])
    }

    /// Number of points that a target sees.
    pub(crate) fn target_total(&self, target: usize) -> u32 {
        let words = self.points.words();
        point_set::count(&self.target_rows[target * words..(target + 1) * words])
    }

    /// Marks as uncovered what any target sees, of rows of so many words.
    fn unite_targets(&mut self, words: usize) {
        refill(&mut self.remaining, words, 0);
        for row in self.target_rows.chunks_exact(words.max(1)) {
            point_set::unite(&mut self.remaining, row);
        }
    }

    /// Residual greedy selection: each round takes the free candidate with the greatest |remaining
    /// ∩ V_i| / |remaining| − `penalty[i]` and then removes the points it sees. If nothing remains,
    /// the ratio is 0. Only `admitted` candidates take part; ties go to the more recent.
    pub(crate) fn greedy(
        &mut self,
        penalty: &[f32],
        admitted: impl Fn(usize) -> bool,
        slots: usize,
        picks: &mut Vec<Ranked>,
    ) {
        let words = self.points.words();
        for _ in 0..slots {
            let left = point_set::count(&self.remaining);
            self.counts();
            let mut best: Option<Ranked> = None;
            for (candidate, &count) in self.counts.iter().enumerate() {
                if self.taken[candidate] || !admitted(candidate) {
                    continue;
                }
                let overlap = if left == 0 { 0.0 } else { count as f32 / left as f32 };
                let pick = Ranked { score: overlap - penalty[candidate], position: candidate };
                if best.is_none_or(|best| pick.beats(&best)) {
                    best = Some(pick);
                }
            }
            let Some(pick) = best else { break };
            self.taken[pick.position] = true;
            let row = &self.rows[pick.position * words..(pick.position + 1) * words];
            point_set::subtract(&mut self.remaining, row);
            picks.push(pick);
        }
    }
}

struct Count<'a> {
    rows: &'a [u32],
    remaining: &'a [u32],
    counts: &'a mut [u32],
    words: usize,
}

impl WithSimd for Count<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        if self.words == 0 {
            return;
        }
        for (count, row) in self.counts.iter_mut().zip(self.rows.chunks_exact(self.words)) {
            *count = point_set::count_shared(row, self.remaining);
        }
    }
}

//! The novelty gate: keeps a view only if it shows enough that no kept view shows.

use super::point_set::{self, PointSet};
use super::sight::{FrustumSight, Sight};
use super::view::FrustumConfig;
use crate::scratch::refill;
use crate::{Error, Pose};

/// Decides for one view after the other whether to keep it.
///
/// A view is admitted if the fraction of its frustum's cells that no admitted view sees exceeds the
/// threshold. A writer can use it for a sparse memory; the `spmem` policy runs it over the pool in
/// order of time.
///
/// ```
/// use far_memory::Pose;
/// use far_memory::policy::{FrustumConfig, NoveltyGate};
/// let mut gate = NoveltyGate::new(FrustumConfig::default(), 0.3)?;
/// let view = |yaw: f32| Pose::from_yaw_pitch([0.0; 3], yaw, 0.0);
/// assert!(gate.admit(&view(0.0)));
/// assert!(!gate.admit(&view(0.1)));
/// assert!(gate.admit(&view(3.0)));
/// # Ok::<(), far_memory::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct NoveltyGate {
    frustum: FrustumConfig,
    threshold: f32,
    bank: Vec<FrustumSight>,
    points: PointSet,
    unseen: Vec<u32>,
    seen: Vec<u32>,
}

impl NoveltyGate {
    /// A gate that has admitted nothing yet. `threshold` is a fraction in [0, 1).
    ///
    /// # Errors
    /// [`Error::PolicyOption`] for settings that describe no frustum.
    pub fn new(frustum: FrustumConfig, threshold: f32) -> Result<Self, Error> {
        frustum.check()?;
        Ok(Self { frustum, threshold, ..Default::default() })
    }

    /// Forgets all admitted views and takes other settings; keeps the storage.
    pub(crate) fn reset(&mut self, frustum: &FrustumConfig, threshold: f32) {
        self.frustum.clone_from(frustum);
        self.threshold = threshold;
        self.bank.clear();
    }

    /// Whether the view is new enough; if so, it is admitted.
    pub fn admit(&mut self, pose: &Pose) -> bool {
        let (camera, depths) = (self.frustum.camera(), self.frustum.depths());
        // Cells relative to each view's own eye could not be compared; relative to the world's
        // origin, single precision is exact to millimeters within ten kilometers.
        self.points.clear();
        self.points.push_frustum(pose, &camera, depths, self.frustum.cells, [0.0; 3]);
        self.points.pad();
        let words = self.points.words();
        refill(&mut self.unseen, words, 0);
        self.points.mark(&[Everything], &mut self.unseen);
        refill(&mut self.seen, words, 0);
        let total = self.points.len() as f32;
        // The latest views overlap most, so a view that is not new is found early.
        for sight in self.bank.iter().rev() {
            self.points.mark(std::slice::from_ref(sight), &mut self.seen);
            point_set::subtract(&mut self.unseen, &self.seen);
            if point_set::count(&self.unseen) as f32 <= self.threshold * total {
                return false;
            }
        }
        self.bank.push(FrustumSight::new(pose, &camera, depths, [0.0; 3]));
        true
    }
}

/// Sees every point but not the padding.
#[derive(Clone, Copy)]
struct Everything;

impl Sight for Everything {
    #[inline(always)]
    fn sees(&self, x: f32, _: f32, _: f32) -> bool {
        !x.is_nan()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::poses;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn agrees_with_counting_cell_by_cell(
            views in prop::collection::vec(poses(), 1..12),
            threshold in 0f32..0.9,
        ) {
            let frustum = FrustumConfig { far: 6.0, cells: [4, 3, 5], ..Default::default() };
            let mut gate = NoveltyGate::new(frustum.clone(), threshold).expect("valid");
            let mut bank: Vec<FrustumSight> = Vec::new();
            for pose in &views {
                let mut cells = PointSet::default();
                cells.push_frustum(pose, &frustum.camera(), frustum.depths(), frustum.cells, [0.0; 3]);
                let unseen = (0..cells.len())
                    .filter(|&index| {
                        let [x, y, z] = cells.point(index);
                        bank.iter().all(|sight| !sight.sees(x, y, z))
                    })
                    .count();
                let new = unseen as f32 > threshold * cells.len() as f32;
                prop_assert_eq!(gate.admit(pose), new);
                if new {
                    let depths = frustum.depths();
                    bank.push(FrustumSight::new(pose, &frustum.camera(), depths, [0.0; 3]));
                }
            }
        }
    }
}

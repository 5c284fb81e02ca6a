//! Recall rules behind one trait, one file each.
//!
//! [`PolicyConfig`] makes a policy from its id and settings. `docs/recall-policies.md` has a
//! picture of what each rule selects.

mod assignment;
mod car_closest;
mod context_as_memory;
mod coverage;
mod fov_topk;
mod framepack;
mod i3dm;
mod longlive_rag;
mod matrix_game;
mod mixture_of_contexts;
mod nearest_pose;
mod none;
mod novelty;
mod oracle;
mod point_set;
mod random;
mod registry;
mod requirement;
mod rule;
mod seoul;
mod sight;
mod spatia;
mod spmem;
mod temporal;
#[cfg(test)]
mod testing;
mod view;
mod vrag;
mod vrag_segments;
mod worldmem;
mod worldmem_paper;

pub use car_closest::CarClosestConfig;
pub use context_as_memory::ContextAsMemoryConfig;
pub use fov_topk::FovTopKConfig;
pub use framepack::{FramePackConfig, FramePackOrder};
pub use i3dm::I3dmConfig;
pub use longlive_rag::LongLiveRagConfig;
pub use matrix_game::MatrixGameConfig;
pub use mixture_of_contexts::MixtureOfContextsConfig;
pub use nearest_pose::NearestPoseConfig;
pub use none::NoneConfig;
pub use novelty::NoveltyGate;
pub use oracle::OracleConfig;
pub use random::RandomConfig;
pub use registry::{FarConfig, PolicyConfig, RuleConfig};
pub use requirement::{KeyCues, Requirements};
pub use seoul::SeoulConfig;
pub use spatia::SpatiaConfig;
pub use spmem::SpMemConfig;
pub use temporal::TemporalConfig;
pub use view::{FrustumConfig, ViewConfig};
pub use vrag::VragConfig;
pub use vrag_segments::VragSegmentsConfig;
pub use worldmem::WorldMemConfig;
pub use worldmem_paper::WorldMemPaperConfig;

use crate::{Error, Recall, RecallQuery, Scratch, Snapshot};

/// A rule that selects memories to recall.
///
/// All rules see the same snapshot, pool and seed, are deterministic, and neither read nor return a
/// record outside the pool. They return fewer than `slots` memories if the pool or the rule has no
/// more.
pub trait RecallPolicy: Send + Sync {
    /// The id of the rule, as on the command line.
    fn id(&self) -> &str;

    /// What the rule reads: the recall is the same whatever stands in everything else.
    fn requirements(&self) -> Requirements;

    /// What it recalls, in a few words for tables and legends; empty if there is no description.
    fn summary(&self) -> String {
        String::new()
    }

    /// Whether it was trained, or is a rule made by hand.
    fn is_learned(&self) -> bool {
        false
    }

    /// Whether it leaves slots empty where nothing would help.
    fn abstains(&self) -> bool {
        false
    }

    /// Fills `recall` with up to `slots` memories. Allocates nothing once `scratch` and `recall`
    /// have grown to the size of the pool.
    ///
    /// # Errors
    /// [`Error::Query`] and others if the query does not fit the snapshot; see
    /// [`RecallQuery::check`] and [`Snapshot::pool`].
    fn recall(
        &self,
        snapshot: &Snapshot,
        query: &RecallQuery,
        slots: usize,
        scratch: &mut Scratch,
        recall: &mut Recall,
    ) -> Result<(), Error>;
}

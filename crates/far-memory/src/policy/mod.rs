//! Recall rules behind one trait, one file each.

use crate::{Error, Recall, RecallQuery, Scratch, Snapshot};

/// A rule that chooses which memories to recall.
///
/// All rules see the same snapshot, pool and seed, are deterministic, and neither read nor return
/// a record outside the pool. Fewer than `slots` memories come back when the pool or the rule has
/// no more to give.
pub trait RecallPolicy: Send + Sync {
    /// The name of the rule, as written on the command line.
    fn id(&self) -> &str;

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

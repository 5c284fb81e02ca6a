//! Recall for many queries at once.

use crate::Result;
use far_memory::{Recall, RecallPolicy, RecallQuery, Scratch, Snapshot};
use rayon::prelude::*;

/// What a policy recalls for each query, from the memory beside it, on all threads.
///
/// # Errors
/// If it refuses one.
pub fn recall_all(
    policy: &dyn RecallPolicy,
    queries: &[(&Snapshot, &RecallQuery)],
    slots: usize,
) -> Result<Vec<Recall>> {
    queries
        .par_iter()
        .map_init(Scratch::new, |scratch, (memory, query)| {
            let mut recall = Recall::new();
            policy.recall(memory, query, slots, scratch, &mut recall)?;
            Ok(recall)
        })
        .collect()
}

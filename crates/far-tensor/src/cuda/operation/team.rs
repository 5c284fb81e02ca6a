//! How many threads work on one row.

use crate::cuda::Launch;

/// Threads of a block.
const THREADS: usize = 256;
/// Rows longer than this get a block of their own.
const WARP_WIDTH: usize = 1024;

/// A team of threads for each row: one thread, a warp, or a block.
pub(super) struct Team {
    /// Threads per row, as kernels are told.
    pub size: i32,
    /// The launch of all teams.
    pub launch: Launch,
}

impl Team {
    fn new(rows: usize, size: usize) -> Self {
        let launch = Launch::blocks(rows.div_ceil(THREADS / size), THREADS);
        Self { size: size as i32, launch }
    }

    /// Teams for rows of neighbors.
    pub(super) fn of_rows(rows: usize, width: usize) -> Self {
        Self::new(rows, if width <= WARP_WIDTH { 32 } else { THREADS })
    }

    /// Teams for groups of `extent` elements that lie `inner` apart: where neighboring groups lie side
    /// by side, one thread each reads them together.
    pub(super) fn of_groups(groups: usize, extent: usize, inner: usize) -> Self {
        if inner < 32 { Self::of_rows(groups, extent) } else { Self::new(groups, 1) }
    }
}

//! The extent of a tensor along each axis.

use std::fmt;

/// Largest number of axes of a tensor.
pub const MAXIMUM_RANK: usize = 6;

/// Extents of a contiguous row-major tensor, outermost axis first; a scalar has none.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    extents: [usize; MAXIMUM_RANK],
    rank: usize,
}

impl Shape {
    /// A shape from its extents.
    ///
    /// # Panics
    /// If there are more than [`MAXIMUM_RANK`] of them, which is a bug in the caller's code.
    pub fn new(extents: &[usize]) -> Self {
        assert!(extents.len() <= MAXIMUM_RANK, "a tensor has at most {MAXIMUM_RANK} axes");
        let mut padded = [1; MAXIMUM_RANK];
        padded[..extents.len()].copy_from_slice(extents);
        Self { extents: padded, rank: extents.len() }
    }

    /// The extents, outermost first.
    pub fn extents(&self) -> &[usize] {
        &self.extents[..self.rank]
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.extents().iter().product()
    }

    /// The extent of the innermost axis; 1 for a scalar.
    pub fn last(&self) -> usize {
        self.extents().last().copied().unwrap_or(1)
    }

    /// How many rows of [`Shape::last`] elements there are.
    pub fn rows(&self) -> usize {
        self.extents()[..self.rank.saturating_sub(1)].iter().product()
    }

    /// This shape with another innermost extent.
    pub fn with_last(&self, last: usize) -> Self {
        let mut changed = *self;
        if changed.rank == 0 {
            return Self::new(&[last]);
        }
        changed.extents[changed.rank - 1] = last;
        changed
    }

    /// The extents before, at and after `axis`, each group multiplied together.
    pub fn around(&self, axis: usize) -> (usize, usize, usize) {
        let extents = self.extents();
        (extents[..axis].iter().product(), extents[axis], extents[axis + 1..].iter().product())
    }
}

impl From<&[usize]> for Shape {
    fn from(extents: &[usize]) -> Self {
        Self::new(extents)
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(extents: [usize; N]) -> Self {
        Self::new(&extents)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.extents())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

//! Which records a recall may search.

use crate::{Error, MemoryId};
use std::ops::Range;
use std::sync::Arc;

/// The records a recall may search. Pool order is the order of ids, oldest first, and chunks are
/// counted over it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pool {
    /// Everything in the snapshot.
    #[default]
    All,
    /// The records with indices in this range, which must end within the snapshot.
    Range(Range<usize>),
    /// These records, in strictly ascending order. [`Pool::ids`] makes a valid list.
    Ids(Arc<[MemoryId]>),
}

impl Pool {
    /// A pool of these records in any order; repeated ids count once.
    pub fn ids(ids: impl IntoIterator<Item = MemoryId>) -> Self {
        let mut ids: Vec<_> = ids.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        Self::Ids(ids.into())
    }
}

/// A pool checked against a snapshot: positions `0..len` in pool order.
///
/// A capped pool has evenly spaced records, from the oldest: position `j` of `c` is record
/// `⌊j·n/c⌋` of the `n` in the pool.
///
/// ```
/// use far_memory::{Pool, PoolView};
/// let view = PoolView::new(&Pool::Range(10..20), Some(4), 100)?;
/// let ids: Vec<u64> = view.iter().map(|id| id.0).collect();
/// assert_eq!(ids, [10, 12, 15, 17]);
/// # Ok::<(), far_memory::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolView<'a> {
    source: Source<'a>,
    /// Records before the cap.
    size: usize,
    length: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source<'a> {
    From(usize),
    Ids(&'a [MemoryId]),
}

impl<'a> PoolView<'a> {
    /// Checks a pool against a snapshot of `snapshot_length` records and caps it.
    ///
    /// # Errors
    /// [`Error::OutsideSnapshot`] if it contains a record beyond the snapshot, [`Error::PoolOrder`]
    /// if a list of ids does not ascend, [`Error::Query`] if a range ends before it starts.
    pub fn new(pool: &'a Pool, cap: Option<usize>, snapshot_length: usize) -> Result<Self, Error> {
        let outside = |id: usize| {
            Err(Error::OutsideSnapshot { id: id as u64, length: snapshot_length as u64 })
        };
        let (source, size) = match pool {
            Pool::All => (Source::From(0), snapshot_length),
            Pool::Range(range) if range.start > range.end => {
                let reason = format!("pool range {}..{} runs backward", range.start, range.end);
                return Err(Error::Query { reason });
            }
            Pool::Range(range) if range.end > snapshot_length => return outside(range.end - 1),
            Pool::Range(range) => (Source::From(range.start), range.len()),
            Pool::Ids(ids) => {
                if let Some(place) = ids.windows(2).position(|pair| pair[0] >= pair[1]) {
                    return Err(Error::PoolOrder {
                        position: place + 1,
                        previous: ids[place].0,
                        next: ids[place + 1].0,
                    });
                }
                match ids.last() {
                    Some(last) if last.index() >= snapshot_length => return outside(last.index()),
                    _ => (Source::Ids(ids), ids.len()),
                }
            }
        };
        Ok(Self { source, size, length: cap.map_or(size, |cap| cap.min(size)) })
    }

    /// How many records are searched.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is nothing to search.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The record at a position in pool order.
    ///
    /// # Panics
    /// If the position is not below [`len`](Self::len).
    #[inline]
    pub fn id(&self, position: usize) -> MemoryId {
        assert!(position < self.length, "position within the pool");
        let place = if self.length == self.size {
            position
        } else {
            // 128 bits: the product of two lengths may exceed 64.
            (position as u128 * self.size as u128 / self.length as u128) as usize
        };
        match self.source {
            Source::From(start) => MemoryId::from(start + place),
            Source::Ids(ids) => ids[place],
        }
    }

    /// The pool as one run of consecutive indices, if it is one.
    pub fn as_range(&self) -> Option<Range<usize>> {
        match self.source {
            _ if self.length == 0 => Some(0..0),
            Source::From(start) if self.length == self.size => Some(start..start + self.size),
            _ => {
                let (first, last) = (self.id(0).index(), self.id(self.length - 1).index());
                (last - first + 1 == self.length).then_some(first..last + 1)
            }
        }
    }

    /// The records in pool order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = MemoryId> + ExactSizeIterator {
        let view = *self;
        (0..self.length).map(move |position| view.id(position))
    }
}

//! What goes into a memory: one observation with its time, pose, keys and payload.

use crate::Pose;
use std::fmt;

/// The id of a record: its position in append order, from 0. It never changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryId(pub u64);

impl MemoryId {
    /// The id as an index into a snapshot.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl From<usize> for MemoryId {
    fn from(index: usize) -> Self {
        Self(index as u64)
    }
}

impl fmt::Display for MemoryId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What the caller stores with a record. The memory never interprets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Payload<'a> {
    /// Nothing.
    #[default]
    None,
    /// The bytes themselves, for example a compressed frame or a latent.
    Bytes(&'a [u8]),
    /// Where the bytes are, for example a path and a frame number.
    Reference(&'a str),
}

impl<'a> Payload<'a> {
    /// The bytes, if it holds some.
    pub fn bytes(self) -> Option<&'a [u8]> {
        if let Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    /// The reference, if it is one.
    pub fn reference(self) -> Option<&'a str> {
        if let Self::Reference(reference) = self { Some(reference) } else { None }
    }

    /// How many bytes it takes.
    pub(crate) fn len(self) -> usize {
        self.bytes().or(self.reference().map(str::as_bytes)).map_or(0, <[u8]>::len)
    }
}

/// One observation to append. It borrows its parts; appending copies them.
///
/// ```
/// use far_memory::{Observation, Pose};
/// let frame = [0u8; 16];
/// let observation = Observation::new(0.2, Pose::identity())
///     .with_key("vision", &[0.6, 0.8])
///     .with_bytes(&frame);
/// assert_eq!(observation.keys.len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Observation<'a> {
    /// Seconds since any fixed moment, on the same clock for all records and queries.
    pub time: f64,
    /// The camera's pose, where it is known.
    pub pose: Option<Pose>,
    /// Keys by cue name; cues left out are missing for this record. A key may have any length but
    /// zero: it is stored at unit length.
    pub keys: Vec<(&'a str, &'a [f32])>,
    /// What the caller stores with the record.
    pub payload: Payload<'a>,
}

impl<'a> Observation<'a> {
    /// An observation without keys and payload; `None` if its pose is unknown.
    pub fn new(time: f64, pose: impl Into<Option<Pose>>) -> Self {
        Self { time, pose: pose.into(), keys: Vec::new(), payload: Payload::None }
    }

    /// Adds the key of one cue.
    pub fn with_key(mut self, cue: &'a str, key: &'a [f32]) -> Self {
        self.keys.push((cue, key));
        self
    }

    /// Sets the payload to these bytes.
    pub fn with_bytes(mut self, bytes: &'a [u8]) -> Self {
        self.payload = Payload::Bytes(bytes);
        self
    }

    /// Sets the payload to a reference to bytes stored elsewhere.
    pub fn with_reference(mut self, reference: &'a str) -> Self {
        self.payload = Payload::Reference(reference);
        self
    }
}

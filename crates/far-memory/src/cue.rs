//! Cues: the named signals by which memories are recalled.

use crate::Error;
use serde::{Deserialize, Serialize};

/// How key values are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyPrecision {
    /// 32-bit floats: exact.
    #[default]
    F32,
    /// 16-bit floats: half the bytes, cosines within about 1e-3.
    F16,
}

impl KeyPrecision {
    /// Bytes of one number.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
        }
    }
}

/// What a cue compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CueKind {
    /// Time, which every record has, and pose.
    Metadata,
    /// An embedding, compared by cosine. Keys are stored at unit length.
    Key {
        /// Numbers per key.
        dimension: usize,
        /// How each number is stored.
        precision: KeyPrecision,
    },
}

/// One named signal by which memories are recalled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cue {
    /// Name, unique within a schema; by convention `meta`, `vision`, `audio`, `agent`.
    pub name: String,
    /// What it compares.
    pub kind: CueKind,
}

impl Cue {
    /// The metadata cue: time and pose.
    pub fn metadata(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: CueKind::Metadata }
    }

    /// A cue of embeddings with `dimension` 32-bit numbers each.
    pub fn key(name: impl Into<String>, dimension: usize) -> Self {
        let kind = CueKind::Key { dimension, precision: KeyPrecision::F32 };
        Self { name: name.into(), kind }
    }

    /// A cue of embeddings with `dimension` 16-bit numbers each.
    pub fn half_key(name: impl Into<String>, dimension: usize) -> Self {
        let kind = CueKind::Key { dimension, precision: KeyPrecision::F16 };
        Self { name: name.into(), kind }
    }
}

/// The cues of a memory, in a fixed order. A cue's position is its index everywhere.
///
/// ```
/// use far_memory::{Cue, Schema};
/// let schema = Schema::new(vec![Cue::metadata("meta"), Cue::key("vision", 256)])?;
/// assert_eq!(schema.index("vision")?, 1);
/// assert!(schema.index("smell").is_err());
/// # Ok::<(), far_memory::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schema {
    cues: Vec<Cue>,
}

impl Schema {
    /// A schema of these cues.
    ///
    /// # Errors
    /// [`Error::Schema`] for an empty or repeated name or a key of dimension 0.
    pub fn new(cues: Vec<Cue>) -> Result<Self, Error> {
        for (index, cue) in cues.iter().enumerate() {
            let refuse = |reason: &str| {
                Err(Error::Schema { name: cue.name.clone(), reason: reason.to_owned() })
            };
            if cue.name.is_empty() {
                return refuse("its name is empty");
            }
            if cues[..index].iter().any(|earlier| earlier.name == cue.name) {
                return refuse("its name is taken by an earlier cue");
            }
            if matches!(cue.kind, CueKind::Key { dimension: 0, .. }) {
                return refuse("its keys have dimension 0");
            }
        }
        Ok(Self { cues })
    }

    /// The cues in order.
    pub fn cues(&self) -> &[Cue] {
        &self.cues
    }

    /// The index of the cue with this name.
    ///
    /// # Errors
    /// [`Error::UnknownCue`] if there is none.
    pub fn index(&self, name: &str) -> Result<usize, Error> {
        self.cues.iter().position(|cue| cue.name == name).ok_or_else(|| Error::UnknownCue {
            name: name.to_owned(),
            known: self.cues.iter().map(|cue| cue.name.clone()).collect(),
        })
    }

    /// The key cues as (index in the schema, name, dimension, precision), in order.
    pub fn keys(&self) -> impl Iterator<Item = (usize, &str, usize, KeyPrecision)> {
        self.cues.iter().enumerate().filter_map(|(index, cue)| match cue.kind {
            CueKind::Metadata => None,
            CueKind::Key { dimension, precision } => {
                Some((index, cue.name.as_str(), dimension, precision))
            }
        })
    }
}

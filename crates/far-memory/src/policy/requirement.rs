//! What a rule reads of memories and queries, so that nobody needs to know rules by name.

/// The key cues that a rule compares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeyCues {
    /// None.
    #[default]
    None,
    /// The memory's first key cue, whatever it is called.
    First,
    /// Those with these names.
    Named(Vec<String>),
}

impl KeyCues {
    /// The cue that a setting names, or the first.
    pub(crate) fn setting(cue: Option<&String>) -> Self {
        cue.map_or(Self::First, |cue| Self::Named(vec![cue.clone()]))
    }
}

/// What a rule needs besides the times of memories and of the query, which all have. A rule gives the
/// same whatever stands in what it does not need; the conformance suite holds it to that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// Poses of memories, of the present or of the goal.
    pub poses: bool,
    /// What a camera sees from a pose: the field of view and how far it reaches.
    pub views: bool,
    /// Keys of memories.
    pub keys: KeyCues,
}

impl Requirements {
    /// Poses alone.
    pub fn poses() -> Self {
        Self { poses: true, ..Self::default() }
    }

    /// Poses and what is seen from them.
    pub fn views() -> Self {
        Self { poses: true, views: true, ..Self::default() }
    }

    /// Keys alone.
    pub fn keys(keys: KeyCues) -> Self {
        Self { keys, ..Self::default() }
    }
}

//! What can go wrong in the memory, by what the caller can do about it.

/// Every failure of this crate, with the values that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A cue list that no memory can have: an empty or repeated name, or a key without numbers.
    #[error("cue {name:?} cannot be part of a schema: {reason}")]
    Schema {
        /// Name of the refused cue.
        name: String,
        /// What is wrong with it.
        reason: String,
    },

    /// A cue that the memory, the query or the retriever does not have.
    #[error("no cue named {name:?} (there are: {})", known.join(", "))]
    UnknownCue {
        /// The name that was asked for.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },

    /// An embedding whose length is not its cue's dimension.
    #[error("cue {cue:?} has keys of dimension {expected}, but {found} numbers were given")]
    Dimension {
        /// Name of the cue.
        cue: String,
        /// Dimension in the schema.
        expected: usize,
        /// Numbers given.
        found: usize,
    },

    /// An observation that cannot be stored, for instance because its pose is not finite.
    #[error("the observation at time {time} cannot be stored: {reason}")]
    Observation {
        /// Time of the observation in seconds.
        time: f64,
        /// What is wrong with it.
        reason: String,
    },

    /// A query that cannot be answered, for instance because its pose is not finite.
    #[error("the query cannot be answered: {reason}")]
    Query {
        /// What is wrong with it.
        reason: String,
    },

    /// A pool that names a record the snapshot does not have.
    #[error("the pool names memory {id}, but the snapshot ends at {length}")]
    OutsideSnapshot {
        /// The first id out of range.
        id: u64,
        /// Records in the snapshot.
        length: u64,
    },

    /// A list of ids that is not strictly ascending.
    #[error("pool ids must ascend, but {next} follows {previous} at position {position}")]
    PoolOrder {
        /// Position of the second id in the list.
        position: usize,
        /// The id before it.
        previous: u64,
        /// The id that does not ascend.
        next: u64,
    },

    /// Columns handed in as a block that do not fit each other or the schema.
    #[error("these columns do not make a block: {reason}")]
    Block {
        /// What does not fit.
        reason: String,
    },
}

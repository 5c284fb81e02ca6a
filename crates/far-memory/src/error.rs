//! Errors of the memory, grouped by what the caller can do about them.

/// Every error of this crate, with the offending values.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An invalid list of cues: an empty or repeated name, or a key of dimension 0.
    #[error("cue {name:?} cannot be part of a schema: {reason}")]
    Schema {
        /// Name of the rejected cue.
        name: String,
        /// What is wrong with it.
        reason: String,
    },

    /// A cue that is missing in the memory, the query or the retriever.
    #[error("no cue named {name:?} (there are: {})", known.join(", "))]
    UnknownCue {
        /// The requested name.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },

    /// An embedding whose length differs from its cue's dimension.
    #[error("cue {cue:?} has keys of dimension {expected}, but {found} numbers were given")]
    Dimension {
        /// Name of the cue.
        cue: String,
        /// Dimension in the schema.
        expected: usize,
        /// Numbers given.
        found: usize,
    },

    /// An observation that cannot be stored, for example because its pose is not finite.
    #[error("the observation at time {time} cannot be stored: {reason}")]
    Observation {
        /// Time of the observation in seconds.
        time: f64,
        /// What is wrong with it.
        reason: String,
    },

    /// A query that cannot be answered, for example because its pose is not finite.
    #[error("the query cannot be answered: {reason}")]
    Query {
        /// What is wrong with it.
        reason: String,
    },

    /// A pool with a record that the snapshot does not have.
    #[error("the pool contains memory {id}, but the snapshot ends at {length}")]
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

    /// Columns that do not match each other or the schema.
    #[error("these columns do not make a block: {reason}")]
    Block {
        /// What does not fit.
        reason: String,
    },

    /// A snapshot with other cues than the memory that should go back to it. Fork the snapshot instead.
    #[error("the snapshot has the cues {found}, not {expected}")]
    SnapshotSchema {
        /// Cues of the snapshot.
        found: String,
        /// Cues of the memory.
        expected: String,
    },

    /// A disk operation failed. A writer stops; readers may try again.
    #[error("cannot {operation} {file}")]
    Disk {
        /// The operation.
        operation: &'static str,
        /// The file.
        file: String,
        /// Why it failed.
        source: std::io::Error,
    },

    /// A file of a store differs from what was written. Restore it from a backup.
    #[error("{file} is damaged at byte {offset}: {reason}")]
    Corrupt {
        /// The damaged file.
        file: String,
        /// Where the damage was detected, or the start of the range that contains it.
        offset: u64,
        /// What was found.
        reason: String,
    },

    /// The folder contains no store.
    #[error("there is no memory store in {path}")]
    NoStore {
        /// The folder.
        path: String,
    },

    /// There is a store where a new one should be written. Choose another folder.
    #[error("there is a memory store in {path} already")]
    StoreExists {
        /// The folder.
        path: String,
    },

    /// Another writer has the store open. Wait for it, or read with a reader.
    #[error("{store} is already open for writing (by {holder})")]
    Locked {
        /// The store.
        store: String,
        /// The process that holds it, if known.
        holder: String,
    },

    /// The store was written by another version of this program.
    #[error("{file} has version {found}, but this program reads version {supported}")]
    StoreVersion {
        /// The manifest.
        file: String,
        /// Version of the store.
        found: u32,
        /// Version that can be read.
        supported: u32,
    },

    /// The store has other cues than expected.
    #[error("{store} has the cues {found}, not {expected}")]
    StoreSchema {
        /// The store.
        store: String,
        /// Its cues.
        found: String,
        /// The expected cues.
        expected: String,
    },

    /// The store stopped after a failure, and its last writes may be lost. Open it again to
    /// continue after the durable records.
    #[error("{store} stopped with {durable} durable records: {cause}")]
    Stopped {
        /// The store.
        store: String,
        /// Durable records.
        durable: u64,
        /// The failure.
        cause: String,
    },

    /// An unknown policy id.
    #[error("no recall policy named {id:?} (there are: {})", known.join(", "))]
    UnknownPolicy {
        /// The requested id.
        id: String,
        /// The ids that exist.
        known: Vec<String>,
    },

    /// A setting of a policy that is out of range.
    #[error("the policy option {option} is {value}, but must be {wanted}")]
    PolicyOption {
        /// Name of the setting.
        option: String,
        /// Its value.
        value: String,
        /// What it must be.
        wanted: String,
    },

    /// A retriever file, configuration or parameter set that cannot be used.
    #[error("this retriever cannot be used: {reason}")]
    Retriever {
        /// What is missing, unexpected or damaged.
        reason: String,
    },

    /// A retriever file of another version.
    #[error("the retriever file has version {found}, this program reads version {supported}")]
    RetrieverVersion {
        /// Version in the file.
        found: u32,
        /// Version that is understood.
        supported: u32,
    },
}

//! The memory on disk: records acknowledged by [`Store::sync`] survive a kill and a power cut.
//!
//! A store is a folder. Records go into the active log; when it is full it is sealed into a plain
//! Arrow IPC file, and the manifest, replaced atomically, lists the valid files. One [`Store`]
//! writes; any number of [`StoreReader`]s, in this and other processes, take snapshots meanwhile.
//!
//! | file of this module | holds |
//! |---|---|
//! | `disk.rs` | the disk operations in use, and the real disk |
//! | `frame.rs`, `log.rs` | the bytes of the log; reading, recovering and appending it |
//! | `record_batch.rs`, `segment.rs` | records as Arrow columns; from columns to blocks of a memory |
//! | `checksum.rs`, `sealed.rs` | hash and checksums of a file; writing and mapping sealed files |
//! | `manifest.rs`, `folder.rs` | the list of valid files; opening, locking, creating and cleaning the folder |
//! | `writer.rs`, `reader.rs`, `verification.rs` | the public interface |
//!
//! ```
//! use far_memory::store::{Store, StoreReader};
//! use far_memory::{Cue, Observation, Pose, Schema};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("robot.memory");
//! let schema = Schema::new(vec![Cue::metadata("meta"), Cue::key("vision", 2)])?;
//! let mut store = Store::open_or_create(&path, &schema)?;
//! store.append(&Observation::new(0.0, Pose::identity()).with_key("vision", &[0.6, 0.8]))?;
//! assert_eq!(store.sync()?, 1); // one record is durable now
//! drop(store);
//!
//! let snapshot = StoreReader::open(&path)?.snapshot()?;
//! assert_eq!(snapshot.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod checksum;
mod disk;
mod export;
mod folder;
mod frame;
mod log;
mod manifest;
mod reader;
mod record_batch;
mod sealed;
mod segment;
mod verification;
mod writer;

pub use disk::{Disk, DiskFile, LocalDisk};
pub use export::write_arrow;
pub use reader::{StoreReader, StoreStatus};
pub use verification::{FileCheck, Verification, verify, verify_disk};
pub use writer::{MAX_PAYLOAD, Recovery, Store, StoreOptions};

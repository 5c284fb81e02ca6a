//! A run of up to 65,536 records as columns.

use crate::column::Column;
use crate::key::{KeyColumn, Keys};
use crate::payload::{PayloadSource, Payloads};
use crate::{CueKind, Error, Payload, Pose, Schema};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Records in a full block.
pub const BLOCK_RECORDS: usize = 65_536;

/// The columns of a run of records. Rows below a snapshot's length never change.
pub struct Block {
    capacity: usize,
    times: Column<f64>,
    positions: [Column<f32>; 3],
    /// Zeros, which are no rotation, where a record has no pose.
    rotations: Column<[f32; 4]>,
    /// Whether some record has no pose.
    lacks_pose: AtomicBool,
    /// Sine and cosine of yaw, sine and cosine of pitch: what scoring needs, computed once.
    angles: [Column<f32>; 4],
    /// By cue index; `None` for the metadata cue.
    keys: Vec<Option<KeyColumn>>,
    pub(crate) payloads: Payloads,
}

/// Loaded or mapped columns that become a [`Block`].
pub struct BlockParts<'a> {
    /// Time of each record in seconds.
    pub times: &'a [f64],
    /// Pose of each record, where it is known.
    pub poses: &'a [Option<Pose>],
    /// One column for each key cue, in schema order.
    pub keys: Vec<KeyColumn>,
    /// Where the payloads are, if there are any.
    pub payloads: Option<Arc<dyn PayloadSource>>,
}

impl Block {
    /// An empty block with room for `capacity` records.
    pub(crate) fn zeroed(schema: &Schema, capacity: usize) -> Self {
        let keys = schema.cues().iter().map(|cue| match cue.kind {
            CueKind::Metadata => None,
            CueKind::Key { dimension, precision } => {
                Some(KeyColumn::zeroed(precision, dimension, capacity))
            }
        });
        Self {
            capacity,
            times: Column::zeroed(capacity),
            positions: std::array::from_fn(|_| Column::zeroed(capacity)),
            rotations: Column::zeroed(capacity),
            lacks_pose: AtomicBool::new(false),
            angles: std::array::from_fn(|_| Column::zeroed(capacity)),
            keys: keys.collect(),
            payloads: Payloads::empty(capacity),
        }
    }

    /// A block from loaded or mapped columns. Time and pose are copied; keys and payloads stay
    /// where they are.
    ///
    /// # Errors
    /// [`Error::Block`] if the columns differ in length or do not fit the schema,
    /// [`Error::Observation`] for a time or pose that is not finite.
    pub fn from_parts(schema: &Schema, parts: BlockParts<'_>) -> Result<Self, Error> {
        let rows = parts.times.len();
        let refuse = |reason: String| Err(Error::Block { reason });
        if rows > BLOCK_RECORDS {
            return refuse(format!("{rows} records exceed {BLOCK_RECORDS}"));
        }
        if parts.poses.len() != rows {
            return refuse(format!("{rows} times but {} poses", parts.poses.len()));
        }
        let expected = schema.keys().count();
        if parts.keys.len() != expected {
            return refuse(format!("{} key columns for {expected} key cues", parts.keys.len()));
        }
        for ((_, name, dimension, precision), column) in schema.keys().zip(&parts.keys) {
            let found = (column.rows(), column.dimension(), column.precision());
            if found != (rows, dimension, precision) {
                return refuse(format!(
                    "cue {name:?} needs {rows} keys of dimension {dimension} ({precision:?}), \
                     but there are {} of {} ({:?})",
                    found.0, found.1, found.2
                ));
            }
        }
        let mut block = Self::zeroed(&Schema::new(Vec::new())?, rows);
        for (row, (&time, pose)) in parts.times.iter().zip(parts.poses).enumerate() {
            check(time, pose.as_ref())?;
            // SAFETY: the block was made here; there is no other reference to it.
            unsafe { block.write_metadata(row, time, pose.as_ref()) };
        }
        let mut columns = parts.keys.into_iter();
        block.keys = (schema.cues().iter())
            .map(|cue| match cue.kind {
                CueKind::Metadata => None,
                CueKind::Key { .. } => columns.next(),
            })
            .collect();
        if let Some(source) = parts.payloads {
            block.payloads = Payloads::lent(source, rows);
        }
        Ok(block)
    }

    /// A block with room for `capacity` records and a copy of the first `length` of this one.
    ///
    /// # Safety
    /// The first `length` rows are published.
    pub(crate) unsafe fn grown(&self, schema: &Schema, length: usize, capacity: usize) -> Self {
        let mut block = Self::zeroed(schema, capacity);
        // SAFETY: the caller guarantees that the source rows are published; the target is new.
        unsafe {
            block.times.write(0, self.times.read(length));
            block.rotations.write(0, self.rotations.read(length));
            for (target, source) in block.positions.iter().zip(&self.positions) {
                target.write(0, source.read(length));
            }
            for (target, source) in block.angles.iter().zip(&self.angles) {
                target.write(0, source.read(length));
            }
            for (target, source) in block.keys.iter().flatten().zip(self.keys.iter().flatten()) {
                source.copy_to(target, length);
            }
        }
        block.lacks_pose = AtomicBool::new(self.lacks_pose.load(Ordering::Relaxed));
        block.payloads = self.payloads.grown(length, capacity);
        block.capacity = capacity;
        block
    }

    /// Records the block has room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Writes time, pose and the angles derived from it; zeros for a pose that is not known.
    ///
    /// # Safety
    /// The row is not published, the columns are owned, and this is the only writer.
    pub(crate) unsafe fn write_metadata(&self, row: usize, time: f64, pose: Option<&Pose>) {
        let unknown = Pose { position: [0.0; 3], rotation: [0.0; 4] };
        let (pose, angles) = pose.map_or((&unknown, [0.0; 4]), |pose| (pose, angle_sines(pose)));
        if *pose == unknown {
            // Readers see it no later than the row, which is published after this.
            self.lacks_pose.store(true, Ordering::Relaxed);
        }
        // SAFETY: guaranteed by the caller.
        unsafe {
            self.times.write(row, &[time]);
            self.rotations.write(row, &[pose.rotation]);
            for (column, value) in self.positions.iter().zip(pose.position) {
                column.write(row, &[value]);
            }
            for (column, value) in self.angles.iter().zip(angles) {
                column.write(row, &[value]);
            }
        }
    }

    /// The key column of a cue; `None` for the metadata cue.
    pub(crate) fn key_column(&self, cue: usize) -> Option<&KeyColumn> {
        self.keys.get(cue)?.as_ref()
    }
}

/// Sine and cosine of yaw, then of pitch.
pub(crate) fn angle_sines(pose: &Pose) -> [f32; 4] {
    let (sin_yaw, cos_yaw) = pose.yaw().sin_cos();
    let (sin_pitch, cos_pitch) = pose.pitch().sin_cos();
    [sin_yaw, cos_yaw, sin_pitch, cos_pitch]
}

/// Rejects a time or pose that would corrupt every later score.
pub(crate) fn check(time: f64, pose: Option<&Pose>) -> Result<(), Error> {
    let refuse = |reason: &str| Err(Error::Observation { time, reason: reason.to_owned() });
    if !time.is_finite() {
        return refuse("its time is not finite");
    }
    if pose.is_some_and(|pose| !pose.is_valid()) {
        return refuse("its pose is not finite or its quaternion does not have unit length");
    }
    Ok(())
}

/// The part of a block that a snapshot can see, as slices for scanning.
#[derive(Clone, Copy)]
pub struct BlockView<'a> {
    block: &'a Block,
    first: usize,
    length: usize,
}

impl<'a> BlockView<'a> {
    /// # Safety
    /// The first `length` rows of the block are published.
    pub(crate) unsafe fn new(block: &'a Block, first: usize, length: usize) -> Self {
        Self { block, first, length }
    }

    /// Index of the block's first record in the memory.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Records in view.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether no record is in view.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Times in seconds.
    pub fn times(&self) -> &'a [f64] {
        // SAFETY: `new` promises that these rows are published, for this and all reads below.
        unsafe { self.block.times.read(self.length) }
    }

    /// The X, Y and Z of the positions, in meters; 0 where a record has no pose.
    pub fn positions(&self) -> [&'a [f32]; 3] {
        // SAFETY: as in `times`.
        self.block.positions.each_ref().map(|column| unsafe { column.read(self.length) })
    }

    /// Unit quaternions (w, x, y, z) from camera to world; zeros where a record has no pose.
    pub fn rotations(&self) -> &'a [[f32; 4]] {
        // SAFETY: as in `times`.
        unsafe { self.block.rotations.read(self.length) }
    }

    /// The pose of a row, where it is known.
    pub fn pose(&self, row: usize) -> Option<Pose> {
        let rotation = self.rotations()[row];
        let position = self.positions().map(|column| column[row]);
        (rotation != [0.0; 4]).then_some(Pose { position, rotation })
    }

    /// Whether every row has a pose, so that a scan need not check each row.
    pub fn has_poses(&self) -> bool {
        !self.block.lacks_pose.load(Ordering::Relaxed)
    }

    /// Sine and cosine of yaw, sine and cosine of pitch; zeros where a record has no pose.
    pub fn angles(&self) -> [&'a [f32]; 4] {
        // SAFETY: as in `times`.
        self.block.angles.each_ref().map(|column| unsafe { column.read(self.length) })
    }

    /// All keys of a cue, row after row (zeros where a key is missing); `None` for a metadata cue.
    pub fn keys(&self, cue: usize) -> Option<Keys<'a>> {
        // SAFETY: as in `times`.
        self.block.key_column(cue).map(|column| unsafe { column.read(self.length) })
    }

    /// Whether a row has a key for this cue. Always true for a metadata cue.
    pub fn is_present(&self, cue: usize, row: usize) -> bool {
        assert!(row < self.length, "row within the view");
        self.block.key_column(cue).is_none_or(|column| column.is_present(row))
    }

    /// Whether every row has a key for this cue, so that a scan need not check each row.
    pub fn is_complete(&self, cue: usize) -> bool {
        self.block.key_column(cue).is_none_or(|column| column.is_complete(self.length))
    }

    /// The payload of a row.
    pub fn payload(&self, row: usize) -> Payload<'a> {
        assert!(row < self.length, "row within the view");
        self.block.payloads.get(row)
    }
}

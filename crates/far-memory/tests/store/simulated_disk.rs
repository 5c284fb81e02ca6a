//! A disk with only the guarantees of `Disk`: un-synced bytes and names may vanish, tear or
//! reorder.
//!
//! It is harsher than real file systems. Each un-synced write survives or not by itself, sector by
//! sector, with garbage where a sector was allocated but not written; each un-synced change of a
//! name survives or not by itself; a failed sync forgets what it should have written while reads
//! still show it. A store that is safe here relies only on the three guarantees of `Disk`.

use bytes::Bytes;
use far_memory::store::{Disk, DiskFile};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

const SECTOR: usize = 512;

/// What goes wrong, and when.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The power goes off in the middle of this operation, counted from zero.
    pub cut_at: Option<u64>,
    /// The sync (of a file or of the folder) with this number, counted from zero, fails.
    pub failing_sync: Option<u64>,
    /// No more than this many bytes fit on the disk.
    pub capacity: Option<usize>,
}

#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Resize(usize),
}

#[derive(Clone)]
enum Naming {
    Link { name: String, file: usize },
    Rename { from: String, to: String },
    Remove { name: String },
}

#[derive(Clone, Default)]
struct Contents {
    visible: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Default)]
struct State {
    files: Vec<Contents>,
    visible: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    pending: Vec<Naming>,
    faults: Faults,
    operations: u64,
    syncs: u64,
    seed: u64,
    held: Option<Arc<()>>,
}

/// A folder in memory that can lose its power.
#[derive(Clone, Default)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

impl SimulatedDisk {
    /// An empty disk that never fails.
    pub fn new() -> Self {
        Self::default()
    }

    /// Restarts the count of operations and syncs, with these faults.
    pub fn arm(&self, faults: Faults, seed: u64) {
        let mut state = self.state();
        (state.faults, state.operations, state.syncs, state.seed) = (faults, 0, 0, seed);
    }

    /// Operations that can be interrupted since the last [`Self::arm`].
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// The disk after the power came back: a new one, whose lock is free.
    pub fn after_power_cut(&self, seed: u64) -> Self {
        let random = &mut Rng::with_seed(seed);
        let state = self.state();
        let files = state.files.iter().map(|file| survivors(file, random)).collect();
        let mut names = state.durable.clone();
        for naming in &state.pending {
            if random.bool() {
                naming.apply(&mut names);
            }
        }
        let state = State { files, visible: names.clone(), durable: names, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Puts a file there, durable at once.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut state = self.state();
        let file = state.files.len();
        let bytes = bytes.to_vec();
        state.files.push(Contents { visible: bytes.clone(), durable: bytes, pending: Vec::new() });
        state.visible.insert(name.into(), file);
        state.durable.insert(name.into(), file);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while the simulated disk is held")
    }
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Link { name, file } => {
                names.insert(name.clone(), *file);
            }
            Self::Rename { from, to } => {
                // The link that this rename moves may itself have been lost.
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Self::Remove { name } => {
                names.remove(name);
            }
        }
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes: written } => write(bytes, *offset, written),
            Self::Resize(length) => bytes.resize(*length, 0),
        }
    }

    /// Applies what a power cut left of this change.
    fn apply_torn(&self, bytes: &mut Vec<u8>, random: &mut Rng) {
        match self {
            Self::Resize(_) => {
                if random.bool() {
                    self.apply(bytes);
                }
            }
            Self::Write { offset, bytes: written } => match random.u8(0..5) {
                0 => {}
                1 => self.apply(bytes),
                2 => write(bytes, *offset, &written[..random.usize(0..=written.len())]),
                kind => {
                    for piece in sectors(*offset, written.len()) {
                        if random.bool() {
                            write(bytes, offset + piece.start, &written[piece]);
                        } else if kind == 4 && offset + piece.start >= bytes.len() {
                            let garbage: Vec<u8> = piece.map(|_| random.u8(..)).collect();
                            let end = bytes.len();
                            write(bytes, end, &garbage);
                        }
                    }
                }
            },
        }
    }
}

/// The pieces of a write that fall into one sector each, as ranges of the written bytes.
fn sectors(offset: usize, length: usize) -> impl Iterator<Item = Range<usize>> {
    let first = SECTOR - offset % SECTOR;
    std::iter::once(0).chain((first..length).step_by(SECTOR)).map(move |start| {
        let end = if start == 0 { first } else { start + SECTOR };
        start..end.min(length)
    })
}

fn write(bytes: &mut Vec<u8>, offset: usize, written: &[u8]) {
    if written.is_empty() {
        return;
    }
    let end = offset + written.len();
    bytes.resize(bytes.len().max(end), 0);
    bytes[offset..end].copy_from_slice(written);
}

fn survivors(file: &Contents, random: &mut Rng) -> Contents {
    let mut bytes = file.durable.clone();
    for change in &file.pending {
        change.apply_torn(&mut bytes, random);
    }
    Contents { visible: bytes.clone(), durable: bytes, pending: Vec::new() }
}

impl State {
    /// Counts one operation; an error when the power is off. `true` when it goes off during it.
    fn begin(&mut self) -> io::Result<bool> {
        let operation = self.operations;
        self.operations += 1;
        match self.faults.cut_at {
            Some(cut) if operation > cut => Err(power_is_off()),
            Some(cut) => Ok(operation == cut),
            None => Ok(false),
        }
    }

    /// Counts one sync; `true` when it is the one that fails.
    fn begin_sync(&mut self) -> bool {
        self.syncs += 1;
        self.faults.failing_sync == Some(self.syncs - 1)
    }

    fn used(&self) -> usize {
        self.visible.values().map(|&file| self.files[file].visible.len()).sum()
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        self.visible.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename_or_remove(&mut self, naming: Naming) -> io::Result<()> {
        let cut = self.begin()?;
        naming.apply(&mut self.visible);
        self.pending.push(naming);
        if cut { Err(power_is_off()) } else { Ok(()) }
    }
}

fn power_is_off() -> io::Error {
    io::Error::other("the power is off")
}

impl Disk for SimulatedDisk {
    fn describe(&self) -> String {
        "simulated disk".into()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.state().visible.keys().cloned().collect())
    }

    fn read(&self, name: &str) -> io::Result<Bytes> {
        let state = self.state();
        Ok(state.files[state.find(name)?].visible.clone().into())
    }

    fn map(&self, name: &str) -> io::Result<Bytes> {
        self.read(name)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        let file = state.files.len();
        state.files.push(Contents::default());
        state.rename_or_remove(Naming::Link { name: name.into(), file })?;
        Ok(Box::new(SimulatedFile { disk: self.clone(), file }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = self.state().find(name)?;
        Ok(Box::new(SimulatedFile { disk: self.clone(), file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.find(from)?;
        state.rename_or_remove(Naming::Rename { from: from.into(), to: to.into() })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.find(name)?;
        state.rename_or_remove(Naming::Remove { name: name.into() })
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.begin()? {
            return Err(power_is_off());
        }
        if state.begin_sync() {
            return Err(io::Error::other("the folder could not be synced"));
        }
        state.durable = state.visible.clone();
        state.pending.clear();
        Ok(())
    }

    fn lock(&self, _name: &str) -> io::Result<Box<dyn Send + Sync>> {
        let mut state = self.state();
        if state.held.as_ref().is_some_and(|held| Arc::strong_count(held) > 1) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let guard = Arc::new(());
        state.held = Some(guard.clone());
        Ok(Box::new(guard))
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    file: usize,
}

impl SimulatedFile {
    fn change(&mut self, change: Change, grows_by: usize) -> io::Result<()> {
        let mut state = self.disk.state();
        let cut = state.begin()?;
        if state.faults.capacity.is_some_and(|capacity| state.used() + grows_by > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = &mut state.files[self.file];
        change.apply(&mut file.visible);
        file.pending.push(change);
        if cut { Err(power_is_off()) } else { Ok(()) }
    }

    fn length(&self) -> usize {
        self.disk.state().files[self.file].visible.len()
    }
}

impl DiskFile for SimulatedFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).expect("small disk");
        let grows_by = (offset + bytes.len()).saturating_sub(self.length());
        self.change(Change::Write { offset, bytes: bytes.to_vec() }, grows_by)
    }

    fn set_length(&mut self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).expect("small disk");
        self.change(Change::Resize(length), length.saturating_sub(self.length()))
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.state();
        if state.begin()? {
            // The power cut decides what remains of a sync in progress.
            return Err(power_is_off());
        }
        let fails = state.begin_sync();
        let random = &mut Rng::with_seed(state.seed ^ state.syncs);
        let file = &mut state.files[self.file];
        if fails {
            // The dirty pages are dropped: part reached the disk, reads still show all of it, and
            // no later sync will write the rest.
            file.durable = survivors(file, random).durable;
            file.pending.clear();
            return Err(io::Error::other("the sync failed"));
        }
        for change in std::mem::take(&mut file.pending) {
            change.apply(&mut file.durable);
        }
        Ok(())
    }
}

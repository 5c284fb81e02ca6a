//! The memory: in RAM, or a store on disk opened for writing or for reading.

use crate::failure::{Failure, Kind, Outcome};
use crate::key_rows::{GivenKeys, KeyRows};
use crate::pose_rows::Axes;
use crate::query_batch::{flat, misfit, poses};
use crate::snapshot::Snapshot;
use arc_swap::ArcSwapOption;
use far_memory::store::{Store, StoreReader};
use far_memory::{Cue, CueKind, KeyPrecision, MemoryReader, Observation, Payload, Pose, Schema};
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

/// An episodic memory. It belongs to the process that made it; forks of that process can read it.
#[pyclass(frozen, module = "far_memory._native")]
pub struct Memory {
    writer: Mutex<Writer>,
    /// Where snapshots come from, without waiting for the writer; nothing once it is closed.
    source: ArcSwapOption<Source>,
    process: u32,
}

enum Writer {
    Ram(far_memory::Memory),
    Store(Box<Store>),
    ReadOnly(Box<StoreReader>),
    Closed,
}

enum Source {
    Reader(MemoryReader),
    Fixed(far_memory::Snapshot),
}

/// What is kept with a record.
#[derive(FromPyObject)]
enum GivenPayload {
    Bytes(PyBackedBytes),
    Text(PyBackedStr),
}

impl Memory {
    /// A memory in RAM.
    pub fn in_ram(memory: far_memory::Memory) -> Self {
        let reader = Source::Reader(memory.reader());
        Self::new_with(Writer::Ram(memory), reader)
    }

    fn new_with(writer: Writer, source: Source) -> Self {
        Self {
            writer: Mutex::new(writer),
            source: ArcSwapOption::from_pointee(source),
            process: std::process::id(),
        }
    }

    /// The writer, for the process that owns it.
    fn writer(&self) -> Outcome<MutexGuard<'_, Writer>> {
        if self.process != std::process::id() {
            return Err(Failure::new(
                Kind::Process,
                format!(
                    "this memory belongs to process {}, not to its fork {}",
                    self.process,
                    std::process::id()
                ),
                "recall works in a forked worker; to append there, call fork() in the worker first",
            ));
        }
        self.writer.lock().map_err(|_| {
            Failure::new(
                Kind::Store,
                "an earlier call failed while it wrote",
                "make or open the memory again",
            )
        })
    }

    fn snapshot_now(&self) -> Outcome<far_memory::Snapshot> {
        match self.source.load().as_deref() {
            Some(Source::Reader(reader)) => Ok(reader.snapshot()),
            Some(Source::Fixed(snapshot)) => Ok(snapshot.clone()),
            None => Err(closed()),
        }
    }
}

#[pymethods]
impl Memory {
    /// An empty memory in RAM with these cues: name, dimension (None for metadata), 16-bit keys or not.
    #[new]
    fn new(cues: Vec<(String, Option<usize>, bool)>) -> PyResult<Self> {
        Ok(Self::in_ram(far_memory::Memory::new(schema(cues)?)))
    }

    /// Opens the store in a folder for writing; makes it if there are cues and no store.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        cues: Option<Vec<(String, Option<usize>, bool)>>,
    ) -> PyResult<Self> {
        let schema = cues.map(schema).transpose()?;
        let store = py.detach(|| match schema {
            Some(schema) => Store::open_or_create(path, &schema),
            None => Store::open(path),
        });
        let store = store.map_err(Failure::from)?;
        let source = Source::Reader(store.reader());
        Ok(Self::new_with(Writer::Store(Box::new(store)), source))
    }

    /// Opens the store in a folder for reading, beside a writer that may go on.
    #[staticmethod]
    fn open_read_only(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let opened = py.detach(|| {
            let mut reader = StoreReader::open(path)?;
            let snapshot = reader.snapshot()?;
            Ok((reader, snapshot))
        });
        let (reader, snapshot) = opened.map_err(|error: far_memory::Error| Failure::from(error))?;
        Ok(Self::new_with(Writer::ReadOnly(Box::new(reader)), Source::Fixed(snapshot)))
    }

    /// Appends records and returns the id of the first. Nothing is stored if a row is refused.
    fn append(
        &self,
        py: Python<'_>,
        times: PyReadonlyArray1<'_, f64>,
        poses_given: PyReadonlyArray2<'_, f64>,
        convention: Axes,
        keys: Vec<GivenKeys<'_>>,
        payloads: Option<Vec<Option<GivenPayload>>>,
    ) -> PyResult<usize> {
        let snapshot = self.snapshot_now()?;
        let times = flat(times.as_slice(), "the times")?;
        let poses = poses(&convention, &poses_given, "pose")?;
        if poses.len() != times.len() {
            return Err(misfit("poses", poses.len(), times.len()).into());
        }
        if let Some(payloads) = &payloads
            && payloads.len() != times.len()
        {
            return Err(misfit("payloads", payloads.len(), times.len()).into());
        }
        if let Some(row) = times.iter().position(|time| !time.is_finite()) {
            let cause = format!("time {row} is {}", times[row]);
            return Err(Failure::input(cause, "times must be finite; nothing was stored").into());
        }
        let keys = KeyRows::all(&keys, snapshot.schema(), times.len())?;
        for (place, key) in keys.iter().enumerate() {
            if keys[..place].iter().any(|earlier| earlier.cue == key.cue) {
                let cause = format!("cue {:?} is given twice", key.cue);
                return Err(Failure::input(cause, "give each cue once").into());
            }
        }
        let records = Records { times, poses: &poses, keys: &keys, payloads: payloads.as_deref() };
        Ok(py.detach(|| self.append_records(&records))?)
    }

    /// A consistent view of the records so far.
    fn snapshot(&self) -> PyResult<Snapshot> {
        Ok(Snapshot::new(self.snapshot_now()?))
    }

    /// Goes back to a snapshot.
    fn restore(&self, py: Python<'_>, snapshot: &Bound<'_, Snapshot>) -> PyResult<()> {
        let snapshot = snapshot.get().inner();
        Ok(py.detach(|| match &mut *self.writer()? {
            Writer::Ram(memory) => {
                memory.restore(snapshot)?;
                self.source.store(Some(Arc::new(Source::Reader(memory.reader()))));
                Ok(())
            }
            Writer::Closed => Err(closed()),
            Writer::Store(_) | Writer::ReadOnly(_) => Err(Failure::new(
                Kind::Store,
                "a store on disk only grows",
                "snapshot().fork() is a memory in RAM that can go back; save() writes it to a new store",
            )),
        })?)
    }

    /// Makes every record safe; returns how many there are.
    fn sync(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(py.detach(|| match &mut *self.writer()? {
            Writer::Store(store) => Ok(store.sync()?),
            Writer::Closed => Err(closed()),
            Writer::Ram(_) | Writer::ReadOnly(_) => Err(Failure::new(
                Kind::Store,
                "there is no store to sync",
                "Memory.open(path, cues=…) keeps records on disk",
            )),
        })?)
    }

    /// Looks for records that another process has written since.
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| {
            let mut writer = self.writer()?;
            if let Writer::ReadOnly(reader) = &mut *writer {
                self.source.store(Some(Arc::new(Source::Fixed(reader.snapshot()?))));
            }
            Ok::<_, Failure>(())
        })?)
    }

    /// Syncs and closes; snapshots taken before stay readable.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| {
            let mut writer = self.writer()?;
            self.source.store(None);
            match std::mem::replace(&mut *writer, Writer::Closed) {
                Writer::Store(store) => Ok::<_, Failure>(store.close()?),
                _ => Ok(()),
            }
        })?)
    }
}

/// Rows that were checked, without Python.
struct Records<'a> {
    times: &'a [f64],
    poses: &'a [Pose],
    keys: &'a [KeyRows<'a>],
    payloads: Option<&'a [Option<GivenPayload>]>,
}

impl Memory {
    fn append_records(&self, records: &Records<'_>) -> Outcome<usize> {
        let mut writer = self.writer()?;
        let first = match &*writer {
            Writer::Ram(memory) => memory.len(),
            Writer::Store(store) => store.len(),
            Writer::Closed => return Err(closed()),
            Writer::ReadOnly(_) => {
                return Err(Failure::new(
                    Kind::Store,
                    "the store is open for reading only",
                    "open it without read_only",
                ));
            }
        };
        let mut observation = Observation::new(0.0, Pose::identity());
        for (row, (time, pose)) in records.times.iter().zip(records.poses).enumerate() {
            (observation.time, observation.pose) = (*time, Some(*pose));
            observation.keys.clear();
            let keys = records.keys.iter().filter_map(|keys| Some((keys.cue, keys.row(row)?)));
            observation.keys.extend(keys);
            observation.payload = match records.payloads.and_then(|payloads| payloads[row].as_ref())
            {
                None => Payload::None,
                Some(GivenPayload::Bytes(bytes)) => Payload::Bytes(bytes),
                Some(GivenPayload::Text(text)) => Payload::Reference(text),
            };
            match &mut *writer {
                Writer::Ram(memory) => memory.append(&observation)?,
                Writer::Store(store) => store.append(&observation)?,
                Writer::ReadOnly(_) | Writer::Closed => return Err(closed()),
            };
        }
        Ok(first)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.process != std::process::id()
            && let Ok(writer) = self.writer.get_mut()
        {
            // The files belong to the parent: a fork must not write what the parent will write.
            std::mem::forget(std::mem::replace(writer, Writer::Closed));
        }
    }
}

fn closed() -> Failure {
    Failure::new(
        Kind::Closed,
        "the memory is closed",
        "open it again; snapshots taken before stay readable",
    )
}

fn schema(cues: Vec<(String, Option<usize>, bool)>) -> Outcome<Schema> {
    const LONGEST: usize = 1 << 16;
    let mut list = Vec::with_capacity(cues.len());
    for (name, dimension, half) in cues {
        list.push(match dimension {
            None => Cue::metadata(name),
            Some(dimension) if dimension > LONGEST => {
                let cause = format!("cue {name:?} has keys of dimension {dimension}");
                return Err(Failure::input(cause, "a key has at most 65,536 numbers"));
            }
            Some(dimension) if half => Cue::half_key(name, dimension),
            Some(dimension) => Cue::key(name, dimension),
        });
    }
    Ok(Schema::new(list)?)
}

/// The cues of a schema as Python hands them over.
pub fn cue_list(schema: &Schema) -> Vec<(String, Option<usize>, bool)> {
    let cues = schema.cues().iter().map(|cue| match cue.kind {
        CueKind::Metadata => (cue.name.clone(), None, false),
        CueKind::Key { dimension, precision } => {
            (cue.name.clone(), Some(dimension), precision == KeyPrecision::F16)
        }
    });
    cues.collect()
}

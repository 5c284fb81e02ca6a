//! `far memory export`: writes the records of a store for other programs.

use super::explain;
use crate::hint::Hint;
use crate::progress;
use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use far_memory::store::{StoreReader, write_arrow};
use far_memory::{MemoryId, Snapshot};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Arguments of `far memory export`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The folder of the store.
    path: PathBuf,
    /// The file to write, or `-` for standard output.
    #[arg(long, short)]
    out: PathBuf,
    /// Arrow and JSON lines hold everything; CSV leaves out keys and payload bytes (default: by the
    /// extension of the file).
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The first id to write.
    #[arg(long, default_value_t = 0)]
    from: usize,
    /// The id after the last one to write (default: all).
    #[arg(long)]
    to: Option<usize>,
}

/// Format of the output.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// An Arrow IPC file: pyarrow, pandas, polars and DuckDB open it.
    Arrow,
    /// One JSON object per line; payload bytes as base64.
    Jsonl,
    /// A table of id, time, pose and payload size.
    Csv,
}

/// One record as a line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    id: usize,
    time: f64,
    /// Null with the rotation where the pose is not known.
    position: Option<[f32; 3]>,
    rotation: Option<[f32; 4]>,
    keys: BTreeMap<&'a str, Vec<f32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<&'a str>,
}

/// One record as a row of CSV.
#[derive(Serialize)]
struct Row<'a> {
    id: usize,
    time: f64,
    x: Option<f32>,
    y: Option<f32>,
    z: Option<f32>,
    rotation_w: Option<f32>,
    rotation_x: Option<f32>,
    rotation_y: Option<f32>,
    rotation_z: Option<f32>,
    yaw: Option<f32>,
    pitch: Option<f32>,
    payload_bytes: Option<usize>,
    reference: Option<&'a str>,
}

/// Writes the records of a store.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let format = arguments.format()?;
    let mut reader = StoreReader::open(&arguments.path).map_err(explain)?;
    let snapshot = reader.snapshot().map_err(explain)?;
    let range = arguments.from..arguments.to.unwrap_or(snapshot.len());
    if range.end > snapshot.len() || range.start > range.end {
        let message = format!("there are no records {} to {}", range.start, range.end);
        let hint = format!("the store holds the ids 0 to {}", snapshot.len());
        return Err(Hint::error(message, hint));
    }
    if arguments.out == Path::new("-") {
        return write(&snapshot, range, format, &mut std::io::stdout().lock());
    }
    // The final name is only given to a complete file.
    let mut part = arguments.out.clone().into_os_string();
    part.push(".part");
    let file = File::create(&part).with_context(|| format!("cannot create {part:?}"))?;
    let mut target = BufWriter::new(file);
    write(&snapshot, range, format, &mut target)?;
    target.into_inner().context("cannot finish the file")?.sync_all()?;
    std::fs::rename(&part, &arguments.out)
        .with_context(|| format!("cannot rename {part:?} to {}", arguments.out.display()))
}

impl Arguments {
    fn format(&self) -> anyhow::Result<Format> {
        let ending = self.out.extension().and_then(|ending| ending.to_str());
        match (self.format, ending) {
            (Some(format), _) => Ok(format),
            (None, Some("arrow" | "feather" | "ipc")) => Ok(Format::Arrow),
            (None, Some("jsonl" | "ndjson")) => Ok(Format::Jsonl),
            (None, Some("csv")) => Ok(Format::Csv),
            (None, _) => Err(Hint::error(
                format!("the format of {} does not follow from its extension", self.out.display()),
                "add --format arrow, --format jsonl or --format csv",
            )),
        }
    }
}

fn write(
    snapshot: &Snapshot,
    range: Range<usize>,
    format: Format,
    target: &mut impl Write,
) -> anyhow::Result<()> {
    let style = match format {
        Format::Arrow => "{spinner} {bytes} {bytes_per_sec}",
        Format::Jsonl | Format::Csv => {
            "{bar:40} {human_pos}/{human_len} records, {rate}, {eta} left"
        }
    };
    let bar = progress::styled(range.len() as u64, style);
    match format {
        Format::Arrow => {
            bar.unset_length();
            write_arrow(snapshot, range, &mut bar.wrap_write(&mut *target)).map_err(explain)?;
        }
        Format::Jsonl => {
            for id in bar.wrap_iter(range) {
                serde_json::to_writer(&mut *target, &line(snapshot, id))?;
                target.write_all(b"\n")?;
            }
        }
        Format::Csv => {
            let mut writer = csv::Writer::from_writer(&mut *target);
            for id in bar.wrap_iter(range) {
                writer.serialize(row(snapshot, id))?;
            }
            writer.flush()?;
        }
    }
    bar.finish_and_clear();
    Ok(target.flush()?)
}

fn line(snapshot: &Snapshot, id: usize) -> Line<'_> {
    let pose = snapshot.pose(id);
    let keys = snapshot.schema().keys().filter_map(|(cue, name, dimension, _)| {
        let mut numbers = vec![0.0; dimension];
        snapshot.key(cue, id)?.copy_to(&mut numbers);
        Some((name, numbers))
    });
    let payload = snapshot.payload(MemoryId(id as u64));
    Line {
        id,
        time: snapshot.time(id),
        position: pose.map(|pose| pose.position),
        rotation: pose.map(|pose| pose.rotation),
        keys: keys.collect(),
        payload: payload.bytes().map(|bytes| STANDARD.encode(bytes)),
        reference: payload.reference(),
    }
}

fn row(snapshot: &Snapshot, id: usize) -> Row<'_> {
    let pose = snapshot.pose(id);
    let place = |axis: usize| pose.map(|pose| pose.position[axis]);
    let turn = |part: usize| pose.map(|pose| pose.rotation[part]);
    let payload = snapshot.payload(MemoryId(id as u64));
    Row {
        id,
        time: snapshot.time(id),
        x: place(0),
        y: place(1),
        z: place(2),
        rotation_w: turn(0),
        rotation_x: turn(1),
        rotation_y: turn(2),
        rotation_z: turn(3),
        yaw: pose.map(|pose| pose.yaw()),
        pitch: pose.map(|pose| pose.pitch()),
        payload_bytes: payload.bytes().map(<[u8]>::len),
        reference: payload.reference(),
    }
}

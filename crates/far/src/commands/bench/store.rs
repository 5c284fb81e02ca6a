//! `far bench store`: what durability costs, beside plain files with the same bytes on the same disk.

use super::timing::Timings;
use crate::progress;
use anyhow::Context;
use far_memory::store::{Store, StoreReader, verify};
use far_memory::{Cue, Observation, Pose, Schema};
use serde_json::json;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes that a plain file is written and read by at a time.
const PIECE: usize = 1 << 20;

/// What is measured.
#[derive(clap::Args)]
pub struct Arguments {
    /// Records to append.
    #[arg(long, default_value_t = 100_000)]
    records: usize,
    /// Numbers in a key.
    #[arg(long, default_value_t = 256)]
    dimension: usize,
    /// Bytes of payload in every record.
    #[arg(long, default_value_t = 0)]
    payload: usize,
    /// Appends with a sync each, timed one by one.
    #[arg(long, default_value_t = 300)]
    syncs: usize,
    /// Where to write; by default a temporary folder.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the benchmark.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let folder = match &arguments.folder {
        None => tempfile::tempdir(),
        Some(parent) => tempfile::tempdir_in(parent),
    };
    let folder = folder.context("cannot make a folder to write to")?;
    let path = folder.path().join("store");
    let (append_seconds, own, plain) = write_store(arguments, &path, folder.path())?;

    let start = Instant::now();
    let mut reader = StoreReader::open(&path)?;
    let (snapshot, status) = reader.look()?;
    let open_seconds = start.elapsed().as_secs_f64();
    anyhow::ensure!(snapshot.len() == arguments.records + arguments.syncs, "records are missing");

    let start = Instant::now();
    anyhow::ensure!(verify(&path, |_, _| ())?.is_sound(), "the store is damaged");
    let verify_seconds = start.elapsed().as_secs_f64();

    let bytes = (status.sealed_bytes + status.log_bytes) as usize;
    let (write_seconds, read_seconds) = plain_file(&folder.path().join("plain"), bytes)?;
    let gigabytes = bytes as f64 / 1e9;
    // The records synced one by one are in the files too, but not in the time of appending.
    let appended = gigabytes * arguments.records as f64 / snapshot.len().max(1) as f64;
    let result = json!({
        "records": arguments.records,
        "dimension": arguments.dimension,
        "payload": arguments.payload,
        "bytes": bytes,
        "append_per_s": arguments.records as f64 / append_seconds,
        "append_gb_per_s": appended / append_seconds,
        "plain_write_gb_per_s": gigabytes / write_seconds,
        "sync_p50_us": own.median(),
        "sync_p99_us": own.quantile(0.99),
        "plain_sync_p50_us": plain.median(),
        "plain_sync_p99_us": plain.quantile(0.99),
        "open_ms": 1e3 * open_seconds,
        "verify_gb_per_s": gigabytes / verify_seconds,
        "plain_read_gb_per_s": gigabytes / read_seconds,
    });
    if arguments.json {
        println!("{result}");
    } else {
        for (name, value) in result.as_object().expect("made above") {
            println!("{name:<22} {value:.6}");
        }
    }
    Ok(())
}

/// Appends all records, then some with a sync each, in turn with a plain file that grows by as
/// many bytes as one record has. Returns the seconds of the first part and the timings of the second.
fn write_store(
    arguments: &Arguments,
    path: &Path,
    folder: &Path,
) -> anyhow::Result<(f64, Timings, Timings)> {
    let schema = Schema::new(vec![Cue::metadata("meta"), Cue::key("vision", arguments.dimension)])?;
    let mut store = Store::open_or_create(path, &schema)?;
    let random = &mut fastrand::Rng::with_seed(0);
    let mut key: Vec<f32> = (0..arguments.dimension).map(|_| random.f32() - 0.5).collect();
    let payload = vec![7; arguments.payload];
    let mut append = |store: &mut Store| {
        // A rotation makes a new key without the cost of drawing one.
        key.rotate_left(1);
        let time = store.len() as f64;
        let pose = Pose::from_yaw_pitch([time as f32 * 0.01, 0.0, 1.6], 0.3, 0.0);
        let observation = Observation::new(time, pose).with_key("vision", &key);
        let observation =
            if payload.is_empty() { observation } else { observation.with_bytes(&payload) };
        store.append(&observation).map(|_| ())
    };
    let bar = progress::bar(arguments.records as u64, "records");
    let start = Instant::now();
    for _ in bar.wrap_iter(0..arguments.records) {
        append(&mut store)?;
    }
    store.sync()?;
    let seconds = start.elapsed().as_secs_f64();
    bar.finish_and_clear();

    let (mut own, mut plain) = (Timings::default(), Timings::default());
    let record = vec![1u8; 4 * arguments.dimension + arguments.payload + 64];
    let mut file = File::create(folder.join("log"))?;
    for _ in 0..arguments.syncs {
        own.time(|| append(&mut store).and_then(|()| store.sync()))?;
        plain.time(|| file.write_all(&record).and_then(|()| file.sync_data()))?;
    }
    store.close()?;
    Ok((seconds, own, plain))
}

/// Seconds to write and sync a plain file of this many bytes, and to read it again.
fn plain_file(path: &Path, bytes: usize) -> anyhow::Result<(f64, f64)> {
    let mut piece = vec![3u8; PIECE];
    let start = Instant::now();
    let mut file = File::create(path)?;
    for offset in (0..bytes).step_by(PIECE) {
        file.write_all(&piece[..PIECE.min(bytes - offset)])?;
    }
    file.sync_data()?;
    let write_seconds = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let mut file = File::open(path)?;
    while file.read(&mut piece)? > 0 {}
    Ok((write_seconds, start.elapsed().as_secs_f64()))
}

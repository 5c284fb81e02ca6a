//! Opening a store never panics, whatever its files hold, and what it opens can be read.
//!
//! Checksums would keep the fuzzer out of everything behind them, so that most inputs are edits of a
//! valid store whose checksums are made to fit again: only the decoding itself stands in the way.

#![no_main]

use far_memory::store::{Disk, Store, StoreOptions, StoreReader, verify_disk};
use far_memory::{Cue, MemoryId, Observation, Payload, Pose, Schema, Snapshot};
use libfuzzer_sys::fuzz_target;
use simulated_disk::SimulatedDisk;
use std::sync::{Arc, OnceLock};

#[path = "../../crates/far-memory/tests/store/simulated_disk.rs"]
#[allow(dead_code)]
mod simulated_disk;

const MANIFEST: &str = "manifest.json";
const SEALED: &str = "sealed-000000000000.arrow";
const LOG: &str = "log-000001.far";
const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 32;

/// The files of a small valid store: three sealed records, three in the log.
struct Example {
    manifest: Vec<u8>,
    sealed: Vec<u8>,
    log: Vec<u8>,
}

fn example() -> &'static Example {
    static EXAMPLE: OnceLock<Example> = OnceLock::new();
    EXAMPLE.get_or_init(|| {
        let disk = SimulatedDisk::new();
        let cues = vec![Cue::metadata("meta"), Cue::key("vision", 3), Cue::half_key("sound", 2)];
        let schema = Schema::new(cues).expect("valid");
        let options = StoreOptions { seal_records: 3, ..StoreOptions::default() };
        let mut store = Store::open_or_create_on(Arc::new(disk.clone()), &schema, options)
            .expect("a new store");
        for id in 0..5 {
            let observation = Observation::new(f64::from(id), Pose::identity());
            let observation = match id % 3 {
                0 => observation.with_key("vision", &[0.0, 1.0, 0.0]).with_bytes(b"payload"),
                1 => observation.with_key("sound", &[1.0, 0.0]).with_reference("here"),
                _ => observation,
            };
            store.append(&observation).expect("appended");
        }
        drop(store);
        let read = |name| disk.read(name).expect("there").to_vec();
        Example { manifest: read(MANIFEST), sealed: read(SEALED), log: read(LOG) }
    })
}

/// Changes bytes as `edits` says, three bytes of it at a time, and cuts the end now and then.
fn edit(bytes: &[u8], edits: &[u8]) -> Vec<u8> {
    let mut edited = bytes.to_vec();
    for step in edits.chunks_exact(4) {
        let place = usize::from(u16::from_le_bytes([step[0], step[1]]));
        if edited.is_empty() {
            break;
        }
        let place = place % edited.len();
        match step[2] % 8 {
            0 => edited.truncate(place),
            1 => edited.insert(place, step[3]),
            2 => edited[place] ^= step[3],
            // Lengths and offsets live in wider words; small and huge values are the interesting ones.
            3 => edited[place..].iter_mut().take(4).for_each(|byte| *byte = step[3]),
            4 => edited[place..].iter_mut().take(8).for_each(|byte| *byte = step[3]),
            _ => edited[place] = step[3],
        }
    }
    edited
}

/// The log of the example with another batch in its one frame, and checksums that fit.
fn log_with(mut batch: Vec<u8>, records: u32) -> Vec<u8> {
    batch.resize(batch.len().next_multiple_of(8), 0);
    let mut log = example().log[..LOG_HEADER].to_vec();
    let mut header = Vec::new();
    header.extend((batch.len() as u32).to_le_bytes());
    header.extend(crc32c::crc32c(&batch).to_le_bytes());
    header.extend((LOG_HEADER as u64).to_le_bytes());
    header.extend(3u64.to_le_bytes());
    header.extend(records.to_le_bytes());
    let place = [1u64.to_le_bytes(), (LOG_HEADER as u64).to_le_bytes()].concat();
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&place), &header);
    header.extend(checksum.to_le_bytes());
    log.extend(header);
    log.extend(batch);
    log
}

/// The manifest of the example, as it would be if this were its sealed file.
fn manifest_for(sealed: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(&example().manifest).expect("JSON is text");
    let checksums: String =
        sealed.chunks(1 << 20).map(|chunk| format!("{:08x}", crc32c::crc32c(chunk))).collect();
    let text = replace(text, "\"bytes\": ", ',', &sealed.len().to_string());
    let hash = format!("\"{}\"", blake3::hash(sealed).to_hex());
    let text = replace(&text, "\"blake3\": ", ',', &hash);
    let text = replace(&text, "\"crc32c\": ", '\n', &format!("\"{checksums}\""));
    sign(&text)
}

/// Puts `value` in the place of what stands between `name` and `end`, where `name` first occurs.
fn replace(text: &str, name: &str, end: char, value: &str) -> String {
    let (before, rest) = text.split_once(name).expect("the field is there");
    let length = rest.find(end).expect("the field ends");
    format!("{before}{name}{value}{}", &rest[length..])
}

/// A manifest whose last field is the hash of the rest.
fn sign(text: &str) -> Vec<u8> {
    let Some((before, _)) = text.rsplit_once("\"blake3\": ") else { return text.into() };
    let unsigned = format!("{before}\"blake3\": \"\"\n}}\n");
    let hash = blake3::hash(unsigned.as_bytes()).to_hex();
    format!("{before}\"blake3\": \"{hash}\"\n}}\n").into_bytes()
}

/// Touches every value of every record.
fn read_all(snapshot: &Snapshot) {
    let mut sum = 0.0;
    for index in 0..snapshot.len() {
        sum +=
            snapshot.time(index) + snapshot.pose(index).map_or(0.0, |pose| f64::from(pose.yaw()));
        for (cue, _, dimension, _) in snapshot.schema().keys() {
            if let Some(key) = snapshot.key(cue, index) {
                sum += f64::from(key.dot(&vec![1.0; dimension]));
            }
        }
        sum += match snapshot.payload(MemoryId(index as u64)) {
            Payload::None => 0.0,
            Payload::Bytes(bytes) => bytes.iter().map(|&byte| f64::from(byte)).sum(),
            Payload::Reference(reference) => reference.chars().count() as f64,
        };
    }
    std::hint::black_box(sum);
}

fuzz_target!(|data: &[u8]| {
    let Some((&mode, rest)) = data.split_first() else { return };
    let example = example();
    let (mut manifest, mut sealed, mut log) =
        (example.manifest.clone(), example.sealed.clone(), example.log.clone());
    let batch = &example.log[LOG_HEADER + FRAME_HEADER..];
    match mode % 8 {
        0 => manifest = rest.to_vec(),
        1 => log = rest.to_vec(),
        2 => sealed = rest.to_vec(),
        3 => manifest = sign(&String::from_utf8_lossy(&edit(&manifest, rest))),
        4 => log = edit(&log, rest),
        5 => log = log_with(rest.to_vec(), 2),
        6 => log = log_with(edit(batch, rest), u32::from(mode / 8 % 4)),
        _ => {
            sealed = edit(&sealed, rest);
            manifest = manifest_for(&sealed);
        }
    }
    let disk = SimulatedDisk::new();
    disk.put(MANIFEST, &manifest);
    disk.put(SEALED, &sealed);
    disk.put(LOG, &log);
    if let Ok(snapshot) =
        StoreReader::open_on(Arc::new(disk.clone())).and_then(|mut r| r.snapshot())
    {
        read_all(&snapshot);
    }
    let sound = verify_disk(&disk, |_, _| ()).is_ok_and(|report| report.is_sound());
    let opened = Store::open_on(Arc::new(disk.clone()), StoreOptions::default());
    assert!(!sound || opened.is_ok(), "a sound store opens: {:?}", opened.err());
    if let Ok(mut store) = opened {
        read_all(&store.snapshot());
        store.sync().expect("nothing is wrong with the disk");
    }
});

//! Another program that does the same work on the same numbers, measured turn by turn with ours.
//!
//! The peer is started with the arguments `--folder F --slots K --threads T`. The folder holds
//! `shape.json` (`memories`, `dimension`, `chunk_size`, `queries`), the raw little-endian arrays
//! `keys.f32`, `times.f64`, `poses.f32` (position, then quaternion) and `query_*.f32|f64`, and, for
//! `far`, `retriever.safetensors`. It writes one line when it is ready; then, for every line it reads
//! with the number of a query, it answers with one line of JSON: `{"us": time, "ids": [best first]}`.

use crate::hint::Hint;
use anyhow::Context;
use far_memory::{Keys, Pose, RecallQuery, Retriever, Snapshot};
use serde::Deserialize;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A running peer.
pub struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    command: String,
}

/// What a peer answers.
#[derive(Deserialize)]
pub struct Answer {
    us: f64,
    /// The records it chose, best first.
    pub ids: Vec<u64>,
}

impl Answer {
    /// How long the peer took by its own clock.
    pub fn elapsed(&self) -> Duration {
        Duration::from_secs_f64(self.us.max(0.0) * 1e-6)
    }
}

impl Peer {
    /// Starts a peer on a folder and waits until it is ready.
    pub fn start(
        command: &str,
        folder: &Path,
        slots: usize,
        threads: usize,
    ) -> anyhow::Result<Self> {
        let mut words = command.split_whitespace();
        let program = words.next().ok_or_else(|| {
            let hint = "give one, for instance --peer \"python peer.py\"";
            Hint::error("the peer's command is empty", hint)
        })?;
        let mut child = Command::new(program)
            .args(words)
            .arg("--folder")
            .arg(folder)
            .args(["--slots", &slots.to_string(), "--threads", &threads.to_string()])
            .env("OMP_NUM_THREADS", threads.to_string())
            .env("OPENBLAS_NUM_THREADS", threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| {
                let message = format!("cannot start the peer {program}: {error}");
                Hint::error(message, "give the full path of an installed program to --peer")
            })?;
        let input = child.stdin.take().context("the peer has no input")?;
        let output = BufReader::new(child.stdout.take().context("the peer has no output")?);
        let mut peer = Self { child, input, output, command: command.to_owned() };
        peer.line()?;
        Ok(peer)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.is_empty() {
            let hint = "run it by itself to see why; its errors are above";
            return Err(Hint::error(format!("the peer {:?} ended early", self.command), hint));
        }
        Ok(line)
    }

    /// Lets the peer answer one query.
    pub fn ask(&mut self, query: usize) -> anyhow::Result<Answer> {
        writeln!(self.input, "{query}")?;
        self.input.flush()?;
        let line = self.line()?;
        serde_json::from_str(&line).with_context(|| format!("the peer answered {line:?}"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Nothing depends on how a peer ends: its answers are in.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write<T: bytemuck::Pod>(
    folder: &Path,
    name: &str,
    values: impl Iterator<Item = T>,
) -> anyhow::Result<()> {
    let path = folder.join(name);
    let mut file = BufWriter::new(File::create(&path).with_context(|| path.display().to_string())?);
    for value in values {
        file.write_all(bytemuck::bytes_of(&value))?;
    }
    file.flush().with_context(|| path.display().to_string())
}

fn pose_numbers(pose: Option<&Pose>) -> [f32; 7] {
    let pose = pose.expect("the benchmark's records and queries have poses");
    let ([x, y, z], [qw, qx, qy, qz]) = (pose.position, pose.rotation);
    [x, y, z, qw, qx, qy, qz]
}

/// Writes everything a peer needs into a folder.
pub fn export(
    folder: &Path,
    snapshot: &Snapshot,
    cue: Option<usize>,
    queries: &[RecallQuery],
    retriever: &Retriever,
) -> anyhow::Result<()> {
    let mut dimension = 0;
    if let Some(cue) = cue {
        let path = folder.join("keys.f32");
        let mut file = BufWriter::new(File::create(&path)?);
        for block in snapshot.blocks() {
            let Some(Keys::F32(keys)) = block.keys(cue) else { anyhow::bail!("keys are not f32") };
            dimension = keys.len() / block.len();
            file.write_all(bytemuck::cast_slice(keys))?;
        }
        file.flush().with_context(|| path.display().to_string())?;
        let keys = queries.iter().flat_map(|query| query.key("vision").unwrap_or(&[]));
        write(folder, "query_keys.f32", keys.copied())?;
    }
    write(folder, "times.f64", (0..snapshot.len()).map(|index| snapshot.time(index)))?;
    let poses = (0..snapshot.len()).map(|index| pose_numbers(snapshot.pose(index).as_ref()));
    write(folder, "poses.f32", poses)?;
    write(folder, "query_times.f64", queries.iter().map(|query| query.time))?;
    write(folder, "query_strides.f32", queries.iter().map(|query| query.stride))?;
    let poses = queries.iter().map(|query| pose_numbers(query.pose.as_ref()));
    write(folder, "query_poses.f32", poses)?;
    write(folder, "query_goals.f32", queries.iter().map(|query| pose_numbers(query.goal())))?;
    retriever.save(folder.join("retriever.safetensors"))?;
    let shape = serde_json::json!({
        "memories": snapshot.len(),
        "dimension": dimension,
        "chunk_size": retriever.config().chunk_size,
        "queries": queries.len(),
    });
    std::fs::write(folder.join("shape.json"), shape.to_string())?;
    Ok(())
}

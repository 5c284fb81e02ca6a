//! Trains several runs at once, each in its own process.
//!
//! One process per arm isolates them: if one fails, the others continue, each has its own GPU
//! context and thread pool, and each is the `far train` that a user could run.

use super::board::{Board, Lane};
use crate::file;
use crate::hint::Hint;
use crate::interrupt;
use anyhow::Context;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the stop flag is checked.
const WATCH: Duration = Duration::from_millis(50);
/// Environment variable for the number of threads of a process.
const THREADS: &str = "RAYON_NUM_THREADS";

/// A training to run.
pub struct Job {
    /// Its name in the progress display.
    pub name: String,
    /// Its steps.
    pub steps: u64,
    /// The process; it prints `step 3/100 …` to stderr during training and `"finished":true` to
    /// stdout at the end.
    pub command: Command,
    /// File for all its output.
    pub log: PathBuf,
}

/// Runs trainings.
pub struct Crew<'a> {
    /// Number of processes at once.
    pub slots: usize,
    /// If set, no more processes start, and running ones save and stop.
    pub stop: &'a AtomicBool,
}

/// Waiting jobs and running processes.
struct Work {
    waiting: Mutex<VecDeque<Job>>,
    running: Mutex<Vec<Child>>,
    failures: Mutex<Vec<anyhow::Error>>,
}

impl Crew<'_> {
    /// Runs `jobs`, a part of `all` runs. Returns whether all are finished; false if stopped
    /// before.
    ///
    /// # Errors
    /// The first error, after all processes have ended.
    pub fn train(&self, mut jobs: Vec<Job>, all: usize) -> anyhow::Result<bool> {
        let together = self.slots.min(jobs.len()).max(1);
        let threads = (rayon::current_num_threads() / together).max(1).to_string();
        for job in &mut jobs {
            job.command.env(THREADS, &threads);
        }
        let steps = jobs.iter().map(|job| job.steps).sum();
        let board = Board::new(all - jobs.len(), all, steps);
        let work = Work {
            waiting: Mutex::new(jobs.into()),
            running: Mutex::default(),
            failures: Mutex::default(),
        };
        let over = AtomicBool::new(false);
        let stopped = std::thread::scope(|scope| {
            scope.spawn(|| self.watch(&work, &over));
            let slots: Vec<_> =
                (0..self.slots).map(|_| scope.spawn(|| self.fill_slot(&work, &board))).collect();
            let stopped = slots.into_iter().map(|slot| slot.join().expect("no slot panics"));
            let stopped = stopped.fold(false, |any, stopped| any | stopped);
            over.store(true, Ordering::Relaxed);
            stopped
        });
        let waiting = !work.waiting.into_inner().expect("no slot panics").is_empty();
        match work.failures.into_inner().expect("no slot panics").into_iter().next() {
            Some(failure) => Err(failure),
            None => Ok(!stopped && !waiting),
        }
    }

    /// Passes a stop request on to the processes, once.
    fn watch(&self, work: &Work, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            if self.stop.load(Ordering::Relaxed) {
                // A terminal sends Ctrl-C to the whole process group; a second signal does no harm.
                let running = work.running.lock().expect("no slot panics");
                running.iter().for_each(end);
                return;
            }
            std::thread::sleep(WATCH);
        }
    }

    /// Runs one job after another; returns whether one was stopped before its end.
    fn fill_slot(&self, work: &Work, board: &Board) -> bool {
        let mut stopped = false;
        while !self.stop.load(Ordering::Relaxed) {
            let Some(job) = work.waiting.lock().expect("no slot panics").pop_front() else { break };
            let lane = board.lane(&job.name, job.steps);
            match self.run(job, work, lane) {
                Ok(finished) => stopped |= !finished,
                Err(failure) => work.failures.lock().expect("no slot panics").push(failure),
            }
        }
        stopped
    }

    /// Runs one process to its end; returns whether it completed all steps.
    fn run(&self, mut job: Job, work: &Work, mut lane: Lane<'_>) -> anyhow::Result<bool> {
        let begun = Instant::now();
        if let Some(folder) = job.log.parent() {
            file::create_folder(folder)?;
        }
        let mut log = File::create(&job.log)
            .with_context(|| format!("cannot write {}", job.log.display()))?;
        job.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        stop_with_parent(&mut job.command);
        let mut child =
            job.command.spawn().with_context(|| format!("{}: cannot start", job.name))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let id = child.id();
        work.running.lock().expect("no slot panics").push(child);
        if self.stop.load(Ordering::Relaxed) {
            // The request may have been passed on just before this process was listed.
            work.running
                .lock()
                .expect("no slot panics")
                .iter()
                .filter(|c| c.id() == id)
                .for_each(end);
        }

        let (mut error, mut hint) = (None, None);
        for line in stderr.into_iter().flat_map(|pipe| BufReader::new(pipe).lines()) {
            let Ok(line) = line else { break };
            // The training itself reports a full disk; the log is only for inspection.
            let _ = writeln!(log, "{line}");
            lane.hear(&line);
            error = line.strip_prefix("error: ").map(str::to_owned).or(error);
            hint = line.strip_prefix("hint: ").map(str::to_owned).or(hint);
        }
        let said =
            stdout.map(std::io::read_to_string).transpose().ok().flatten().unwrap_or_default();
        let finished = said.contains("\"finished\":true");
        let status = leave(work, id).with_context(|| format!("{}: lost", job.name))?;
        let seconds = begun.elapsed().as_secs_f64();
        let stopped = self.stop.load(Ordering::Relaxed) && !finished
            || status.code() == Some(i32::from(interrupt::STATUS));
        match (status.success(), finished) {
            (true, true) => lane.end(&format!("{} steps, {seconds:.0} s", job.steps), true),
            _ if stopped => lane.end("stopped, can be resumed", false),
            _ => {
                lane.end(&format!("failed ({status})"), false);
                let error = error.unwrap_or_else(|| format!("the process ended with {status}"));
                let hint =
                    hint.unwrap_or_else(|| format!("see its output in {}", job.log.display()));
                return Err(Hint::error(format!("{}: {error}", job.name), hint));
            }
        }
        Ok(finished)
    }
}

/// Waits for a process and removes it from the list, so that its id is not signaled later.
fn leave(work: &Work, id: u32) -> anyhow::Result<ExitStatus> {
    let mut running = work.running.lock().expect("no slot panics");
    let place = running.iter().position(|child| child.id() == id).context("not on the list")?;
    Ok(running.remove(place).wait()?)
}

/// Lets a process save and stop when this one is killed, instead of training on for nobody.
fn stop_with_parent(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::process::CommandExt;
        let parent = std::process::id();
        let ask = move || {
            // SAFETY: both are plain system calls, allowed between fork and exec.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                // The parent may have died before the request.
                if libc::getppid() != parent as libc::pid_t {
                    return Err(std::io::Error::other("the comparison has ended"));
                }
            }
            Ok(())
        };
        // SAFETY: `ask` allocates nothing but in the case that ends the process.
        unsafe { command.pre_exec(ask) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

/// Asks a process to save and stop.
fn end(child: &Child) {
    #[cfg(unix)]
    // SAFETY: the process was started here and not waited for, so its id is still its own.
    unsafe {
        libc::kill(child.id() as libc::pid_t, libc::SIGTERM);
    }
    #[cfg(not(unix))]
    let _ = child;
}

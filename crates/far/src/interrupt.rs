//! Ctrl-C and termination: where work can be put down the first signal asks for that, and everywhere
//! else it ends the program at once, with a word on how to go on.
//!
//! Ending at once is safe anywhere: every file is whole or absent whenever the program dies. What takes
//! long and can be kept, such as steps of a training, is put down instead.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit status after an interruption, as shells have it for Ctrl-C.
pub const STATUS: u8 = 130;

/// Set by the first signal.
static STOP: AtomicBool = AtomicBool::new(false);
/// Whether running work checks [`STOP`].
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Interrupted work; its message says how to resume.
#[derive(Debug)]
pub struct Interrupted(String);

impl Interrupted {
    /// An interruption with this message.
    pub fn error(message: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self(message.into()))
    }

    /// A training that was put down after a step.
    pub fn after(step: u64) -> anyhow::Error {
        Self::error(format!("stopped after step {step}; run the same command again to resume"))
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Interrupted {}

/// Installs the handler. On systems without Unix signals, Ctrl-C ends the program as it always does.
pub fn listen() {
    #[cfg(unix)]
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let handler = stop as extern "C" fn(libc::c_int);
        // SAFETY: the handler only uses atomics, `write` and `_exit`, all allowed in one.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

/// Runs work that looks at the flag it is given and puts itself down when it is set. A second signal
/// ends the program at once.
pub fn while_watched<T>(work: impl FnOnce(&AtomicBool) -> T) -> T {
    WATCHED.store(true, Ordering::SeqCst);
    let done = work(&STOP);
    WATCHED.store(false, Ordering::SeqCst);
    done
}

#[cfg(unix)]
extern "C" fn stop(_: libc::c_int) {
    let is_first = !STOP.swap(true, Ordering::SeqCst);
    if is_first && WATCHED.load(Ordering::SeqCst) {
        return;
    }
    let message = b"\ninterrupted; run the same command again to resume\n";
    // SAFETY: both are safe in a handler; the buffer lives as long as the program.
    unsafe {
        libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len());
        libc::_exit(libc::c_int::from(STATUS));
    }
}

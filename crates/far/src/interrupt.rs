//! Ctrl-C handling: the first asks the work to stop, the second ends the program.

use std::sync::atomic::AtomicBool;

/// Set by the first Ctrl-C or termination signal.
static STOP: AtomicBool = AtomicBool::new(false);

/// Installs the handler and returns the flag that it sets. On systems without Unix signals, Ctrl-C
/// ends the program at once, and the run can be resumed from its last checkpoint.
pub fn listen() -> &'static AtomicBool {
    #[cfg(unix)]
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let handler = stop as extern "C" fn(libc::c_int);
        // SAFETY: the handler only stores into an atomic and restores a default, both of which are
        // allowed in a signal handler.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
    &STOP
}

#[cfg(unix)]
extern "C" fn stop(signal: libc::c_int) {
    STOP.store(true, std::sync::atomic::Ordering::Relaxed);
    // SAFETY: `signal` is safe to call in a handler; the next signal of this kind ends the program.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

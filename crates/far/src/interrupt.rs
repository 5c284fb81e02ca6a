//! Ctrl-C as a wish: the first asks the work to come to an end, the second ends it.

use std::sync::atomic::AtomicBool;

/// Set by the first Ctrl-C, or by the system's request to end.
static STOP: AtomicBool = AtomicBool::new(false);

/// Begins to listen, and returns the flag that is set. Where signals are not those of Unix, Ctrl-C
/// ends the program at once, and the run goes on from its last checkpoint.
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
    // SAFETY: `signal` is safe to call in a handler; the next of the kind ends the program.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

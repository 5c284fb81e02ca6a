//! A pool of waiting threads: a recall over a large memory is split among them without starting
//! threads or allocating.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// The work of one round, called with the number of the thread. The lifetime is erased; `run` does
/// not return before every thread is done with it.
#[derive(Clone, Copy)]
struct Task(*const (dyn Fn(usize) + Sync));

// SAFETY: the pointee is `Sync`, and `Workers::run` keeps it alive while threads use it.
unsafe impl Send for Task {}

#[derive(Default)]
struct State {
    task: Option<Task>,
    round: u64,
    running: usize,
    failed: bool,
    stop: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No panic happens while the lock is held, so the state behind a poisoned lock is
        // consistent.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The waiting threads.
pub(crate) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts `count − 1` threads; the caller of [`run`](Self::run) is the first of `count`.
    pub(crate) fn new(count: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let threads = (1..count.max(1))
            .map(|number| {
                let shared = shared.clone();
                std::thread::spawn(move || work(&shared, number))
            })
            .collect();
        Self { shared, threads }
    }

    /// How many threads take part, with the caller.
    pub(crate) fn count(&self) -> usize {
        self.threads.len() + 1
    }

    /// Calls `task` once for each number below [`count`](Self::count), in parallel.
    ///
    /// # Panics
    /// If `task` panicked on another thread.
    pub(crate) fn run(&mut self, task: &(dyn Fn(usize) + Sync)) {
        // SAFETY: only the lifetime changes. `Finish` waits for all threads before this function
        // is left, even by a panic, so no thread uses the task after its borrow ends.
        let erased = unsafe {
            std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const (dyn Fn(usize) + Sync)>(
                task,
            )
        };
        {
            let mut state = self.shared.lock();
            state.task = Some(Task(erased));
            state.round += 1;
            state.running = self.threads.len();
            state.failed = false;
        }
        self.shared.changed.notify_all();
        let finish = Finish(&self.shared);
        task(0);
        drop(finish);
        assert!(!self.shared.lock().failed, "a recall thread panicked");
    }
}

/// Waits on drop until all threads have left the round.
struct Finish<'a>(&'a Shared);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        while state.running > 0 {
            state = self.0.wait(state);
        }
        state.task = None;
    }
}

fn work(shared: &Shared, number: usize) {
    let mut seen = 0;
    loop {
        let task = {
            let mut state = shared.lock();
            while !state.stop && state.round == seen {
                state = shared.wait(state);
            }
            if state.stop {
                return;
            }
            seen = state.round;
            state.task
        };
        // SAFETY: `run` waits for this thread to leave the round before the task's borrow ends.
        let outcome =
            task.map(|task| catch_unwind(AssertUnwindSafe(|| unsafe { (*task.0)(number) })));
        let mut state = shared.lock();
        state.failed |= matches!(outcome, Some(Err(_)));
        state.running -= 1;
        drop(state);
        shared.changed.notify_all();
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A task's panic was reported by `run`; the thread itself ends normally.
            let _ = thread.join();
        }
    }
}

/// A slice that several threads write to in disjoint parts.
#[derive(Clone, Copy)]
pub(crate) struct SharedSlice<'a, T> {
    start: *mut T,
    length: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: it represents a `&mut [T]`; callers of `part` must not overlap.
unsafe impl<T: Send> Send for SharedSlice<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for SharedSlice<'_, T> {}

impl<'a, T> SharedSlice<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), length: slice.len(), borrow: PhantomData }
    }

    /// The elements `first..first + count`.
    ///
    /// # Safety
    /// No two parts that live at the same time overlap.
    ///
    /// # Panics
    /// If the range is out of bounds.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn part(&self, first: usize, count: usize) -> &mut [T] {
        let fits = first.checked_add(count).is_some_and(|end| end <= self.length);
        assert!(fits, "part within the slice");
        // SAFETY: in range by the assertion, exclusive access is guaranteed by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(first), count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_takes_part_in_every_round() {
        let mut workers = Workers::new(3);
        let mut sums = vec![0usize; workers.count()];
        for round in 0..100 {
            let shared = SharedSlice::new(&mut sums);
            // SAFETY: each thread has its own element.
            workers.run(&|number| unsafe { shared.part(number, 1)[0] += round + number });
        }
        assert_eq!(sums, [4950, 5050, 5150]);
    }

    #[test]
    fn a_panic_on_another_thread_reaches_the_caller() {
        let mut workers = Workers::new(2);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            workers.run(&|number| assert!(number != 1, "as planned"));
        }));
        assert!(outcome.is_err());
        workers.run(&|_| {});
    }
}

//! Pinned memory of the host that copies to the GPU go through.
//!
//! From ordinary memory the driver copies in small pieces and lets the host wait for work that was
//! launched before. From pinned memory a copy takes its place in the stream, and the host goes on: it can
//! prepare the next part of a batch while the GPU works on the last one.

use super::context::{Context, failed};
use crate::Result;
use cudarc::driver::{result, sys};
use rayon::prelude::*;
use std::sync::Mutex;

/// Fewer bytes are copied at once: the driver has room for them elsewhere.
const FEW: usize = 32 << 10;
/// The most bytes that are pinned; beyond, the host waits for a block to become free.
const MOST: usize = 512 << 20;
/// More bytes than this are copied into a block by all threads.
const MANY: usize = 1 << 20;

/// A block of pinned memory, and the event that marks the end of the last copy from it.
struct Block {
    pointer: *mut u8,
    bytes: usize,
    read: sys::CUevent,
}

// SAFETY: neither memory nor events are tied to a thread, and a block has one owner at a time.
unsafe impl Send for Block {}

#[derive(Default)]
struct Blocks {
    /// In the order of their last use.
    free: Vec<Block>,
    pinned: usize,
}

/// The pinned memory of a GPU's stream.
#[derive(Default)]
pub(super) struct Staging {
    blocks: Mutex<Blocks>,
}

impl Staging {
    /// Copies rows, one behind another, to an address of the GPU. `false`: it is not done, because there
    /// is too little for it to pay or no memory can be pinned.
    ///
    /// # Errors
    /// If the GPU has failed.
    pub(super) fn copy<T: Copy + Send + Sync>(
        &self,
        context: &Context,
        target: u64,
        rows: &[&[T]],
    ) -> Result<bool> {
        let bytes = rows.iter().map(|row| size_of_val(*row)).sum();
        if bytes < FEW {
            return Ok(false);
        }
        context.bind()?;
        let Some(block) = self.take(bytes)? else { return Ok(false) };
        // SAFETY: the block holds as many bytes, nobody else has it, and its last copy is over. Pinned
        // memory is aligned to pages.
        let place: &mut [std::mem::MaybeUninit<u8>] =
            unsafe { std::slice::from_raw_parts_mut(block.pointer.cast(), bytes) };
        fill(place, rows);
        let stream = context.stream();
        // SAFETY: all bytes were just written; the block is not written again before `read` is over.
        let copied = unsafe {
            let filled = std::slice::from_raw_parts(block.pointer, bytes);
            result::memcpy_htod_async(target, filled, stream)
                .and_then(|()| result::event::record(block.read, stream))
        };
        let copied = copied.map_err(failed("writing to the GPU"));
        self.blocks.lock().expect("no user panics while it holds the blocks").free.push(block);
        copied.map(|()| true)
    }

    /// A block that holds `bytes` and whose last copy is over; `None` where none can be had.
    fn take(&self, bytes: usize) -> Result<Option<Block>> {
        let size = bytes.next_power_of_two();
        let mut blocks = self.blocks.lock().expect("no user panics while it holds the blocks");
        let fitting = |block: &Block| block.bytes == size;
        // SAFETY: the event is alive.
        let over = |block: &Block| unsafe { result::event::query(block.read) }.is_ok();
        let found = blocks.free.iter().position(|block| fitting(block) && over(block));
        if let Some(place) = found {
            return Ok(Some(blocks.free.remove(place)));
        }
        if blocks.pinned + size <= MOST
            && let Some(block) = pin(size)
        {
            blocks.pinned += size;
            return Ok(Some(block));
        }
        let Some(place) = blocks.free.iter().position(fitting) else { return Ok(None) };
        let block = blocks.free.remove(place);
        drop(blocks);
        // SAFETY: the event is alive.
        let waited = unsafe { result::event::synchronize(block.read) };
        waited.map_err(failed("waiting for a copy to the GPU"))?;
        Ok(Some(block))
    }

    /// Unpins everything. Copies must be over, and the context bound.
    pub(super) fn release(&mut self) {
        let Ok(blocks) = self.blocks.get_mut() else { return };
        for block in blocks.free.drain(..) {
            // SAFETY: memory and event are alive and given back once. A failure here has no remedy.
            unsafe {
                let _ = result::event::destroy(block.read);
                let _ = result::free_host(block.pointer.cast());
            }
        }
    }
}

/// A new block, unless the system refuses.
fn pin(bytes: usize) -> Option<Block> {
    let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
    let read = result::event::create(flags).ok()?;
    // SAFETY: the context is bound; the memory is given back in `release` only.
    match unsafe { result::malloc_host(bytes, 0) } {
        Ok(pointer) => Some(Block { pointer: pointer.cast(), bytes, read }),
        Err(_) => {
            // SAFETY: the event was just made and nobody else has it.
            let _ = unsafe { result::event::destroy(read) };
            None
        }
    }
}

/// Copies rows of the host one behind another into `place`, which has as many bytes.
fn fill<T: Copy + Send + Sync>(place: &mut [std::mem::MaybeUninit<u8>], rows: &[&[T]]) {
    /// Bytes that a thread copies at a time.
    const PIECE: usize = 256 << 10;
    // A worker of the pool that waits for others takes up other work meanwhile, perhaps some that wants a lock
    // which its caller holds: it copies alone.
    let many = place.len() > MANY && rayon::current_thread_index().is_none();
    let mut rest = place;
    let mut pieces = Vec::with_capacity(rows.len());
    for row in rows {
        // SAFETY: any plain value can be read as bytes, as many as it has; padding is copied, not looked
        // at.
        let bytes: &[std::mem::MaybeUninit<u8>] =
            unsafe { std::slice::from_raw_parts(row.as_ptr().cast(), size_of_val(*row)) };
        for piece in bytes.chunks(PIECE) {
            let (own, behind) = rest.split_at_mut(piece.len());
            pieces.push((own, piece));
            rest = behind;
        }
    }
    if many {
        pieces.into_par_iter().for_each(|(own, piece)| own.copy_from_slice(piece));
    } else {
        pieces.into_iter().for_each(|(own, piece)| own.copy_from_slice(piece));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::gpus;

    #[test]
    fn rows_lie_one_behind_another() {
        let long: Vec<f32> = (0..700_000).map(|number| number as f32).collect();
        let short = [5.0, 6.0];
        let mut place = vec![std::mem::MaybeUninit::new(0_u8); 4 * (long.len() + 2 + long.len())];
        fill(&mut place, &[&long[..], &short, &long]);
        let found: Vec<f32> = place
            .chunks_exact(4)
            // SAFETY: every byte was initialized.
            .map(|bytes| unsafe { [0, 1, 2, 3].map(|place: usize| bytes[place].assume_init()) })
            .map(f32::from_le_bytes)
            .collect();
        assert_eq!(found, [&long[..], &short, &long].concat());
    }

    /// Sixteen workers, some of which copy under one lock: whoever waits for a helper must not come upon work
    /// that wants the lock as well.
    #[test]
    fn workers_that_copy_under_a_lock_do_not_wait_for_themselves() {
        let row = vec![1.0_f32; 2 << 20];
        let place = Mutex::new(vec![std::mem::MaybeUninit::new(0_u8); size_of_val(&row[..])]);
        let begun = std::time::Instant::now();
        let pause = |micros: u64| std::thread::sleep(std::time::Duration::from_micros(micros));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(16).build().unwrap();
        pool.install(|| {
            (0..1000_u64).into_par_iter().for_each(|task| {
                if !task.is_multiple_of(3) {
                    return pause(task * 7919 % 400);
                }
                let mut place = loop {
                    match place.try_lock() {
                        Ok(place) => break place,
                        Err(_) => {
                            assert!(begun.elapsed().as_secs() < 60, "a worker waits for itself")
                        }
                    }
                    pause(50);
                };
                fill(&mut place, &[&row]);
            });
        });
    }

    /// Many copies in flight at once, more than are pinned, each of other numbers.
    #[test]
    fn a_block_is_not_written_before_its_copy_is_over() {
        for (_, device) in gpus() {
            let cuda = device.gpu().unwrap();
            let length = 3 << 20;
            let buffers: Vec<_> =
                (0..60).map(|number| cuda.upload(&vec![number as f32; length]).unwrap()).collect();
            for (number, buffer) in buffers.iter().enumerate() {
                let mut found = vec![0.0; length];
                buffer.read(&mut found).unwrap();
                assert!(found.iter().all(|value| *value == number as f32), "copy {number}");
            }
        }
    }
}

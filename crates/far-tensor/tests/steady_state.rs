//! A training step in steady state allocates nothing that grows with the data, memory does not grow
//! over a thousand steps, and the number of threads does not change a byte.

use far_tensor::{
    Activation, AdamWConfig, Affine, ArenaBuilder, Attention, CheckpointWriter, Device,
    Initialization, Modulation, Parameters, Random, Result, Tape, Tensor, Trained,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the requests that are as large as a column of the data.
struct Counting;

static LARGE: AtomicUsize = AtomicUsize::new(0);
static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGE.fetch_add(usize::from(layout.size() >= ROWS * size_of::<f32>()), Ordering::Relaxed);
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
/// The counters are the process's, so one test at a time may read them.
static ALONE: Mutex<()> = Mutex::new(());

const WIDTH: usize = 32;
const ROWS: usize = 640;

fn network() -> Parameters {
    let mut builder = ArenaBuilder::new("network");
    builder.linear("qkv", WIDTH, 3 * WIDTH, Initialization::Xavier);
    builder.linear("expand", WIDTH, 4 * WIDTH, Initialization::Xavier);
    builder.parameter("expand.bias", [4 * WIDTH], Initialization::Zero);
    builder.linear("contract", 4 * WIDTH, WIDTH, Initialization::Xavier);
    builder.linear("modulation", WIDTH, 3 * WIDTH, Initialization::Xavier);
    builder.parameter("scale", [WIDTH], Initialization::One);
    builder.parameter("offset", [WIDTH], Initialization::Zero);
    builder.build(5)
}

fn loss(tape: &mut Tape, p: &Parameters, x: &Tensor, condition: &Tensor) -> Result<Tensor> {
    let get = |name: &str| p.tensor(p.find(name).expect("a parameter of the network"));
    let condition = tape.activate(condition, Activation::Silu)?;
    let vectors = tape.linear(&condition, &get("modulation"), None)?.reshape([8, 3, WIDTH])?;
    let (scale, offset) = (get("scale"), get("offset"));
    let affine = Affine { scale: &scale, offset: &offset };
    let modulation = Modulation { vectors: &vectors, shift: 0, scale: 1 };
    let y = tape.modulated_norm(x, Some(affine), modulation, 1e-6)?;
    let y = tape.linear(&y, &get("qkv"), None)?;
    let y = tape.self_attention(&y, Attention { heads: 2, groups: 8, key_mask: None })?;
    let y = tape.gated_residual(x, &y, &vectors, 2)?;
    let y = tape.linear_gelu(&y, &get("expand"), Some(&get("expand.bias")))?;
    let y = tape.linear(&y, &get("contract"), None)?;
    let difference = tape.subtract(&y, x)?;
    let square = tape.multiply(&difference, &difference)?;
    tape.mean(&square)
}

struct Run {
    trained: Trained,
    device: Device,
    x: Tensor,
    condition: Tensor,
}

impl Run {
    fn new(threads: usize) -> Self {
        let fill = |purpose: &str, count: usize| {
            let mut values = vec![0.0; count];
            Random::stream(9, purpose, 0).fill_normal(&mut values);
            values
        };
        let config = AdamWConfig { learning_rate: 1e-3, warm_up: 0, ..AdamWConfig::default() };
        Self {
            trained: Trained::new(network(), config),
            device: Device::with_threads(threads),
            x: Tensor::from_slice(&fill("x", ROWS * WIDTH), [ROWS, WIDTH]).unwrap(),
            condition: Tensor::from_slice(&fill("condition", 8 * WIDTH), [8, WIDTH]).unwrap(),
        }
    }

    fn steps(&mut self, count: usize) {
        let Self { trained, device, x, condition } = self;
        let device = device.clone();
        device.run(|| {
            for _ in 0..count {
                trained.step(&device, 1, |tape, p, _| loss(tape, p, x, condition)).unwrap();
            }
        });
    }

    fn checkpoint(&self, name: &str) -> Vec<u8> {
        let path = std::env::temp_dir().join(format!("far-{name}-{}", std::process::id()));
        let Trained { parameters, optimizer, .. } = &self.trained;
        let writer = CheckpointWriter::new().parameters("model.", parameters);
        writer.optimizer("optimizer.", parameters, optimizer).save(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        bytes
    }
}

#[test]
fn a_steady_step_makes_no_large_allocation_and_memory_does_not_grow() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    const THREADS: usize = 2;
    let mut run = Run::new(THREADS);
    run.steps(20);
    LARGE.store(0, Ordering::Relaxed);
    let before = LIVE.load(Ordering::Relaxed);
    run.steps(1_000);
    let (large, after) = (LARGE.load(Ordering::Relaxed), LIVE.load(Ordering::Relaxed));
    // A thread that had no work during warm-up may still allocate its scratch memory once; anything
    // per step would add up to a thousand.
    assert!(large <= 8 * THREADS, "1,000 steps made {large} large allocations");
    let scratch = THREADS * 2 * 1024 * 1024;
    assert!(after < before + scratch, "memory grew from {before} to {after} bytes");
}

#[test]
fn checkpoints_are_the_same_bytes_for_any_number_of_threads() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let bytes = |threads: usize, name: &str| {
        let mut run = Run::new(threads);
        run.steps(25);
        run.checkpoint(name)
    };
    let one = bytes(1, "one");
    assert!(one == bytes(1, "again"), "a repeat differs");
    assert!(one == bytes(2, "two"), "two threads differ from one");
    assert!(one == bytes(5, "five"), "five threads differ from one");
}

//! A recall allocates nothing once its buffers have grown.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::retriever_file;
use far_memory::policy::{PolicyConfig, RuleConfig};
use far_memory::{Cue, Memory, Observation, Pose, Recall, RecallQuery, Schema, Scratch};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting calls by thread.
struct Counting;

// SAFETY: every call is forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: guaranteed by the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn no_policy_allocates_after_warm_up() {
    let schema = Schema::new(vec![Cue::metadata("meta"), Cue::key("vision", 8)]);
    let mut memory = Memory::new(schema.expect("valid"));
    let pose = |step: f32| {
        Pose::from_yaw_pitch([3.0 * step.cos(), 2.0 * step.sin(), 1.6], 2.0 * step, 0.2)
    };
    for index in 0..300 {
        let step = index as f32 * 0.07;
        let key: [f32; 8] = std::array::from_fn(|axis| (step * (axis as f32 + 1.0)).cos());
        let observation = Observation::new(0.2 * index as f64, pose(step)).with_key("vision", &key);
        memory.append(&observation).expect("valid");
    }
    let snapshot = memory.snapshot();
    let horizon: Vec<Pose> = (0..12).map(|step| pose(21.0 + 0.05 * step as f32)).collect();
    let query = RecallQuery::new(60.0, pose(20.9), horizon[11])
        .with_horizon(&horizon)
        .with_key("vision", &[0.5; 8]);
    for id in RuleConfig::IDS {
        let mut config = PolicyConfig::from_id(id).expect("known");
        if let RuleConfig::Far(far) = &mut config.rule {
            far.retriever = retriever_file::path(8);
        }
        let policy = config.build().expect("valid");
        let (mut scratch, mut recall) = (Scratch::new(), Recall::new());
        let mut run = || {
            let before = ALLOCATIONS.with(Cell::get);
            policy.recall(&snapshot, &query, 8, &mut scratch, &mut recall).expect("valid");
            ALLOCATIONS.with(Cell::get) - before
        };
        let warm_up = run();
        assert!(warm_up > 0 || *id == "none", "{id} is not counted");
        assert_eq!((run(), run()), (0, 0), "{id} allocates");
    }
}

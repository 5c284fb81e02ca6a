//! A recall allocates nothing after its first run. Its own program, because it counts every
//! allocation of the process.

use far_memory::{
    Cue, Memory, Observation, Pool, Pose, Recall, RecallPolicy, RecallQuery, Retriever,
    RetrieverConfig, Schema, Scratch, SetConfig,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is passed on unchanged to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_second_recall_allocates_nothing() {
    let paper = RetrieverConfig::meta_and_vision(32);
    let (length_scale, time_scale, key) = (4.0, 1.0, Some("vision".to_owned()));
    let sets = [false, true].map(|abstains| {
        let set = SetConfig { length_scale, time_scale, key: key.clone(), abstains };
        RetrieverConfig { set: Some(set), ..paper.clone() }
    });
    sets.into_iter().chain([paper]).for_each(second_recall);
}

fn second_recall(config: RetrieverConfig) {
    let zeros = config.tensors().into_iter().map(|(name, shape)| {
        let count = shape.iter().product();
        (name, (shape, vec![0.01f32; count]))
    });
    let retriever = Retriever::from_tensors(config.clone(), zeros.collect()).expect("valid");
    let schema = Schema::new(vec![Cue::metadata("meta"), Cue::key("vision", 32)]).expect("valid");
    let mut memory = Memory::new(schema);
    for number in 0..10_000 {
        let key: Vec<f32> = (0..32).map(|place| ((number * place) % 7) as f32 - 2.9).collect();
        let pose = Pose::from_yaw_pitch([number as f32 * 0.1, 0.0, 0.0], number as f32, 0.0);
        memory
            .append(&Observation::new(f64::from(number), pose).with_key("vision", &key))
            .expect("valid");
    }
    let snapshot = memory.snapshot();
    let mut query =
        RecallQuery::new(1e4, Pose::identity(), Pose::identity()).with_key("vision", &[0.5; 32]);
    for threads in [1, 3] {
        let retriever = retriever.clone().with_threads(threads);
        let (mut scratch, mut recall) = (Scratch::new(), Recall::new());
        let mut run = |query: &RecallQuery| {
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            retriever.recall(&snapshot, query, 11, &mut scratch, &mut recall).expect("valid");
            assert_eq!(recall.len(), 11);
            ALLOCATIONS.load(Ordering::Relaxed) - before
        };
        query.pool = Pool::All;
        assert!(run(&query) > 0, "the first recall allocates");
        query.set_key("vision", &[0.25; 32]);
        assert_eq!(run(&query), 0);
        query.pool = Pool::Range(5..9000);
        assert_eq!(run(&query), 0);
        query.pool = Pool::All;
        assert_eq!(run(&query), 0);
    }
}

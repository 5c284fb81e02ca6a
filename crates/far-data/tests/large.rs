//! A dataset of 100,000 episodes opens by its index alone.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_ipc::writer::FileWriter;
use far_data::*;

const EPISODES: u32 = 100_000;

#[test]
fn a_hundred_thousand_episodes_open_lazily() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut description = DatasetDescription::new("large", 20.0, [64, 64], [90.0, 90.0]);
    description.splits = vec![SplitRule::SceneDisjoint, SplitRule::Episode];
    std::fs::write(folder.path().join("dataset.json"), description.to_json()).expect("writable");
    let ids = || 0..EPISODES;
    let text = |of: &dyn Fn(u32) -> String| {
        Arc::new(StringArray::from_iter_values(ids().map(of))) as ArrayRef
    };
    let part = |test: bool| if test { "test" } else { "train" }.to_string();
    let batch = RecordBatch::try_from_iter([
        ("id", Arc::new(UInt32Array::from_iter_values(ids())) as ArrayRef),
        ("scene", text(&|id| format!("scene-{}", id % 120))),
        ("split", text(&|id| part(id % 120 >= 96))),
        ("second_split", text(&|id| part(id % 5 == 0))),
        ("frames", Arc::new(UInt32Array::from_iter_values(ids().map(|id| 500 + id % 300)))),
        ("boundary", Arc::new(UInt32Array::from_iter_values(ids().map(|id| 300 + id % 100)))),
        ("route", text(&|_| "ABA".to_string())),
        ("seed", Arc::new(UInt64Array::from_iter_values(ids().map(u64::from)))),
        ("hash", text(&|id| format!("{id:064x}"))),
    ]);
    let batch = batch.expect("columns fit");
    let file = std::fs::File::create(folder.path().join("episodes.arrow")).expect("writable");
    let mut writer = FileWriter::try_new(file, &batch.schema()).expect("arrow");
    // Several batches, as other writers make them.
    for start in (0..EPISODES as usize).step_by(30_000) {
        let length = 30_000.min(EPISODES as usize - start);
        writer.write(&batch.slice(start, length)).expect("written");
    }
    writer.finish().expect("written");

    let clock = std::time::Instant::now();
    let dataset = Dataset::open(folder.path()).expect("opens without a single episode file");
    println!("opened {} episodes in {:?}", dataset.len(), clock.elapsed());
    assert_eq!(dataset.len(), EPISODES as usize);
    assert_eq!(dataset.select(SplitRule::SceneDisjoint, Split::Test).expect("there").len(), 19_992);
    assert_eq!(dataset.select(SplitRule::Episode, Split::Test).expect("there").len(), 20_000);
    for id in [0, 29_999, 30_000, 99_999] {
        let summary = dataset.summary(id).expect("listed");
        assert_eq!((summary.id, summary.frames), (id, 500 + id % 300));
        assert_eq!(summary.facts.scene, format!("scene-{}", id % 120));
    }
    let sampler =
        TrainingSampler::new(&dataset, SamplingConfig::default()).expect("no file opened");
    assert!(matches!(sampler.batch(0), Err(DataError::Missing { .. })));
}

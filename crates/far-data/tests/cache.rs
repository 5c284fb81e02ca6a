//! Caches of latents and keys are made once, and again when what made them changes.

mod fixture;

use std::cell::Cell;
use std::path::Path;

use far_data::*;
use fixture::*;

/// Two numbers per frame and a count of how often they were made.
fn make(made: &Cell<u32>) -> impl Fn(&Episode) -> Result<Vec<CachedTensor>> + '_ {
    move |episode| {
        made.set(made.get() + 1);
        let tensor = |name: &str, precision| CachedTensor {
            name: name.into(),
            shape: vec![episode.len(), 2],
            values: (0..2 * episode.len()).map(|i| i as f32 * 0.5).collect(),
            precision,
        };
        Ok(vec![tensor("latents", Precision::Half), tensor("keys", Precision::Single)])
    }
}

fn count(folder: &Path) -> usize {
    std::fs::read_dir(folder).expect("there").count()
}

#[test]
fn tensors_are_made_once_per_recipe_and_read_by_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = write_dataset(folder.path(), 2);
    let root = folder.path().join("cache");
    let cache = TensorCache::new(&root, "latents", "pca of 3 components");
    let made = Cell::new(0);
    assert!(cache.get(&dataset, 0).expect("readable").is_none());
    for _ in 0..3 {
        let tensors = cache.get_or_make(&dataset, 0, make(&made)).expect("made");
        assert_eq!(tensors.shape("latents").expect("there"), [FRAMES, 2]);
        let mut row = Vec::new();
        assert_eq!(tensors.row("latents", 100, &mut row).expect("there"), 2);
        assert_eq!(tensors.row("keys", 7, &mut row).expect("there"), 2);
        assert_eq!(row, [100.0, 100.5, 7.0, 7.5]);
        assert_eq!(tensors.tensor("keys").expect("there").values.len(), 2 * FRAMES);
        assert!(tensors.row("keys", FRAMES, &mut row).is_err() && tensors.shape("audio").is_err());
    }
    assert_eq!(made.get(), 1);
    let other = TensorCache::new(&root, "latents", "pca of 4 components");
    other.get_or_make(&dataset, 0, make(&made)).expect("made");
    assert_eq!(made.get(), 2);
    assert!(cache.get(&dataset, 0).expect("readable").is_some());
}

#[test]
fn damaged_and_outdated_files_are_made_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = write_dataset(folder.path(), 1);
    let cache = TensorCache::new(&folder.path().join("cache"), "keys", "v1");
    let made = Cell::new(0);
    cache.get_or_make(&dataset, 0, make(&made)).expect("made");
    let file =
        std::fs::read_dir(cache.folder()).expect("there").next().expect("one").expect("one").path();
    let bytes = std::fs::read(&file).expect("there");
    for length in [0, 4, 60, bytes.len() - 1] {
        std::fs::write(&file, &bytes[..length]).expect("writable");
        assert!(cache.get(&dataset, 0).expect("readable").is_none());
    }
    cache.get_or_make(&dataset, 0, make(&made)).expect("made");
    assert_eq!((made.get(), std::fs::read(&file).expect("there")), (2, bytes));

    // The episode is recorded anew with another content: its tensors are made anew too.
    std::fs::remove_file(episode_file(folder.path(), 0)).expect("there");
    let writer = DatasetWriter::create(folder.path(), description()).expect("goes on");
    let mut episode = writer.episode(0, facts(0)).expect("begins");
    (0..FRAMES).for_each(|index| episode.push(frame(9, index)).expect("written"));
    episode.finish().expect("ends");
    writer.finish().expect("ends");
    let dataset = Dataset::open(folder.path()).expect("opens");
    cache.get_or_make(&dataset, 0, make(&made)).expect("made");
    assert_eq!((made.get(), count(cache.folder())), (3, 1));
}

#[test]
fn tensors_must_have_a_row_per_frame() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = write_dataset(folder.path(), 1);
    let cache = TensorCache::new(&folder.path().join("cache"), "keys", "v1");
    let short = |_: &Episode| {
        let (name, shape, values) = ("keys".to_string(), vec![3, 1], vec![0.0; 3]);
        Ok(vec![CachedTensor { name, shape, values, precision: Precision::Single }])
    };
    let error = cache.get_or_make(&dataset, 0, short).err().expect("refused");
    assert!(error.to_string().contains("[3, 1]"));
}

//! Keys of somebody else's become a column, and what does not fit changes nothing.

mod fixture;

use std::collections::HashMap;
use std::path::Path;

use far_data::{Dataset, add_key_column, verify_episode};
use fixture::{FRAMES, write_dataset};
use safetensors::tensor::{Dtype, TensorView};

fn write(path: &Path, tensors: &[(&str, Vec<usize>, Vec<f32>)]) {
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(.., values)| values.iter().flat_map(|x| x.to_le_bytes()).collect())
        .collect();
    let views = tensors.iter().zip(&bytes).map(|((name, shape, _), bytes)| {
        (*name, TensorView::new(Dtype::F32, shape.clone(), bytes).expect("sizes fit"))
    });
    let file = safetensors::serialize(views, None::<HashMap<String, String>>).expect("serialized");
    std::fs::write(path, file).expect("written");
}

#[test]
fn keys_become_a_column_and_stay_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, file) = (folder.path().join("data"), folder.path().join("keys.safetensors"));
    let dataset = write_dataset(&data, 2);
    let values: Vec<f32> = (0..2 * FRAMES * 3).map(|at| at as f32).collect();
    write(&file, &[("keys", vec![2 * FRAMES, 3], values)]);
    assert_eq!(add_key_column(&dataset, "dino", &file).expect("added"), (2 * FRAMES, 3));
    let again = Dataset::open(&data).expect("opens");
    for id in 0..2u32 {
        let episode = verify_episode(&again, id).expect("whole");
        let column = episode.numbers("dino").expect("there");
        let first = (id as usize * FRAMES * 3) as f32;
        assert_eq!(column.row(0), [first, first + 1.0, first + 2.0]);
        assert_eq!(episode.unknown_columns(), ["dino"]);
    }
    // By episode, in place of those.
    let own = |id: f32| vec![id; FRAMES * 2];
    write(&file, &[("000000", vec![FRAMES, 2], own(5.0)), ("000001", vec![FRAMES, 2], own(6.0))]);
    add_key_column(&again, "dino", &file).expect("replaced");
    let episode = Dataset::open(&data).expect("opens").episode(1).expect("opens");
    assert_eq!(episode.numbers("dino").expect("there").row(FRAMES - 1), [6.0, 6.0]);
    assert_eq!(episode.unknown_columns(), ["dino"]);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, file) = (folder.path().join("data"), folder.path().join("keys.safetensors"));
    let dataset = write_dataset(&data, 2);
    let before = std::fs::read(data.join("episodes/000000.arrow")).expect("there");
    let whole = vec![0.5; FRAMES * 2];
    let mut broken = whole.clone();
    broken[7] = f32::NAN;
    for (name, tensors, words) in [
        ("a", vec![("keys", vec![FRAMES, 2], whole.clone())], "300 rows for 600 frames"),
        ("a", vec![("000000", vec![FRAMES, 2], whole.clone())], "no tensor 000001"),
        ("a", vec![("000000", vec![FRAMES * 2], whole.clone())], "[frames, n]"),
        ("a", vec![("000000", vec![FRAMES, 2], broken)], "frame 3 is not finite"),
        ("rotation", vec![("000000", vec![FRAMES, 2], whole.clone())], "cannot name a column"),
        ("A b", vec![("000000", vec![FRAMES, 2], whole)], "cannot name a column"),
    ] {
        write(&file, &tensors);
        let error = add_key_column(&dataset, name, &file).expect_err(words).to_string();
        assert!(error.contains(words), "{error} should say {words}");
    }
    assert_eq!(std::fs::read(data.join("episodes/000000.arrow")).expect("there"), before);
}

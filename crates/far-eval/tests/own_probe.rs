//! The example of `docs/adding-a-probe.md` does what the document says.

#[path = "../examples/own_probe/sharpness.rs"]
mod sharpness;
#[path = "../examples/own_probe/walk.rs"]
mod walk;

use far_eval::{Headline, MetricTable, Results, markdown};
use std::path::Path;

#[test]
fn a_probe_is_a_file_and_a_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let results = walk::evaluate(folder.path()).expect("an evaluation");
    let sharpness = |arm: &str| results.arms[arm]["sharpness"].mean;
    // True frames are as sharp as they are; pasted ones are other true frames of the same wall.
    assert_eq!(sharpness("tokenizer"), 1.0);
    assert!((sharpness("copy") - 1.0).abs() < 0.2, "{}", sharpness("copy"));
    assert!(sharpness("nearest-pose") > 0.0);
    assert!(results.paired["copy"]["nearest-pose"].contains_key("sharpness"));

    // Whoever reads the file learns what the metric means.
    let read = Results::read(folder.path()).expect("results.json");
    let metric = read.metric("sharpness");
    assert_eq!((metric.label.as_str(), metric.table), ("Sharpness", MetricTable::Probe));
    let headline = Headline::of(&read);
    let column = headline.column("sharpness").expect("a column");
    assert!(headline.metrics[column].note.contains("1 is as sharp"));
    assert!(markdown("wall", &read).contains("- Sharpness: edges of the rollout"));
}

#[test]
fn the_document_shows_the_file_as_it_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = std::fs::read_to_string(root.join("docs/adding-a-probe.md")).expect("there");
    let shown = include_str!("../examples/own_probe/sharpness.rs");
    assert!(document.contains(shown.trim_end()), "docs/adding-a-probe.md shows another file");
}

//! A user's own data: tables written by an Arrow library with only the required columns, as by
//! `examples/write_dataset.py`, can be trained on as they are; an additional column of numbers
//! becomes a cue by one setting.

use arrow_array::{
    ArrayRef, BinaryArray, FixedSizeListArray, Float32Array, Float64Array, RecordBatch,
    StringArray, UInt32Array,
};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field};
use serde_json::{Value, json};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

const FRAMES: u32 = 40;
const BOUNDARY: u32 = 20;

fn far(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_far")).args(arguments).output().expect("far runs")
}

/// Writes a table as pyarrow does: every column is nullable and has no metadata.
fn write(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length");
    let file = File::create(path).expect("a file");
    let mut writer = FileWriter::try_new(file, batch.schema_ref()).expect("a table");
    writer.write(&batch).expect("written");
    writer.finish().expect("written");
}

/// Rows of `size` numbers.
fn rows(size: i32, numbers: impl IntoIterator<Item = f32>) -> ArrayRef {
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    let numbers = Arc::new(Float32Array::from_iter_values(numbers));
    Arc::new(FixedSizeListArray::new(item, size, numbers, None))
}

/// Three walks east and back, facing east; each frame has one color. `touch` gives the values of a
/// column `touch` for each episode and frame, if there is one.
fn write_dataset(folder: &Path, touch: Option<fn(u32, u32) -> Vec<f32>>) {
    std::fs::create_dir_all(folder.join("episodes")).expect("a folder");
    let description = json!({
        "format": "far-dataset", "version": 1, "corpus": "mine", "fps": 10, "resolution": [8, 8],
        "field_of_view": { "horizontal_degrees": 90, "vertical_degrees": 90 }, "images": "raw",
        "cues": ["metadata", "vision"], "splits": ["episode"],
        "generator": { "name": "mine", "version": 1, "seed": 0 },
    });
    std::fs::write(folder.join("dataset.json"), description.to_string()).expect("written");
    let meters = |frame: u32| 0.1 * frame.min(FRAMES - frame) as f32;
    for id in 0..3u32 {
        let pictures = (0..FRAMES)
            .map(|frame| [(100.0 * meters(frame)) as u8, 60 * id as u8, 9].repeat(8 * 8));
        let phase = |frame: u32| if frame < BOUNDARY { "explore" } else { "return" };
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            (
                "time",
                Arc::new(Float64Array::from_iter_values(
                    (0..FRAMES).map(|frame| f64::from(frame) / 10.0),
                )),
            ),
            ("position", rows(3, (0..FRAMES).flat_map(|frame| [meters(frame), 0.0, 1.6]))),
            ("rotation", rows(4, (0..FRAMES).flat_map(|_| [0.5, -0.5, 0.5, -0.5]))),
            ("phase", Arc::new(StringArray::from_iter_values((0..FRAMES).map(phase)))),
            ("image", Arc::new(BinaryArray::from_iter_values(pictures))),
        ];
        columns.extend(touch.map(|touch| {
            let numbers = (0..FRAMES).flat_map(|frame| touch(id, frame));
            ("touch", rows(touch(id, 0).len() as i32, numbers))
        }));
        write(&folder.join(format!("episodes/{id:06}.arrow")), columns);
    }
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(UInt32Array::from_iter_values(0..3))),
        ("scene", Arc::new(StringArray::from(vec!["room"; 3]))),
        ("split", Arc::new(StringArray::from(vec!["train", "train", "test"]))),
        ("frames", Arc::new(UInt32Array::from(vec![FRAMES; 3]))),
        ("boundary", Arc::new(UInt32Array::from(vec![BOUNDARY; 3]))),
    ];
    write(&folder.join("episodes.arrow"), columns);
}

#[test]
fn tables_with_the_required_columns_alone_are_trained_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let [data, run] = ["data", "run"].map(|name| folder.path().join(name));
    write_dataset(&data, None);
    let [data, out] = [&data, &run].map(|path| path.to_str().expect("a plain path"));
    let verified = far(&["data", "verify", data]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    let sets = ["training.steps=3", "encoder.pretraining.steps=2", "evaluation.questions=1"];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let command = ["train", "--config", "quick", "--data", data, "--out", out, "--json"];
    let trained = far(&[&command[..], &sets].concat());
    assert!(trained.status.success(), "{}", String::from_utf8_lossy(&trained.stderr));
    let summary: Value = serde_json::from_slice(&trained.stdout).expect("JSON");
    assert_eq!((&summary["finished"], &summary["step"]), (&true.into(), &3.into()));
    assert!(summary["loss"].as_f64().is_some_and(f64::is_finite), "{summary}");
    let metrics = std::fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    assert!(metrics.contains("\"kind\":\"retriever\""), "{metrics}");
    assert!(metrics.contains("\"kind\":\"evaluation\""), "{metrics}");
}

/// The dataset again without positions and rotations, as version 2 has it.
fn drop_poses(folder: &Path) {
    let path = folder.join("dataset.json");
    let text = std::fs::read_to_string(&path).expect("there");
    let mut description: Value = serde_json::from_str(&text).expect("JSON");
    (description["version"], description["poses"]) = (2.into(), false.into());
    std::fs::write(&path, description.to_string()).expect("written");
    for id in 0..3 {
        let path = folder.join(format!("episodes/{id:06}.arrow"));
        let file = File::open(&path).expect("there");
        let reader = arrow_ipc::reader::FileReader::try_new(file, None).expect("a table");
        let batch = reader.last().expect("a batch").expect("read");
        let kept = |name: &&str| !["position", "rotation"].contains(name);
        let names: Vec<&str> =
            batch.schema_ref().fields().iter().map(|f| f.name().as_str()).collect();
        let columns = names.into_iter().filter(kept);
        let columns =
            columns.map(|name| (name, batch.column_by_name(name).expect("there").clone()));
        write(&path, columns.collect());
    }
}

#[test]
fn datasets_without_poses_train_and_report_by_time_action_and_vision() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = ["data", "run", "page.html", "refused"].map(|name| folder.path().join(name));
    let [data, run, page, refused_run] = &paths;
    write_dataset(data, None);
    drop_poses(data);
    let [data, out, page, refused_run] =
        [data, run, page, refused_run].map(|path| path.to_str().expect("a plain path"));
    let verified = far(&["data", "verify", data]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    let sets = ["training.steps=3", "encoder.pretraining.steps=2", "evaluation.questions=1"];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let train = |arm: &'static str, out| {
        let command = ["train", "--config", "quick", "--data", data, "--out", out, "--set", arm];
        far(&[&command[..], &sets].concat())
    };
    let refused = train("arm.id=nearest-pose", refused_run);
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(message.contains("poses") && message.contains("nearest-pose"), "{message}");
    let trained = train("arm.id=far-multi", out);
    assert!(trained.status.success(), "{}", String::from_utf8_lossy(&trained.stderr));
    for rule in ["worldmem", "temporal"] {
        let judged = far(&["eval", out, "--rule", rule]);
        let message = String::from_utf8_lossy(&judged.stderr);
        assert_eq!(judged.status.success(), rule == "temporal", "{rule}: {message}");
        assert!(rule == "temporal" || message.contains("poses"), "{message}");
    }
    let reported = far(&["report", out, "--out", page]);
    assert!(reported.status.success(), "{}", String::from_utf8_lossy(&reported.stderr));
}

#[test]
fn a_column_of_numbers_is_a_cue_by_one_setting() {
    let folder = tempfile::tempdir().expect("a folder");
    let [data, broken, uneven, run] =
        ["data", "broken", "uneven", "run"].map(|name| folder.path().join(name));
    write_dataset(&data, Some(|_, frame| vec![frame.min(FRAMES - frame) as f32, 1.0]));
    write_dataset(&broken, Some(|_, frame| vec![if frame == 7 { f32::NAN } else { 0.0 }, 1.0]));
    write_dataset(&uneven, Some(|id, _| vec![1.0; 2 + id as usize / 2]));
    let [data, broken, uneven, out] =
        [&data, &broken, &uneven, &run].map(|path| path.to_str().expect("plain"));
    let sets = [
        "cues.touch={ column = \"touch\", scale = 20 }",
        "arm.cue=touch",
        "training.steps=3",
        "training.evaluate_every=0",
        "encoder.pretraining.steps=2",
        "evaluation={ questions = 1, utility_pool = 8, sampler = { steps = 2 } }",
    ];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let train = |data: &str, own: &[&str]| {
        let command = ["train", "--config", "quick", "--data", data, "--out", out, "--json"];
        far(&[&command[..], &sets, own].concat())
    };
    for (data, own, words) in [
        (data, "cues.touch.column=force", "column `force` should be float32"),
        (data, "cues.touch.column=phase", "found string"),
        (broken, "cues.touch.column=touch", "found NaN in row 7"),
        (uneven, "cues.touch.column=touch", "found fixed_size_list<float32, 3>"),
    ] {
        let refused = train(data, &["--set", own]);
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && message.contains(words), "{message}");
        assert!(message.contains("hint: ") && message.contains("docs/dataset.md"), "{message}");
        let _ = std::fs::remove_dir_all(&run);
    }
    let trained = train(data, &[]);
    assert!(trained.status.success(), "{}", String::from_utf8_lossy(&trained.stderr));
    let judged = far(&["eval", out, "--json"]);
    assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stderr));
    let results: Value = serde_json::from_slice(&judged.stdout).expect("JSON");
    assert!(results["arms"]["far-multi"]["psnr"]["mean"].is_number(), "{results}");
    let replays = std::fs::read_dir(run.join("replays")).expect("replays");
    let replay = replays.map(|entry| entry.expect("an entry").path()).min().expect("a replay");
    let replay = std::fs::read_to_string(replay).expect("a replay");
    assert!(replay.contains("[\"meta\",") && replay.contains("[\"touch\","), "weights are kept");
    assert!(far(&["report", out]).status.success());
}

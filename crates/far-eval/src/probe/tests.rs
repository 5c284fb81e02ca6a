//! Both probes in a pantry small enough to reckon with: a row of places, each of one color, and a box
//! into which something red is put in one of two episodes.

use super::changed_states::ChangedStates;
use super::{ClipGroup, Observed, Probe};
use crate::testing::{ColorTokenizer, Copier, arms, in_context, plan};
use crate::{
    Arm, Control, CounterfactualView, Evaluation, EvaluationPlan, Kept, Perceptual, Probes,
    Results, Shown,
};
use far_data::{
    Change, ChangeKind, Dataset, DatasetDescription, DatasetWriter, EpisodeFacts, Frame,
    FrameImage, Mask, Pair, Phase, Picture, Signal, Split, VisibleStates,
};
use far_memory::{Pose, Recall};
use far_model::EncodedDataset;
use std::sync::Arc;

const SIZE: u32 = 12;
/// The box, at the beginning and with something in it.
const EMPTY: [u8; 3] = [150, 60, 0];
const FULL: [u8; 3] = [200, 0, 0];
/// Where the box stands.
const BOX: usize = 12;
/// The first return frame, the last one with the box closed, and the first look inside.
const BOUNDARY: usize = 20;
const CLOSED: usize = 23;
const REVEAL: usize = 24;

/// The place of a frame, and whether that is at the open box: a view early on, one after the interaction, and
/// several at the end of the return.
fn place(frame: usize) -> (usize, bool) {
    match frame {
        6 => (BOX, true),
        BOUNDARY..=CLOSED => (36 - frame, false),
        REVEAL.. => (BOX, true),
        _ => (frame, frame == BOX),
    }
}

/// Two episodes: something is put into the box at frame 12 of the first, and nothing in the second.
pub fn pantry() -> (tempfile::TempDir, EncodedDataset) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("pantry");
    let mut description = DatasetDescription::new("pantry", 10.0, [SIZE, SIZE], [90.0, 90.0]);
    description.signals =
        vec![Signal::Events, Signal::DoorFraction, Signal::Change, Signal::States];
    description.labels = vec!["open".to_owned()];
    let writer = DatasetWriter::create(&path, description).expect("a new folder");
    for (id, role) in [(0, "factual"), (1, "counterfactual")] {
        let mut facts = EpisodeFacts::new("pantry", Split::Test, 0);
        facts.pair = Some(Pair { episode: 1 - id, role: role.to_owned() });
        let mut episode = writer.episode(id, facts).expect("a new episode");
        for frame in 0..REVEAL + 5 {
            let (place, open) = place(frame);
            let is_full = id == 0 && frame >= BOX;
            let color = match (open, is_full) {
                (true, true) => FULL,
                (true, false) => EMPTY,
                (false, _) => [0, 8 * place as u8, 255],
            };
            let phase = if frame < BOUNDARY { Phase::Explore } else { Phase::Return };
            let pose = Pose::from_yaw_pitch([place as f32, 0.0, 1.6], 0.0, 0.0);
            let image = FrameImage::Pixels(Picture::filled(SIZE, SIZE, color));
            let mut row = Frame::new(frame as f64 / 10.0, pose, phase, image);
            row.events = if frame == REVEAL { vec![0] } else { Vec::new() };
            row.door_fraction = open.then_some(1.0);
            let state = |shown: bool| if shown { vec![9] } else { Vec::new() };
            row.states = VisibleStates {
                pose_key: if open { 1 } else { -1 },
                visible: state(open && is_full),
                changed: state(open && is_full),
                made: Vec::new(),
            };
            row.change = (is_full && frame >= REVEAL).then(|| Change {
                kind: ChangeKind::Container,
                mask: Mask::from_fn(SIZE, SIZE, |x, y| x == 5 && y > 7),
                stale_frame: Some(6),
            });
            episode.push(row).expect("a frame");
        }
        episode.finish().expect("a whole episode");
    }
    writer.finish().expect("an index");
    let dataset = Arc::new(Dataset::open(&path).expect("what was just written"));
    let cache = folder.path().join("cache");
    (folder, EncodedDataset::new(dataset, Arc::new(ColorTokenizer), Vec::new(), cache, 1 << 20))
}

fn evaluate(dataset: &EncodedDataset, judge: &Copier, plan: &EvaluationPlan) -> (Results, Shown) {
    let mut arms = arms(&["nearest-pose", "temporal"]);
    arms.extend([Control::None, Control::Tokenizer].map(Arm::control));
    let episodes: Vec<u32> = dataset.dataset().ids().collect();
    let evaluation = Evaluation {
        dataset,
        episodes: &episodes,
        judge,
        arms: &arms,
        plan,
        perceptual: Perceptual::default(),
        probes: Probes::default(),
        device: "cpu",
    };
    let mut last = (0, 1);
    let found = evaluation.run(&mut |progress| last = (progress.done, progress.total));
    assert_eq!(last.0, last.1, "everything that was due was done");
    found.expect("an evaluation")
}

fn mean(results: &Results, arm: &str, metric: &str) -> Option<f64> {
    results.arms[arm].get(metric).map(|interval| interval.mean)
}

#[test]
fn who_recalls_the_newest_look_shows_the_present_state() {
    let (_folder, dataset) = pantry();
    let (results, _) = evaluate(&dataset, &Copier::new(), &plan());
    for (arm, expected) in
        [("nearest-pose", 1.0), ("tokenizer", 1.0), ("temporal", 0.0), ("none", 0.0)]
    {
        assert_eq!(mean(&results, arm, "state_container_mse"), Some(expected), "{arm}");
        // (50² + 60²)/(3 · 255²) = 0.031 is a large change.
        assert_eq!(mean(&results, arm, "state_container_large_mse"), Some(expected), "{arm}");
        assert_eq!(mean(&results, arm, "state_container_small_mse"), None, "{arm}");
        assert_eq!(mean(&results, arm, "state_container_now_mse"), Some(expected), "{arm}");
        // The tokenizer keeps frames of one color, so decoded ones say the same.
        assert_eq!(mean(&results, arm, "state_container_decoded_mse"), Some(expected), "{arm}");
        assert_eq!(mean(&results, arm, "state_surface_mse"), None, "{arm}");
        assert_eq!(mean(&results, arm, "state_container"), None, "{arm}");
    }
    // The tokenizer keeps frames of one color, so pasting the outdated one is a tie.
    assert_eq!(mean(&results, "tokenizer", "state_container_outdated_mse"), Some(0.0));
    assert_eq!(mean(&results, "none", "state_container_outdated_mse"), None);
    assert_eq!(mean(&results, "nearest-pose", "state_container_recalled"), Some(1.0));
    assert_eq!(mean(&results, "temporal", "state_container_recalled"), Some(0.0));
    assert_eq!(mean(&results, "none", "state_container_recalled"), None);
    let described: Vec<&str> =
        results.descriptions.iter().map(|metric| metric.id.as_str()).collect();
    let probed = described.iter().position(|id| *id == "state_container_mse").unwrap();
    assert_eq!(described[..3], ["recall_quality", "psnr", "psnr_closure"]);
    assert_eq!(
        described[probed + 1..probed + 3],
        ["state_container_decoded_mse", "state_container_now_mse"]
    );
    assert!(described.contains(&"counterfactual_recalled") && !described.contains(&"both_ends"));
    let metric = results.metric("state_container_large_mse");
    assert_eq!(metric.label, "changed containers, large, by squared error");
    assert!(metric.note.contains("large changes") && metric.note.ends_with("not LPIPS"));
    let difference = results.paired["nearest-pose"]["temporal"]["state_container_mse"];
    assert_eq!((difference.lo, difference.hi), (1.0, 1.0));
}

#[test]
fn a_viewpoint_counts_once_and_a_tie_is_wrong() {
    let (_folder, dataset) = pantry();
    let group = ClipGroup { first: 0, clips: vec![crate::testing::clips(&dataset).remove(0)] };
    let clip = &group.clips[0];
    let queries = clip.steps(None);
    let goals: Vec<usize> = queries.iter().map(far_model::Query::goal).collect();
    assert_eq!(goals, [22, 24, 26, 28]);
    let right = |color: [u8; 3]| {
        in_context(&dataset, &arms(&["temporal"]), |context| {
            let mut probe = ChangedStates::default();
            let truths = context.quality.truths(clip, &goals).unwrap().unwrap();
            probe.prepare(context, &group, &[truths]).unwrap();
            let pictures = vec![Picture::filled(SIZE, SIZE, color); 4];
            let seen = Observed {
                arm: &context.arms[0],
                clip,
                place: 0,
                row: 0,
                queries: &queries,
                recalls: &vec![Recall::new(); 4],
                pictures: Some(&pictures),
            };
            probe.observe(context, &seen).unwrap();
            let measured = probe.finish(context).unwrap();
            ["state_container_mse", "state_container_now_mse"].map(|id| {
                let found = measured.iter().find(|found| found.metric().id == id).unwrap();
                found.value("temporal", 0).unwrap()
            })
        })
    };
    let (yes, no) = ((1.0, Some(1.0)), (0.0, Some(1.0)));
    assert_eq!(right(FULL), [yes, yes]);
    assert_eq!(right([199, 0, 0]), [yes, yes]);
    assert_eq!(right(EMPTY), [no, no], "as far from the truth as the outdated frame");
    assert_eq!(right([0, 96, 255]), [no, no]);
    let almost: [u8; 3] =
        std::array::from_fn(|i| ((9 * u16::from(EMPTY[i]) + u16::from(FULL[i])) / 10) as u8);
    assert_eq!(right(almost), [yes, no], "nearer than the outdated frame, and yet it shows that");
}

#[test]
fn who_remembers_tells_two_histories_apart() {
    let (_folder, dataset) = pantry();
    let copier = Copier::new();
    let plan = EvaluationPlan { questions: 0, ..plan() };
    let (results, shown) = evaluate(&dataset, &copier, &plan);
    for (arm, expected) in
        [("nearest-pose", 1.0), ("tokenizer", 1.0), ("temporal", 0.0), ("none", 0.0)]
    {
        assert_eq!(mean(&results, arm, "counterfactual_mse"), Some(expected), "{arm}");
    }
    for (arm, expected) in [("nearest-pose", Some(1.0)), ("temporal", Some(0.0)), ("none", None)] {
        assert_eq!(mean(&results, arm, "counterfactual_recalled"), expected, "{arm}");
    }
    let [file] = &shown.probes[..] else { panic!("one pair is shown") };
    assert_eq!(
        (file.folder.as_str(), file.name.as_str()),
        ("probes", "counterfactual-000000.json")
    );
    let view = CounterfactualView::from_json(file.text.as_bytes()).unwrap();
    let CounterfactualView { episodes, current, goal, crop, present, truths, memories, arms } =
        &view;
    assert_eq!((*episodes, *current, *goal, *crop), ([0, 1], CLOSED, REVEAL, [0, 0, SIZE, SIZE]));
    assert_eq!(present.pixel(0, 0), [0, 8 * 13, 255]);
    assert_eq!(truths.each_ref().map(|truth| truth.pixel(3, 3)), [FULL, EMPTY]);
    let nearest = &arms["nearest-pose"];
    assert_eq!((nearest.predictions.clone(), nearest.right), (truths.clone(), [true; 2]));
    assert!(nearest.recalled.iter().all(|recalled| recalled.contains(&BOX)));
    assert_eq!(memories.each_ref().map(|side| side[&BOX].pixel(0, 0)), [FULL, EMPTY]);
    assert!(arms["temporal"].right != [true; 2] && arms["none"].recalled.concat().is_empty());
    // Nothing but memory differs: every prediction of a pair is made from the same noise.
    let noises = copier.noises.lock().unwrap();
    for pair in noises[noises.len() - 6..].chunks(2) {
        assert_eq!(pair[0], pair[1]);
    }
}

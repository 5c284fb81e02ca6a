//! The shares that `far data inspect` prints, against plain loops.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use far_data::*;
use far_memory::Pose;
use proptest::prelude::*;

const SIZE: [u32; 2] = [4, 4];

fn description() -> DatasetDescription {
    let mut description = DatasetDescription::new("shares", 10.0, SIZE, [90.0, 60.0]);
    description.images = ImageEncoding::None;
    description.signals = vec![Signal::VisibleFaces, Signal::States];
    description
}

/// A frame at a place on a line with the faces and states given.
fn frame(index: usize, phase: Phase, place: f32, faces: &[u32], states: VisibleStates) -> Frame {
    let pose = Pose::from_yaw_pitch([place, 0.0, 1.6], 0.3 * place, 0.0);
    let mut frame = Frame::new(index as f64, pose, phase, FrameImage::Absent);
    frame.visible_faces = faces.to_vec();
    frame.states = states;
    frame
}

fn episode(folder: &Path, frames: Vec<Frame>) -> Arc<Episode> {
    let writer = DatasetWriter::create(folder, description()).expect("begins");
    let mut episode = writer.episode(0, EpisodeFacts::new("s", Split::Train, 0)).expect("begins");
    frames.into_iter().for_each(|frame| episode.push(frame).expect("written"));
    episode.finish().expect("ends");
    writer.finish().expect("ends");
    Dataset::open(folder).expect("opens").episode(0).expect("opens")
}

/// Coverage by the words of its definition.
fn plain_coverage(episode: &Episode, rule: &OverlapRule) -> Coverage {
    let set = |frame| episode.visible_faces(frame).iter().copied().collect::<BTreeSet<u32>>();
    let mut coverage = Coverage::default();
    for target in episode.boundary()..episode.len() {
        let seen = set(target);
        let half = |memory| 2 * set(memory).intersection(&seen).count() >= seen.len();
        if seen.is_empty() {
            continue;
        }
        coverage.frames += 1;
        if !(0..episode.boundary()).any(half) {
            continue;
        }
        coverage.covered += 1;
        let view = rule.view(&episode.poses()[target]);
        let mut best = 0;
        for memory in 0..episode.boundary() {
            let shared = |frame: usize| view.shared(&episode.poses()[frame]);
            if shared(memory) >= shared(best) {
                best = memory;
            }
        }
        coverage.misled += u64::from(!half(best));
    }
    coverage
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn coverage_is_what_its_definition_says(
        rows in prop::collection::vec((0f32..12.0, prop::collection::btree_set(0u32..400, 0..40)), 2..30),
        cut in 0.2f64..0.9,
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let boundary = (rows.len() as f64 * cut) as usize;
        let frames = rows.iter().enumerate().map(|(index, (place, faces))| {
            let phase = if index < boundary { Phase::Explore } else { Phase::Return };
            let faces: Vec<u32> = faces.iter().copied().collect();
            frame(index, phase, *place, &faces, VisibleStates::default())
        });
        let episode = episode(folder.path(), frames.collect());
        let rule = OverlapRule::new(description().camera(), 10.0);
        prop_assert_eq!(Coverage::of(&episode, &rule), plain_coverage(&episode, &rule));
    }
}

#[test]
fn staleness_follows_the_newest_memory_of_the_same_viewpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let states = |pose_key, visible: &[u64], changed: &[u64], made: &[u64]| VisibleStates {
        pose_key,
        visible: visible.to_vec(),
        changed: changed.to_vec(),
        made: made.to_vec(),
    };
    use Phase::{Explore, Return};
    let rows = [
        (Explore, states(1, &[10], &[], &[])), // viewpoint 1, old state
        (Explore, states(-1, &[], &[], &[11])), // the making of 11, watched from elsewhere
        (Explore, states(2, &[20], &[], &[])), // viewpoint 2, old state
        (Explore, states(2, &[21], &[21], &[])), // viewpoint 2, new state
        (Return, states(1, &[11], &[11], &[])), // stale at 1, but the making is remembered
        (Return, states(2, &[21], &[21], &[])), // fresh at 2
        (Return, states(2, &[21, 22], &[22], &[])), // stale and nobody knows 22
        (Return, states(3, &[21], &[21], &[])), // no memory from viewpoint 3: not stale, known
        (Return, states(-1, &[11], &[11], &[])), // between viewpoints: not judged
        (Return, states(1, &[10], &[], &[])),  // nothing changed in view: not judged
    ];
    let frames = rows.into_iter().enumerate().map(|(i, (phase, s))| frame(i, phase, 1.0, &[], s));
    let counted = Staleness::of(&episode(folder.path(), frames.collect()));
    assert_eq!(counted, Staleness { frames: 4, stale: 2, known: 3 });
    assert_eq!((counted.stale_share(), counted.known_share()), (Some(0.5), Some(0.75)));
}

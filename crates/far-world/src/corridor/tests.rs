//! Properties of the corridor, over several seeds.

use far_data::{Frame, FrameImage, Phase};

use super::checker::{Leak, check, in_window};
use super::hall::End;
use super::*;
use crate::Studio;

const SIZE: u32 = 64;

fn recording(variant: &'static str, seed: u64) -> Recording {
    Recording::new(&Corridor, Some(variant), seed, SIZE).expect("a variant")
}

fn frames(recording: &Recording, index: u32) -> Vec<Frame> {
    let mut episode = Corridor.episode(recording, index).expect("an episode");
    let mut studio = Studio::new(Corridor.camera(), SIZE);
    (0..episode.course().poses.len())
        .map(|f| episode.frame(f, &mut studio).expect("a frame"))
        .collect()
}

fn pixels(frame: &Frame) -> &[u8] {
    match &frame.image {
        FrameImage::Pixels(picture) => &picture.pixels,
        _ => panic!("a corridor frame has pixels"),
    }
}

/// Frames of the return in which the agent is visible in a view of an end, per end.
fn revealed(frames: &[Frame]) -> [usize; 2] {
    let seen = |key: i32| {
        let at = |f: &&Frame| f.phase == Phase::Return && f.states.pose_key == key;
        frames.iter().filter(at).filter(|f| f.agent.visible).count()
    };
    [seen(1), seen(2)]
}

#[test]
fn paired_histories_look_alike_from_the_return_until_the_reveal() {
    for seed in 0..3 {
        let recording = recording("paired", seed);
        let (factual, counterfactual) = (frames(&recording, 0), frames(&recording, 1));
        assert_eq!(factual.len(), counterfactual.len());
        let boundary = factual.iter().position(|f| f.phase == Phase::Return).expect("a return");
        let transit = factual.iter().rposition(|f| !f.events.is_empty()).expect("a passage");
        for f in boundary..=transit {
            assert_eq!(factual[f], counterfactual[f], "frame {f} of seed {seed}");
        }
        let ([west, east], [west_too, east_too]) = (revealed(&factual), revealed(&counterfactual));
        assert!((west > 0) != (east > 0), "the agent is at one end: {west} {east}");
        assert!((west > 0) != (west_too > 0) && (east > 0) != (east_too > 0));
        // The histories differ in one crossing only, visible in one of them.
        let crossings = |frames: &[Frame]| {
            let seen = |f: usize| frames[f].agent.visible;
            // A swinging arm may be visible before the rest; a new crossing comes after a long gap.
            (10..boundary).filter(|&f| seen(f) && !(f - 10..f).any(seen)).count()
        };
        assert_eq!(crossings(&factual), crossings(&counterfactual) + 1);
    }
}

#[test]
fn the_agent_is_seen_only_in_its_windows_and_never_at_an_end_from_the_post() {
    let recording = recording("mixed", 1);
    for index in 0..3 {
        let (story, _, _) = part(recording.variant, index);
        let hall =
            Hall::draw(story % HALLS, &mut random(1, "corridor-hall", u64::from(story % HALLS)));
        let frames = frames(&recording, index);
        let post =
            frames.iter().find(|f| f.states.pose_key == 0).expect("a watch").pose.expect("a pose");
        let plan = Plan { post, ..Plan::draw(&hall, &mut random(0, "any", 0)) };
        let transit = frames.iter().rposition(|f| !f.events.is_empty()).expect("a passage");
        let mut seen = 0;
        for (index, frame) in frames[..=transit].iter().enumerate() {
            let silhouette = frame.silhouette.as_ref();
            assert_eq!(frame.agent.visible, silhouette.is_some_and(|mask| !mask.is_empty()));
            if frame.agent.visible {
                assert_eq!(frame.phase, Phase::Explore, "frame {index} leaks");
                let [right, ahead] = frame.agent.position;
                let pose = frame.pose.expect("a pose");
                let (sin, cos) = pose.yaw().sin_cos();
                let [x, y, _] = pose.position;
                let foot = [x + ahead * cos + right * sin, y + ahead * sin - right * cos];
                assert!((foot[1] - 0.5 * hall.width).abs() < 1e-3, "the agent keeps to its lane");
                let stance = patrol::Stance { foot, yaw: 0.0, phase: 0.0, crossing: None };
                assert!(in_window(&hall, &plan, &stance), "frame {index} at {foot:?}");
                seen += 1;
            }
        }
        assert!(seen >= 5);
    }
}

#[test]
fn controls_are_frame_aligned_and_empty() {
    let recording = recording("mixed", 2);
    let (acted, control) = (frames(&recording, 6), frames(&recording, 7));
    assert_eq!(acted.len(), control.len());
    assert!(control.iter().all(|frame| !frame.agent.visible && frame.states.changed.is_empty()));
    for (a, b) in acted.iter().zip(&control) {
        assert_eq!((a.pose, a.phase, &a.events), (b.pose, b.phase, &b.events));
        assert!(a.agent.visible || pixels(a) == pixels(b));
    }
}

#[test]
fn the_checker_rejects_leaks() {
    let hall = Hall::draw(0, &mut random(3, "corridor-hall", 0));
    let camera = Corridor.camera();
    let mut stream = random(3, "corridor-story", 0);
    let good = (0..ATTEMPTS)
        .map(|_| Plan::draw(&hall, &mut stream))
        .find(|plan| check(&hall, plan, &camera).is_ok())
        .expect("a plan that passes");

    // A post in the corridor sees an end.
    let exposed = Plan { post: Plan::end_view(&hall, End::East), ..good.clone() };
    assert_eq!(check(&hall, &exposed, &camera), Err(Leak::EndFromPost(End::East)));
    // An agent that is there during the first views of the ends.
    let mut early = good.clone();
    early.patrol.arrival = 0;
    assert!(matches!(check(&hall, &early, &camera), Err(Leak::OutsideWindow(_))));
    // An agent that crosses while the observer goes through the doorway.
    let mut late = good.clone();
    late.patrol.crossings[0].start = good.transit.start - late.patrol.walk / 2;
    late.patrol.crossings.truncate(1);
    assert!(matches!(check(&hall, &late, &camera), Err(Leak::OutsideWindow(_))));
    // An observer that faces the wall all the time.
    let mut blind = good.clone();
    for pose in &mut blind.poses[good.watch.clone()] {
        *pose = far_memory::Pose::from_yaw_pitch(pose.position, -1.5, 0.0);
    }
    assert_eq!(check(&hall, &blind, &camera), Err(Leak::MissedCrossing(0)));
}

#[test]
fn memory_knows_the_end_although_the_newest_look_is_often_stale() {
    let (mut judged, mut stale, mut known) = (0, 0, 0);
    for index in 0..6 {
        let frames = frames(&recording("mixed", 8), index);
        let explore = frames.iter().filter(|f| f.phase == Phase::Explore);
        let memory: Vec<&Frame> = explore.collect();
        for frame in frames.iter().filter(|f| f.phase == Phase::Return && f.states.pose_key >= 0) {
            for state in &frame.states.changed {
                judged += 1;
                let key = frame.states.pose_key;
                let newest = memory.iter().rfind(|m| m.states.pose_key == key).expect("a look");
                stale += usize::from(!newest.states.visible.contains(state));
                let knows =
                    |m: &&Frame| m.states.visible.contains(state) || m.states.made.contains(state);
                known += usize::from(memory.iter().copied().any(|m| knows(&m)));
            }
        }
    }
    assert!(judged >= 60, "{judged} looks");
    assert!(stale * 100 > judged * 40, "{stale} of {judged} are stale");
    assert_eq!(known, judged);
}

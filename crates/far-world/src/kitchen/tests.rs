//! Properties of kitchens, over several seeds.

use std::collections::{BTreeMap, BTreeSet};

use far_data::{ChangeKind, Frame, FrameImage, Phase};

use super::sight::Sight;
use super::state::Contents;
use super::track::LABELS;
use super::*;
use crate::Studio;

const SIZE: u32 = 64;

fn recording(variant: &'static str, seed: u64) -> Recording {
    Recording::new(&Kitchen, Some(variant), seed, SIZE).expect("a variant")
}

fn frames(recording: &Recording, index: u32) -> Vec<Frame> {
    let mut episode = Kitchen.episode(recording, index).expect("an episode");
    let mut studio = Studio::new(Kitchen.camera(), SIZE);
    (0..episode.course().poses.len())
        .map(|f| episode.frame(f, &mut studio).expect("a frame"))
        .collect()
}

fn pixels(frame: &Frame) -> &[u8] {
    match &frame.image {
        FrameImage::Pixels(picture) => &picture.pixels,
        _ => panic!("a kitchen frame has pixels"),
    }
}

#[test]
fn paired_histories_look_alike_from_the_return_until_the_container_opens() {
    for seed in 0..3 {
        let recording = recording("paired", seed);
        let (factual, counterfactual) = (frames(&recording, 0), frames(&recording, 1));
        assert_eq!(factual.len(), counterfactual.len());
        let placed: Vec<usize> =
            (0..factual.len()).filter(|&f| factual[f].events != counterfactual[f].events).collect();
        assert_eq!(placed.len(), 1, "one interaction differs");
        assert_eq!(factual[placed[0]].events, [3]);
        let differs: Vec<usize> = (0..factual.len())
            .filter(|&f| pixels(&factual[f]) != pixels(&counterfactual[f]))
            .collect();
        let boundary = factual.iter().position(|f| f.phase == Phase::Return).expect("a return");
        assert!(differs.iter().any(|&f| f < boundary), "the interaction itself is visible");
        let reveal = *differs.iter().find(|&&f| f >= boundary).expect("a reveal");
        for f in boundary..reveal {
            assert_eq!(factual[f], counterfactual[f], "frame {f} of seed {seed}");
        }
        let fraction = factual[reveal].door_fraction.expect("a container is open");
        assert!(
            fraction > 0.0 && factual[reveal].door_fraction == counterfactual[reveal].door_fraction
        );
        assert_eq!(factual[reveal - 1].pose, factual[reveal].pose);
    }
}

#[test]
fn the_same_viewpoint_shows_the_same_bytes_unless_something_was_moved() {
    let frames = frames(&recording("mixed", 4), 0);
    let mut seen: BTreeMap<(i32, Vec<u64>), &Frame> = BTreeMap::new();
    let mut again = 0;
    for frame in frames.iter().filter(|frame| frame.states.pose_key >= 0) {
        let key = (frame.states.pose_key, frame.states.visible.clone());
        if let Some(first) = seen.get(&key) {
            assert_eq!(first.pose, frame.pose);
            // Objects too small to be visible may differ; nearly all pixels must not.
            let differ = pixels(first).iter().zip(pixels(frame)).filter(|(a, b)| a != b).count();
            assert!(differ < pixels(frame).len() / 20, "{differ} bytes differ");
            again += 1;
        } else {
            seen.insert(key, frame);
        }
    }
    assert!(again > 10);
}

#[test]
fn changed_states_are_known_to_memory_but_often_not_to_the_newest_look() {
    let (mut judged, mut stale, mut known) = (0, 0, 0);
    for index in 0..6 {
        let frames = frames(&recording("mixed", 11), index);
        let (mut newest, mut shown) = (BTreeMap::new(), BTreeSet::new());
        for frame in frames.iter() {
            let states = &frame.states;
            if frame.phase == Phase::Explore {
                newest.insert(states.pose_key, &states.visible);
                shown.extend(states.visible.iter().chain(&states.made).copied());
            } else if states.pose_key >= 0 && !states.changed.is_empty() {
                judged += 1;
                let lacks = |memory: &&Vec<u64>| states.changed.iter().any(|s| !memory.contains(s));
                stale += usize::from(newest.get(&states.pose_key).is_some_and(lacks));
                known += usize::from(states.changed.iter().all(|state| shown.contains(state)));
            }
        }
    }
    assert!(judged > 50, "{judged} frames show something changed");
    assert!(stale * 100 > judged * 40, "{stale} of {judged} are stale");
    assert!(known * 100 >= judged * 99, "{known} of {judged} are known");
}

#[test]
fn change_masks_lie_where_something_was_moved_and_have_a_stale_frame() {
    let frames = frames(&recording("mixed", 2), 1);
    let mut kinds = BTreeSet::new();
    for (index, frame) in frames.iter().enumerate() {
        let Some(change) = &frame.change else { continue };
        assert_eq!(frame.phase, Phase::Return);
        assert!(!frame.states.changed.is_empty() && change.mask.area() < 0.5, "frame {index}");
        if let Some(stale) = change.stale_frame {
            let stale = &frames[stale as usize];
            assert_eq!((stale.phase, stale.pose), (Phase::Explore, frame.pose));
            assert_eq!(stale.states.pose_key, frame.states.pose_key);
            kinds.insert(change.kind == ChangeKind::Container);
        }
    }
    assert_eq!(kinds.len(), 2, "surface changes and container reveals both have stale frames");
}

#[test]
fn doors_open_and_close_in_both_phases_and_things_vanish_while_carried() {
    let recording = recording("mixed", 3);
    let frames = frames(&recording, 2);
    let count = |label: &str, phase: Phase| {
        let label = LABELS.iter().position(|l| *l == label).expect("a label") as u16;
        frames.iter().filter(|f| f.phase == phase && f.events.contains(&label)).count()
    };
    for phase in [Phase::Explore, Phase::Return] {
        assert!(count("open", phase) >= 3);
        assert_eq!(count("open", phase), count("close", phase));
    }
    assert_eq!(count("pick", Phase::Explore), count("place", Phase::Explore));
    assert!(count("pick", Phase::Explore) >= 3 && count("pick", Phase::Return) == 0);
    // Between pick and place the object is on no spot: no state holds it.
    let (pick, place) = (2u16, 3u16);
    let taken = frames.iter().position(|f| f.events.contains(&pick)).expect("a pick");
    let put = frames.iter().position(|f| f.events.contains(&place)).expect("a place");
    let object = frames[put].states.made.first().expect("the interaction is visible") & 0xffff_ffff;
    assert!(object > 0);
    for frame in &frames[taken..put] {
        assert!(frame.states.visible.iter().all(|state| state & 0xffff_ffff != object));
    }
}

#[test]
fn kitchens_differ_visibly_and_the_same_seed_gives_the_same_kitchen() {
    let recording = recording("mixed", 5);
    let mut studio = Studio::new(Kitchen.camera(), SIZE);
    let mut first_frame = |index: u32| {
        let mut episode = Kitchen.episode(&recording, index).expect("an episode");
        pixels(&episode.frame(0, &mut studio).expect("a frame")).to_vec()
    };
    let pictures: Vec<Vec<u8>> = (0..8).map(&mut first_frame).collect();
    for a in 0..pictures.len() {
        for b in 0..a {
            let distance: u64 =
                pictures[a].iter().zip(&pictures[b]).map(|(x, y)| u64::from(x.abs_diff(*y))).sum();
            assert!(distance / pictures[a].len() as u64 > 15, "kitchens {a} and {b} look alike");
        }
    }
    assert_eq!(first_frame(3), pictures[3]);
}

#[test]
fn every_spot_can_be_told_from_both_viewpoints_whether_empty_or_not() {
    let mut studio = Studio::new(Kitchen.camera(), SIZE);
    let mut kinds = BTreeSet::new();
    for number in 0..6 {
        let kitchen = KitchenScene::draw(&mut random(9, "kitchen-scene", number));
        let sight = Sight { kitchen: &kitchen, camera: Kitchen.camera() };
        let mut scene = kitchen.empty();
        for (spot, &(number, _)) in kitchen.spots.iter().enumerate() {
            let station = &kitchen.stations[number];
            kinds.insert(station.kind.name());
            let open = station.kind.is_container().then_some((number, 1.0));
            for content in [None, Some(0)] {
                let mut contents: Contents = vec![None; kitchen.spots.len()];
                contents[spot] = content;
                kitchen.arrange(&mut scene, &contents, open);
                for pose in [station.canonical, station.reach] {
                    let visible =
                        sight.visible(studio.render(&scene, &pose), &pose, &contents, open);
                    assert!(visible.contains(&spot), "{} {spot} {content:?}", station.kind.name());
                }
            }
        }
    }
    assert!(kinds.len() >= 10, "{kinds:?}");
}

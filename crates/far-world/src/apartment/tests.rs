//! Properties of both variants.

use super::plan::{Plan, Space};
use super::*;
use crate::sound::Floor;
use crate::studio::Studio;
use far_data::{Frame, Phase};
use far_memory::Pose;
use std::f32::consts::TAU;

fn recording(variant: &'static str) -> Recording {
    Recording::new(&Apartment, Some(variant), 5, 16).expect("a variant")
}

fn poses(episode: &dyn Episode) -> Vec<Pose> {
    episode.course().poses.clone()
}

fn back(variant: &'static str, index: u32) -> Vec<Frame> {
    let mut episode = Apartment.episode(&recording(variant), index).unwrap();
    let mut studio = Studio::new(Apartment.camera(), 16);
    (episode.course().boundary..episode.course().poses.len())
        .map(|frame| episode.frame(frame, &mut studio).unwrap())
        .collect()
}

#[test]
fn both_variants_return_alike_but_for_time() {
    let (sparse, dense) = (back("v1", 3), back("v2", 3));
    assert_eq!(sparse.len(), dense.len());
    assert!(sparse.len() > 20);
    for (a, b) in sparse.iter().zip(&dense) {
        assert!(a.time < b.time, "the dense exploration is longer");
        assert_eq!((a.phase, a.pose, &a.image), (Phase::Return, b.pose, &b.image));
        assert_eq!(a.audio, b.audio);
        assert_eq!(Frame { time: 0.0, ..a.clone() }, Frame { time: 0.0, ..b.clone() });
    }
    assert!(sparse.iter().any(|frame| frame.audio.iter().any(|pair| pair[0] != 0.0)));
}

#[test]
fn the_dense_variant_only_adds_scans() {
    for index in 0..3 {
        let [sparse, dense] =
            ["v1", "v2"].map(|variant| Apartment.episode(&recording(variant), index).unwrap());
        assert_eq!(sparse.course().facts, dense.course().facts);
        assert!(dense.course().boundary > sparse.course().boundary, "episode {index}");
        // The action that begins the return starts from the same pose.
        let turning = |episode: &dyn Episode| episode.course().poses[episode.course().boundary - 1];
        assert_eq!(turning(sparse.as_ref()), turning(dense.as_ref()));
        let (sparse, dense) = (poses(sparse.as_ref()), poses(dense.as_ref()));
        // The sparse walk is a subsequence of the dense one; the rest are full turns.
        let mut left = Vec::new();
        let mut rest = sparse.iter().peekable();
        for pose in &dense {
            if rest.peek() == Some(&pose) {
                rest.next();
            } else {
                left.push(*pose);
            }
        }
        assert!(rest.next().is_none(), "episode {index}");
        assert_eq!(left.len() % 32, 0, "episode {index}: {} poses added", left.len());
    }
}

/// Where full turns on the spot end.
fn scans(poses: &[Pose]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut turned = 0.0;
    for (index, pair) in poses.windows(2).enumerate() {
        let step = pair[1].displacement_from(&pair[0]);
        let still = pair[0].distance(&pair[1]) < 1e-6;
        turned = if still && step.turn > 0.19 { turned + step.turn } else { 0.0 };
        if turned > TAU - 0.3 {
            ends.push(index + 1);
            turned = 0.0;
        }
    }
    ends
}

#[test]
fn the_sparse_variant_scans_at_the_ends_of_the_exploration() {
    for index in 0..3 {
        let episode = Apartment.episode(&recording("v1"), index).unwrap();
        let (all, boundary) = (poses(episode.as_ref()), episode.course().boundary);
        let ends = scans(&all);
        assert_eq!(ends.len(), 2, "episode {index}: {ends:?} of {boundary}");
        assert!(ends[0] < 34 && ends[1].abs_diff(boundary) < 3, "{ends:?} of {boundary}");
    }
}

#[test]
fn walks_keep_out_of_walls_and_furniture_and_end_where_they_began() {
    for index in 0..3 {
        let episode = Apartment.episode(&recording("v2"), index).unwrap();
        let scene = random(5, "apartment", u64::from(index));
        let house = House::build(scene);
        let all = poses(episode.as_ref());
        for pose in &all {
            let [x, y, _] = pose.position;
            assert!(!house.ground.is_blocked(Plan::cell_at([x, y])), "episode {index}");
        }
        for pair in all.windows(2) {
            assert!(pair[0].distance(&pair[1]) < 0.101);
            assert!(pair[1].displacement_from(&pair[0]).turn.abs() < 0.201);
        }
        let [first, last] = [all[0], all[all.len() - 1]];
        assert!(first.distance(&last) < 0.01, "episode {index}");
        let tier = episode.course().facts.tier.unwrap() as f32;
        let length: f32 =
            all[episode.course().boundary..].windows(2).map(|p| p[0].distance(&p[1])).sum();
        assert!((length - tier).abs() < 2.6, "episode {index}: {length} m for tier {tier}");
    }
}

#[test]
fn every_second_of_a_walk_is_heard_and_fits_into_the_samples() {
    for index in [1, 5] {
        let mut episode = Apartment.episode(&recording("v1"), index).unwrap();
        let mut studio = Studio::new(Apartment.camera(), 8);
        let mut samples = Vec::new();
        for frame in 0..episode.course().poses.len() {
            samples.extend(episode.frame(frame, &mut studio).unwrap().audio);
        }
        assert_eq!(samples.len(), 1600 * episode.course().poses.len());
        for (second, part) in samples.chunks(16_000).enumerate() {
            let loudest = part.iter().flatten().fold(0.0f32, |peak, x| peak.max(x.abs()));
            assert!(loudest > 3e-4, "episode {index}: second {second} has peak {loudest}");
        }
        let cut = samples.iter().flatten().filter(|x| x.abs() >= 1.0).count();
        assert!(cut * 1000 < samples.len(), "episode {index}: {cut} samples are cut");
    }
}

#[test]
fn apartments_differ_and_are_dealt_by_scene() {
    let plans: Vec<Floor> = (0..8)
        .map(|scene| {
            let drawn = Plan::draw(&mut random(5, "apartment", scene));
            let [columns, rows] = drawn.size.map(|n| n as usize);
            Floor::new(columns, rows, 0.25, |x, y| drawn.at([x as i32, y as i32]) == Space::Wall)
        })
        .collect();
    for (i, a) in plans.iter().enumerate() {
        assert!(plans[i + 1..].iter().all(|b| a != b));
    }
    let deal = Deal { seed: 5, block: TEST.0, test: TEST.1 };
    let test = (0..SCENES).filter(|&scene| deal.split(scene) == far_data::Split::Test).count();
    assert_eq!(test, 24);
}

#[test]
fn maps_show_walls_ways_and_sources() {
    let episode = Apartment.walk(&recording("v1"), 1).unwrap();
    let map = episode.map(8);
    let counted = |color: [u8; 3]| map.pixels.chunks(3).filter(|pixel| *pixel == color).count();
    for color in [[52, 52, 58], [40, 110, 220], [30, 160, 70], [220, 40, 40], [230, 130, 20]] {
        assert!(counted(color) > 20, "{color:?}");
    }
    let kinds: Vec<_> = episode.soundscape().sources().map(|source| source.clip.kind()).collect();
    assert!((2..=4).contains(&kinds.len()));
    assert!((1..kinds.len()).all(|i| !kinds[..i].contains(&kinds[i])), "{kinds:?}");
}

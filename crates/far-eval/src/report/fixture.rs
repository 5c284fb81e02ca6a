//! Small results and replays for the tests of the report.

use crate::{
    BothEndsView, CounterfactualAnswer, CounterfactualView, Curve, EndAnswer, EndView, Interval,
    RecalledFrame, Replay, ReplayStep, Results,
};
use far_data::Picture;
use std::collections::BTreeMap;

/// An interval of a half width over two dozen clips.
pub fn interval(mean: f64, half: f64) -> Interval {
    Interval { mean, lo: mean - half, hi: mean + half, n: 24 }
}

/// Results in which `far-multi` is ahead of one rule and equal to another.
pub fn results() -> Results {
    let arm = |psnr: f64, quality: Option<f64>| {
        let mut arm = BTreeMap::from([("psnr".to_owned(), interval(psnr, 0.2))]);
        arm.extend(quality.map(|q| ("recall_quality".to_owned(), interval(q, 0.05))));
        arm
    };
    let arms = [
        ("far-multi", arm(17.2, Some(0.85))),
        ("worldmem", arm(16.1, Some(0.3))),
        ("temporal", arm(16.0, Some(0.02))),
        ("none", arm(15.0, None)),
        ("oracle", arm(18.0, Some(1.0))),
    ];
    let pair = |mean: f64, half: f64| BTreeMap::from([("psnr".to_owned(), interval(mean, half))]);
    let pairs = [("worldmem".to_owned(), pair(1.1, 0.3)), ("temporal".to_owned(), pair(1.2, 1.5))];
    let curve = Curve { time: vec![0.25, 0.75], values: vec![interval(18.0, 0.3); 2] };
    let curves = BTreeMap::from([("psnr".to_owned(), curve)]);
    Results {
        corpus: "village".into(),
        clips: 24,
        seed: 0,
        device: "cpu".into(),
        train_seconds: Some(201.4),
        judge: "common".into(),
        slots: 2,
        arms: arms.into_iter().map(|(name, arm)| (name.to_owned(), arm)).collect(),
        paired: BTreeMap::from([("far-multi".to_owned(), pairs.into_iter().collect())]),
        curves: BTreeMap::from([("far-multi".to_owned(), curves)]),
        ..Results::default()
    }
}

/// A small picture that differs from those of other reds.
fn picture(red: u8) -> Picture {
    let mut picture = Picture::filled(8, 6, [red, 90, 200]);
    picture.set_pixel(3, 2, [255, red, 0]);
    picture
}

/// A trajectory of which one arm generates both ends right, the other an agent too many.
pub fn both_ends() -> BothEndsView {
    let end = |goal: usize, agent, red| EndView { goal, agent, truth: picture(red) };
    let answer = |red: u8, fires| EndAnswer { picture: picture(red), fires, recalled: vec![3] };
    let arms = [
        ("far-multi".to_owned(), [answer(141, true), answer(142, false)]),
        ("worldmem".to_owned(), [answer(143, true), answer(144, true)]),
    ];
    BothEndsView {
        episode: 7,
        current: 40,
        present: picture(130),
        ends: [end(44, true, 131), end(52, false, 134)],
        memories: [(3, picture(135))].into(),
        arms: BTreeMap::from(arms),
    }
}

/// A pair of histories that one arm tells apart on one side only.
pub fn counterfactual() -> CounterfactualView {
    let answer = CounterfactualAnswer {
        predictions: [picture(103), picture(104)],
        recalled: [vec![7, 2], vec![]],
        right: [true, false],
    };
    CounterfactualView {
        episodes: [8, 9],
        current: 40,
        goal: 45,
        crop: [1, 0, 5, 4],
        present: picture(100),
        truths: [picture(101), picture(102)],
        memories: [[(2, picture(105)), (7, picture(100))].into(), BTreeMap::new()],
        arms: [("far-multi".to_owned(), answer)].into(),
    }
}

/// A replay of three steps with two arms; every picture is different.
pub fn replay() -> Replay {
    let step = |red: u8, recalled: Vec<RecalledFrame>, weights: Vec<(String, f32)>| ReplayStep {
        picture: picture(red),
        psnr: 17.0 + f64::from(red) / 10.0,
        recalled,
        weights,
    };
    let recalled = |frame: usize| RecalledFrame {
        frame,
        score: Some(1.5),
        cues: vec![[Some(0.9), Some(1.8)], [None, Some(-0.4)]],
        utility: Some(0.12),
        repeats: Some((1, if frame > 1 { 0.3 } else { 2.8e-12 })),
    };
    let weights = |index: u8| {
        let audio = 0.25 + 0.1 * f32::from(index);
        vec![("meta".to_owned(), 1.0 - audio), ("audio".to_owned(), audio)]
    };
    let learned = (0..3)
        .map(|index| step(10 + index, vec![recalled(1), recalled(2)], weights(index)))
        .collect();
    let bare =
        RecalledFrame { frame: 3, score: None, cues: Vec::new(), utility: None, repeats: None };
    let rule = (0..3).map(|index| step(30 + index, vec![bare.clone()], Vec::new())).collect();
    Replay {
        episode: 7,
        boundary: 4,
        path: (0..8).map(|frame| [frame as f32 * 0.5, 1.0, 0.1 * frame as f32]).collect(),
        frames: vec![5, 6, 7],
        truth: (0..3).map(|index| picture(50 + index)).collect(),
        decoded: (0..3).map(|index| picture(60 + index)).collect(),
        memories: (1..4).map(|frame| (frame, picture(70 + frame as u8))).collect(),
        sounds: (1..7).map(|frame| (frame, picture(80 + frame as u8))).collect(),
        arms: BTreeMap::from([("far-multi".to_owned(), learned), ("worldmem".to_owned(), rule)]),
    }
}

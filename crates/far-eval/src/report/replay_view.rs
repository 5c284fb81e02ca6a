//! A replay as the page holds it: pictures by number, numbers with the digits one can see.

use super::picture_pack::PicturePack;
use crate::{RecalledFrame, Replay, ReplayStep};
use serde::Serialize;
use std::collections::BTreeMap;

/// One clip.
#[derive(Serialize)]
pub struct ReplayView<'a> {
    episode: u32,
    boundary: usize,
    size: [u32; 2],
    path: Vec<[f64; 3]>,
    frames: &'a [usize],
    truth: Vec<usize>,
    decoded: Vec<usize>,
    memories: BTreeMap<usize, usize>,
    sounds: BTreeMap<usize, usize>,
    arms: BTreeMap<&'a str, Vec<StepView<'a>>>,
}

#[derive(Serialize)]
struct StepView<'a> {
    picture: usize,
    psnr: Option<f64>,
    recalled: Vec<RecalledView>,
    weights: Vec<(&'a str, Option<f64>)>,
}

#[derive(Serialize)]
struct RecalledView {
    frame: usize,
    score: Option<f64>,
    cues: Vec<[Option<f64>; 2]>,
    utility: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeats: Option<(usize, Option<f64>)>,
}

impl<'a> ReplayView<'a> {
    /// The view of a replay; its pictures go into the pack.
    pub fn new(replay: &'a Replay, pack: &mut PicturePack<'a>) -> Self {
        let place = |value: f32| rounded(f64::from(value), 3).unwrap_or(0.0);
        let size = replay.truth.first().map_or([1, 1], |picture| [picture.width, picture.height]);
        let mut arms = BTreeMap::new();
        let truth = replay.truth.iter().map(|picture| pack.add(picture)).collect();
        let decoded = replay.decoded.iter().map(|picture| pack.add(picture)).collect();
        let (memories, sounds) =
            (pack.add_frames(&replay.memories), pack.add_frames(&replay.sounds));
        for (name, steps) in &replay.arms {
            let steps = steps.iter().map(|step| StepView::new(step, pack.add(&step.picture)));
            arms.insert(name.as_str(), steps.collect());
        }
        Self {
            episode: replay.episode,
            boundary: replay.boundary,
            size,
            path: replay.path.iter().map(|pose| pose.map(place)).collect(),
            frames: &replay.frames,
            truth,
            decoded,
            memories,
            sounds,
            arms,
        }
    }
}

impl<'a> StepView<'a> {
    fn new(step: &'a ReplayStep, picture: usize) -> Self {
        let weights = step.weights.iter();
        Self {
            picture,
            psnr: rounded(step.psnr, 3),
            recalled: step.recalled.iter().map(RecalledView::new).collect(),
            weights: weights.map(|(cue, weight)| (cue.as_str(), number(*weight))).collect(),
        }
    }
}

impl RecalledView {
    fn new(recalled: &RecalledFrame) -> Self {
        Self {
            frame: recalled.frame,
            score: recalled.score.and_then(number),
            cues: recalled
                .cues
                .iter()
                .map(|pair| pair.map(|value| value.and_then(number)))
                .collect(),
            utility: recalled.utility.and_then(number),
            repeats: recalled.repeats.map(|(frame, cost)| (frame, number(cost))),
        }
    }
}

/// A finite value with four significant digits.
fn number(value: f32) -> Option<f64> {
    value.is_finite().then(|| format!("{value:.3e}").parse().ok()).flatten()
}

/// A finite value with so many digits after the point.
fn rounded(value: f64, digits: i32) -> Option<f64> {
    let scale = 10f64.powi(digits);
    let rounded = (value * scale).round() / scale;
    rounded.is_finite().then_some(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::replay;

    #[test]
    fn the_view_names_every_picture_once() {
        let mut replay = replay();
        replay.decoded[0] = replay.arms["far-multi"][0].picture.clone();
        let mut pack = PicturePack::default();
        let view = serde_json::to_value(ReplayView::new(&replay, &mut pack)).unwrap();
        assert_eq!(pack.encode(usize::MAX).len(), 3 + 3 + 3 + 6 + 6 - 1);
        assert_eq!(view["sounds"].as_object().unwrap().len(), 6);
        assert_eq!(view["decoded"][0], view["arms"]["far-multi"][0]["picture"]);
        assert_eq!(view["size"], serde_json::json!([8, 6]));
        assert_eq!(view["arms"]["far-multi"][1]["weights"][0][0], "meta");
    }

    #[test]
    fn numbers_are_short_and_nothing_is_not_a_number() {
        assert_eq!(rounded(17.123_456, 3), Some(17.123));
        assert_eq!(rounded(f64::INFINITY, 3), None);
        assert_eq!(number(f32::NAN), None);
        assert_eq!(number(-0.001_234_56), Some(-0.001_235));
    }
}

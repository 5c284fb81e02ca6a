//! Counterfactual pairs on disk: one JSON file each under `probes/`, pictures as base64 PNG.

use super::kept::Kept;
use super::picture_pack::PicturePack;
use super::stored_picture::{Pictures, StoredPicture};
use crate::{CounterfactualAnswer, CounterfactualView};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version this crate reads and writes.
const VERSION: u32 = 1;

/// Pictures are named by their number among `pictures`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredView {
    version: u32,
    episodes: [u32; 2],
    current: usize,
    goal: usize,
    crop: [u32; 4],
    pictures: Vec<StoredPicture>,
    present: usize,
    truths: [usize; 2],
    memories: [BTreeMap<usize, usize>; 2],
    arms: BTreeMap<String, StoredAnswer>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredAnswer {
    predictions: [usize; 2],
    recalled: [Vec<usize>; 2],
    right: [bool; 2],
}

impl Kept for CounterfactualView {
    const FOLDER: &'static str = "probes";
    const PREFIX: &'static str = "counterfactual-";

    fn number(&self) -> u32 {
        self.episodes[0]
    }

    fn to_json(&self) -> String {
        let mut pack = PicturePack::default();
        let stored = StoredView {
            version: VERSION,
            episodes: self.episodes,
            current: self.current,
            goal: self.goal,
            crop: self.crop,
            present: pack.add(&self.present),
            truths: self.truths.each_ref().map(|truth| pack.add(truth)),
            memories: self.memories.each_ref().map(|side| pack.add_frames(side)),
            arms: self
                .arms
                .iter()
                .map(|(name, answer)| {
                    let predictions = answer.predictions.each_ref().map(|one| pack.add(one));
                    let (recalled, right) = (answer.recalled.clone(), answer.right);
                    (name.clone(), StoredAnswer { predictions, recalled, right })
                })
                .collect(),
            pictures: StoredPicture::all(&pack),
        };
        serde_json::to_string(&stored).expect("a pair has only text keys")
    }

    fn from_json(bytes: &[u8]) -> Result<Self, String> {
        let stored: StoredView = serde_json::from_slice(bytes)
            .map_err(|error| format!("not a counterfactual pair: {error}"))?;
        if stored.version != VERSION {
            let found = stored.version;
            return Err(format!("pair of version {found}, this program reads version {VERSION}"));
        }
        let pictures = Pictures::decode(&stored.pictures)?;
        let two = |[a, b]: [usize; 2]| -> Result<_, String> {
            Ok([pictures.take(a)?, pictures.take(b)?])
        };
        let [first, second] = stored.memories.map(|side| pictures.by_frame(&side));
        let mut arms = BTreeMap::new();
        for (name, StoredAnswer { predictions, recalled, right }) in stored.arms {
            let predictions = two(predictions)?;
            arms.insert(name, CounterfactualAnswer { predictions, recalled, right });
        }
        let view = Self {
            episodes: stored.episodes,
            current: stored.current,
            goal: stored.goal,
            crop: stored.crop,
            present: pictures.take(stored.present)?,
            truths: two(stored.truths)?,
            memories: [first?, second?],
            arms,
        };
        check(&view)?;
        Ok(view)
    }
}

/// Whether the parts fit together.
fn check(view: &CounterfactualView) -> Result<(), String> {
    let CounterfactualView { current, goal, crop: [left, top, right, bottom], .. } = *view;
    if current >= goal {
        return Err(format!("frame {goal} is predicted from frame {current}"));
    }
    let (width, height) = (view.present.width, view.present.height);
    if left >= right || top >= bottom || right > width || bottom > height {
        let crop = view.crop;
        return Err(format!("the crop {crop:?} does not lie in {width}x{height} pixels"));
    }
    let predictions = view.arms.values().flat_map(|answer| &answer.predictions);
    for picture in view.truths.iter().chain(predictions) {
        if [picture.width, picture.height] != [width, height] {
            let (wide, high) = (picture.width, picture.height);
            return Err(format!(
                "a picture of {wide}x{high} pixels beside one of {width}x{height}"
            ));
        }
    }
    for (name, answer) in &view.arms {
        for (side, recalled) in answer.recalled.iter().enumerate() {
            let unknown = recalled.iter().find(|frame| !view.memories[side].contains_key(frame));
            if let Some(frame) = unknown {
                return Err(format!("`{name}` recalls frame {frame}, no memory"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::counterfactual as view;
    use far_data::Picture;

    #[test]
    fn pairs_come_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        assert!(CounterfactualView::read_all(folder.path()).unwrap().is_empty());
        let path = view().write(folder.path()).unwrap();
        assert!(path.ends_with("probes/counterfactual-000008.json"));
        std::fs::write(folder.path().join("probes/other.json"), "{}").unwrap();
        assert_eq!(CounterfactualView::read_all(folder.path()).unwrap(), [view()]);
    }

    #[test]
    fn parts_that_do_not_fit_are_named() {
        let refused = |change: fn(&mut CounterfactualView)| {
            let mut view = view();
            change(&mut view);
            CounterfactualView::from_json(view.to_json().as_bytes()).unwrap_err()
        };
        assert!(refused(|view| view.goal = 40).contains("frame 40 is predicted from frame 40"));
        assert!(refused(|view| view.crop[2] = 9).contains("does not lie in 8x6"));
        assert!(refused(|view| view.memories[0].clear()).contains("recalls frame 7, no memory"));
        let other = |view: &mut CounterfactualView| view.truths[1] = Picture::filled(2, 2, [0; 3]);
        assert!(refused(other).contains("2x2 pixels beside one of 8x6"));
        let newer = view().to_json().replace("\"version\":1", "\"version\":2");
        let reason = CounterfactualView::from_json(newer.as_bytes()).unwrap_err();
        assert!(reason.contains("version 2"), "{reason}");
    }
}

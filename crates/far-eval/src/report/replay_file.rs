//! Replays on disk: one JSON file per clip under `replays/`, pictures as base64 PNG.
//!
//! Each distinct picture is stored once, losslessly; everything else names it by its number.
//! JSON has no NaN and no infinity: a PSNR or weight that is not finite is `null`, and NaN when
//! it is read back.

use super::kept::Kept;
use super::picture_pack::PicturePack;
use super::stored_picture::{Pictures, StoredPicture};
use crate::{RecalledFrame, Replay, ReplayStep};
use far_data::Picture;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version this crate writes. Version 1 had no sounds and is read as such.
const VERSION: u32 = 2;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredReplay {
    version: u32,
    episode: u32,
    boundary: usize,
    path: Vec<[f32; 3]>,
    frames: Vec<usize>,
    pictures: Vec<StoredPicture>,
    truth: Vec<usize>,
    decoded: Vec<usize>,
    memories: BTreeMap<usize, usize>,
    #[serde(default)]
    sounds: BTreeMap<usize, usize>,
    arms: BTreeMap<String, Vec<StoredStep>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredStep {
    picture: usize,
    psnr: Option<f64>,
    recalled: Vec<RecalledFrame>,
    weights: Vec<(String, Option<f32>)>,
}

impl Kept for Replay {
    const FOLDER: &'static str = "replays";
    const PREFIX: &'static str = "";

    fn number(&self) -> u32 {
        self.episode
    }

    fn to_json(&self) -> String {
        let mut pack = PicturePack::default();
        let stored = StoredReplay {
            version: VERSION,
            episode: self.episode,
            boundary: self.boundary,
            path: self.path.clone(),
            frames: self.frames.clone(),
            truth: self.truth.iter().map(|picture| pack.add(picture)).collect(),
            decoded: self.decoded.iter().map(|picture| pack.add(picture)).collect(),
            memories: pack.add_frames(&self.memories),
            sounds: pack.add_frames(&self.sounds),
            arms: self
                .arms
                .iter()
                .map(|(name, steps)| {
                    let steps = steps.iter().map(|step| store_step(step, pack.add(&step.picture)));
                    (name.clone(), steps.collect())
                })
                .collect(),
            pictures: StoredPicture::all(&pack),
        };
        serde_json::to_string(&stored).expect("a replay has only text keys")
    }

    fn from_json(bytes: &[u8]) -> Result<Self, String> {
        let stored: StoredReplay =
            serde_json::from_slice(bytes).map_err(|error| format!("not a replay: {error}"))?;
        if !(1..=VERSION).contains(&stored.version) {
            let found = stored.version;
            return Err(format!("replay version {found}, this program reads 1 to {VERSION}"));
        }
        let pictures = Pictures::decode(&stored.pictures)?;
        let picture = |index: usize| pictures.take(index);
        let many = |indices: &[usize]| -> Result<Vec<Picture>, String> {
            indices.iter().map(|index| picture(*index)).collect()
        };
        let mut arms = BTreeMap::new();
        for (name, steps) in stored.arms {
            let steps = steps.into_iter().map(|step| {
                Ok(ReplayStep {
                    picture: picture(step.picture)?,
                    psnr: step.psnr.unwrap_or(f64::NAN),
                    recalled: step.recalled,
                    weights: step
                        .weights
                        .into_iter()
                        .map(|(cue, weight)| (cue, weight.unwrap_or(f32::NAN)))
                        .collect(),
                })
            });
            arms.insert(name, steps.collect::<Result<_, String>>()?);
        }
        let replay = Self {
            episode: stored.episode,
            boundary: stored.boundary,
            truth: many(&stored.truth)?,
            decoded: many(&stored.decoded)?,
            memories: pictures.by_frame(&stored.memories)?,
            sounds: pictures.by_frame(&stored.sounds)?,
            path: stored.path,
            frames: stored.frames,
            arms,
        };
        check(&replay)?;
        Ok(replay)
    }
}

fn store_step(step: &ReplayStep, picture: usize) -> StoredStep {
    let weights = step.weights.iter().map(|(cue, weight)| (cue.clone(), Some(*weight)));
    StoredStep {
        picture,
        psnr: Some(step.psnr),
        recalled: step.recalled.clone(),
        weights: weights.collect(),
    }
}

/// Whether the parts of a replay fit together.
fn check(replay: &Replay) -> Result<(), String> {
    let steps = replay.frames.len();
    for (part, length) in [("truth", replay.truth.len()), ("decoded", replay.decoded.len())] {
        if length != steps {
            return Err(format!("{length} pictures of `{part}` for {steps} frames"));
        }
    }
    // Without poses there is no path, and nobody says how many frames there are.
    let frames = if replay.path.is_empty() { usize::MAX } else { replay.path.len() };
    if let Some(frame) = replay.frames.iter().find(|frame| **frame >= frames) {
        return Err(format!("frame {frame} was generated on a path of {frames} frames"));
    }
    for (pictures, what) in [(&replay.memories, "remembered"), (&replay.sounds, "heard")] {
        if let Some(frame) = pictures.keys().find(|frame| **frame >= frames) {
            return Err(format!("frame {frame} is {what} on a path of {frames} frames"));
        }
    }
    for (name, arm) in &replay.arms {
        if arm.len() != steps {
            return Err(format!("{} steps of `{name}` for {steps} frames", arm.len()));
        }
        for (index, step) in arm.iter().enumerate() {
            for recalled in &step.recalled {
                let frame = recalled.frame;
                if !replay.memories.contains_key(&frame) {
                    return Err(format!(
                        "step {index} of `{name}` recalls frame {frame}, no memory"
                    ));
                }
                if !recalled.cues.is_empty() && recalled.cues.len() != step.weights.len() {
                    let (cues, weights) = (recalled.cues.len(), step.weights.len());
                    let reason = format!("scores of {cues} cues but {weights} weights");
                    return Err(format!("step {index} of `{name}`, frame {frame}: {reason}"));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::replay;

    #[test]
    fn a_replay_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Replay::read_all(folder.path()).unwrap(), []);
        let path = replay().write(folder.path()).unwrap();
        assert!(path.ends_with("replays/000007.json"));
        std::fs::write(folder.path().join("replays/notes.txt"), "not a replay").unwrap();
        assert_eq!(Replay::read_all(folder.path()).unwrap(), [replay()]);
    }

    #[test]
    fn equal_pictures_are_stored_once() {
        let mut replay = replay();
        let distinct = serde_json::from_str::<StoredReplay>(&replay.to_json()).unwrap();
        replay.decoded = replay.truth.clone();
        let fewer = serde_json::from_str::<StoredReplay>(&replay.to_json()).unwrap();
        assert_eq!(fewer.pictures.len() + 3, distinct.pictures.len());
        assert_eq!(Replay::from_json(replay.to_json().as_bytes()), Ok(replay));
    }

    #[test]
    fn a_replay_of_the_first_version_is_one_without_sound() {
        let silent = Replay { sounds: BTreeMap::new(), ..replay() };
        let text = silent.to_json().replacen("\"version\":2", "\"version\":1", 1);
        let text = text.replacen("\"sounds\":{},", "", 1);
        assert!(!text.contains("sounds"));
        assert_eq!(Replay::from_json(text.as_bytes()), Ok(silent));
    }

    #[test]
    fn values_that_are_not_finite_come_back_as_nan() {
        let mut replay = replay();
        let step = &mut replay.arms.get_mut("far-multi").unwrap()[0];
        step.psnr = f64::INFINITY;
        step.weights[0].1 = f32::NAN;
        let back = Replay::from_json(replay.to_json().as_bytes()).unwrap();
        let step = &back.arms["far-multi"][0];
        assert!(step.psnr.is_nan() && step.weights[0].1.is_nan());
    }

    #[test]
    fn parts_that_do_not_fit_are_named() {
        let changed = |change: fn(&mut Replay)| {
            let mut replay = replay();
            change(&mut replay);
            Replay::from_json(replay.to_json().as_bytes()).unwrap_err()
        };
        assert_eq!(changed(|r| drop(r.truth.pop())), "2 pictures of `truth` for 3 frames");
        assert!(changed(|r| r.frames[2] = 99).contains("frame 99 was generated on a path of 8"));
        let sound = |r: &mut Replay| drop(r.sounds.insert(9, r.truth[0].clone()));
        assert!(changed(sound).contains("frame 9 is heard on a path of 8"));
        assert!(changed(|r| drop(r.memories.remove(&3))).contains("`worldmem` recalls frame 3"));
        let weights = |r: &mut Replay| drop(r.arms.get_mut("far-multi").unwrap()[1].weights.pop());
        assert!(
            changed(weights).contains("step 1 of `far-multi`, frame 1: scores of 2 cues but 1")
        );
        let steps = |r: &mut Replay| drop(r.arms.get_mut("worldmem").unwrap().pop());
        assert_eq!(changed(steps), "2 steps of `worldmem` for 3 frames");
    }

    #[test]
    fn bad_files_are_errors_with_their_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("replays/000001.json");
        std::fs::create_dir(folder.path().join("replays")).unwrap();
        let fails = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let message = Replay::read_all(folder.path()).unwrap_err().to_string();
            assert!(message.contains("000001.json"), "{message}");
            message
        };
        let good = replay().to_json();
        assert!(fails(&good[..good.len() / 2]).contains("not a replay"));
        assert!(fails(&good.replacen("\"version\":2", "\"version\":9", 1)).contains("version 9"));
        assert!(fails(&good.replacen("[0.0,1.0,", "[1e39,1.0,", 1)).contains("out of range"));
        assert!(fails(&good.replacen("[8,6]", "[9,6]", 1)).contains("picture 0"));
        assert!(fails(&good.replacen("[8,6]", "[4294967295,4294967295]", 1)).contains("gigabyte"));
        assert!(fails(&good.replacen("\"picture\":15", "\"picture\":600", 1)).contains("600 of"));
    }
}

//! Both-ends probes on disk: one JSON file each under `probes/`, pictures as base64 PNG.

use super::kept::Kept;
use super::picture_pack::PicturePack;
use super::stored_picture::{Pictures, StoredPicture};
use crate::{BothEndsView, EndAnswer, EndView};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version this crate reads and writes.
const VERSION: u32 = 1;

/// Pictures are named by their number among `pictures`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredView {
    version: u32,
    episode: u32,
    current: usize,
    pictures: Vec<StoredPicture>,
    present: usize,
    ends: [StoredEnd; 2],
    memories: BTreeMap<usize, usize>,
    arms: BTreeMap<String, [StoredAnswer; 2]>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredEnd {
    goal: usize,
    agent: bool,
    truth: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredAnswer {
    picture: usize,
    fires: bool,
    recalled: Vec<usize>,
}

impl Kept for BothEndsView {
    const FOLDER: &'static str = "probes";
    const PREFIX: &'static str = "both-ends-";

    fn number(&self) -> u32 {
        self.episode
    }

    fn to_json(&self) -> String {
        let mut pack = PicturePack::default();
        let stored = StoredView {
            version: VERSION,
            episode: self.episode,
            current: self.current,
            present: pack.add(&self.present),
            ends: self.ends.each_ref().map(|end| StoredEnd {
                goal: end.goal,
                agent: end.agent,
                truth: pack.add(&end.truth),
            }),
            memories: pack.add_frames(&self.memories),
            arms: (self.arms.iter())
                .map(|(arm, answers)| {
                    let answers = answers.each_ref().map(|answer| StoredAnswer {
                        picture: pack.add(&answer.picture),
                        fires: answer.fires,
                        recalled: answer.recalled.clone(),
                    });
                    (arm.clone(), answers)
                })
                .collect(),
            pictures: StoredPicture::all(&pack),
        };
        serde_json::to_string(&stored).expect("a trajectory has only text keys")
    }

    fn from_json(bytes: &[u8]) -> Result<Self, String> {
        let stored: StoredView = serde_json::from_slice(bytes)
            .map_err(|error| format!("not a both-ends probe: {error}"))?;
        if stored.version != VERSION {
            let found = stored.version;
            return Err(format!("probe of version {found}, this program reads version {VERSION}"));
        }
        let pictures = Pictures::decode(&stored.pictures)?;
        let [first, second] = stored.ends.map(|StoredEnd { goal, agent, truth }| {
            pictures.take(truth).map(|truth| EndView { goal, agent, truth })
        });
        let arms = stored.arms.into_iter().map(|(arm, answers)| {
            let [first, second] = answers.map(|StoredAnswer { picture, fires, recalled }| {
                pictures.take(picture).map(|picture| EndAnswer { picture, fires, recalled })
            });
            Ok((arm, [first?, second?]))
        });
        let view = Self {
            episode: stored.episode,
            current: stored.current,
            present: pictures.take(stored.present)?,
            ends: [first?, second?],
            memories: pictures.by_frame(&stored.memories)?,
            arms: arms.collect::<Result<_, String>>()?,
        };
        let mut recalled = view.arms.iter().flat_map(|(arm, answers)| {
            answers.iter().flat_map(move |answer| answer.recalled.iter().map(move |at| (arm, at)))
        });
        let unknown = recalled.find(|(_, frame)| !view.memories.contains_key(frame));
        match unknown {
            Some((arm, frame)) => Err(format!("`{arm}` recalls frame {frame}, no memory")),
            None => Ok(view),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::both_ends;

    #[test]
    fn a_trajectory_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(BothEndsView::read_all(folder.path()).unwrap(), []);
        let path = both_ends().write(folder.path()).unwrap();
        assert!(path.ends_with("probes/both-ends-000007.json"));
        std::fs::write(folder.path().join("probes/other.json"), "{}").unwrap();
        assert_eq!(BothEndsView::read_all(folder.path()).unwrap(), [both_ends()]);
    }

    #[test]
    fn bad_files_are_errors_with_their_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = both_ends().write(folder.path()).unwrap();
        let fails = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let message = BothEndsView::read_all(folder.path()).unwrap_err().to_string();
            assert!(message.contains("both-ends-000007.json"), "{message}");
            message
        };
        let good = both_ends().to_json();
        assert!(fails(&good[..good.len() / 2]).contains("not a both-ends probe"));
        assert!(fails(&good.replacen("\"version\":1", "\"version\":2", 1)).contains("version 2"));
        assert!(fails(&good.replacen("\"present\":0", "\"present\":60", 1)).contains("60 of"));
        assert!(fails(&good.replacen("[8,6]", "[8,7]", 1)).contains("picture 0"));
        let forgotten = BothEndsView { memories: BTreeMap::new(), ..both_ends() }.to_json();
        assert!(fails(&forgotten).contains("`far-multi` recalls frame 3, no memory"));
    }
}

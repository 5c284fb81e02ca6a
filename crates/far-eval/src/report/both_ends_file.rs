//! Both-ends probes on disk: one JSON file each under `probes/`, pictures as base64 PNG.

use super::picture_pack::PicturePack;
use super::run_file;
use super::stored_picture::{Pictures, StoredPicture};
use crate::{BothEndsView, CorridorEnd, EndAnswer, Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The version this crate reads and writes.
const VERSION: u32 = 1;
/// The folder in that of the results.
const FOLDER: &str = "probes";
/// What the names of the files begin with.
const PREFIX: &str = "both-ends-";

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
}

impl BothEndsView {
    /// Writes the trajectory into `probes/` of a run's folder and says where.
    ///
    /// # Errors
    /// If the folder or the file cannot be written.
    pub fn write(&self, run: &Path) -> Result<PathBuf> {
        let name = format!("{PREFIX}{:06}.json", self.episode);
        run_file::write_into(&run.join(FOLDER), &name, &self.to_json())
    }

    /// All trajectories of a run's folder, by the names of their files; none if there are none.
    ///
    /// # Errors
    /// If a file cannot be read or is not such a trajectory.
    pub fn read_all(run: &Path) -> Result<Vec<Self>> {
        let is_own = |name: &str| name.starts_with(PREFIX) && name.ends_with(".json");
        let paths = run_file::list(&run.join(FOLDER), is_own)?;
        paths.iter().map(|path| Self::read(path)).collect()
    }

    /// Reads one trajectory.
    ///
    /// # Errors
    /// If the file cannot be read or is not such a trajectory.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
        Self::from_json(&bytes).map_err(|reason| Error::malformed(path, reason))
    }

    /// The trajectory as the text of its file.
    pub fn to_json(&self) -> String {
        let mut pack = PicturePack::default();
        let present = pack.add(&self.present);
        let ends = self.ends.each_ref().map(|end| StoredEnd {
            goal: end.goal,
            agent: end.agent,
            truth: pack.add(&end.truth),
        });
        let arms = self.arms.iter().map(|(arm, answers)| {
            let answers = answers.each_ref().map(|answer| StoredAnswer {
                picture: pack.add(&answer.picture),
                fires: answer.fires,
            });
            (arm.clone(), answers)
        });
        let arms = arms.collect();
        let stored = StoredView {
            version: VERSION,
            episode: self.episode,
            current: self.current,
            pictures: StoredPicture::all(&pack),
            present,
            ends,
            arms,
        };
        serde_json::to_string(&stored).expect("a trajectory has only text keys")
    }

    /// Understands the text of a trajectory's file.
    ///
    /// # Errors
    /// Why it is none: not JSON, another version, or a picture that does not decode.
    pub fn from_json(bytes: &[u8]) -> std::result::Result<Self, String> {
        let stored: StoredView = serde_json::from_slice(bytes)
            .map_err(|error| format!("not a both-ends probe: {error}"))?;
        if stored.version != VERSION {
            let found = stored.version;
            return Err(format!("probe of version {found}, this program reads version {VERSION}"));
        }
        let pictures = Pictures::decode(&stored.pictures)?;
        let [first, second] = stored.ends.map(|end| end.read(&pictures));
        let arms = stored.arms.into_iter().map(|(arm, answers)| {
            let [first, second] = answers.map(|answer| answer.read(&pictures));
            Ok((arm, [first?, second?]))
        });
        Ok(Self {
            episode: stored.episode,
            current: stored.current,
            present: pictures.take(stored.present)?,
            ends: [first?, second?],
            arms: arms.collect::<std::result::Result<_, String>>()?,
        })
    }
}

impl StoredEnd {
    fn read(self, pictures: &Pictures) -> std::result::Result<CorridorEnd, String> {
        let truth = pictures.take(self.truth)?;
        Ok(CorridorEnd { goal: self.goal, agent: self.agent, truth })
    }
}

impl StoredAnswer {
    fn read(self, pictures: &Pictures) -> std::result::Result<EndAnswer, String> {
        Ok(EndAnswer { picture: pictures.take(self.picture)?, fires: self.fires })
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
    }
}

//! What no single episode shows to be wrong: cues that nothing makes, parts that are empty, rotations
//! written in another convention.

use crate::description::BUILT_IN_CUES;
use crate::{DataError, Dataset, Episode, PoseReport, Result, Split};

/// Episodes whose poses are compared with their pictures.
const COMPARED: usize = 3;

/// What was found in a dataset as a whole.
#[derive(Debug, Default)]
pub struct DatasetCheck {
    /// Rules that are broken.
    pub problems: Vec<DataError>,
    /// What is allowed, and probably not meant.
    pub warnings: Vec<String>,
}

impl DatasetCheck {
    /// Checks a dataset. With `trust_poses`, rotations are taken as they are.
    ///
    /// # Errors
    /// If an episode that is looked at cannot be read.
    pub fn of(dataset: &Dataset, trust_poses: bool) -> Result<Self> {
        let mut check = Self::default();
        let ids: Vec<u32> = dataset.ids().collect();
        let first = dataset.episode(ids[0])?;
        check.problems.extend(unknown_cue(dataset, &first));
        check.parts(dataset)?;
        if dataset.folder().to_str().is_none() {
            let warning =
                "the path is not UTF-8, so no configuration can name it: rename it before training";
            check.warnings.push(warning.into());
        }
        if !trust_poses {
            let count = ids.len().min(COMPARED);
            for id in (0..count).map(|index| ids[index * ids.len() / count]) {
                check.poses(&*dataset.episode(id)?)?;
            }
        }
        Ok(check)
    }

    fn parts(&mut self, dataset: &Dataset) -> Result<()> {
        for (split, without) in [(Split::Train, "learn from"), (Split::Test, "be judged on")] {
            if dataset.select(None, split)?.is_empty() {
                let name = split.name();
                self.warnings.push(format!(
                    "no episode has split \"{name}\": `far train` and `far eval` have nothing to {without}"
                ));
            }
        }
        Ok(())
    }

    fn poses(&mut self, episode: &Episode) -> Result<()> {
        let Some(report) = PoseReport::of_episode(episode)? else { return Ok(()) };
        let wrong = |reason: String| DataError::Rotation { episode: episode.id(), reason };
        let identity = episode.poses().iter().all(|pose| pose.rotation[0].abs() > 0.999_999);
        if identity {
            let reason = "every rotation is (1, 0, 0, 0), a camera that looks straight up";
            self.problems.push(wrong(reason.into()));
        } else if let Some(better) = report.better.as_ref().filter(|_| report.contradicted) {
            let reason = format!("the pictures contradict the poses, which fit as: {better}");
            self.problems.push(wrong(reason));
        } else {
            let warnings = report.reading_warnings().into_iter();
            self.warnings.extend(warnings.map(|text| format!("episode {}: {text}", episode.id())));
        }
        Ok(())
    }
}

/// A cue that far does not compute and that is no column either.
fn unknown_cue(dataset: &Dataset, episode: &Episode) -> Option<DataError> {
    let known = |cue: &str| {
        BUILT_IN_CUES.contains(&cue) || episode.unknown_columns().iter().any(|own| own == cue)
    };
    let cues = &dataset.description().cues;
    let (place, cue) = cues.iter().enumerate().find(|(_, cue)| !known(cue))?;
    let built_in = BUILT_IN_CUES.join(", ");
    let reason = format!(
        "`cues[{place}]` is \"{cue}\", which is neither built in ({built_in}) nor a column of the episodes"
    );
    Some(DataError::Description { path: dataset.folder().join("dataset.json"), reason })
}

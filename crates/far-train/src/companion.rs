//! Learned arms beside a run's own: what they may set, and what checkpoints note of them.

use crate::config::{FarArm, TrainConfig};
use crate::{Arm, Error, Result};
use far_tensor::{Checkpoint, CheckpointWriter};
use std::collections::{BTreeMap, BTreeSet};

/// Settings of `[retriever]` by which the loop draws, recalls and teaches: one loop teaches all retrievers.
const OF_THE_LOOP: [&str; 7] = [
    "retriever.interval",
    "retriever.eager",
    "retriever.queries",
    "retriever.start",
    "retriever.exploration_steps",
    "retriever.random_length",
    "retriever.anchored_only",
];
/// The note of checkpoints.
const NOTE: &str = "companions";
/// Ending of the notes in which a checkpoint counts the updates of each part that learns.
const UPDATES: &str = ".updates";
/// What the world model is called in checkpoints.
const WORLD_MODEL: &str = "world_model";
/// The setting that says which rule an arm is.
const ARM: &str = "arm.id";

/// The arms of companions.
///
/// # Errors
/// If one has nothing to learn, the name of another or of the run's own arm, or a setting of its own that
/// all share.
pub(crate) fn learned_arms(
    config: &TrainConfig,
    companions: &[(String, TrainConfig)],
) -> Result<Vec<FarArm>> {
    let mut names = BTreeSet::from([config.arm.id.as_str()]);
    let arm = |(name, config): &'_ (String, TrainConfig)| match config.arm.arm()? {
        Arm::Far(arm) if arm.learns() => Ok(arm),
        _ => Err(Error::setting("--beside", format!("`{name}` has no retriever that learns"))),
    };
    for (name, companion) in companions {
        if name == WORLD_MODEL {
            let reason = format!("`{name}` is the world model's name in checkpoints");
            return Err(Error::setting("--beside", reason));
        }
        if !names.insert(name) {
            return Err(Error::setting("--beside", format!("two arms are called `{name}`")));
        }
        let mut differences = companion.differences(config);
        if let Some((key, ..)) = differences.find(|(key, ..)| !can_differ(key)) {
            let reason = format!("`{name}` sets `{key}`, which all arms of a run share");
            return Err(Error::setting("--beside", reason));
        }
    }
    companions.iter().map(arm).collect()
}

/// Whether a setting may be a companion's own. The folder of the data does not count: a path can be
/// written in several ways, and there is one dataset.
fn can_differ(key: &str) -> bool {
    let own = key.starts_with("arm.") || key.starts_with("retriever.");
    own && !OF_THE_LOOP.contains(&key) || key == "data.folder"
}

/// The companions of a run by name, each with what it sets otherwise than the run. The configuration says
/// nothing of them, so checkpoints do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Companions(BTreeMap<String, BTreeMap<String, String>>);

impl Companions {
    /// Those that a run is trained with.
    pub fn of(config: &TrainConfig, companions: &[(String, TrainConfig)]) -> Self {
        let settings = |(name, companion): &(String, TrainConfig)| {
            let own = companion.differences(config).filter(|(key, ..)| key != "data.folder");
            // An arm by its id alone is known by its name.
            let own = own.filter(|(key, ..)| key != ARM || companion.arm.id != *name);
            (name.clone(), own.map(|(key, value, _)| (key, value)).collect())
        };
        Self(companions.iter().map(settings).collect())
    }

    /// Adds the note to a checkpoint, if there is something to note.
    pub fn note<'a>(&self, writer: CheckpointWriter<'a>) -> CheckpointWriter<'a> {
        let set: BTreeMap<_, _> = self.0.iter().filter(|(_, own)| !own.is_empty()).collect();
        match set.is_empty() {
            true => writer,
            false => writer.note(NOTE, serde_json::to_string(&set).expect("it is plain data")),
        }
    }

    /// Refuses a checkpoint that was trained with others than these beside the arm of this name.
    pub fn check(&self, arm: &str, checkpoint: &Checkpoint) -> Result<()> {
        let notes = checkpoint.notes();
        let noted = notes.get(NOTE).and_then(|note| serde_json::from_str(note).ok());
        let mut noted: BTreeMap<String, BTreeMap<String, String>> = noted.unwrap_or_default();
        let trained = notes.keys().filter_map(|key| key.strip_suffix(UPDATES));
        let others = trained.filter(|name| ![arm, WORLD_MODEL].contains(name));
        let found = others.map(|name| (name.to_owned(), noted.remove(name).unwrap_or_default()));
        let found = Self(found.collect());
        match found == *self {
            true => Ok(()),
            false => Err(Error::OtherCompanions { found: found.words(), wanted: self.words() }),
        }
    }

    /// As they are given on the command line.
    fn words(&self) -> String {
        let one = |(name, own): (&String, &BTreeMap<String, String>)| {
            let own: Vec<String> =
                own.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let colon = if own.is_empty() { "" } else { ":" };
            format!("--beside {name}{colon}{}", own.join(","))
        };
        match self.0.is_empty() {
            true => "without --beside".to_owned(),
            false => format!("with {}", self.0.iter().map(one).collect::<Vec<_>>().join(" ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_tensor::{AdamWConfig, ArenaBuilder, Initialization, Trained};

    fn config(sets: &[&str]) -> TrainConfig {
        TrainConfig::resolve("quick", sets).expect("a configuration")
    }

    fn beside(companions: &[(&str, &[&str])]) -> Companions {
        let companions = companions.iter().map(|(name, sets)| ((*name).to_owned(), config(sets)));
        Companions::of(&config(&["arm.id=far-multi"]), &companions.collect::<Vec<_>>())
    }

    /// A checkpoint of the run's arm and its companions.
    fn checkpoint(companions: &Companions) -> Checkpoint {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("checkpoint");
        let mut builder = ArenaBuilder::new("toy");
        builder.parameter("a", [1], Initialization::Zero);
        let trained = Trained::new(builder.build(0), AdamWConfig::default());
        let names = companions.0.keys().map(String::as_str);
        let names: Vec<String> = [WORLD_MODEL, "far-multi"]
            .into_iter()
            .chain(names)
            .map(|name| format!("{name}."))
            .collect();
        let writer = CheckpointWriter::new().note("step", "1");
        let writer = names.iter().fold(writer, |writer, name| trained.save(name, writer));
        companions.note(writer).save(&path).expect("written");
        Checkpoint::open(&path).expect("it opens")
    }

    #[test]
    fn a_checkpoint_is_that_of_its_companions_alone() {
        let of = |size: &'static str| beside(&[("p", &["arm.id=far-meta", size])]);
        let [eight, four] = ["retriever.chunk_size=8", "retriever.chunk_size=4"].map(of);
        let (meta, none) = (beside(&[("far-meta", &["arm.id=far-meta"])]), beside(&[]));
        let all = [&eight, &four, &meta, &none];
        for (place, trained) in all.iter().enumerate() {
            let checkpoint = checkpoint(trained);
            for (other, wanted) in all.iter().enumerate() {
                assert_eq!(wanted.check("far-multi", &checkpoint).is_ok(), place == other);
            }
        }
        let message = four.check("far-multi", &checkpoint(&eight)).unwrap_err().to_string();
        let words = "with --beside p:arm.id=\"far-meta\",retriever.chunk_size=8, not with";
        assert!(message.contains(words), "{message}");
        let message = none.check("far-multi", &checkpoint(&eight)).unwrap_err().to_string();
        assert!(message.ends_with("not without --beside"), "{message}");
    }

    #[test]
    fn what_the_configuration_says_is_not_noted() {
        for plain in [beside(&[]), beside(&[("far-meta", &["arm.id=far-meta"])])] {
            assert!(!checkpoint(&plain).notes().contains_key(NOTE));
        }
    }
}

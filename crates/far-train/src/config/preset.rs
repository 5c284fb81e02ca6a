//! Presets by name, files by path, and the way from either to a configuration.
//!
//! A preset or a file that begins with `extends = "NAME"` changes that preset, any other the default. With
//! `extends = ["NAME", "OTHER"]`, what the second itself changes is laid over the whole of the first.

use super::documentation::{find, instances};
use super::{TrainConfig, layer};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;
use toml::Table;

/// The lowest layer, which has every setting.
pub(super) const DEFAULT: &str = include_str!("../../../../configs/default.toml");

/// The key of what a preset or a file changes.
const EXTENDS: &str = "extends";

/// All presets: their names and their text.
pub const PRESETS: [(&str, &str); 17] = [
    ("quick", include_str!("../../../../configs/quick.toml")),
    ("default", DEFAULT),
    ("demo", include_str!("../../../../configs/demo.toml")),
    ("village", include_str!("../../../../configs/village.toml")),
    ("apartment-v1", include_str!("../../../../configs/apartment-v1.toml")),
    ("apartment-v2", include_str!("../../../../configs/apartment-v2.toml")),
    ("kitchen", include_str!("../../../../configs/kitchen.toml")),
    ("corridor", include_str!("../../../../configs/corridor.toml")),
    ("paper-loopnav", include_str!("../../../../configs/paper-loopnav.toml")),
    ("paper-soundspaces", include_str!("../../../../configs/paper-soundspaces.toml")),
    ("paper-thor", include_str!("../../../../configs/paper-thor.toml")),
    ("paper-thor-dyn", include_str!("../../../../configs/paper-thor-dyn.toml")),
    ("printed-loopnav", include_str!("../../../../configs/printed-loopnav.toml")),
    ("printed-soundspaces-v1", include_str!("../../../../configs/printed-soundspaces-v1.toml")),
    ("printed-soundspaces-v2", include_str!("../../../../configs/printed-soundspaces-v2.toml")),
    ("printed-thor", include_str!("../../../../configs/printed-thor.toml")),
    ("printed-thor-dyn", include_str!("../../../../configs/printed-thor-dyn.toml")),
];

/// What presets share but nothing trains directly: names and text.
const BASES: [(&str, &str); 3] = [
    ("gpu", include_str!("../../../../configs/gpu.toml")),
    ("paper", include_str!("../../../../configs/paper.toml")),
    ("printed", include_str!("../../../../configs/printed.toml")),
];

/// Settings that do not decide what a run finds, or, as the seed, are meant to differ; files are named
/// as the machine has them.
const UNDECIDING: [&str; 14] = [
    "data.folder",
    "data.memory_megabytes",
    "encoder.path",
    "encoder.pretraining.from",
    "training.seed",
    "training.log_every",
    "training.evaluate_every",
    "training.checkpoint_every",
    "training.keep_checkpoints",
    "training.milestone_every",
    "evaluation.replays",
    "evaluation.batch",
    "comparison.arms",
    "compute.device",
];

impl TrainConfig {
    /// The configuration of a preset or a file with overlays `a.b=c` laid over it, checked.
    ///
    /// A preset's name wins over a file of the same name; `./quick` is the file.
    ///
    /// ```
    /// use far_train::TrainConfig;
    /// let config = TrainConfig::resolve("quick", &["training.steps=300", "arm.id=far-meta"])?;
    /// assert_eq!(config.training.steps, 300);
    /// let wrong = TrainConfig::resolve("quick", &["training.step=300"]).unwrap_err();
    /// assert!(wrong.to_string().contains("`training.steps`"));
    /// # Ok::<(), far_train::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no such preset or file, a key is unknown, or a value is impossible.
    pub fn resolve(preset_or_path: &str, sets: &[&str]) -> Result<Self> {
        let preset = PRESETS.iter().find(|(name, _)| *name == preset_or_path);
        let (text, origin) = match preset {
            Some((name, text)) => ((*text).to_owned(), format!("preset {name}")),
            None => (read(preset_or_path)?, preset_or_path.to_owned()),
        };
        let mut table = whole(&text, &origin)?;
        for set in sets {
            let origin = format!("--set {set}");
            layer::lay(&mut table, layer::overlay(set)?, &origin)?;
            layer::understand(table.clone(), &origin)?;
        }
        let config = layer::understand(table, &origin)?;
        config.check()?;
        Ok(config)
    }

    /// As [`TrainConfig::resolve`].
    ///
    /// # Errors
    /// As there.
    pub fn resolve_all(preset_or_path: &str, sets: &[String]) -> Result<Self> {
        Self::resolve(preset_or_path, &sets.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Reads a configuration from text; what it leaves out is as in what it extends, or as in the
    /// default.
    ///
    /// # Errors
    /// As [`TrainConfig::resolve`].
    pub fn from_toml(text: &str, origin: &str) -> Result<Self> {
        let config = layer::understand(whole(text, origin)?, origin)?;
        config.check()?;
        Ok(config)
    }

    /// The configuration as TOML without comments.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.to_table()).expect("a table can be written")
    }

    pub(super) fn to_table(&self) -> Table {
        Table::try_from(self).expect("every setting can be written")
    }

    /// Settings that differ from the default ones and decide what is found, by key: all but the seed,
    /// where the run and its data are, and what is kept or shown of it.
    pub fn deciding(&self) -> BTreeMap<String, String> {
        let (here, default) = (self.to_table(), Self::default().to_table());
        let settings = instances(self.cues.keys()).into_iter();
        let keys = settings.map(|(table, setting)| format!("{table}.{}", setting.name));
        let keys = keys.filter(|key| !UNDECIDING.contains(&key.as_str()));
        let changed = keys.filter_map(|key| {
            let value = find(&here, &key);
            let shown = value.map_or("not set".to_owned(), toml::Value::to_string);
            (value != find(&default, &key)).then_some((key, shown))
        });
        changed.collect()
    }

    /// The first setting in which two configurations differ, with both values. Where they compute
    /// (`[compute]`) does not count.
    pub fn first_difference(&self, other: &Self) -> Option<(String, String, String)> {
        self.differences(other).next()
    }

    /// All settings in which two configurations differ, with the values of both. Where they compute
    /// does not count.
    pub(crate) fn differences(
        &self,
        other: &Self,
    ) -> impl Iterator<Item = (String, String, String)> {
        let (here, there) = (self.to_table(), other.to_table());
        let show = |value: Option<&toml::Value>| {
            value.map_or("not set".to_owned(), |value| value.to_string())
        };
        let settings = instances(self.cues.keys().chain(other.cues.keys()));
        let learned = settings.into_iter().filter(|(table, _)| table != "compute");
        learned.map(|(table, setting)| format!("{table}.{}", setting.name)).filter_map(move |key| {
            let (here, there) = (find(&here, &key), find(&there, &key));
            (here != there).then(|| (key, show(here), show(there)))
        })
    }
}

/// The settings of a text over those that it inherits.
fn whole(text: &str, origin: &str) -> Result<Table> {
    let (mut table, own) = inherited(text, origin)?;
    layer::lay(&mut table, own, origin)?;
    Ok(table)
}

/// The settings that a text inherits, and its own.
fn inherited(text: &str, origin: &str) -> Result<(Table, Table)> {
    let mut own = parse(text, origin)?;
    let Some(extended) = own.remove(EXTENDS) else {
        return Ok((parse(DEFAULT, "preset default")?, own));
    };
    let mut names = match &extended {
        toml::Value::Array(names) => names.iter().collect(),
        name => vec![name],
    }
    .into_iter();
    let first = named(names.next().unwrap_or(&extended), origin)?;
    let mut table = whole(first.1, &format!("preset {}", first.0))?;
    for name in names {
        let (name, text) = named(name, origin)?;
        let origin = format!("preset {name}");
        let mut further = parse(text, &origin)?;
        further.remove(EXTENDS);
        layer::lay(&mut table, further, &origin)?;
    }
    Ok((table, own))
}

/// Name and text of what is extended.
fn named(extended: &toml::Value, origin: &str) -> Result<(&'static str, &'static str)> {
    let mut all = PRESETS.iter().chain(&BASES);
    all.find(|(name, _)| extended.as_str() == Some(name)).copied().ok_or_else(|| {
        let known: Vec<&str> = PRESETS.iter().chain(&BASES).map(|(name, _)| *name).collect();
        let reason =
            format!("it extends {extended}; what can be extended are {}", known.join(", "));
        Error::Config { origin: origin.to_owned(), reason }
    })
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(Path::new(path)).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => Error::UnknownPreset {
            name: path.to_owned(),
            known: PRESETS.iter().map(|(name, _)| *name).collect(),
        },
        _ => Error::file("read", Path::new(path))(source),
    })
}

fn parse(text: &str, origin: &str) -> Result<Table> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
        let reason = format!("line {line}: {}", error.message().lines().next().unwrap_or_default());
        Error::Config { origin: origin.to_owned(), reason }
    })
}

#[cfg(test)]
mod tests {
    use super::super::documented;
    use super::*;
    use toml::Value;

    fn keys(table: &Table, prefix: &str, found: &mut Vec<(String, Value)>) {
        for (name, value) in table {
            let key = format!("{prefix}{name}");
            match value {
                Value::Table(inner) => keys(inner, &format!("{key}."), found),
                value => found.push((key, value.clone())),
            }
        }
    }

    #[test]
    fn no_preset_restates_what_it_inherits() {
        for (name, text) in PRESETS.iter().chain(&BASES).filter(|(name, _)| *name != "default") {
            let (inherited, own) = inherited(text, name).expect(name);
            let mut changed = Vec::new();
            keys(&own, "", &mut changed);
            // What lays one preset over another need not change anything besides.
            let lays = text.contains("extends = [");
            assert!(lays || !changed.is_empty(), "{name} changes nothing");
            for (key, value) in changed {
                assert_ne!(find(&inherited, &key), Some(&value), "{name} restates {key}");
            }
        }
    }

    #[test]
    fn what_decides_is_told_from_what_does_not() {
        let keys: Vec<String> = documented().iter().map(|setting| setting.key()).collect();
        for key in UNDECIDING {
            assert!(keys.iter().any(|known| known == key), "{key} is no setting");
        }
        let of = |sets: &[&str]| TrainConfig::resolve("quick", sets).expect("known").deciding();
        let same = ["training.seed=3", "data.folder=\"x\"", "compute.device=cpu"];
        assert_eq!(of(&same), of(&[]));
        assert_eq!(of(&["training.steps=7"])["training.steps"], "7");
        assert_eq!(of(&["compute.precision=f32"])["compute.precision"], "\"f32\"");
        assert!(TrainConfig::default().deciding().is_empty());
    }

    #[test]
    fn files_extend_presets_and_nothing_else() {
        let text = "extends = \"village\"\n[training]\nsteps = 7\n";
        let config = TrainConfig::from_toml(text, "mine.toml").expect("understood");
        let village = TrainConfig::resolve("village", &["training.steps=7"]).expect("known");
        assert_eq!(config, village);
        let text = "extends = [\"paper-thor\", \"printed\"]\n[training]\nsteps = 7\n";
        let both = TrainConfig::from_toml(text, "mine.toml").expect("understood");
        assert_eq!((both.training.steps, both.world_model.depth), (7, 6));
        assert_eq!(both.retriever.metadata_layers, 3, "the first is laid whole");
        assert_eq!(both.evaluation.slots, 11, "of the second only its own settings are");
        for wrong in ["\"vilage\"", "7"] {
            let text = format!("extends = {wrong}\n");
            let message = TrainConfig::from_toml(&text, "mine.toml").unwrap_err().to_string();
            assert!(message.starts_with("mine.toml: it extends"), "{message}");
            assert!(message.contains(wrong) && message.contains("village"), "{message}");
        }
    }
}

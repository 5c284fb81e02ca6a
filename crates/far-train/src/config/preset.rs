//! Presets by name, files by path, and the way from either to a configuration.

use super::documentation::{find, instances};
use super::{TrainConfig, layer};
use crate::{Error, Result};
use std::path::Path;
use toml::Table;

/// The lowest layer, which has every setting.
pub(super) const DEFAULT: &str = include_str!("../../../../configs/default.toml");

/// All presets: their names and their text.
pub const PRESETS: [(&str, &str); 12] = [
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
        let mut table = parse(DEFAULT, "preset default")?;
        layer::lay(&mut table, parse(&text, &origin)?, &origin)?;
        for set in sets {
            layer::lay(&mut table, layer::overlay(set)?, &format!("--set {set}"))?;
        }
        let config = layer::understand(table, &origin)?;
        config.check()?;
        Ok(config)
    }

    /// Reads a configuration from text; what it leaves out is as in the default.
    ///
    /// # Errors
    /// As [`TrainConfig::resolve`].
    pub fn from_toml(text: &str, origin: &str) -> Result<Self> {
        let mut table = parse(DEFAULT, "preset default")?;
        layer::lay(&mut table, parse(text, origin)?, origin)?;
        let config = layer::understand(table, origin)?;
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

    /// The first setting in which two configurations differ, with both values. Where they compute
    /// (`[compute]`) does not count.
    pub fn first_difference(&self, other: &Self) -> Option<(String, String, String)> {
        let (here, there) = (self.to_table(), other.to_table());
        let show = |value: Option<&toml::Value>| {
            value.map_or("not set".to_owned(), |value| value.to_string())
        };
        let settings = instances(self.cues.keys().chain(other.cues.keys()));
        let learned = settings.into_iter().filter(|(table, _)| table != "compute");
        learned.map(|(table, setting)| format!("{table}.{}", setting.name)).find_map(|key| {
            let (here, there) = (find(&here, &key), find(&there, &key));
            (here != there).then(|| (key, show(here), show(there)))
        })
    }
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

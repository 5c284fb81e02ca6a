//! What every setting does, read from the comments of `configs/default.toml`.
//!
//! That file is the one place where settings are described: the lines above a key say what it does.
//! A key that is absent unless somebody wants it stands there behind a `#` without a space, as
//! `#most_steps = 40`, and so does a whole table.

use super::TrainConfig;
use super::preset::DEFAULT;
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// The table of a cue that is a column; `NAME` stands for the cue's name.
pub(super) const CUE_TABLE: &str = "cues.NAME";

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documented {
    /// Its table, as `training` or `data.anchor`.
    pub table: String,
    /// Its name in the table.
    pub name: String,
    /// What it does.
    pub comment: String,
    /// Its default as TOML; for a setting that is absent by default, an example.
    pub value: String,
    /// Whether it is absent by default.
    pub optional: bool,
}

impl Documented {
    /// The whole key, as `training.steps`.
    pub fn key(&self) -> String {
        format!("{}.{}", self.table, self.name)
    }
}

/// All settings in the order of `configs/default.toml`.
pub fn documented() -> &'static [Documented] {
    static SETTINGS: OnceLock<Vec<Documented>> = OnceLock::new();
    SETTINGS.get_or_init(|| parse(DEFAULT))
}

/// All settings with the tables in which they stand: that of cues once for each of these names, or
/// as it is documented when there are none.
pub(super) fn instances<'a>(
    cues: impl IntoIterator<Item = &'a String>,
) -> Vec<(String, &'static Documented)> {
    let names: BTreeSet<&String> = cues.into_iter().collect();
    let (own, common): (Vec<_>, Vec<_>) =
        documented().iter().partition(|setting| setting.table == CUE_TABLE);
    let mut tables: Vec<String> = names.into_iter().map(|name| format!("cues.{name}")).collect();
    if tables.is_empty() {
        tables.push(CUE_TABLE.to_owned());
    }
    let common = common.into_iter().map(|setting| (setting.table.clone(), setting));
    let own =
        tables.iter().flat_map(|table| own.iter().map(move |setting| (table.clone(), *setting)));
    common.chain(own).collect()
}

/// A key under which a setting is documented: that of any cue is `cues.NAME` and the rest.
pub(super) fn documented_key(key: &str) -> String {
    match key.strip_prefix("cues.").map(|rest| rest.split_once('.')) {
        Some(Some((_, rest))) => format!("{CUE_TABLE}.{rest}"),
        Some(None) => CUE_TABLE.to_owned(),
        None => key.to_owned(),
    }
}

fn parse(text: &str) -> Vec<Documented> {
    let mut settings = Vec::new();
    let (mut table, mut comment) = (String::new(), String::new());
    for line in text.lines() {
        if let Some(words) = line.strip_prefix("# ") {
            comment = if comment.is_empty() { words.to_owned() } else { comment + " " + words };
            continue;
        }
        let (line, optional) = line.strip_prefix('#').map_or((line, false), |line| (line, true));
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.clone_into(&mut table);
        } else if let Some((name, value)) = line.split_once(" = ") {
            let (table, name, value) = (table.clone(), name.to_owned(), value.to_owned());
            let comment = std::mem::take(&mut comment);
            settings.push(Documented { table, name, comment, value, optional });
        }
        comment.clear();
    }
    settings
}

impl TrainConfig {
    /// The configuration as TOML with a comment above every setting.
    ///
    /// ```
    /// use far_train::TrainConfig;
    /// let config = TrainConfig::resolve("quick", &[])?;
    /// assert_eq!(TrainConfig::from_toml(&config.to_commented_toml(), "here")?, config);
    /// # Ok::<(), far_train::Error>(())
    /// ```
    pub fn to_commented_toml(&self) -> String {
        let values = self.to_table();
        let mut text = String::new();
        let mut table = String::new();
        for (own, setting) in instances(self.cues.keys()) {
            let value = find(&values, &format!("{own}.{}", setting.name));
            if own != table {
                table = own;
                let hidden = setting.optional && find(&values, &table).is_none();
                let mark = if hidden { "#" } else { "" };
                text += &format!("{}{mark}[{table}]\n", if text.is_empty() { "" } else { "\n" });
            }
            text += &format!("# {}\n", setting.comment);
            text += &match value {
                Some(value) => format!("{} = {value}\n", setting.name),
                None => format!("#{} = {}\n", setting.name, setting.value),
            };
        }
        text
    }
}

/// The value of a key in nested tables.
pub(super) fn find<'a>(table: &'a toml::Table, key: &str) -> Option<&'a toml::Value> {
    match key.split_once('.') {
        None => table.get(key),
        Some((first, rest)) => find(table.get(first)?.as_table()?, rest),
    }
}

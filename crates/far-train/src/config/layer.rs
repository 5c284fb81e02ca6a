//! Layers of settings: one table laid over another, keys checked on the way.

use super::arm::one_line;
use super::documentation::{documented, documented_key, find};
use super::{Documented, TrainConfig, retired};
use crate::{Error, Result};
use toml::{Table, Value};

/// The table whose keys belong to the recall rules, which check them.
const RULE_SETTINGS: &str = "arm.settings";

/// The value that takes an optional setting away.
const NONE: &str = "none";

/// Lays `over` onto `base`; `origin` names it in messages.
///
/// # Errors
/// If it has a key that no configuration has, or none has any more.
pub(super) fn lay(base: &mut Table, mut over: Table, origin: &str) -> Result<()> {
    retired::refuse(&over, origin)?;
    check_keys(&over, "", origin)?;
    forget_other_rule(base, &over);
    take_away(base, &mut over, "");
    merge(base, over);
    Ok(())
}

/// A table with the one key of an overlay `a.b=c`.
///
/// The value is TOML; a bare word that is not counts as a string, so that `arm.id=far-meta` needs
/// no quotes.
///
/// # Errors
/// If there is no `=` or the value cannot be read.
pub(super) fn overlay(set: &str) -> Result<Table> {
    let origin = || format!("--set {set}");
    let wrong = |reason: &str| Error::Config { origin: origin(), reason: reason.to_owned() };
    let (key, value) = set.split_once('=').ok_or_else(|| wrong("there is no `=`"))?;
    let (key, value) = (key.trim(), value.trim());
    let names: Vec<&str> = key.split('.').collect();
    if names.iter().any(|name| name.is_empty()) {
        return Err(wrong("the key is empty"));
    }
    let is_word = |text: &str| {
        let plain = |letter: char| letter.is_alphanumeric() || "-_./:".contains(letter);
        text.starts_with(|first: char| first.is_alphabetic() || "./".contains(first))
            && text.chars().all(plain)
    };
    let value = match toml::from_str::<Table>(&format!("value = {value}")) {
        Ok(mut table) if table.len() == 1 => table.remove("value"),
        _ if is_word(value) => Some(value.into()),
        _ => None,
    };
    let value = value.ok_or_else(|| wrong("the value is not TOML; text wants quotes"))?;
    let nested = names
        .into_iter()
        .rev()
        .fold(value, |value, name| Value::Table(Table::from_iter([(name.to_owned(), value)])));
    match nested {
        Value::Table(table) => Ok(table),
        _ => unreachable!("a key has at least one name"),
    }
}

/// Takes optional settings and tables out of `base` that `over` says are `none`, and out of `over`.
fn take_away(base: &mut Table, over: &mut Table, prefix: &str) {
    over.retain(|name, value| {
        let key = joined(prefix, name);
        match (base.get_mut(name), value) {
            (Some(Value::Table(below)), Value::Table(above)) => take_away(below, above, &key),
            (_, Value::String(text)) if text == NONE && is_optional(&key) => {
                base.remove(name);
                return false;
            }
            _ => {}
        }
        true
    });
}

/// Whether a setting, or every setting of a table, is absent by default.
fn is_optional(key: &str) -> bool {
    let known = documented_key(key);
    let mut own =
        documented().iter().filter(|one| one.key() == known || one.table == known).peekable();
    own.peek().is_some() && own.all(|one| one.optional)
}

/// A key below a table's.
pub(super) fn joined(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

/// Lays one table onto another; tables in both are merged.
pub(super) fn merge(base: &mut Table, over: Table) {
    for (name, value) in over {
        match (base.get_mut(&name), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            (_, value) => {
                base.insert(name, value);
            }
        }
    }
}

/// Another arm does not inherit the settings of the one below it.
fn forget_other_rule(base: &mut Table, over: &Table) {
    let Some(id) = find(over, "arm.id") else { return };
    if find(base, "arm.id") != Some(id)
        && let Some(Value::Table(arm)) = base.get_mut("arm")
    {
        arm.insert("settings".to_owned(), Value::Table(Table::new()));
    }
}

fn check_keys(table: &Table, prefix: &str, origin: &str) -> Result<()> {
    for (name, value) in table {
        let key = joined(prefix, name);
        let known = documented_key(&key);
        let is_table = documented().iter().any(|setting| {
            setting.table == known || setting.table.starts_with(&format!("{known}."))
        });
        match value {
            _ if key == RULE_SETTINGS => {}
            // Also below an unknown table: its first key says more than its name.
            Value::Table(inner) if is_table || !inner.is_empty() => {
                check_keys(inner, &key, origin)?;
            }
            _ if is_table || documented().iter().any(|setting| setting.key() == known) => {}
            _ => {
                let nearest = nearest(&key);
                return Err(Error::UnknownKey { origin: origin.to_owned(), key, nearest });
            }
        }
    }
    Ok(())
}

/// The known key that looks most like `key`, if one looks like it at all: by the whole key, or by
/// its last name, for those who forgot the table.
fn nearest(key: &str) -> Option<String> {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let distance = |setting: &Documented| {
        let whole = strsim::damerau_levenshtein(&setting.key(), key);
        // One more than for a key in its own table, so that the table decides between equals.
        let name = 1 + strsim::damerau_levenshtein(&setting.name, &last(key));
        whole.min(name)
    };
    // Of equals the one in an outer table, and first of all in the one that people mean most.
    let rank = |setting: &&Documented| {
        let depth = setting.table.matches('.').count();
        (distance(setting), depth, setting.table != "training")
    };
    let near = documented().iter().min_by_key(rank)?;
    (distance(near) <= 1 + last(key).len().div_ceil(3)).then(|| near.key())
}

/// A whole table as a configuration.
///
/// # Errors
/// If a value has the wrong type.
pub(super) fn understand(table: Table, origin: &str) -> Result<TrainConfig> {
    table.try_into().map_err(|error: toml::de::Error| {
        let reason = one_line(&error.to_string());
        Error::Config { origin: origin.to_owned(), reason }
    })
}

//! The settings that decide what the parameters of a checkpoint mean, as a note in it.

use crate::ConditionScale;
use crate::world_model::dit_world_model::DitSetting;
use serde_json::Value;

/// The note of a setting: JSON on one line.
pub(crate) fn architecture(setting: &DitSetting) -> String {
    let DitSetting { config, shape, signals, scale, .. } = setting;
    let (actions, states) = (signals.action.width, signals.state.width);
    let (config, shape, scale) = (plain(config), plain(shape), plain(scale));
    serde_json::json!({
        "config": config, "shape": shape, "scale": scale, "signals": actions, "states": states,
    })
    .to_string()
}

/// A setting as JSON, with numbers as short as they are written in files: a direct conversion would
/// give them the digits of a double.
fn plain(setting: &impl serde::Serialize) -> Value {
    let text = serde_json::to_string(setting).expect("settings are plain data");
    serde_json::from_str(&text).expect("what was written is read")
}

/// The units of poses and times in a note.
pub(crate) fn scale(note: &str) -> Option<ConditionScale> {
    let parsed: Value = serde_json::from_str(note).ok()?;
    serde_json::from_value(parsed.get("scale")?.clone()).ok()
}

/// Whether two notes say the same, in whatever order.
pub(crate) fn is_same(found: &str, own: &str) -> bool {
    let parsed = |note: &str| serde_json::from_str::<Value>(note).ok();
    parsed(found).is_some_and(|found| Some(found) == parsed(own))
}

/// The first thing in which the note of a checkpoint differs from that of the model, in words.
pub(crate) fn difference(found: &str, own: &str) -> String {
    let parsed = |note: &str| serde_json::from_str(note).unwrap_or(Value::Null);
    let mut path = Vec::new();
    let (there, here) = descend(&parsed(found), &parsed(own), &mut path);
    format!("{} is {there} there, {here} here", path.join("."))
}

/// Follows the first keys whose values differ down to values without keys.
fn descend(found: &Value, own: &Value, path: &mut Vec<String>) -> (Value, Value) {
    let (Value::Object(there), Value::Object(here)) = (found, own) else {
        return (found.clone(), own.clone());
    };
    let mut keys = here.keys().chain(there.keys());
    match keys.find(|key| there.get(*key) != here.get(*key)) {
        None => (found.clone(), own.clone()),
        Some(key) => {
            path.push(key.clone());
            let [found, own] =
                [there, here].map(|entries| entries.get(key).unwrap_or(&Value::Null));
            descend(found, own, path)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Channel, ConditionScale, DitConfig, LatentShape, SignalLayout};

    #[test]
    fn the_first_difference_is_named() {
        let shape = LatentShape { channels: 4, height: 8, width: 8, patch: 2 };
        let scale = ConditionScale { length: 1.0, time: 2.0 };
        let (config, signals) = (DitConfig::default(), SignalLayout::default());
        let own = DitSetting { config, shape, scale, signals, view: None };
        let other = DitSetting { config: DitConfig { width: 96, ..own.config }, ..own.clone() };
        let found = difference(&architecture(&other), &architecture(&own));
        assert_eq!(found, "config.width is 96 there, 768 here");
        let action = Channel { name: "signal", width: 3 };
        let signals = SignalLayout { action, ..signals };
        let other = DitSetting { signals, ..own.clone() };
        let found = difference(&architecture(&other), &architecture(&own));
        assert_eq!(found, "signals is 3 there, 0 here");
        assert_eq!(super::scale(&architecture(&own)), Some(scale));
        assert_eq!(super::scale("no note"), None);
        assert!(difference("no note", &architecture(&own)).contains("null there"));
    }
}

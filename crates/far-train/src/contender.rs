//! The arms of a comparison: each a name and the settings that make it.

use crate::{Error, Result, TrainConfig};

/// An arm that trains a world model of its own, beside others with the same everything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// Its name in results, and of its run's folder.
    pub name: String,
    /// What it changes in the common configuration, as `arm.settings.pool_cap=200`.
    pub sets: Vec<String>,
}

/// The paper's protocol: its rules, its ablation from a frozen encoder to learned weights of two cues,
/// and two controls. Those that take longest come first.
const PROTOCOL: [(&str, &[&str]); 12] = [
    ("far-multi", &["arm.id=far-multi"]),
    ("far-multi-equal", &["arm.id=far-multi", "arm.weights=equal"]),
    ("far-meta", &["arm.id=far-meta"]),
    ("far-vision", &["arm.id=far-vision"]),
    ("far-vision-frozen", &["arm.id=far-vision", "arm.adapter=identity"]),
    ("longlive-rag", &["arm.id=longlive-rag"]),
    ("worldmem", &["arm.id=worldmem"]),
    ("worldmem-200", &["arm.id=worldmem", "arm.settings.pool_cap=200"]),
    ("nearest-pose", &["arm.id=nearest-pose"]),
    ("temporal", &["arm.id=temporal"]),
    ("random", &["arm.id=random"]),
    ("none", &["arm.id=none"]),
];

impl Contender {
    /// All arms of the paper's protocol.
    pub fn protocol() -> Vec<Self> {
        PROTOCOL.map(|(name, sets)| Self::new(name, sets)).into()
    }

    /// An arm by its name in the protocol, by the id of an arm, or as `NAME:KEY=VALUE,KEY=VALUE`.
    ///
    /// ```
    /// use far_train::Contender;
    /// assert_eq!(Contender::parse("worldmem-200")?.sets[1], "arm.settings.pool_cap=200");
    /// assert_eq!(Contender::parse("vrag")?.sets, ["arm.id=vrag"]);
    /// let near = Contender::parse("near:arm.id=worldmem,arm.settings.view.radius=8")?;
    /// assert_eq!((near.name.as_str(), near.sets.len()), ("near", 2));
    /// # Ok::<(), far_train::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the name is no plain name of a folder.
    pub fn parse(text: &str) -> Result<Self> {
        let (name, sets) = match text.split_once(':') {
            Some((name, sets)) => (name, settings(sets)),
            None => match PROTOCOL.iter().find(|(name, _)| *name == text) {
                Some((name, sets)) => return Ok(Self::new(name, sets)),
                None => (text, vec![format!("arm.id={text}")]),
            },
        };
        if !Self::is_plain(name) {
            let reason = format!("`{name}` is no plain name; an arm is NAME or NAME:KEY=VALUE,…");
            return Err(Error::Config { origin: format!("arm `{text}`"), reason });
        }
        Ok(Self { name: name.to_owned(), sets })
    }

    /// Whether a name can be that of an arm, and so of a folder or a file.
    pub fn is_plain(name: &str) -> bool {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        !name.is_empty() && name.chars().all(plain) && !name.starts_with('.')
    }

    /// Its configuration over a preset or file and further overlays, which it has the last word over.
    ///
    /// # Errors
    /// As [`TrainConfig::resolve`].
    pub fn config(&self, preset_or_path: &str, sets: &[String]) -> Result<TrainConfig> {
        TrainConfig::resolve_all(preset_or_path, &[sets, &self.sets].concat())
    }

    fn new(name: &str, sets: &[&str]) -> Self {
        Self { name: name.to_owned(), sets: sets.iter().map(|set| (*set).to_owned()).collect() }
    }
}

/// Settings between commas; those within a list or a text separate nothing.
fn settings(text: &str) -> Vec<String> {
    let (mut depth, mut quoted) = (0, false);
    let separates = |letter: char| {
        match letter {
            '"' => quoted = !quoted,
            '[' if !quoted => depth += 1,
            ']' if !quoted => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0 && !quoted
    };
    text.split(separates).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_one_value() {
        let arm = "all:utility.range=[0,1000],arm.id=far-multi,tokenizer.kind=\"a,b\",arm.also=[]";
        let sets = Contender::parse(arm).unwrap().sets;
        assert_eq!(
            sets,
            ["utility.range=[0,1000]", "arm.id=far-multi", "tokenizer.kind=\"a,b\"", "arm.also=[]"]
        );
    }

    #[test]
    fn every_arm_of_the_protocol_is_a_configuration_with_a_name_of_its_own() {
        let all = Contender::protocol();
        let names: std::collections::BTreeSet<&str> =
            all.iter().map(|contender| contender.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        for contender in &all {
            let config = contender.config("village", &["training.seed=7".to_owned()]).unwrap();
            assert_eq!(config.training.seed, 7, "{}", contender.name);
            assert_eq!(Contender::parse(&contender.name).unwrap(), *contender);
        }
    }

    #[test]
    fn names_that_are_no_folder_are_refused() {
        for text in ["../up:arm.id=random", ":arm.id=random", "", "a b", ".hidden"] {
            let message = Contender::parse(text).unwrap_err().to_string();
            let origin = format!("arm `{text}`: ");
            assert!(message.starts_with(&origin) && message.contains("no plain name"), "{message}");
        }
        let unknown = Contender::parse("nobody").unwrap().config("quick", &[]).unwrap_err();
        assert!(unknown.to_string().contains("`nobody` is no arm"), "{unknown}");
    }
}

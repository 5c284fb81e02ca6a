//! `[arm]`: who recalls. A learned arm of Future-Aware Recall, or any published rule.

use super::layer;
use crate::{Error, Result};
use far_memory::AdapterKind;
use far_memory::policy::{PolicyConfig, RuleConfig};
use far_model::CueWeighting;
use serde::{Deserialize, Serialize};
use toml::Table;

/// The learned arms of the built-in cues; any other cue has an arm `far-CUE` as well.
pub const FAR_ARMS: [&str; 5] = ["far-meta", "far-vision", "far-audio", "far-agent", "far-multi"];
/// What the ids of learned arms begin with.
const LEARNED: &str = "far-";

/// Which arm recalls, with its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArmConfig {
    /// `far-meta`, `far-multi`, `far-CUE` with the name of a key cue, or the id of a published rule.
    pub id: String,
    /// The key cue of `far-multi`.
    pub cue: String,
    /// Further key cues of `far-multi`.
    pub also: Vec<String>,
    /// What is learned on top of the frozen encoder of the key cue.
    pub adapter: AdapterKind,
    /// How the cues of `far-multi` are weighed.
    pub weights: CueWeighting,
    /// For rules: settings as `docs/recall-policies.md` lists them.
    pub settings: Table,
}

/// An arm, understood.
#[derive(Clone, Debug, PartialEq)]
pub enum Arm {
    /// A retriever that learns.
    Far(FarArm),
    /// A rule that does not.
    Rule(PolicyConfig),
}

/// The cues of a learned arm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarArm {
    /// Whether poses and times are scored.
    pub metadata: bool,
    /// The key cues, in the order of their weights.
    pub keys: Vec<String>,
    /// What is learned on top of their encoders.
    pub adapter: AdapterKind,
    /// Where the weights come from.
    pub weights: CueWeighting,
}

impl FarArm {
    /// Whether anything about its recall can change in training.
    pub fn learns(&self) -> bool {
        self.metadata || self.adapter != AdapterKind::Identity
    }
}

impl Arm {
    /// The cues whose keys it compares.
    pub fn key_cues(&self) -> &[String] {
        match self {
            Self::Far(arm) => &arm.keys,
            Self::Rule(_) => &[],
        }
    }

    /// Whether it is the method as a whole: poses and times beside keys, with weights that are learned.
    pub fn is_whole(&self) -> bool {
        match self {
            Self::Far(arm) => {
                arm.metadata && !arm.keys.is_empty() && arm.weights != CueWeighting::Equal
            }
            Self::Rule(_) => false,
        }
    }
}

impl ArmConfig {
    /// What the id and the settings mean.
    ///
    /// # Errors
    /// If the id is unknown, or a setting does not belong to it.
    pub fn arm(&self) -> Result<Arm> {
        let far = |metadata, keys: Vec<String>| {
            let (adapter, weights) = (self.adapter, self.weights);
            Ok(Arm::Far(FarArm { metadata, keys, adapter, weights }))
        };
        let learned = self.id.strip_prefix(LEARNED).filter(|cue| !cue.is_empty());
        if learned.is_some() && !self.settings.is_empty() {
            let reason = format!("{} has no settings: only rules do", self.id);
            return Err(Error::setting("arm.settings", reason));
        }
        match learned {
            Some("meta") => far(true, Vec::new()),
            Some("multi") => far(true, self.key_cues()?),
            Some(cue) => far(false, vec![cue.to_owned()]),
            None => self.rule().map(Arm::Rule),
        }
    }

    /// The key cues of `far-multi`: each once.
    fn key_cues(&self) -> Result<Vec<String>> {
        let mut cues = vec![self.cue.clone()];
        for cue in &self.also {
            if cues.contains(cue) {
                return Err(Error::setting("arm.also", format!("`{cue}` is named twice")));
            }
            cues.push(cue.clone());
        }
        Ok(cues)
    }

    fn rule(&self) -> Result<PolicyConfig> {
        let id = self.id.as_str();
        if !rules().any(|known| known == id) {
            let known: Vec<&'static str> = FAR_ARMS.into_iter().chain(rules()).collect();
            let reason = no_such("arm", id, known.into_iter());
            return Err(Error::setting("arm.id", reason));
        }
        let config = self.with_settings(PolicyConfig::from_id(id)?)?;
        config.clone().build()?;
        Ok(config)
    }

    /// A rule with the settings that the configuration gives, over those that it has.
    ///
    /// # Errors
    /// If a setting does not belong to the rule.
    pub fn with_settings(&self, rule: PolicyConfig) -> Result<PolicyConfig> {
        let id = rule.rule.id();
        let mut table = Table::try_from(&rule).expect("every rule can be written");
        layer::merge(&mut table, self.settings.clone());
        table.try_into().map_err(|error: toml::de::Error| {
            Error::setting("arm.settings", format!("{id}: {}", one_line(error.message())))
        })
    }
}

/// All rules that can be named.
fn rules() -> impl Iterator<Item = &'static str> + Clone {
    // `far` is the memory crate's name of a retriever that was trained before.
    RuleConfig::IDS.iter().copied().filter(|id| *id != "far")
}

/// Refuses the id of a rule that does not exist, and names the one that was probably meant.
///
/// # Errors
/// If there is no such rule.
pub fn check_rule(id: &str) -> Result<()> {
    match rules().any(|known| known == id) {
        true => Ok(()),
        false => Err(Error::Config {
            origin: format!("--rule {id}"),
            reason: no_such("rule", id, rules()),
        }),
    }
}

/// The learned arm that was probably meant by one with an unknown cue.
pub(crate) fn probable_arm(id: &str) -> Option<&'static str> {
    nearest(id, FAR_ARMS.into_iter())
}

fn no_such(what: &str, id: &str, known: impl Iterator<Item = &'static str> + Clone) -> String {
    match nearest(id, known.clone()) {
        Some(near) => format!("`{id}` is no {what}; did you mean `{near}`?"),
        None => {
            let known: Vec<&str> = known.collect();
            format!("`{id}` is no {what}; the {what}s are {}", known.join(", "))
        }
    }
}

/// The name that looks most like one that was given, if one looks like it at all.
fn nearest(given: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let distance = |name: &&'static str| strsim::damerau_levenshtein(name, given);
    let near = known.min_by_key(distance)?;
    (distance(&near) <= 1 + given.len() / 6).then_some(near)
}

/// A message of several lines as one.
pub(super) fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

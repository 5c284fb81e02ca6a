//! Recall rules side by side: the same clips, memories, questions and slots for all.

use crate::bootstrap::Interval;
use crate::clip::Clip;
use crate::{Error, Result};
use far_memory::policy::{OracleConfig, PolicyConfig, RuleConfig};
use far_memory::{MemoryId, Recall, RecallPolicy, Scratch};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;

/// What every rule gets alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComparisonConfig {
    /// Memories each rule may recall.
    pub slots: usize,
    /// Seed of the intervals.
    pub seed: u64,
}

/// One rule's result.
#[derive(Clone, Debug, Serialize)]
pub struct RuleResult {
    /// The rule's id.
    pub id: String,
    /// Share of the new surfaces that its memories show.
    pub coverage: Interval,
    /// Mean coverage of each clip.
    #[serde(skip)]
    pub clips: Vec<f64>,
    /// What it recalled, for each clip and question.
    #[serde(skip)]
    pub recalled: Vec<Vec<Vec<MemoryId>>>,
}

/// All rules' results, best first.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// Clips judged.
    pub clips: usize,
    /// Questions judged.
    pub questions: usize,
    /// Memories per recall.
    pub slots: usize,
    /// The rules.
    pub rules: Vec<RuleResult>,
    /// Differences clip by clip, first rule minus second.
    pub paired: BTreeMap<String, BTreeMap<String, Interval>>,
}

impl Comparison {
    /// Asks every rule every question. `oracle` is added by itself: it knows the answer.
    ///
    /// # Errors
    /// If there are no clips with questions or a rule fails.
    pub fn run(
        clips: &[Clip],
        policies: &[Box<dyn RecallPolicy>],
        config: ComparisonConfig,
    ) -> Result<Self> {
        let questions: usize = clips.iter().map(|clip| clip.queries().len()).sum();
        if clips.iter().any(|clip| clip.queries().is_empty()) || clips.is_empty() {
            return Err(Error::Nothing("a clip has no question to judge rules by".to_owned()));
        }
        let judged: Vec<Vec<Vec<Vec<MemoryId>>>> = clips
            .par_iter()
            .map(|clip| judge(clip, policies, config.slots))
            .collect::<Result<_>>()?;
        let ids = policies.iter().map(|policy| policy.id().to_owned()).chain(["oracle".to_owned()]);
        let mut rules: Vec<RuleResult> = ids
            .enumerate()
            .map(|(rule, id)| {
                let recalled: Vec<_> = judged.iter().map(|clip| clip[rule].clone()).collect();
                let clips = clips.iter().zip(&recalled).map(|(clip, recalled)| {
                    let pairs = clip.queries().iter().zip(recalled);
                    let total: f64 = pairs.map(|(query, ids)| clip.coverage(*query, ids)).sum();
                    total / clip.queries().len() as f64
                });
                let clips: Vec<f64> = clips.collect();
                RuleResult { id, coverage: Interval::of(&clips, config.seed), clips, recalled }
            })
            .collect();
        rules.sort_by(|a, b| b.coverage.mean.total_cmp(&a.coverage.mean));
        let paired = rules.iter().map(|left| {
            let others = rules.iter().filter(|right| right.id != left.id);
            let differences = others.map(|right| {
                let pairs = left.clips.iter().zip(&right.clips);
                let values: Vec<f64> = pairs.map(|(a, b)| a - b).collect();
                (right.id.clone(), Interval::of(&values, config.seed))
            });
            (left.id.clone(), differences.collect())
        });
        let paired = paired.collect();
        Ok(Self { clips: clips.len(), questions, slots: config.slots, rules, paired })
    }

    /// The result of a rule.
    pub fn rule(&self, id: &str) -> Option<&RuleResult> {
        self.rules.iter().find(|rule| rule.id == id)
    }
}

/// What each policy, and then the oracle, recalls for each question of a clip.
fn judge(
    clip: &Clip,
    policies: &[Box<dyn RecallPolicy>],
    slots: usize,
) -> Result<Vec<Vec<Vec<MemoryId>>>> {
    let mut all = vec![Vec::new(); policies.len() + 1];
    let (mut scratch, mut recall) = (Scratch::new(), Recall::new());
    for (index, &question) in clip.queries().iter().enumerate() {
        let query = clip.recall_query(index);
        let utilities = (0..clip.snapshot().len())
            .map(|index| clip.coverage(question, &[MemoryId(index as u64)]) as f32)
            .collect();
        let oracle = OracleConfig { utilities, ..OracleConfig::default() };
        let oracle = PolicyConfig::from(RuleConfig::Oracle(oracle)).build()?;
        for (policy, recalled) in policies.iter().chain([&oracle]).zip(&mut all) {
            policy.recall(clip.snapshot(), query, slots, &mut scratch, &mut recall)?;
            recalled.push(recall.ids().collect());
        }
    }
    Ok(all)
}

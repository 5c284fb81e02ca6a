//! Which memories the world model reads while it learns.

use crate::question::{Question, recall};
use crate::{Result, RetrieverSettings};
use far_memory::policy::PolicyConfig;
use far_memory::{MemoryId, RecallPolicy, Retriever};
use far_tensor::Random;

/// Who fills the contexts of the world model's steps.
pub enum ContextSource {
    /// What the first learned retriever recalls at the time.
    Learned,
    /// What a rule recalls.
    Rule(Box<dyn RecallPolicy>),
    /// Half of the examples at random, half near the goal: a model that reads good and bad contexts
    /// alike, and can judge every arm.
    Mixed {
        /// The policy of the first half.
        random: Box<dyn RecallPolicy>,
        /// The policy of the second half.
        near: Box<dyn RecallPolicy>,
    },
}

impl ContextSource {
    /// The mix that the common judge is trained on.
    ///
    /// # Errors
    /// None in practice: both rules have settings that build.
    pub fn mixed() -> Result<Self> {
        let build = |id| PolicyConfig::from_id(id)?.build();
        Ok(Self::Mixed { random: build("random")?, near: build("nearest-pose")? })
    }

    /// The memories of each question's context; `learned` is the retriever that a learned arm has.
    ///
    /// # Errors
    /// If a policy refuses a question.
    pub fn recall(
        &self,
        learned: Option<&Retriever>,
        questions: &[&Question],
        slots: usize,
    ) -> Result<Vec<Vec<MemoryId>>> {
        let ids = |policy: &dyn RecallPolicy| -> Result<Vec<Vec<MemoryId>>> {
            let recalls = recall(policy, questions, slots)?;
            Ok(recalls.iter().map(|recall| recall.ids().collect()).collect())
        };
        match (self, learned) {
            (Self::Learned, Some(retriever)) => ids(retriever),
            (Self::Learned, None) => Ok(vec![Vec::new(); questions.len()]),
            (Self::Rule(policy), _) => ids(policy.as_ref()),
            (Self::Mixed { random, near }, _) => {
                // Goals of one observation lie side by side in a batch; halves alternate, so that
                // both kinds of context meet every observation.
                let pairs = ids(random.as_ref())?.into_iter().zip(ids(near.as_ref())?);
                let chosen =
                    pairs.enumerate().map(|(place, (a, b))| if place % 2 == 0 { a } else { b });
                Ok(chosen.collect())
            }
        }
    }
}

/// Replaces some recalled memories by random ones and shortens some contexts, as the cold-start
/// settings say.
pub fn disturb(
    contexts: &mut [Vec<MemoryId>],
    questions: &[&Question],
    settings: &RetrieverSettings,
    seed: u64,
    step: u64,
) -> Result<()> {
    let exploration = settings.exploration_at(step);
    if exploration <= 0.0 && settings.random_length <= 0.0 {
        return Ok(());
    }
    let mut random = Random::stream(seed, "disturbed contexts", step);
    for (context, question) in contexts.iter_mut().zip(questions) {
        let pool = question.episode.memory().pool(&question.query.pool, None)?;
        for id in context.iter_mut() {
            if random.uniform() < exploration {
                *id = pool.id(random.below(pool.len()));
            }
        }
        if random.uniform() < settings.random_length {
            context.truncate(random.below(context.len() + 1));
        }
    }
    Ok(())
}

//! Which memories the world model reads while it learns.

use crate::example::Example;
use crate::{Result, RetrieverSettings};
use far_memory::policy::PolicyConfig;
use far_memory::{MemoryId, PoolView, RecallPolicy, Retriever};
use far_tensor::Random;

/// Who fills the contexts of the world model's steps.
pub enum ContextSource {
    /// What the first learned retriever recalls at the time.
    Learned,
    /// What a rule recalls.
    Rule(Box<dyn RecallPolicy>),
    /// Half of the examples at random, half near the goal, or the newest where nobody knows what is near:
    /// a model that reads good and bad contexts alike, and can judge every arm.
    Mixed {
        /// The policy of the first half.
        random: Box<dyn RecallPolicy>,
        /// The policy of the second half.
        near: Box<dyn RecallPolicy>,
    },
}

impl ContextSource {
    /// The mix that the common judge is trained on, in a dataset with or without poses.
    ///
    /// # Errors
    /// None in practice: both rules have settings that build.
    pub fn mixed(poses: bool) -> Result<Self> {
        let build = |id| PolicyConfig::from_id(id)?.build();
        let near = if poses { "nearest-pose" } else { "temporal" };
        Ok(Self::Mixed { random: build("random")?, near: build(near)? })
    }

    /// The memories of each example's context; `learned` is the retriever that a learned arm has.
    ///
    /// # Errors
    /// If a policy refuses a query.
    pub fn recall(
        &self,
        learned: Option<&Retriever>,
        examples: &[&Example],
        slots: usize,
    ) -> Result<Vec<Vec<MemoryId>>> {
        let ids = |policy: &dyn RecallPolicy| -> Result<Vec<Vec<MemoryId>>> {
            let recalls = Example::recall_all(policy, examples, slots)?;
            Ok(recalls.iter().map(|recall| recall.ids().collect()).collect())
        };
        match (self, learned) {
            (Self::Learned, Some(retriever)) => ids(retriever),
            (Self::Learned, None) => Ok(vec![Vec::new(); examples.len()]),
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
///
/// # Errors
/// If a pool names memories that are not there.
pub fn perturb_contexts(
    contexts: &mut [Vec<MemoryId>],
    examples: &[&Example],
    settings: &RetrieverSettings,
    seed: u64,
    step: u64,
) -> Result<()> {
    let exploration = settings.exploration_at(step);
    if exploration <= 0.0 && settings.random_length <= 0.0 {
        return Ok(());
    }
    let mut random = Random::stream(seed, "disturbed contexts", step);
    for (context, example) in contexts.iter_mut().zip(examples) {
        let episode = example.query.episode();
        let pool = episode.memory().pool(&example.recall.pool, None)?;
        let newest = if exploration > 0.0 {
            newest(&pool, settings.chunk_size, |frame| episode.is_informative(frame))
        } else {
            Vec::new()
        };
        for id in context.iter_mut() {
            if random.uniform() < exploration {
                *id = explored(&pool, &newest, &mut random);
            }
        }
        if random.uniform() < settings.random_length {
            context.truncate(random.below(context.len() + 1));
        }
    }
    Ok(())
}

/// The last `count` memories of a pool, which is in the order of time, with a state.
fn newest(pool: &PoolView<'_>, count: usize, tells: impl Fn(usize) -> bool) -> Vec<MemoryId> {
    let telling: Vec<_> = pool.iter().filter(|id| tells(id.index())).collect();
    telling[telling.len().saturating_sub(count)..].to_vec()
}

/// A memory at random, one of `preferred` if there are any.
fn explored(pool: &PoolView<'_>, preferred: &[MemoryId], random: &mut Random) -> MemoryId {
    if preferred.is_empty() {
        pool.id(random.below(pool.len()))
    } else {
        preferred[random.below(preferred.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_memory::Pool;

    #[test]
    fn exploration_prefers_the_newest_that_tell() {
        let ids = Pool::Range(100..200);
        let pool = PoolView::new(&ids, None, 1000).unwrap();
        let tells = |frame: usize| frame % 10 == 3 || frame > 500;
        let preferred = newest(&pool, 4, tells);
        assert_eq!(preferred, [163, 173, 183, 193].map(MemoryId));
        assert_eq!(newest(&pool, 40, tells).len(), 10);
        let mut random = Random::stream(1, "test", 0);
        let mut hits = |preferred: &[MemoryId]| {
            let drawn = (0..1000).map(|_| explored(&pool, preferred, &mut random));
            let drawn: Vec<MemoryId> = drawn.collect();
            assert!(drawn.iter().all(|id| (100..200).contains(&id.0)));
            drawn.iter().filter(|id| [163, 173, 183, 193].contains(&id.0)).count()
        };
        assert_eq!(hits(&preferred), 1000);
        // Where no memory has a state, all are alike.
        assert!(hits(&[]) < 90);
    }
}

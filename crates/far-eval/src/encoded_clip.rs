//! An episode as world models are evaluated on it: the way out to recall from, the way back to
//! generate and to ask about.

use crate::{EvaluationPlan, Result};
use far_data::EvaluationClip;
use far_memory::{MemoryId, Pool, RecallQuery};
use far_model::{EncodedDataset, EncodedEpisode, Query};
use far_tensor::Random;
use std::sync::Arc;

/// One clip of an evaluation.
#[derive(Clone)]
pub struct EncodedClip {
    episode: Arc<EncodedEpisode>,
    memory: Vec<usize>,
    frames: Vec<usize>,
    pool: Pool,
}

impl EncodedClip {
    /// The clip of an episode, or `None` when it has no memory or nothing to generate.
    ///
    /// # Errors
    /// If the episode cannot be read or encoded.
    pub fn open(
        dataset: &EncodedDataset,
        id: u32,
        walk: &far_data::EvaluationConfig,
    ) -> Result<Option<Self>> {
        let Some(clip) = EvaluationClip::new(dataset.dataset(), id, walk)? else {
            return Ok(None);
        };
        let index = |frames: Vec<u32>| frames.into_iter().map(|frame| frame as usize).collect();
        let (memory, frames): (Vec<usize>, Vec<usize>) = (index(clip.memory), index(clip.frames));
        let pool = Pool::ids(memory.iter().copied().map(MemoryId::from));
        Ok(Some(Self { episode: dataset.episode(id)?, memory, frames, pool }))
    }

    /// The same return with these frames as its memories (see [`EncodedEpisode::remembering`]). Queries
    /// are about the same frames, which have other numbers.
    ///
    /// # Errors
    /// If an episode was encoded with other keys.
    ///
    /// # Panics
    /// If a frame is no explore frame of its episode.
    pub fn remembering(&self, memories: &[(Arc<EncodedEpisode>, usize)]) -> Result<Self> {
        let (count, boundary) = (memories.len(), self.episode.boundary());
        let episode = Arc::new(self.episode.remembering(boundary, memories)?);
        let pool = Pool::ids((0..count).map(MemoryId::from));
        let frames = self.frames.iter().map(|frame| frame - boundary + count).collect();
        Ok(Self { episode, memory: (0..count).collect(), frames, pool })
    }

    /// The episode.
    pub fn episode(&self) -> &Arc<EncodedEpisode> {
        &self.episode
    }

    /// Explore frames that can be recalled, ascending.
    pub fn memory(&self) -> &[usize] {
        &self.memory
    }

    /// Return frames in the order they are generated; the first is given, not generated.
    pub fn frames(&self) -> &[usize] {
        &self.frames
    }

    /// From which frame to which each step of a rollout leads, at most `most` of them.
    pub fn steps(&self, most: Option<usize>) -> Vec<Query> {
        let pairs = self.frames.windows(2).take(most.unwrap_or(usize::MAX));
        pairs.map(|pair| self.query(pair[0], pair[1])).collect()
    }

    /// Memories whose utility stands for the whole pool's: evenly spaced, at most `most`.
    pub fn candidates(&self, most: usize) -> Vec<usize> {
        let kept = self.memory.len().min(most);
        (0..kept).map(|place| self.memory[place * self.memory.len() / kept]).collect()
    }

    /// The same and these frames besides, ascending, each once.
    pub fn candidates_and(
        &self,
        most: usize,
        besides: impl IntoIterator<Item = usize>,
    ) -> Vec<usize> {
        let mut frames = self.candidates(most);
        frames.extend(besides);
        frames.sort_unstable();
        frames.dedup();
        frames
    }

    /// Queries at evenly spaced frames of the return, each about a frame 1 to `horizon` frames
    /// ahead, drawn once for all arms.
    pub fn queries(&self, plan: &EvaluationPlan) -> Vec<Query> {
        let last = self.episode.len() - 1;
        let possible = last - self.episode.boundary();
        let kept = possible.min(plan.questions);
        let id = u64::from(self.episode.id());
        let mut random = Random::stream(plan.seed, "goals of questions", id);
        (0..kept)
            .map(|place| {
                let now = self.episode.boundary() + (2 * place + 1) * possible / (2 * kept);
                let reach = plan.horizon.clamp(1, last - now);
                self.query(now, now + 1 + random.below(reach))
            })
            .collect()
    }

    /// A query as policies receive it, without the embeddings of key cues. The seed of policies
    /// that draw at random comes from the clip and the present frame.
    pub fn recall_query(&self, query: &Query, seed: u64) -> RecallQuery {
        let mut random = self.stream(seed, "recall", query.now());
        let drawn = u64::from(random.bits()) << 32 | u64::from(random.bits());
        query.for_memory(self.pool.clone()).with_seed(drawn)
    }

    /// A query about this clip's episode.
    ///
    /// # Panics
    /// If there are no such frames.
    pub fn query(&self, now: usize, goal: usize) -> Query {
        Query::new(self.episode.clone(), now, goal)
    }

    /// The stream of random numbers for one purpose at one frame: the same for every arm.
    pub(crate) fn stream(&self, seed: u64, purpose: &str, frame: usize) -> Random {
        Random::stream(seed, &format!("{purpose} in episode {}", self.episode.id()), frame as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{EXPLORED, clips, plan, road};

    #[test]
    fn queries_spread_over_the_return_and_stay_within_the_horizon() {
        let (_folder, dataset) = road(&[31, 3], None);
        let clips = clips(&dataset);
        let plan = EvaluationPlan { questions: 6, horizon: 5, ..plan() };
        let queries = clips[0].queries(&plan);
        let presents: Vec<usize> = queries.iter().map(Query::now).collect();
        assert_eq!(presents, [42, 47, 52, 57, 62, 67]);
        for query in &queries {
            assert!((1..=5).contains(&(query.goal() - query.now())));
            assert!(query.goal() < EXPLORED + 31);
        }
        assert_eq!(queries, clips[0].queries(&plan));
        assert_ne!(queries, clips[0].queries(&EvaluationPlan { seed: 1, ..plan.clone() }));
        // A return of three frames has two that lead somewhere.
        assert_eq!(clips[1].queries(&plan).len(), 2);
    }

    #[test]
    fn a_clip_with_foreign_memories_asks_about_the_same_frames() {
        let (_folder, dataset) = road(&[31, 9], None);
        let clips = clips(&dataset);
        let (own, other) = (clips[0].episode(), clips[1].episode());
        let memories = [(other.clone(), 3), (own.clone(), 7), (other.clone(), 39)];
        let clip = clips[0].remembering(&memories).unwrap();
        assert_eq!((clip.memory(), clip.episode().boundary()), (&[0, 1, 2][..], 3));
        let pairs = clips[0].queries(&plan()).into_iter().zip(clip.queries(&plan()));
        for (before, after) in pairs.chain(clips[0].steps(None).into_iter().zip(clip.steps(None))) {
            for (before, after) in [(before.now(), after.now()), (before.goal(), after.goal())] {
                assert_eq!(own.latent(before), clip.episode().latent(after));
                assert_eq!(own.poses()[before], clip.episode().poses()[after]);
                assert_eq!(own.times()[before], clip.episode().times()[after]);
            }
        }
        for (frame, (episode, remembered)) in memories.into_iter().enumerate() {
            assert_eq!(clip.episode().latent(frame), episode.latent(remembered));
            let (new, old) = (clip.episode().memory(), episode.memory());
            assert_eq!(new.pose(frame), old.pose(remembered));
            assert_eq!(new.time(frame), old.time(remembered));
            let keys = [(new, frame), (old, remembered)].map(|(memory, frame)| {
                let mut key = vec![0.0; 3];
                memory.key(1, frame).expect("the road has keys").copy_to(&mut key);
                key
            });
            assert!(keys[0].iter().zip(&keys[1]).all(|(a, b)| (a - b).abs() < 1e-6));
        }
    }

    #[test]
    fn candidates_are_evenly_spaced() {
        let (_folder, dataset) = road(&[5], None);
        let clip = &clips(&dataset)[0];
        assert_eq!(clip.candidates(4), [0, 10, 20, 30]);
        assert_eq!(clip.candidates(1000), clip.memory());
        assert!(clip.candidates(0).is_empty());
        assert_eq!(clip.candidates_and(4, [7, 10, 7]), [0, 7, 10, 20, 30]);
    }
}

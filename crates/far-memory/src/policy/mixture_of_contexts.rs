//! Mixture of Contexts as an external rule: chunks by their mean key.

use super::requirement::{KeyCues, Requirements};
use super::rule::{Rule, Scene, Work};
use crate::Error;
use crate::selection::Ranked;

crate::settings! {
    /// The pool is cut into chunks of consecutive memories. A chunk scores by the dot product of the
    /// query's key with the mean of its keys; the chunk nearest to now is always taken, first. Of each
    /// taken chunk the memory with the greatest cosine is recalled, with its chunk's score. Source:
    /// Mixture of Contexts (2025), where the routing happens inside the generator for every token and
    /// head, with 5 of 36 chunks in its example; this is its analogue for one key per memory.
    ///
    /// Memories without a key count neither in the mean nor as a pick.
    pub struct MixtureOfContextsConfig {
        /// Memories in a chunk. The source aligns chunks to content; 10 is what chunked Top-K uses.
        pub chunk_size: usize = 10,
        /// Whether the chunk nearest to now is always taken (Mixture of Contexts: yes).
        pub keep_local: bool = true,
        /// The cue whose keys are compared; the memory's first key cue if absent.
        pub cue: Option<String> = None,
    }
}

impl Rule for MixtureOfContextsConfig {
    fn requirements(&self) -> Requirements {
        Requirements::keys(KeyCues::setting(self.cue.as_ref()))
    }

    fn select(&self, scene: &Scene, work: &mut Work) -> Result<(), Error> {
        let size = self.chunk_size;
        let cue = scene.key_cue(self.cue.as_deref())?;
        work.compare_keys(scene, cue)?;
        // The dot product with a mean is the mean of the dot products, so no mean key is formed.
        work.scores.clear();
        work.order.clear();
        let mut not_a_number = 0;
        for (chunk, cosines) in work.cosines.chunks(size).enumerate() {
            let (mut sum, mut keys, mut best) = (0.0f32, 0u32, None::<Ranked>);
            for (place, &cosine) in cosines.iter().enumerate() {
                if cosine.is_nan() {
                    not_a_number += 1;
                } else if cosine > f32::NEG_INFINITY {
                    let ranked = Ranked { score: cosine, position: chunk * size + place };
                    best = Some(best.filter(|best| best.beats(&ranked)).unwrap_or(ranked));
                    sum += cosine;
                    keys += 1;
                }
            }
            work.scores.push(if keys == 0 { f32::NEG_INFINITY } else { sum / keys as f32 });
            work.order.push(best.map_or(0, |best| best.position));
        }
        work.add_not_a_number(not_a_number);
        let local = work.scores.len() - 1;
        if self.keep_local && work.scores[local] > f32::NEG_INFINITY {
            work.picks.push(Ranked { score: work.scores[local], position: local });
            work.scores[local] = f32::NEG_INFINITY;
        }
        work.top(scene.slots - work.picks.len());
        work.picks.iter_mut().for_each(|pick| pick.position = work.order[pick.position]);
        Ok(())
    }

    fn chunk_size(&self) -> Option<usize> {
        Some(self.chunk_size)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_ranked, episodes};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn agrees_with_mean_keys(
            episode in episodes(),
            slots in 1usize..8,
            chunk_size in 1usize..7,
            keep_local: bool,
        ) {
            let rule = MixtureOfContextsConfig { chunk_size, keep_local, cue: None };
            let unit = |key: &[f32]| -> Vec<f32> {
                let norm = key.iter().map(|value| value * value).sum::<f32>().sqrt();
                key.iter().map(|value| if norm > 0.0 { value / norm } else { 0.0 }).collect()
            };
            let query = unit(episode.query_key());
            let chunks = episode.len().div_ceil(chunk_size);
            let mut scores = vec![f32::NEG_INFINITY; chunks];
            for (chunk, score) in scores.iter_mut().enumerate() {
                let members = chunk * chunk_size..((chunk + 1) * chunk_size).min(episode.len());
                let keys: Vec<Vec<f32>> =
                    members.filter_map(|index| episode.key(index)).map(unit).collect();
                if !keys.is_empty() {
                    let mean = |axis: usize| {
                        keys.iter().map(|key| key[axis]).sum::<f32>() / keys.len() as f32
                    };
                    *score = (0..3).map(|axis| query[axis] * mean(axis)).sum();
                }
            }
            let mut picks = episode.picks(&rule, slots);
            for pick in &mut picks {
                let chunk = pick.position / chunk_size;
                let members = chunk * chunk_size..((chunk + 1) * chunk_size).min(episode.len());
                let best = members
                    .filter_map(|index| episode.cosine(index, episode.query_key()))
                    .fold(f32::NEG_INFINITY, f32::max);
                let own = episode.cosine(pick.position, episode.query_key()).expect("has a key");
                prop_assert!((own - best).abs() < 1e-5);
                pick.position = chunk;
            }
            let mut rest = slots;
            if keep_local && scores[chunks - 1] > f32::NEG_INFINITY {
                let local = picks.remove(0);
                prop_assert_eq!(local.position, chunks - 1);
                prop_assert!((local.score - scores[chunks - 1]).abs() < 1e-5);
                scores[chunks - 1] = f32::NEG_INFINITY;
                rest -= 1;
            }
            assert_ranked(&scores, &picks, rest, 1e-5)?;
        }
    }
}

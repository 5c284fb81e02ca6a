//! Replace-tail rollouts: the return generated frame by frame along the true path of the camera.
//!
//! The first frame of the return is given. Every step asks for the next frame at the stride, recalls
//! anew with a query made from the generated present, re-centers all poses, and puts what was
//! generated in the place of the present alone: the memory stays real and fixed. States that were predicted
//! beside frames go the same way, so that later steps know those of a little earlier.

use crate::Result;
use crate::encoded_clip::EncodedClip;
use crate::prediction::{Ask, Predictor};
use crate::state_thread::StateThread;
use far_memory::Recall;

/// The return of one clip as one arm generated it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rollout {
    /// Latents of the generated frames, [steps, E].
    pub latents: Vec<f32>,
    /// What was recalled for each.
    pub recalls: Vec<Recall>,
}

impl Rollout {
    /// The latent of each generated frame.
    pub fn frames(&self) -> impl Iterator<Item = &[f32]> {
        let elements = self.latents.len().checked_div(self.recalls.len()).unwrap_or(1);
        self.latents.chunks(elements.max(1))
    }

    /// Rollouts of all clips by one arm, at most `most` steps each. The clips advance together;
    /// shorter ones drop out. `progress` hears at each step which clips advanced.
    ///
    /// # Errors
    /// If a policy or the world model refuses its input.
    pub fn all(
        predictor: &Predictor<'_>,
        clips: &[EncodedClip],
        most: Option<usize>,
        mut progress: impl FnMut(&[usize]),
    ) -> Result<Vec<Self>> {
        let mut rollouts = vec![Self::default(); clips.len()];
        let ways: Vec<_> = clips.iter().map(|clip| clip.steps(most)).collect();
        let mut present: Vec<Vec<f32>> =
            clips.iter().map(|clip| clip.episode().latent(clip.frames()[0]).to_vec()).collect();
        let mut threads: Vec<StateThread<'_>> = clips.iter().map(StateThread::new).collect();
        for step in 0..ways.iter().map(Vec::len).max().unwrap_or(0) {
            let active: Vec<usize> =
                (0..clips.len()).filter(|clip| step < ways[*clip].len()).collect();
            let asks: Vec<Ask<'_>> = active
                .iter()
                .map(|&clip| Ask {
                    clip: &clips[clip],
                    query: ways[clip][step].clone(),
                    latent: &present[clip],
                })
                .collect();
            let recalls = predictor.recall(&asks)?;
            let states: Vec<Vec<f32>> = asks
                .iter()
                .zip(&active)
                .map(|(ask, &clip)| threads[clip].state(ask.query.now()))
                .collect();
            let noise = predictor.noise(&asks, |ask| ask.query.goal());
            let imagined = predictor.imagine(&asks, &recalls, &states, &noise)?;
            let numbers = imagined.states.len() / active.len();
            if numbers > 0 {
                let predicted = active.iter().zip(imagined.states.chunks(numbers));
                predicted
                    .for_each(|(&clip, state)| threads[clip].push(ways[clip][step].goal(), state));
            }
            let elements = imagined.latents.len() / active.len();
            for ((&clip, recall), latent) in
                active.iter().zip(recalls).zip(imagined.latents.chunks(elements))
            {
                present[clip].copy_from_slice(latent);
                rollouts[clip].latents.extend_from_slice(latent);
                rollouts[clip].recalls.push(recall);
            }
            progress(&active);
        }
        Ok(rollouts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Copier, EXPLORED, arms, clips, plan, road};
    use crate::{Arm, Control};
    use far_memory::{MemoryId, Pool, Scratch};
    use far_model::{Present, WorldModel, embed_queries};

    fn roll(
        rule: Arm,
        copier: &Copier,
        dataset: &far_model::EncodedDataset,
        clips: &[EncodedClip],
    ) -> Vec<Rollout> {
        let (arms, plan) = ([rule], plan());
        let predictor = Predictor::new(&arms[0], &arms, copier, dataset.encoders(), &plan).unwrap();
        Rollout::all(&predictor, clips, None, |_| ()).unwrap()
    }

    fn rule(id: &str) -> Arm {
        arms(&[id]).remove(0)
    }

    #[test]
    fn what_was_generated_becomes_the_present_and_the_memory_stays_real() {
        let (_folder, dataset) = road(&[9], None);
        let clips = clips(&dataset);
        let copier = Copier::new();
        let rollout = roll(rule("nearest-pose"), &copier, &dataset, &clips).remove(0);
        let episode = clips[0].episode();
        // Frames 40, 42, 44, 46, 48 of the return: four of them generated.
        assert_eq!(clips[0].frames(), [40, 42, 44, 46, 48]);
        assert_eq!(rollout.frames().count(), 4);
        let contexts = copier.contexts.lock().unwrap();
        let mut present = episode.latent(EXPLORED).to_vec();
        for ((seen, recall), generated) in
            contexts.iter().zip(&rollout.recalls).zip(rollout.frames())
        {
            assert_eq!(seen[..3], present[..]);
            for (slot, id) in recall.ids().enumerate() {
                assert!(id.index() < EXPLORED);
                assert_eq!(seen[3 + 3 * slot..6 + 3 * slot], *episode.latent(id.index()));
            }
            present = generated.to_vec();
        }
    }

    /// One clip, one frame after another, without any of the machinery.
    fn reference(
        clip: &EncodedClip,
        policy: &dyn far_memory::RecallPolicy,
        dataset: &far_model::EncodedDataset,
    ) -> Vec<Vec<f32>> {
        let (episode, copier, plan) = (clip.episode(), Copier::new(), plan());
        let mut present = episode.latent(clip.frames()[0]).to_vec();
        let mut generated = Vec::new();
        for pair in clip.frames().windows(2) {
            let pool = Pool::ids(clip.memory().iter().map(|frame| MemoryId(*frame as u64)));
            let asked = clip.query(pair[0], pair[1]);
            let mut query = asked.for_memory(pool);
            let (encoders, scale) = (dataset.encoders(), copier.scale());
            let now = Present { latent: &present, ..asked.recorded() };
            embed_queries(encoders, &scale, &[now], std::slice::from_mut(&mut query)).unwrap();
            let mut recall = Recall::new();
            let scratch = &mut Scratch::new();
            policy.recall(episode.memory(), &query, plan.slots, scratch, &mut recall).unwrap();
            let mut context = copier.batch(plan.slots);
            let memories = recall.ids().map(|id| episode.remembered(id.index()));
            context.push(&asked.for_model(), &present, memories).unwrap();
            present = copier.sample(&context, &[0.0; 3], &plan.sampler).unwrap();
            generated.push(present.clone());
        }
        generated
    }

    #[test]
    fn rollouts_are_those_of_a_plain_loop() {
        let (_folder, dataset) = road(&[5, 21, 3, 13], None);
        let clips = clips(&dataset);
        for id in ["longlive-rag", "temporal", "worldmem", "nearest-pose"] {
            let arm = rule(id);
            let expected: Vec<Vec<Vec<f32>>> = clips
                .iter()
                .map(|clip| reference(clip, arm.as_policy().unwrap(), &dataset))
                .collect();
            let rollouts = roll(arm, &Copier::new(), &dataset, &clips);
            for (rollout, expected) in rollouts.iter().zip(expected) {
                assert_eq!(rollout.frames().collect::<Vec<_>>(), expected, "{id}");
            }
        }
    }

    #[test]
    fn every_memory_shows_its_earlier_view_in_all_steps() {
        let (_folder, dataset) = road(&[9, 5], None);
        let (clips, copier) = (clips(&dataset), Copier::of_two_views(0.5));
        for clip in &clips {
            let rollouts = roll(rule("random"), &copier, &dataset, std::slice::from_ref(clip));
            let contexts = std::mem::take(&mut *copier.contexts.lock().unwrap());
            assert_eq!(contexts.len(), rollouts[0].recalls.len());
            for (context, recall) in contexts.iter().zip(&rollouts[0].recalls) {
                let lag = |frame: usize| [Some(frame), frame.checked_sub(5)];
                let frames = recall.indices().flat_map(lag).flatten();
                let shown: Vec<f32> =
                    frames.flat_map(|frame| clip.episode().latent(frame)).copied().collect();
                assert_eq!(context.len(), 3 * (1 + 2 * plan().slots));
                assert_eq!(context[3..3 + shown.len()], shown, "{recall:?}");
                assert!(context[3 + shown.len()..].iter().all(|value| *value == 0.0));
            }
        }
    }

    #[test]
    fn short_clips_drop_out_and_do_not_change_the_others() {
        let (_folder, dataset) = road(&[5, 13, 3], None);
        let clips = clips(&dataset);
        let together = roll(rule("longlive-rag"), &Copier::new(), &dataset, &clips);
        assert_eq!(together.iter().map(|r| r.recalls.len()).collect::<Vec<_>>(), [2, 6, 1]);
        for (clip, rollout) in clips.iter().zip(&together) {
            let alone =
                roll(rule("longlive-rag"), &Copier::new(), &dataset, std::slice::from_ref(clip));
            assert_eq!(alone[0], *rollout);
        }
    }

    #[test]
    fn the_same_noise_reaches_every_arm_and_differs_by_clip_and_step() {
        let (_folder, dataset) = road(&[9, 9], None);
        let clips = clips(&dataset);
        let noises = |arm| {
            let copier = Copier::new();
            roll(arm, &copier, &dataset, &clips);
            copier.noises.into_inner().unwrap()
        };
        let one = noises(rule("temporal"));
        for other in [rule("random"), Arm::control(Control::None), Arm::control(Control::Oracle)] {
            assert_eq!(noises(other), one);
        }
        assert_eq!(one.len(), 8);
        for (place, noise) in one.iter().enumerate() {
            assert!(!one[..place].contains(noise));
        }
    }

    #[test]
    fn recall_is_blind_to_the_future() {
        let ways = [None, Some([200, 30, 90])].map(|tint| {
            let (_folder, dataset) = road(&[21], tint);
            let clips = clips(&dataset);
            ["longlive-rag", "nearest-pose", "random", "worldmem", "temporal"]
                .map(|id| roll(rule(id), &Copier::new(), &dataset, &clips).remove(0).recalls)
        });
        assert_eq!(ways[0], ways[1]);
        // Only the oracle measures, and chooses otherwise.
        let oracle = [None, Some([200, 30, 90])].map(|tint| {
            let (_folder, dataset) = road(&[21], tint);
            let clips = clips(&dataset);
            let arm = Arm::control(Control::Oracle);
            roll(arm, &Copier::new(), &dataset, &clips).remove(0).latents
        });
        assert_ne!(oracle[0], oracle[1]);
    }

    #[test]
    fn controls_do_what_their_names_say() {
        let (_folder, dataset) = road(&[9], None);
        let clips = clips(&dataset);
        let episode = clips[0].episode();
        let (copier, plan) = (Copier::new(), plan());
        let mut all = arms(&["nearest-pose"]);
        all.extend(Control::ALL.map(Arm::control));
        let rollouts: Vec<Rollout> = all
            .iter()
            .map(|arm| {
                let encoders = dataset.encoders();
                let predictor = Predictor::new(arm, &all, &copier, encoders, &plan).unwrap();
                Rollout::all(&predictor, &clips, None, |_| ()).unwrap().remove(0)
            })
            .collect();
        let [nearest, none, copy, oracle, tokenizer] = &rollouts[..] else { panic!("five arms") };
        // Without memory the copier repeats the present for ever.
        assert!(none.frames().all(|latent| latent == episode.latent(EXPLORED)));
        assert!(none.recalls.iter().all(Recall::is_empty));
        // The nearest memory is the place itself, seen on the way out.
        let truth: Vec<&[f32]> =
            clips[0].frames()[1..].iter().map(|&frame| episode.latent(frame)).collect();
        for rollout in [nearest, copy, oracle, tokenizer] {
            assert_eq!(rollout.frames().collect::<Vec<_>>(), truth);
        }
        assert!(copy.recalls.iter().all(|recall| recall.len() == 1));
    }

    #[test]
    fn a_limit_cuts_rollouts_and_progress_counts_frames() {
        let (_folder, dataset) = road(&[9, 5], None);
        let clips = clips(&dataset);
        let (arms, plan, copier) = (arms(&["temporal"]), plan(), Copier::new());
        let predictor =
            Predictor::new(&arms[0], &arms, &copier, dataset.encoders(), &plan).unwrap();
        let mut heard = Vec::new();
        let rollouts =
            Rollout::all(&predictor, &clips, Some(3), |clips| heard.push(clips.len())).unwrap();
        assert_eq!(rollouts.iter().map(|r| r.recalls.len()).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(heard, [2, 2, 1]);
    }
}

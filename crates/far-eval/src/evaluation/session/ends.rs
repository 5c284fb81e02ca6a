//! The probe of both ends: every arm is asked where the agent is whom nobody sees.
//!
//! | metric | what |
//! |---|---|
//! | `both_ends` | share of memory-dependent clips with the right verdict at both ends |
//! | `both_ends_static` | share of static controls where neither end fires |
//! | `both_ends_pair` | share of counterfactual pairs where both histories are right |
//! | `predicted_ends` | share of memory-dependent clips whose predicted states are right at both ends |
//! | `crossing_recalled` | share of their questions for which the last crossing was recalled |
//! | `detector_recall`, `detector_false_positive` | of `tokenizer`: verdicts on the true frames |

use super::{Group, Session};
use crate::Result;
use crate::arm::Control;
use crate::prediction::{Ask, Imagined};
use crate::probe::both_ends::{BothEnds, both_ends};
use crate::probe::{BothEndsView, EndAnswer};
use far_memory::Recall;

impl Session<'_, '_> {
    /// Asks all arms about both ends, where there is a detector and clips have them.
    pub fn look_at_ends(&mut self, group: &Group) -> Result<()> {
        let Some(detector) = self.evaluation.probes.detector else { return Ok(()) };
        let dataset = self.evaluation.dataset.dataset();
        let mut asked: Vec<(usize, BothEnds)> = Vec::new();
        for (place, clip) in group.clips.iter().enumerate() {
            asked.extend(both_ends(dataset, clip)?.map(|ends| (place, ends)));
        }
        let asks = asked.iter().flat_map(|(place, ends)| {
            let clip = &group.clips[*place];
            let latent = clip.episode().latent(ends.current);
            ends.questions().map(|question| Ask { clip, question, latent })
        });
        let asks: Vec<Ask<'_>> = asks.collect();
        if asks.is_empty() {
            return Ok(());
        }
        let states: Vec<Vec<f32>> = asks.iter().map(|ask| ask.recorded_state().to_vec()).collect();
        let most = self.evaluation.plan.replays.saturating_sub(self.shown.both_ends.len());
        let views = asked.iter().take(most);
        let views =
            views.map(|(place, ends)| ends.view(dataset, group.clips[*place].episode().id()));
        let mut views: Vec<BothEndsView> = views.collect::<Result<_>>()?;
        for number in 0..self.predictors.len() {
            let predictor = &self.predictors[number];
            let recalls = predictor.recall(&asks)?;
            // The two goals of a clip meet the same noise: they differ in goal and memory alone.
            let noise = predictor.noise(&asks, |ask| ask.question.current);
            let imagined = predictor.imagine(&asks, &recalls, &states, &noise)?;
            let verdicts = detector.fires(&imagined.latents)?;
            let generated = (imagined.latents.as_slice(), verdicts.as_slice());
            self.show_ends(number, &asks, &recalls, generated, &mut views)?;
            let control = predictor.arm().is(Control::Tokenizer);
            for (place, (clip, ends)) in asked.iter().enumerate() {
                let episode = group.clips[*clip].episode().id();
                let clip = group.first + clip;
                let verdicts = [verdicts[2 * place], verdicts[2 * place + 1]];
                self.tally_ends(number, (clip, episode), ends, verdicts);
                let own = 2 * place..2 * place + 2;
                let recalls = recalls.get(own).unwrap_or_default();
                self.tally_reasons(number, clip, ends, recalls, &imagined, place);
                if let (true, Some(there)) = (control, ends.there) {
                    let arm = Control::Tokenizer.id();
                    let value = |fires: bool| f64::from(u8::from(fires));
                    self.tally.set(arm, "detector_recall", clip, value(verdicts[there]));
                    let other = value(verdicts[1 - there]);
                    self.tally.set(arm, "detector_false_positive", clip, other);
                }
            }
        }
        self.shown.both_ends.append(&mut views);
        Ok(())
    }

    /// Keeps what an arm recalled and generated for looking at.
    fn show_ends(
        &self,
        number: usize,
        asks: &[Ask<'_>],
        recalls: &[Recall],
        (latents, verdicts): (&[f32], &[bool]),
        views: &mut [BothEndsView],
    ) -> Result<()> {
        let elements = latents.len() / verdicts.len();
        let frames: Vec<&[f32]> = latents.chunks(elements).take(2 * views.len()).collect();
        let Some(pictures) = self.quality.pictures(&frames) else { return Ok(()) };
        let mut answers = Vec::with_capacity(pictures.len());
        for (place, picture) in pictures.into_iter().enumerate() {
            let recall = recalls.get(place).into_iter();
            let recalled: Vec<usize> = recall.flat_map(Recall::ids).map(|id| id.index()).collect();
            let memories = &mut views[place / 2].memories;
            let known = |frame: &&usize| !memories.contains_key(*frame);
            let new: Vec<usize> = recalled.iter().filter(known).copied().collect();
            let shown = self.quality.memories(asks[place].clip, &new)?;
            memories.extend(new.into_iter().zip(shown));
            answers.push(EndAnswer { picture, fires: verdicts[place], recalled });
        }
        let mut answers = answers.into_iter();
        for view in views {
            let (Some(first), Some(second)) = (answers.next(), answers.next()) else { break };
            view.arms.insert(self.evaluation.arms[number].id().to_owned(), [first, second]);
        }
        Ok(())
    }

    /// Whether an arm was right, and in both histories where the other one was asked before.
    fn tally_ends(
        &mut self,
        number: usize,
        (clip, episode): (usize, u32),
        ends: &BothEnds,
        verdicts: [bool; 2],
    ) {
        let right = ends.is_right(verdicts);
        let metric = if ends.there.is_some() { "both_ends" } else { "both_ends_static" };
        let arm = self.evaluation.arms[number].id();
        self.tally.set(arm, metric, clip, f64::from(u8::from(right)));
        self.answers.insert((number, episode), right);
        if let Some(other) = ends.pair.and_then(|other| self.answers.get(&(number, other))) {
            let both = f64::from(u8::from(right && *other));
            self.tally.set(arm, "both_ends_pair", clip, both);
        }
    }

    /// What the answer rests on: the predicted states, and whether the crossing was recalled.
    fn tally_reasons(
        &mut self,
        number: usize,
        clip: usize,
        ends: &BothEnds,
        recalls: &[Recall],
        imagined: &Imagined,
        place: usize,
    ) {
        if ends.there.is_none() {
            return;
        }
        let arm = self.evaluation.arms[number].id();
        if recalls.iter().any(|recall| !recall.is_empty()) {
            let found = ends.crossings(recalls.iter()) as f64;
            self.tally.share(arm, "crossing_recalled", clip, found, 2.0);
        }
        let numbers = self.evaluation.judge.told().states / 2;
        if let Some(states) = imagined.states.get(2 * place * numbers..2 * (place + 1) * numbers)
            && numbers > 0
        {
            let right = ends.is_right([states[0] > 0.0, states[numbers] > 0.0]);
            self.tally.set(arm, "predicted_ends", clip, f64::from(u8::from(right)));
        }
    }
}

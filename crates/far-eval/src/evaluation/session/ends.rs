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
use crate::probe::BothEndsView;
use crate::probe::both_ends::{BothEnds, both_ends};
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
            views.map(|(place, ends)| BothEndsView::new(ends, &group.clips[*place], &self.quality));
        let mut views: Vec<Option<BothEndsView>> = views.collect::<Result<_>>()?;
        for number in 0..self.predictors.len() {
            let predictor = &self.predictors[number];
            let recalls = predictor.recall(&asks)?;
            // The two goals of a clip meet the same noise: they differ in goal and memory alone.
            let noise = predictor.noise(&asks, |ask| ask.question.current);
            let imagined = predictor.imagine(&asks, &recalls, &states, &noise)?;
            let verdicts = detector.fires(&imagined.latents)?;
            let frames = imagined.latents.chunks(imagined.latents.len() / asks.len());
            let frames: Vec<&[f32]> = frames.collect();
            for (place, view) in views.iter_mut().enumerate() {
                let Some(view) = view else { continue };
                let own = 2 * place..2 * place + 2;
                let clip = &group.clips[asked[place].0];
                let answers = [own.start, own.start + 1].map(|at| (frames[at], verdicts[at]));
                let recalls = recalls.get(own).unwrap_or_default();
                view.add(predictor.arm().id(), clip, &self.quality, answers, recalls)?;
            }
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
        self.shown.both_ends.extend(views.into_iter().flatten());
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
        let numbers = self.evaluation.judge.signals().goal_state.width;
        if let Some(states) = imagined.states.get(2 * place * numbers..2 * (place + 1) * numbers)
            && numbers > 0
        {
            let right = ends.is_right([states[0] > 0.0, states[numbers] > 0.0]);
            self.tally.set(arm, "predicted_ends", clip, f64::from(u8::from(right)));
        }
    }
}

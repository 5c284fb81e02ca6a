//! How much of the goal's view is in what was recalled: the share of the surfaces in view at the goal
//! that the recalled memories show together.
//!
//! No world model is involved, so it tells recall from reading: a set that shows more and predicts no
//! better was not read. Every recall of a clip counts, of questions and of rollouts alike; a clip's value
//! is the mean over its goals. `none` recalls nothing and has no value. In the row `tokenizer`, the
//! ceiling, stands what as many memories could have shown: taken one after the other, each for the
//! surfaces that those before do not show, and, as a detail, the best ones each taken alone.

use super::{ClipGroup, Measured, Observed, Probe};
use crate::arm::Control;
use crate::encoded_clip::EncodedClip;
use crate::evaluation::EvaluationContext;
use crate::{Metric, MetricTable, Result};
use far_data::{Episode, Signal};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// What an arm recalled for one goal.
struct Recalled {
    arm: String,
    /// The clip's place in its group.
    place: usize,
    goal: usize,
    /// `None` asks for what could have been recalled.
    frames: Option<Vec<usize>>,
}

/// The probe. It needs surfaces that were recorded.
pub struct FacesShown {
    /// What was recalled in the group of clips under way.
    recalled: Vec<Recalled>,
    shown: Measured,
    singles: Measured,
}

impl Default for FacesShown {
    fn default() -> Self {
        let shown = Metric::share("faces_shown", "goal shown").titled("goal shown").noted(
            "surfaces in view at the goal that the recalled memories show together; beside \
                 `tokenizer`, what as many memories taken for it would show",
        );
        let singles = Metric::share("faces_shown_singles", "goal shown, best singles")
            .in_table(MetricTable::Detail)
            .noted("the same of the memories that each show most of it alone");
        let [shown, singles] = [shown, singles].map(Measured::new);
        Self { recalled: Vec::new(), shown, singles }
    }
}

impl Probe for FacesShown {
    fn observe(&mut self, context: &EvaluationContext<'_>, seen: &Observed<'_>) -> Result<()> {
        let signals = &context.dataset.dataset().description().signals;
        if !signals.contains(&Signal::VisibleFaces) || seen.arm.is(Control::None) {
            return Ok(());
        }
        for (query, recall) in seen.queries.iter().zip(seen.recalls) {
            let frames = recall.indices().collect();
            let (arm, place, goal) = (seen.arm.id().to_owned(), seen.place, query.goal());
            let frames = (!seen.arm.is(Control::Tokenizer)).then_some(frames);
            self.recalled.push(Recalled { arm, place, goal, frames });
        }
        Ok(())
    }

    fn ask(&mut self, context: &EvaluationContext<'_>, group: &ClipGroup) -> Result<()> {
        let recalled = std::mem::take(&mut self.recalled);
        let (dataset, slots) = (context.dataset.dataset(), context.plan.slots);
        let clips = group.clips.par_iter().enumerate();
        let clips = clips.map(|(place, clip)| -> Result<ClipShares<'_>> {
            let own: Vec<&Recalled> = recalled.iter().filter(|one| one.place == place).collect();
            if own.is_empty() {
                return Ok(ClipShares::default());
            }
            let episode = dataset.episode(clip.episode().id())?;
            Ok(ClipShares::of(&episode, clip, &own, slots))
        });
        for (place, clip) in clips.collect::<Result<Vec<_>>>()?.into_iter().enumerate() {
            let row = group.first + place;
            for (measured, means) in
                [(&mut self.shown, clip.shown), (&mut self.singles, clip.singles)]
            {
                for (arm, (sum, count)) in means {
                    measured.set(arm, row, sum / count);
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: &EvaluationContext<'_>) -> Result<Vec<Measured>> {
        Ok(vec![self.shown.clone(), self.singles.clone()])
    }
}

/// Sum of shares and their number, by arm.
type Means<'a> = BTreeMap<&'a str, (f64, f64)>;

/// The shares of one clip.
#[derive(Default)]
struct ClipShares<'a> {
    shown: Means<'a>,
    singles: Means<'a>,
}

impl<'a> ClipShares<'a> {
    fn of(episode: &Episode, clip: &EncodedClip, recalled: &[&'a Recalled], slots: usize) -> Self {
        let mut shares = Self::default();
        for Recalled { arm, goal, frames, .. } in recalled {
            let view = View { episode, goal: *goal };
            let mut note = |means: fn(&mut Self) -> &mut Means<'a>, frames: &[usize]| {
                // A goal that shows no surface, only sky, says nothing.
                if let Some(share) = view.share(frames) {
                    let (sum, count) = means(&mut shares).entry(arm).or_default();
                    *sum += share;
                    *count += 1.0;
                }
            };
            match frames {
                Some(frames) => note(|shares| &mut shares.shown, frames),
                None => {
                    note(|shares| &mut shares.shown, &view.greedy(clip.memory(), slots));
                    note(|shares| &mut shares.singles, &view.singles(clip.memory(), slots));
                }
            }
        }
        shares
    }
}

/// What is in view at a goal.
struct View<'a> {
    episode: &'a Episode,
    goal: usize,
}

impl View<'_> {
    /// Which of the goal's surfaces these memories show, one flag for each.
    fn seen(&self, memories: &[usize]) -> Vec<bool> {
        let faces = self.episode.visible_faces(self.goal).iter();
        let shows =
            |memory: &usize, face| self.episode.visible_faces(*memory).binary_search(face).is_ok();
        faces.map(|face| memories.iter().any(|memory| shows(memory, face))).collect()
    }

    /// The share of the goal's surfaces that these memories show; `None` if it has none.
    fn share(&self, memories: &[usize]) -> Option<f64> {
        let seen = self.seen(memories);
        let shown = seen.iter().filter(|seen| **seen).count();
        (!seen.is_empty()).then(|| shown as f64 / seen.len() as f64)
    }

    /// Memories taken one after the other, each for what those before do not show.
    fn greedy(&self, pool: &[usize], slots: usize) -> Vec<usize> {
        let shown: Vec<Vec<bool>> = pool.iter().map(|memory| self.seen(&[*memory])).collect();
        let mut open = vec![true; self.episode.visible_faces(self.goal).len()];
        let mut taken = Vec::new();
        for _ in 0..slots {
            let new = |shown: &Vec<bool>| {
                shown.iter().zip(&open).filter(|(shown, open)| **shown && **open).count()
            };
            let best = (0..pool.len()).rev().max_by_key(|place| new(&shown[*place]));
            let Some(best) = best.filter(|place| new(&shown[*place]) > 0) else { break };
            taken.push(pool[best]);
            open.iter_mut().zip(&shown[best]).for_each(|(open, shown)| *open &= !shown);
        }
        taken
    }

    /// The memories that each show most alone.
    fn singles(&self, pool: &[usize], slots: usize) -> Vec<usize> {
        let shown = |memory: &usize| self.seen(&[*memory]).iter().filter(|seen| **seen).count();
        let mut ranked = pool.to_vec();
        ranked.sort_by_cached_key(|memory| std::cmp::Reverse(shown(memory)));
        ranked.truncate(slots);
        ranked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arm;
    use crate::probe::testing::walled_road;
    use crate::testing::{arms, clips, in_context, road};
    use far_memory::{MemoryId, Recall};

    fn recall(frames: &[usize]) -> Recall {
        let mut recall = Recall::new();
        frames.iter().for_each(|frame| recall.push(MemoryId(*frame as u64), 1.0, None, &[], &[]));
        recall
    }

    /// What the probe finds of the first clip when one rule and the ceiling recall for one goal.
    fn shown(dataset: &far_model::EncodedDataset, goal: usize, frames: &[usize]) -> Vec<Measured> {
        let group = ClipGroup { first: 4, clips: clips(dataset) };
        let mut all = arms(&["temporal"]);
        all.extend([Control::None, Control::Tokenizer].map(Arm::control));
        in_context(dataset, &all, |context| {
            let mut probe = FacesShown::default();
            let clip = &group.clips[0];
            for (arm, recalled) in context.arms.iter().zip([frames, &[], &[]]) {
                let seen = Observed {
                    arm,
                    clip,
                    place: 0,
                    row: 4,
                    queries: &[clip.query(41, goal)],
                    recalls: &[recall(recalled)],
                    pictures: None,
                };
                probe.observe(context, &seen).unwrap();
            }
            probe.ask(context, &group).unwrap();
            probe.finish(context).unwrap()
        })
    }

    /// Frame n of the way out sees faces n to n + 4, as does the frame that is back there.
    #[test]
    fn shares_are_of_the_goals_faces_seen_by_any_memory() {
        let (_folder, dataset) = walled_road(&[9]);
        // Frame 45 is back at the place of frame 34: faces 34 to 38.
        let of = |frames: &[usize]| {
            let found = shown(&dataset, 45, frames);
            assert_eq!(found[0].value("none", 4), None);
            found[0].value("temporal", 4).unwrap()
        };
        assert_eq!(of(&[34]), (1.0, None));
        assert_eq!(of(&[32]), (0.6, None));
        assert_eq!(of(&[37, 32, 0]), (1.0, None));
        assert_eq!(of(&[]), (0.0, None));
        // The last place of the way out is only seen by memories up to it.
        let found = shown(&dataset, 41, &[0]);
        assert_eq!(found[0].value("tokenizer", 4), Some((1.0, None)));
        assert_eq!(found[1].value("tokenizer", 4), Some((1.0, None)));
    }

    /// Three that show most alone are neighbors; one after the other they divide the view.
    #[test]
    fn the_ceiling_divides_the_view() {
        let (_folder, dataset) = walled_road(&[9]);
        let episode = dataset.dataset().episode(0).unwrap();
        let view = View { episode: &episode, goal: 45 };
        let pool: Vec<usize> = (0..33).chain(37..40).collect();
        // Alone, 32 and 31 show three and two faces, 37 shows two; 31 adds nothing to 32.
        assert_eq!(view.singles(&pool, 2), [32, 31]);
        assert_eq!(view.greedy(&pool, 3), [32, 37]);
        assert_eq!(view.share(&view.greedy(&pool, 2)), Some(1.0));
        assert_eq!(view.share(&view.singles(&pool, 2)), Some(0.6));
    }

    #[test]
    fn datasets_without_surfaces_are_not_asked() {
        let (_folder, dataset) = road(&[9], None);
        let found = shown(&dataset, 45, &[34]);
        assert!(found.iter().all(|measured| measured.values.is_empty()));
    }
}

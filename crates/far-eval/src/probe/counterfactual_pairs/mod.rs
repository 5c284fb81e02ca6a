//! The counterfactual probe: pairs of episodes with the same present and different histories.
//!
//! | metric | what |
//! |---|---|
//! | `counterfactual` | share of pairs of which each prediction is nearer its own truth |
//! | `counterfactual_recalled` | share of pairs for which memories that differ were recalled on both sides |
//!
//! Rows are pairs, not clips.

mod pair;
mod view;

pub use view::{CounterfactualAnswer, CounterfactualView};

use super::{CropDistance, Measured, Probe};
use crate::cost::Cost;
use crate::evaluation::EvaluationContext;
use crate::{KeptFile, Metric, MetricTable, Result};
use far_data::EvaluationClip;
use pair::CounterfactualPair;

const NOTE: &str =
    "pairs of the same present and different histories: each prediction is nearer to its own truth";

/// The probe. It needs pairs of episodes, and frames that can be generated and decoded.
#[derive(Default)]
pub struct CounterfactualPairs {
    pairs: Vec<[u32; 2]>,
    views: Vec<CounterfactualView>,
}

impl Probe for CounterfactualPairs {
    fn begin(&mut self, context: &EvaluationContext<'_>) -> Result<u64> {
        if context.plan.steps != Some(0) {
            let most = context.plan.clips.unwrap_or(usize::MAX);
            let dataset = context.dataset.dataset();
            self.pairs = CounterfactualPair::find(dataset, context.episodes, most)?;
        }
        self.pairs.iter().map(|pair| passes(context, *pair)).sum()
    }

    fn finish(&mut self, context: &EvaluationContext<'_>) -> Result<Vec<Measured>> {
        let (plan, quality) = (context.plan, context.quality);
        let mut right = Measured::new(right(quality.crop_distance()));
        let mut recalled = Measured::new(recalled());
        let mut row = 0;
        for ids in self.pairs.chunks(plan.batch.div_ceil(2)) {
            let opened = ids
                .iter()
                .map(|ids| CounterfactualPair::open(context.dataset, *ids, plan, quality));
            let opened = opened.filter_map(Result::transpose).collect::<Result<Vec<_>>>()?;
            let shown = plan.replays.saturating_sub(row).min(opened.len());
            let mut views: Vec<_> = opened[..shown].iter().map(CounterfactualPair::view).collect();
            for predictor in context.predictors.iter().filter(|_| !opened.is_empty()) {
                let arm = predictor.arm().id();
                let answers = CounterfactualPair::answer(&opened, predictor, quality)?;
                for (place, answer) in answers.into_iter().enumerate() {
                    right.answer(arm, row + place, answer.is_right());
                    if let Some(is_told) = answer.is_told() {
                        recalled.answer(arm, row + place, is_told);
                    }
                    if let Some(view) = views.get_mut(place) {
                        opened[place].show(view, arm, answer, quality)?;
                    }
                }
            }
            for pair in ids {
                context.advance(passes(context, *pair)?);
            }
            row += opened.len();
            self.views.append(&mut views);
        }
        Ok(vec![right, recalled])
    }

    fn kept(&mut self) -> Vec<KeptFile> {
        self.views.drain(..).map(|view| KeptFile::of(&view)).collect()
    }
}

fn right(distance: CropDistance<'_>) -> Metric {
    let metric = Metric::share("counterfactual", "histories told apart")
        .titled("histories told apart")
        .noted(NOTE);
    distance.measuring(metric)
}

fn recalled() -> Metric {
    let note = format!("{NOTE}; here whether memories that show them so were recalled");
    Metric::share("counterfactual_recalled", "histories told apart, recalled")
        .in_table(MetricTable::Detail)
        .noted(note)
}

/// Passes to ask all arms of a pair.
fn passes(context: &EvaluationContext<'_>, [id, _]: [u32; 2]) -> Result<u64> {
    let clip = EvaluationClip::new(context.dataset.dataset(), id, &context.plan.walk)?;
    let memories = clip.map_or(0, |clip| clip.memory.len());
    Ok(Cost { plan: context.plan }.pair(context.arms, memories))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tests::pantry;

    #[test]
    fn a_pair_of_which_one_is_not_judged_is_no_pair() {
        let (_folder, dataset) = pantry();
        let find = |episodes: &[u32], most| {
            CounterfactualPair::find(dataset.dataset(), episodes, most).unwrap()
        };
        assert_eq!(find(&[0, 1], 9), [[0, 1]]);
        assert!(find(&[0], 9).is_empty() && find(&[1], 9).is_empty());
        assert!(find(&[0, 1], 0).is_empty());
    }
}

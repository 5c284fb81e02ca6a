//! The headline table: arms by metrics, and the learned arm against each of the others.

use super::cell::{Cell, PairedCell};
use super::metric::{Better, Metric};
use super::shown_arm::ShownArm;
use crate::{Interval, Results, Role};
use serde::Serialize;

/// The values of all arms and the paired differences, ready to be shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Headline {
    /// The learned arm that the differences are about.
    pub learned: Option<String>,
    /// The columns.
    pub metrics: Vec<Metric>,
    /// One row per arm: the best rule first, controls last.
    pub rows: Vec<Row>,
    /// The learned arm minus each other arm, in the order of the rows.
    pub paired: Vec<PairedRow>,
}

/// The values of one arm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row<C = Cell> {
    /// The arm.
    pub arm: String,
    /// What kind of recall it is.
    pub role: Role,
    /// One value per metric; `None` where it was not measured.
    pub cells: Vec<Option<C>>,
}

/// The learned arm minus the arm named, one difference per metric.
pub type PairedRow = Row<PairedCell>;

impl<C> Row<C> {
    fn of(arm: &ShownArm, metrics: &[Metric], cell: impl Fn(&Metric) -> Option<C>) -> Self {
        Self { arm: arm.name.clone(), role: arm.role, cells: metrics.iter().map(cell).collect() }
    }
}

impl Headline {
    /// The table of some results.
    pub fn of(results: &Results) -> Self {
        let metrics = results.metrics(results.arms.values().flat_map(|arm| arm.keys()));
        let arms = sorted(results, &metrics);
        let row = |arm| Row::of(arm, &metrics, |metric| value(results, &arm.name, metric));
        let mut rows: Vec<Row> = arms.iter().map(row).collect();
        for (column, metric) in metrics.iter().enumerate() {
            mark_best(&mut rows, column, metric);
        }
        let learned = learned(results);
        let paired = learned.as_deref().map_or(Vec::new(), |learned| {
            let others = arms.iter().filter(|arm| arm.name != learned);
            let row = |arm: &ShownArm| {
                Row::of(arm, &metrics, |metric| paired_cell(results, learned, &arm.name, metric))
            };
            others.map(row).collect()
        });
        Self { learned, metrics, rows, paired }
    }

    /// The column of a metric.
    pub fn column(&self, id: &str) -> Option<usize> {
        self.metrics.iter().position(|metric| metric.id == id)
    }

    /// How many clips all values of a column are over; `None` where they differ or are unknown.
    pub fn clips(&self, column: usize) -> Option<usize> {
        let mut counts =
            self.rows.iter().filter_map(|row| Some(row.cells[column].as_ref()?.value.n));
        let first = counts.next().filter(|count| *count > 0)?;
        counts.all(|count| count == first).then_some(first)
    }

    /// Rules behind the strongest `count` in rollout PSNR, which the differences are about, best first. Where
    /// it was not measured, the order of the rows counts.
    pub fn weaker_rules(&self, count: usize) -> Vec<&str> {
        let psnr = self.column("psnr");
        let mean = |row: &Row| {
            let value = row.cells[psnr?].as_ref()?.value.mean;
            (!value.is_nan()).then_some(value)
        };
        let mut rules: Vec<&Row> = self.rows.iter().filter(|row| row.role == Role::Rule).collect();
        rules.sort_by(|a, b| match (mean(a), mean(b)) {
            (Some(first), Some(second)) => second.total_cmp(&first),
            (first, second) => second.is_some().cmp(&first.is_some()),
        });
        rules.into_iter().skip(count).map(|row| row.arm.as_str()).collect()
    }

    /// The value of an arm.
    pub fn cell(&self, arm: &str, column: usize) -> Option<&Cell> {
        self.rows.iter().find(|row| row.arm == arm)?.cells[column].as_ref()
    }
}

/// The arm that a comparison is about: the leading one, else the first that was learned.
fn learned(results: &Results) -> Option<String> {
    let arms = || results.arms.keys().map(|name| (name, results.arm(name)));
    let leading = arms().find(|(_, arm)| arm.leads);
    let found = leading.or_else(|| arms().find(|(_, arm)| arm.role == Role::Learned));
    found.map(|(name, _)| name.clone())
}

/// Arms by kind; within learned arms and rules together the best by the first metric comes first.
fn sorted(results: &Results, metrics: &[Metric]) -> Vec<ShownArm> {
    let described = results.arms.keys().map(|arm| (arm.as_str(), results.arm(arm)));
    let mut arms = ShownArm::all(&described.collect());
    let value = |arm: &ShownArm| {
        let metric = metrics.first()?;
        let mean = results.arms.get(&arm.name)?.get(&metric.id)?.mean;
        mean.is_finite().then_some(if metric.better == Better::Lower { -mean } else { mean })
    };
    arms.sort_by(|a, b| {
        let controls = (a.role == Role::Control).cmp(&(b.role == Role::Control));
        let (first, second) = (value(a), value(b));
        let values = match (first, second) {
            _ if a.role == Role::Control => std::cmp::Ordering::Equal,
            (Some(first), Some(second)) => second.total_cmp(&first),
            _ => second.is_some().cmp(&first.is_some()),
        };
        controls.then(values)
    });
    arms
}

fn value(results: &Results, arm: &str, metric: &Metric) -> Option<Cell> {
    let value = *results.arms.get(arm)?.get(&metric.id)?;
    Some(Cell::of(value, by_seed(results, arm, &metric.id), metric))
}

/// The values of an arm seed by seed; none where there is one seed.
fn by_seed<'a>(results: &'a Results, arm: &str, metric: &str) -> &'a [Option<f64>] {
    let of = results.by_seed.get(arm).and_then(|own| own.get(metric));
    of.map_or(&[], Vec::as_slice)
}

/// Marks the best among arms that compete; equal texts are equally good.
fn mark_best(rows: &mut [Row], column: usize, metric: &Metric) {
    let competes = |row: &Row| row.role != Role::Control;
    let means =
        rows.iter().filter(|row| competes(row)).filter_map(|row| row.cells[column].as_ref());
    let means = means.map(|cell| cell.value.mean).filter(|mean| mean.is_finite());
    let best = match metric.better {
        Better::Higher => means.reduce(f64::max),
        Better::Lower => means.reduce(f64::min),
        Better::Neither => None,
    };
    let Some(best) = best.map(|best| metric.text(best)) else { return };
    for row in rows.iter_mut().filter(|row| competes(row)) {
        if let Some(cell) = &mut row.cells[column] {
            cell.best = cell.text == best;
        }
    }
}

/// The learned arm minus another arm in one metric.
fn paired_cell(
    results: &Results,
    learned: &str,
    other: &str,
    metric: &Metric,
) -> Option<PairedCell> {
    // A weight that differs between arms is no merit of either.
    let value = difference(results, learned, other, &metric.id)
        .filter(|_| metric.better != Better::Neither)?;
    let own = by_seed(results, learned, &metric.id).iter();
    let seeds = own.zip(by_seed(results, other, &metric.id));
    let seeds: Vec<Option<f64>> = seeds.map(|(own, other)| Some((*own)? - (*other)?)).collect();
    Some(PairedCell::of(value, &seeds, metric))
}

/// First minus second, whichever way round it was stored.
fn difference(results: &Results, first: &str, second: &str, metric: &str) -> Option<Interval> {
    let stored = |a: &str, b: &str| results.paired.get(a)?.get(b)?.get(metric).copied();
    stored(first, second).or_else(|| {
        let Interval { mean, lo, hi, n } = stored(second, first)?;
        Some(Interval { mean: -mean, lo: -hi, hi: -lo, n })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::report::fixture::{interval, results};

    #[test]
    fn the_best_rule_is_first_and_bold_and_controls_do_not_compete() {
        let headline = Headline::of(&results());
        let order: Vec<&str> = headline.rows.iter().map(|row| row.arm.as_str()).collect();
        assert_eq!(order, ["far-multi", "worldmem", "temporal", "none", "oracle"]);
        let psnr = headline.column("psnr").unwrap();
        let best: Vec<&str> = headline
            .rows
            .iter()
            .filter(|row| row.cells[psnr].as_ref().is_some_and(|cell| cell.best))
            .map(|row| row.arm.as_str())
            .collect();
        assert_eq!(best, ["far-multi"], "the oracle is better but a control");
    }

    #[test]
    fn the_strongest_rules_are_those_of_the_best_rollouts() {
        let mut results = results();
        for (arm, quality, psnr) in
            [("i3dm", 0.1, 17.0), ("vrag", 0.9, 12.0), ("spmem", 0.2, f64::NAN)]
        {
            let values = [("recall_quality", quality), ("psnr", psnr)];
            let values = values.map(|(id, mean)| (id.to_owned(), interval(mean, 0.1)));
            results.arms.insert(arm.into(), values.into());
        }
        let headline = Headline::of(&results);
        assert_eq!(headline.rows[0].arm, "vrag", "rows go by recall quality");
        assert_eq!(headline.weaker_rules(1), ["worldmem", "temporal", "vrag", "spmem"]);
        assert_eq!(headline.weaker_rules(9), Vec::<&str>::new());
    }

    #[test]
    fn differences_say_who_is_ahead_also_when_less_is_better() {
        let mut results = results();
        results.arms.get_mut("far-multi").unwrap().insert("lpips".into(), interval(0.2, 0.01));
        let pair = results.paired.get_mut("far-multi").unwrap().get_mut("worldmem").unwrap();
        pair.insert("lpips".into(), interval(-0.1, 0.02));
        let headline = Headline::of(&results);
        let row = headline.paired.iter().find(|row| row.arm == "worldmem").unwrap();
        let verdict = |id| row.cells[headline.column(id).unwrap()].as_ref().unwrap().verdict;
        assert_eq!(verdict("psnr"), Verdict::Ahead);
        assert_eq!(verdict("lpips"), Verdict::Ahead);
        assert_eq!(row.cells[headline.column("psnr").unwrap()].as_ref().unwrap().text, "+1.10");
    }

    #[test]
    fn a_difference_stored_the_other_way_round_is_turned() {
        let mut results = results();
        let pairs = results.paired.remove("far-multi").unwrap();
        let turned =
            std::collections::BTreeMap::from([("far-multi".to_owned(), pairs["worldmem"].clone())]);
        results.paired.insert("worldmem".into(), turned);
        let headline = Headline::of(&results);
        let row = headline.paired.iter().find(|row| row.arm == "worldmem").unwrap();
        let cell = row.cells[headline.column("psnr").unwrap()].as_ref().unwrap();
        assert_eq!((cell.text.as_str(), cell.verdict), ("−1.10", Verdict::Behind));
        assert!(cell.value.lo <= cell.value.mean && cell.value.mean <= cell.value.hi);
    }

    #[test]
    fn values_that_are_missing_or_not_numbers_are_dashes() {
        let mut results = results();
        let nothing = Interval { mean: f64::NAN, lo: f64::NAN, hi: f64::NAN, n: 24 };
        results.arms.get_mut("worldmem").unwrap().insert("psnr".into(), nothing);
        results.arms.get_mut("temporal").unwrap().remove("psnr");
        let headline = Headline::of(&results);
        let psnr = headline.column("psnr").unwrap();
        let cell = headline.cell("worldmem", psnr).unwrap();
        assert_eq!((cell.text.as_str(), cell.interval.as_str()), ("–", "–"));
        assert!(headline.cell("temporal", psnr).is_none());
        assert!(headline.cell("far-multi", psnr).unwrap().best);
    }

    #[test]
    fn weights_have_no_winner() {
        let mut results = results();
        for (arm, weight) in [("far-multi", 0.4), ("worldmem", 0.1)] {
            let values = results.arms.get_mut(arm).unwrap();
            values.insert("weight_audio".into(), interval(weight, 0.05));
        }
        let pair = results.paired.get_mut("far-multi").unwrap().get_mut("worldmem").unwrap();
        pair.insert("weight_audio".into(), interval(0.3, 0.02));
        let headline = Headline::of(&results);
        let column = headline.column("weight_audio").unwrap();
        assert!(!headline.cell("far-multi", column).unwrap().best);
        let row = headline.paired.iter().find(|row| row.arm == "worldmem").unwrap();
        assert!(row.cells[column].is_none());
        assert_eq!(column, headline.metrics.len() - 1, "probes stand last");
    }

    /// What one held-out walk per tier used to be called: behind by 0.00 dB.
    #[test]
    fn one_clip_is_no_verdict_and_is_counted() {
        let mut results = results();
        results.descriptions = vec![Metric::of("psnr").of_tier(5)];
        let one = Interval { mean: -0.001, lo: -0.001, hi: -0.001, n: 1 };
        for arm in ["far-multi", "worldmem"] {
            results.arms.get_mut(arm).unwrap().insert("psnr_tier_5".into(), one);
        }
        let pair = results.paired.get_mut("far-multi").unwrap().get_mut("worldmem").unwrap();
        pair.insert("psnr_tier_5".into(), one);
        let headline = Headline::of(&results);
        let [tier, psnr] = ["psnr_tier_5", "psnr"].map(|id| headline.column(id).unwrap());
        let row = headline.paired.iter().find(|row| row.arm == "worldmem").unwrap();
        assert_eq!(row.cells[tier].as_ref().unwrap().verdict, Verdict::TooFew);
        assert_eq!(row.cells[psnr].as_ref().unwrap().verdict, Verdict::Ahead);
        assert_eq!((headline.clips(tier), headline.clips(psnr)), (Some(1), Some(24)));
        assert_eq!(headline.cell("worldmem", tier).unwrap().interval, "one clip");
    }

    #[test]
    fn intervals_wider_than_their_mean_are_marked() {
        let mut results = results();
        let wide = Interval { mean: 1.18, lo: 0.15, hi: 9.36, n: 24 };
        results.arms.get_mut("worldmem").unwrap().insert("recall_quality".into(), wide);
        let headline = Headline::of(&results);
        let column = headline.column("recall_quality").unwrap();
        let marked = |arm| headline.cell(arm, column).unwrap().wide;
        assert!(marked("worldmem") && !marked("far-multi"));
    }

    #[test]
    fn the_comparison_is_about_the_leading_arm_or_else_the_first_learned() {
        let about = |names: &[&str]| {
            let arms = names.iter().map(|name| ((*name).to_owned(), Default::default()));
            Headline::of(&Results { arms: arms.collect(), ..Results::default() }).learned
        };
        assert_eq!(about(&["far-meta", "far-multi"]).as_deref(), Some("far-multi"));
        assert_eq!(about(&["far-vision", "far-meta"]).as_deref(), Some("far-meta"));
        assert_eq!(about(&["worldmem", "none"]), None);
        // An arm's own description takes precedence over its name.
        let mut results = results();
        let description = results.arm("worldmem");
        let leading = crate::ArmDescription { leads: true, ..description };
        results.arm_descriptions.insert("worldmem".into(), leading);
        let plain = crate::ArmDescription { leads: false, ..results.arm("far-multi") };
        results.arm_descriptions.insert("far-multi".into(), plain);
        assert_eq!(Headline::of(&results).learned.as_deref(), Some("worldmem"));
    }

    #[test]
    fn no_results_make_an_empty_table() {
        let headline = Headline::of(&Results::default());
        assert!(headline.rows.is_empty() && headline.paired.is_empty());
        assert_eq!(headline.learned, None);
    }
}

//! Curves along the way back as the page holds them.

use super::metric::Metric;
use crate::Results;
use serde::Serialize;
use std::collections::BTreeMap;

/// One metric over normalized time, by arm.
#[derive(Serialize)]
pub(super) struct CurveGroup<'a> {
    metric: Metric,
    arms: BTreeMap<&'a str, CurveView<'a>>,
}

#[derive(Serialize)]
struct CurveView<'a> {
    time: &'a [f64],
    /// Mean, low and high end at each time, `null` where they are no numbers, and the number of clips.
    values: Vec<(f64, f64, f64, usize)>,
}

impl<'a> CurveGroup<'a> {
    /// The curves of all metrics that have some, in the order in which metrics are shown.
    pub fn all(results: &'a Results) -> Vec<Self> {
        let metrics = results.metrics(results.curves.values().flat_map(|arm| arm.keys()));
        let groups = metrics.into_iter().map(|metric| {
            let own = results.curves.iter();
            let own = own.filter_map(|(arm, curves)| Some((arm.as_str(), curves.get(&metric.id)?)));
            let arms = own.map(|(arm, curve)| {
                let values = curve.values.iter();
                let values = values.map(|value| (value.mean, value.lo, value.hi, value.n));
                (arm, CurveView { time: &curve.time, values: values.collect() })
            });
            CurveGroup { arms: arms.collect(), metric }
        });
        groups.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{interval, results};
    use crate::{Curve, Interval};

    #[test]
    fn curves_have_the_order_of_metrics_and_count_their_clips() {
        let mut results = results();
        let few = Interval { n: 3, ..interval(0.5, 0.1) };
        let curve = Curve { time: vec![0.5], values: vec![few] };
        let own = results.curves.get_mut("far-multi").unwrap();
        own.insert("lpips".into(), curve.clone());
        own.insert("recall_quality".into(), curve);
        let groups = serde_json::to_value(CurveGroup::all(&results)).unwrap();
        let label = |place: usize| groups[place]["metric"]["label"].as_str().unwrap();
        let labels = [0, 1, 2].map(label);
        assert_eq!(labels, ["recall quality", "rollout PSNR", "rollout LPIPS"]);
        assert_eq!(groups[0]["arms"]["far-multi"]["values"][0][3], 3);
    }
}

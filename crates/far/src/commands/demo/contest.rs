//! Who takes part in the demo's comparison, and who stands in its table on the terminal.

use super::ARMS;
use far_eval::{Headline, Results};
use far_memory::policy::RuleConfig;

/// Rules in the terminal's table besides the paper's.
const STRONGEST: usize = 6;

/// The compared arms: the learned ones, the paper's rules, and every other published rule.
pub fn arms() -> impl Iterator<Item = &'static str> {
    let controls = ["far", "none", "oracle"];
    let others = RuleConfig::IDS.iter().copied();
    ARMS.into_iter().chain(others.filter(move |id| !controls.contains(id) && !ARMS.contains(id)))
}

/// The results with the strongest rules by rollout PSNR and the paper's, and the names of the others, best first.
pub fn abridged(results: &Results) -> (Results, Vec<String>) {
    let headline = Headline::of(results);
    let weaker = headline.weaker_rules(STRONGEST).into_iter().filter(|arm| !ARMS.contains(arm));
    let left_out: Vec<String> = weaker.map(str::to_owned).collect();
    let mut shown = results.clone();
    shown.arms.retain(|arm, _| !left_out.contains(arm));
    (shown, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_eval::{ArmResults, Interval};

    #[test]
    fn every_rule_takes_part_once() {
        let all: Vec<&str> = arms().collect();
        for id in ["far-multi", "nearest-pose", "i3dm", "spatia", "matrix-game", "car-closest"] {
            assert_eq!(all.iter().filter(|arm| **arm == id).count(), 1, "{id}");
        }
        assert_eq!(all.len(), RuleConfig::IDS.len() - 3 + 2, "all rules, and two learned arms");
    }

    #[test]
    fn the_terminal_has_the_strongest_six_and_the_papers() {
        let mut results = Results::default();
        for (place, arm) in arms().chain(["oracle"]).enumerate() {
            // The paper's rules are the weakest here, the last ones the strongest, whatever their recall quality.
            let values =
                [("psnr", 10.0 + place as f64), ("recall_quality", 1.0 - 0.01 * place as f64)];
            let values = values.map(|(id, value)| (id.to_owned(), Interval::of(&[value; 5], 0)));
            results.arms.insert(arm.to_owned(), ArmResults::from(values));
        }
        let (shown, left_out) = abridged(&results);
        assert_eq!(shown.arms.len(), ARMS.len() + STRONGEST + 1);
        assert!(ARMS.iter().chain(&["oracle", "seoul"]).all(|arm| shown.arms.contains_key(*arm)));
        assert_eq!(shown.arms.len() + left_out.len(), results.arms.len());
        assert!(left_out.contains(&"fov-topk".to_owned()), "{left_out:?}");
    }
}

//! What a metric means: its name for people, its unit, its digits, which way is better.

use serde::Serialize;

/// How one metric is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metric {
    /// Its key in `results.json`.
    pub id: String,
    /// Its name for people.
    pub label: String,
    /// Its unit; empty for a ratio.
    pub unit: &'static str,
    /// Digits after the point.
    pub digits: usize,
    /// Whether larger is better.
    pub higher: bool,
    /// What it measures, in one line.
    pub note: &'static str,
}

/// Key, name, unit, digits, larger is better, note; in the order in which they are shown.
const KNOWN: [(&str, &str, &str, usize, bool, &str); 16] = [
    (
        "recall_quality",
        "Recall quality",
        "",
        2,
        true,
        "utility of what was recalled: 0 is chance, 1 is the oracle",
    ),
    ("psnr", "PSNR", "dB", 2, true, "rollout against the truth after the tokenizer"),
    ("psnr_closure", "Closure PSNR", "dB", 2, true, "the last 5 % of the way back"),
    ("one_step_psnr", "One-step PSNR", "dB", 2, true, "one frame ahead of real frames"),
    ("ssim", "SSIM", "", 3, true, "structural similarity of the rollout, 1 is identical"),
    ("ssim_closure", "Closure SSIM", "", 3, true, "the last 5 % of the way back"),
    ("lpips", "LPIPS", "", 3, false, "perceptual distance of the rollout, 0 is identical"),
    ("lpips_closure", "Closure LPIPS", "", 3, false, "the last 5 % of the way back"),
    ("psnr_raw", "Raw PSNR", "dB", 2, true, "rollout against the frames as recorded"),
    ("both_ends", "Both ends", "", 3, true, "the agent shows at its end and not at the other"),
    ("both_ends_pair", "Both histories", "", 3, true, "both ends right whatever happened before"),
    ("both_ends_static", "Nobody there", "", 3, true, "no agent shows where none ever was"),
    ("predicted_ends", "Predicted ends", "", 3, true, "the predicted state is right at both ends"),
    ("crossing_recalled", "Crossing recalled", "", 3, true, "memories show the last crossing"),
    ("detector_recall", "Detector recall", "", 3, true, "true frames with the agent that fire"),
    (
        "detector_false_positive",
        "Detector false positives",
        "",
        3,
        false,
        "true frames without the agent that fire",
    ),
];

impl Metric {
    /// How the metric with this key is shown; a key that is not known is shown as it is.
    pub fn of(id: &str) -> Self {
        let known = KNOWN.iter().find(|known| known.0 == id);
        if let Some(&(_, label, unit, digits, higher, note)) = known {
            return Self { id: id.into(), label: label.into(), unit, digits, higher, note };
        }
        let unit = if id.contains("psnr") { "dB" } else { "" };
        let lower = ["lpips", "error", "loss", "distance"].iter().any(|word| id.contains(word));
        let label = id.replace('_', " ");
        Self { id: id.into(), label, unit, digits: 3, higher: !lower, note: "" }
    }

    /// Where the metric stands among the others: known ones first.
    pub fn place(&self) -> (usize, &str) {
        let known = KNOWN.iter().position(|known| known.0 == self.id);
        (known.unwrap_or(KNOWN.len()), &self.id)
    }

    /// A value without its unit; "–" where there is none.
    pub fn text(&self, value: f64) -> String {
        if value.is_nan() {
            return "–".to_owned();
        }
        if value.is_infinite() {
            return if value > 0.0 { "∞" } else { "−∞" }.to_owned();
        }
        let text = format!("{value:.*}", self.digits);
        match text.strip_prefix('-') {
            // "-0.00" is zero.
            Some(rest) if rest.chars().all(|c| c == '0' || c == '.') => rest.to_owned(),
            Some(rest) => format!("−{rest}"),
            None => text,
        }
    }

    /// A difference without its unit, with its sign.
    pub fn signed(&self, value: f64) -> String {
        let text = self.text(value);
        let zero = text.chars().all(|c| c == '0' || c == '.');
        if value > 0.0 && !zero { format!("+{text}") } else { text }
    }

    /// A text of a value with its unit behind it.
    pub fn with_unit(&self, text: &str) -> String {
        if self.unit.is_empty() || text == "–" {
            return text.to_owned();
        }
        format!("{text} {}", self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_sensible_digits_and_a_real_minus() {
        let psnr = Metric::of("psnr");
        assert_eq!(psnr.text(17.204), "17.20");
        assert_eq!(psnr.signed(1.1), "+1.10");
        assert_eq!(psnr.signed(-1.1), "−1.10");
        assert_eq!(psnr.signed(-0.001), "0.00");
        assert_eq!(psnr.signed(0.001), "0.00");
        assert_eq!(psnr.with_unit(&psnr.text(17.2)), "17.20 dB");
    }

    #[test]
    fn what_is_not_a_number_is_a_dash() {
        let psnr = Metric::of("psnr");
        assert_eq!(psnr.text(f64::NAN), "–");
        assert_eq!(psnr.with_unit("–"), "–");
        assert_eq!(psnr.text(f64::INFINITY), "∞");
    }

    #[test]
    fn unknown_metrics_are_shown_after_the_known() {
        let error = Metric::of("closure_error");
        assert!(!error.higher && error.label == "closure error");
        assert!(Metric::of("psnr_raw").place() < error.place());
        assert_eq!(Metric::of("psnr_tier_2").unit, "dB");
    }
}

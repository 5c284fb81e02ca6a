//! What a metric means: its name for people, its unit, its digits, which way is better.

use super::probe_metric;
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
    /// What values are multiplied by to have that unit.
    pub factor: f64,
    /// Digits after the point.
    pub digits: usize,
    /// Which way is better.
    pub better: Better,
    /// What it measures, in one line; empty when it is not known.
    pub note: String,
    /// The table that it stands in.
    pub table: MetricTable,
}

/// Which values of a metric are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Larger ones.
    Higher,
    /// Smaller ones.
    Lower,
    /// None: it describes an arm and does not judge it.
    Neither,
}

/// The tables of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricTable {
    /// What every corpus has.
    Main,
    /// The same by the length of the way back.
    Tier,
    /// Questions whose answer is right or wrong.
    Probe,
    /// What is behind the answers: what was recalled, harder questions, weights of cues.
    Detail,
    /// The same by how large a change is.
    Size,
}

impl MetricTable {
    /// All tables in the order in which they are shown.
    pub const ALL: [Self; 5] = [Self::Main, Self::Tier, Self::Probe, Self::Detail, Self::Size];

    /// Its title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Main => "Results",
            Self::Tier => "By the length of the way back",
            Self::Probe => "Probes",
            Self::Detail => "Probes in detail",
            Self::Size => "By the size of the change",
        }
    }
}

/// Key, name, unit, digits, larger is better, note; in the order in which they are shown. The name
/// is the same on the terminal, in Markdown, on the page and in its downloads.
const KNOWN: [(&str, &str, &str, usize, bool, &str); 9] = [
    (
        "recall_quality",
        "recall quality",
        "",
        2,
        true,
        "utility of what was recalled: 0 is chance, 1 is the oracle",
    ),
    ("psnr", "rollout PSNR", "dB", 2, true, "rollout against the truth after the tokenizer"),
    ("psnr_closure", "closure PSNR", "dB", 2, true, "rollout PSNR of the last 5 % of the way back"),
    ("one_step_psnr", "one-step PSNR", "dB", 2, true, "one frame ahead of real frames"),
    ("ssim", "rollout SSIM", "", 3, true, "structural similarity of the rollout, 1 is identical"),
    ("ssim_closure", "closure SSIM", "", 3, true, "rollout SSIM of the last 5 % of the way back"),
    ("lpips", "rollout LPIPS", "", 3, false, "perceptual distance of the rollout, 0 is identical"),
    (
        "lpips_closure",
        "closure LPIPS",
        "",
        3,
        false,
        "rollout LPIPS of the last 5 % of the way back",
    ),
    ("psnr_raw", "raw PSNR", "dB", 2, true, "rollout against the frames as recorded"),
];

impl Metric {
    /// How the metric with this key is shown; a key that is not known is shown as it is.
    pub fn of(id: &str) -> Self {
        let known = KNOWN.iter().find(|known| known.0 == id);
        if let Some(&(_, label, unit, digits, higher, note)) = known {
            let better = if higher { Better::Higher } else { Better::Lower };
            let (id, label, note) = (id.to_owned(), label.to_owned(), note.to_owned());
            let (factor, table) = (1.0, MetricTable::Main);
            return Self { id, label, unit, factor, digits, better, note, table };
        }
        Self::of_tier(id).or_else(|| probe_metric::of(id)).unwrap_or_else(|| Self::unknown(id))
    }

    /// `psnr_tier_15`: another metric over the returns of one tier.
    fn of_tier(id: &str) -> Option<Self> {
        let (base, tier) = id.rsplit_once("_tier_")?;
        let meters: u32 = tier.parse().ok()?;
        let base = Self::of(base);
        Some(Self {
            id: id.to_owned(),
            label: format!("{}, {meters} m", base.label),
            note: format!("ways back of the tier of about {meters} m; {}", base.note),
            table: MetricTable::Tier,
            ..base
        })
    }

    fn unknown(id: &str) -> Self {
        let lower = ["lpips", "error", "loss", "distance"].iter().any(|word| id.contains(word));
        Self {
            id: id.to_owned(),
            label: id.replace('_', " "),
            unit: if id.contains("psnr") { "dB" } else { "" },
            factor: 1.0,
            digits: 3,
            better: if lower { Better::Lower } else { Better::Higher },
            note: String::new(),
            table: MetricTable::Main,
        }
    }

    /// Where the metric stands among the others: by table, then known ones first, then by name, in
    /// which numbers count as such.
    pub fn place(&self) -> (MetricTable, usize, String) {
        let base = self.id.rsplit_once("_tier_").map_or(self.id.as_str(), |(base, _)| base);
        let known = KNOWN.iter().position(|known| known.0 == base);
        let order = known.or_else(|| probe_metric::place(&self.id)).unwrap_or(usize::MAX);
        let name = match self.id.rsplit_once('_') {
            Some((stem, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                format!("{stem}_{number:0>10}")
            }
            _ => self.id.clone(),
        };
        (self.table, order, name)
    }

    /// A value without its unit; "–" where there is none.
    pub fn text(&self, value: f64) -> String {
        if value.is_nan() {
            return "–".to_owned();
        }
        if value.is_infinite() {
            return if value > 0.0 { "∞" } else { "−∞" }.to_owned();
        }
        let text = format!("{:.*}", self.digits, value * self.factor);
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
        assert!(error.better == Better::Lower && error.label == "closure error");
        assert!(Metric::of("psnr_raw").place() < error.place());
    }

    #[test]
    fn tiers_are_told_in_meters_and_in_their_order() {
        let tier = Metric::of("psnr_tier_5");
        assert_eq!((tier.label.as_str(), tier.unit, tier.digits), ("rollout PSNR, 5 m", "dB", 2));
        assert_eq!(tier.table, MetricTable::Tier);
        assert!(tier.note.contains("about 5 m; rollout against"), "{}", tier.note);
        assert!(tier.place() < Metric::of("psnr_tier_15").place());
        assert!(Metric::of("psnr_tier_50").place() < Metric::of("lpips_tier_5").place());
        assert_eq!(Metric::of("lpips_tier_5").better, Better::Lower);
        assert_eq!(Metric::of("psnr_tier_far").table, MetricTable::Main);
    }
}

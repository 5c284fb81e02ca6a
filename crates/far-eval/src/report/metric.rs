//! What a metric means: its name for people, its unit, its digits, which way is better.

use serde::{Deserialize, Serialize};

/// What one metric means and how it is shown. An evaluation describes its own metrics, a probe those it
/// adds; `results.json` keeps the descriptions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its key in `results.json`.
    pub id: String,
    /// Its name for people.
    pub label: String,
    /// Its unit; empty for a ratio.
    pub unit: String,
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
    /// Its title in the narrow table of a terminal; a probe's metric without one does not stand there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// Which values of a metric are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricTable {
    /// What every corpus has.
    Main,
    /// The same by the length of the way back.
    Tier,
    /// Questions whose answer is right or wrong.
    Probe,
    /// What is behind the answers: what was recalled, harder questions, weights of cues; and metrics
    /// without a description.
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

/// Unit, digits, and which way is better.
type Scale = (&'static str, usize, Better);
const SHARE: Scale = ("", 2, Better::Higher);
const DECIBELS: Scale = ("dB", 2, Better::Higher);
const LIKENESS: Scale = ("", 3, Better::Higher);
const DISTANCE: Scale = ("", 3, Better::Lower);

/// Key, name, scale, note; in the order in which they are shown. The name is the same on the terminal, in
/// Markdown, on the page and in its downloads.
const KNOWN: [(&str, &str, Scale, &str); 11] = [
    (
        "recall_quality",
        "recall quality",
        SHARE,
        "utility of what was recalled, read as a whole: 0 is chance, 1 is the oracle",
    ),
    ("psnr", "rollout PSNR", DECIBELS, "rollout against the truth after the tokenizer"),
    ("psnr_closure", "closure PSNR", DECIBELS, "rollout PSNR of the last 5 % of the way back"),
    ("one_step_psnr", "one-step PSNR", DECIBELS, "one frame ahead of real frames"),
    ("ssim", "rollout SSIM", LIKENESS, "structural similarity of the rollout, 1 is identical"),
    ("ssim_closure", "closure SSIM", LIKENESS, "rollout SSIM of the last 5 % of the way back"),
    ("lpips", "rollout LPIPS", DISTANCE, "perceptual distance of the rollout, 0 is identical"),
    ("lpips_closure", "closure LPIPS", DISTANCE, "rollout LPIPS of the last 5 % of the way back"),
    ("dreamsim", "rollout DreamSim", DISTANCE, "DreamSim of the rollout, 0 is identical"),
    (
        "dreamsim_closure",
        "closure DreamSim",
        DISTANCE,
        "rollout DreamSim of the last 5 % of the way back",
    ),
    ("psnr_raw", "raw PSNR", DECIBELS, "rollout against the frames as recorded"),
];

impl Metric {
    /// A share of right answers, in percent: more is better, and it stands among the probes.
    pub fn share(id: impl Into<String>, label: impl Into<String>) -> Self {
        let (unit, factor, digits) = ("%".to_owned(), 100.0, 1);
        Self { unit, factor, digits, ..Self::number(id, label) }
    }

    /// A number without a unit, with two digits: more is better, and it stands among the probes.
    pub fn number(id: impl Into<String>, label: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            label: label.into(),
            unit: String::new(),
            factor: 1.0,
            digits: 2,
            better: Better::Higher,
            note: String::new(),
            table: MetricTable::Probe,
            title: None,
        }
    }

    /// The same with this unit and as many digits after the point.
    pub fn with_digits(self, unit: &str, digits: usize) -> Self {
        Self { unit: unit.to_owned(), digits, ..self }
    }

    /// The same, better this way.
    pub fn with_better(self, better: Better) -> Self {
        Self { better, ..self }
    }

    /// The same in another table.
    pub fn in_table(self, table: MetricTable) -> Self {
        Self { table, ..self }
    }

    /// The same with a line that says what it measures.
    pub fn noted(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    /// The same with a title in the table of a terminal.
    pub fn titled(self, title: &str) -> Self {
        Self { title: Some(title.to_owned()), ..self }
    }

    /// The metrics of every evaluation, in the order in which they are shown.
    pub(crate) fn standard() -> impl Iterator<Item = Self> {
        KNOWN.into_iter().map(|(id, label, (unit, digits, better), note)| {
            let metric = Self::number(id, label).with_digits(unit, digits).with_better(better);
            metric.noted(note).in_table(MetricTable::Main)
        })
    }

    /// How a metric without a description is shown: a standard one as usual, any other by its key, and
    /// as one that does not judge.
    pub fn of(id: &str) -> Self {
        Self::standard().find(|metric| metric.id == id).unwrap_or_else(|| {
            let metric = Self::number(id, id.replace('_', " ")).with_digits("", 3);
            metric.with_better(Better::Neither).in_table(MetricTable::Detail)
        })
    }

    /// The key of a metric over the returns of one tier.
    pub(crate) fn tier_id(id: &str, tier: u32) -> String {
        format!("{id}_tier_{tier}")
    }

    /// The same over the returns of one tier, in meters.
    pub fn of_tier(&self, tier: u32) -> Self {
        Self {
            id: Self::tier_id(&self.id, tier),
            label: format!("{}, {tier} m", self.label),
            note: format!("ways back of the tier of about {tier} m; {}", self.note),
            table: MetricTable::Tier,
            ..self.clone()
        }
    }

    /// Where a metric without a description stands in its table: standard ones first, then by name,
    /// in which numbers count as such.
    pub(crate) fn place(&self) -> (usize, String) {
        let known = KNOWN.iter().position(|known| known.0 == self.id);
        let name = match self.id.rsplit_once('_') {
            Some((stem, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                format!("{stem}_{number:0>10}")
            }
            _ => self.id.clone(),
        };
        (known.unwrap_or(usize::MAX), name)
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
    fn what_nobody_has_described_is_shown_by_its_key_after_the_rest() {
        let unknown = Metric::of("closure_error");
        assert_eq!((unknown.label.as_str(), unknown.table), ("closure error", MetricTable::Detail));
        assert!(Metric::of("psnr_raw").place() < unknown.place());
        assert!(Metric::of("odd_5").place() < Metric::of("odd_15").place());
    }

    #[test]
    fn tiers_are_told_in_meters() {
        let tier = Metric::of("lpips").of_tier(5);
        assert_eq!((tier.id.as_str(), tier.label.as_str()), ("lpips_tier_5", "rollout LPIPS, 5 m"));
        assert_eq!((tier.table, tier.better, tier.digits), (MetricTable::Tier, Better::Lower, 3));
        assert!(tier.note.contains("about 5 m; perceptual"), "{}", tier.note);
    }

    #[test]
    fn shares_are_percent_and_descriptions_survive_text() {
        let share = Metric::share("sharp", "Sharp").titled("sharp").noted("edges are there");
        assert_eq!((share.text(0.802), share.signed(0.25)), ("80.2".into(), "+25.0".into()));
        assert_eq!(share.with_unit(&share.text(0.802)), "80.2 %");
        let alarms = Metric::number("alarms", "Alarms").with_better(Better::Neither);
        for metric in [share, alarms.in_table(MetricTable::Detail)] {
            let text = serde_json::to_string(&metric).unwrap();
            assert_eq!(serde_json::from_str::<Metric>(&text).unwrap(), metric);
        }
    }
}

//! What the results mean, in two sentences made from the numbers.

use super::cell::Cell;
use super::headline::Headline;
use super::verdict::Verdict;
use crate::{Control, Results, Role};

/// Below this many clips the ends of an interval over clips are rough.
const FEW_CLIPS: usize = 8;

/// Two sentences on what the results say of learned recall, and cautions where an interval is wider
/// than its mean or where there are too few clips for the intervals to mean much. Nothing is claimed
/// that an interval does not show.
pub fn summary(results: &Results) -> Vec<String> {
    let headline = Headline::of(results);
    let mut sentences = Vec::new();
    if let Some((column, learned)) = judged(&headline) {
        sentences.push(comparison(results, &headline, column, learned));
        sentences.extend(bounds(&headline, column, learned));
    } else {
        sentences.extend(best_rule(results, &headline));
    }
    if !sentences.is_empty() {
        sentences.extend(few_clips(results.clips));
    }
    sentences
}

fn few_clips(clips: usize) -> Option<String> {
    let (counted, fewest) = (counted(clips), Verdict::FEWEST_CLIPS);
    if clips < fewest {
        let text = format!("{counted} decide nothing: being ahead or behind takes {fewest}");
        return Some(if clips == 1 { text.replace("decide ", "decides ") } else { text } + ".");
    }
    (clips < FEW_CLIPS).then(|| format!("With {counted} the intervals are rough."))
}

/// The metric that decides, and the learned arm that has it.
fn judged(headline: &Headline) -> Option<(usize, &str)> {
    let learned = headline.learned.as_deref()?;
    let columns = ["psnr", "one_step_psnr", "recall_quality"];
    let mut columns = columns.iter().filter_map(|id| headline.column(id));
    let measured = |column: &usize| {
        headline.cell(learned, *column).is_some_and(|cell| cell.value.mean.is_finite())
    };
    Some((columns.find(measured)?, learned))
}

/// "1 clip", "24 clips".
pub(super) fn counted(clips: usize) -> String {
    if clips == 1 { "1 clip".to_owned() } else { format!("{clips} clips") }
}

/// "Over 24 clips, far-multi reaches 17.20 dB PSNR: ahead of …, behind …".
fn comparison(results: &Results, headline: &Headline, column: usize, learned: &str) -> String {
    let metric = &headline.metrics[column];
    let value = headline.cell(learned, column).map_or("–", |cell| &cell.text);
    let rules = headline.paired.iter().filter(|row| row.role != Role::Control);
    let rules: Vec<_> =
        rules.filter_map(|row| Some((row.arm.as_str(), row.cells[column].as_ref()?))).collect();
    let group = |verdict: Verdict, lead: &str| {
        let members = rules.iter().filter(|(_, cell)| cell.verdict == verdict);
        let members = members.map(|(arm, cell)| match verdict.is_decided() {
            false => (*arm).to_owned(),
            true => format!("{arm} ({})", metric.with_unit(&cell.text)),
        });
        let members: Vec<String> = members.collect();
        (!members.is_empty()).then(|| format!("{lead} {}", listed(&members)))
    };
    let groups = [
        group(Verdict::Ahead, "ahead of"),
        group(Verdict::Behind, "behind"),
        group(Verdict::Undecided, "not distinguishable from"),
        group(Verdict::TooFew, "too few clips to compare with"),
    ];
    let groups: Vec<String> = groups.into_iter().flatten().collect();
    let value = metric.with_unit(value);
    let mut clips = counted(results.clips);
    if !results.seeds.is_empty() {
        clips += &format!(" and {} seeds", results.seeds.len());
    }
    let opening = format!("Over {clips}, {learned} reaches a {} of {value}", metric.label);
    if groups.is_empty() {
        return format!("{opening}; no other rule was compared with it.");
    }
    format!("{opening}: {}.", groups.join("; "))
}

/// Recall quality and what the controls say is possible.
fn bounds(headline: &Headline, column: usize, learned: &str) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(cell) = headline.column("recall_quality").and_then(|at| headline.cell(learned, at))
        && cell.value.mean.is_finite()
        && headline.metrics[column].id != "recall_quality"
    {
        let text = format!("its recall quality is {} ({})", cell.text, cell.interval);
        let caution = quality_caution(cell);
        parts.push(format!("{text}{caution}, where 0 is chance and 1 is the oracle"));
    }
    let metric = &headline.metrics[column];
    let control = |arm: &Control| {
        let cell = headline.cell(arm.name(), column).filter(|cell| cell.value.mean.is_finite())?;
        Some(metric.with_unit(&cell.text))
    };
    let limits =
        [("no memory gives", Control::None), ("recall by measured utility gives", Control::Oracle)];
    let limits =
        limits.iter().filter_map(|(words, arm)| Some(format!("{words} {}", control(arm)?)));
    let limits: Vec<String> = limits.collect();
    if !limits.is_empty() {
        parts.push(format!("for comparison, {}", listed(&limits)));
    }
    if parts.is_empty() {
        return None;
    }
    let sentence = parts.join("; ");
    let mut letters = sentence.chars();
    let first = letters.next()?.to_uppercase();
    Some(format!("{first}{}.", letters.as_str()))
}

fn quality_caution(cell: &Cell) -> &'static str {
    if cell.value.n < Verdict::FEWEST_CLIPS {
        ", from too few clips to mean anything"
    } else if cell.value.lo <= 0.0 {
        ", not distinguishable from chance"
    } else if cell.wide {
        ", with an interval wider than the value itself (do not rely on it)"
    } else {
        ""
    }
}

fn best_rule(results: &Results, headline: &Headline) -> Option<String> {
    let column = headline.column("psnr").unwrap_or(0);
    let metric = headline.metrics.get(column)?;
    let best = headline.rows.iter().find(|row| {
        row.role != Role::Control && row.cells[column].as_ref().is_some_and(|c| c.best)
    })?;
    let value = metric.with_unit(&best.cells[column].as_ref()?.text);
    Some(format!(
        "Over {}, {} is the best rule by {} with {value}; no learned arm was evaluated.",
        counted(results.clips),
        best.arm,
        metric.label
    ))
}

pub(super) fn listed(members: &[String]) -> String {
    match members {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interval;
    use crate::report::fixture::{interval, results};

    #[test]
    fn a_gain_is_told_with_its_size_and_its_bounds() {
        let sentences = summary(&results());
        assert_eq!(
            sentences,
            [
                "Over 24 clips, far-multi reaches a rollout PSNR of 17.20 dB: ahead of worldmem \
                 (+1.10 dB); not distinguishable from temporal.",
                "Its recall quality is 0.85 (0.80 to 0.90), where 0 is chance and 1 is the oracle; for \
                 comparison, no memory gives 15.00 dB and recall by measured utility gives 18.00 dB."
            ]
        );
    }

    #[test]
    fn a_loss_is_told_as_a_loss() {
        let mut results = results();
        let pairs = results.paired.get_mut("far-multi").unwrap();
        for pair in pairs.values_mut() {
            pair.insert("psnr".into(), interval(-0.5, 0.1));
        }
        let arm = results.arms.get_mut("far-multi").unwrap();
        arm.insert("recall_quality".into(), interval(0.01, 0.05));
        let sentences = summary(&results);
        assert!(
            sentences[0].contains("behind worldmem (−0.50 dB) and temporal (−0.50 dB)"),
            "{sentences:?}"
        );
        assert!(!sentences[0].contains("ahead"));
        assert!(sentences[1].contains("not distinguishable from chance"));
    }

    #[test]
    fn few_clips_claim_nothing() {
        let last = |clips| summary(&Results { clips, ..results() }).pop().unwrap();
        assert_eq!(last(1), "1 clip decides nothing: being ahead or behind takes 5.");
        assert_eq!(last(4), "4 clips decide nothing: being ahead or behind takes 5.");
        assert_eq!(last(6), "With 6 clips the intervals are rough.");
        let mut few = results();
        let pair = few.paired.get_mut("far-multi").unwrap().get_mut("worldmem").unwrap();
        pair.insert("psnr".into(), Interval { n: 3, ..interval(1.1, 0.3) });
        let sentence = summary(&few).remove(0);
        assert!(sentence.contains("too few clips to compare with worldmem"), "{sentence}");
        assert!(!sentence.contains("ahead"), "{sentence}");
    }

    #[test]
    fn a_quality_known_only_roughly_comes_with_a_caution() {
        let mut results = results();
        let wide = Interval { mean: 1.18, lo: 0.15, hi: 9.36, n: 24 };
        results.arms.get_mut("far-multi").unwrap().insert("recall_quality".into(), wide);
        let sentences = summary(&results);
        let expected = "1.18 (0.15 to 9.36), with an interval wider than the value itself";
        assert!(sentences[1].contains(expected), "{sentences:?}");
    }

    #[test]
    fn without_a_learned_arm_the_best_rule_is_named() {
        let mut results = results();
        results.arms.remove("far-multi");
        let sentences = summary(&results);
        assert_eq!(sentences.len(), 1);
        assert!(sentences[0].contains("worldmem is the best rule by rollout PSNR with 16.10 dB"));
        assert!(summary(&Results::default()).is_empty());
    }
}

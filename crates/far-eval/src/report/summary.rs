//! What the results mean, in two sentences made from the numbers.

use super::headline::{Headline, Verdict};
use crate::{Control, Results, Role};

/// Below this many clips an interval over clips says little.
const FEW_CLIPS: usize = 8;

/// Two sentences on what the results say of learned recall, and a caution where there are too few
/// clips for the intervals to mean much. Nothing is claimed that an interval does not show.
pub fn summary(results: &Results) -> Vec<String> {
    let headline = Headline::of(results);
    let mut sentences = Vec::new();
    if let Some((column, learned)) = judged(&headline) {
        sentences.push(comparison(results, &headline, column, learned));
        sentences.extend(bounds(&headline, column, learned));
    } else {
        sentences.extend(best_rule(results, &headline));
    }
    if results.clips < FEW_CLIPS && !sentences.is_empty() {
        let clips = counted(results.clips);
        sentences.push(format!("With {clips} the intervals are rough: this claims nothing."));
    }
    sentences
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

fn counted(clips: usize) -> String {
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
        let members = members.map(|(arm, cell)| match verdict {
            Verdict::Undecided => (*arm).to_owned(),
            _ => format!("{arm} ({})", metric.with_unit(&cell.text)),
        });
        let members: Vec<String> = members.collect();
        (!members.is_empty()).then(|| format!("{lead} {}", listed(&members)))
    };
    let groups = [
        group(Verdict::Ahead, "ahead of"),
        group(Verdict::Behind, "behind"),
        group(Verdict::Undecided, "not distinguishable from"),
    ];
    let groups: Vec<String> = groups.into_iter().flatten().collect();
    let value = metric.with_unit(value);
    let clips = counted(results.clips);
    let opening = format!("Over {clips}, {learned} reaches a {} of {value}", metric.label.as_str());
    let opening = opening.replace("a Recall quality", "a recall quality");
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
        let chance = if cell.value.lo > 0.0 { "" } else { ", not distinguishable from chance" };
        let text = format!("its recall quality is {} ({}){chance}", cell.text, cell.interval);
        parts.push(format!("{text}, where 0 is chance and 1 is the oracle"));
    }
    let metric = &headline.metrics[column];
    let control = |arm: &Control| {
        let cell = headline.cell(arm.id(), column).filter(|cell| cell.value.mean.is_finite())?;
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

fn listed(members: &[String]) -> String {
    match members {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{interval, results};

    #[test]
    fn a_gain_is_told_with_its_size_and_its_bounds() {
        let sentences = summary(&results());
        assert_eq!(
            sentences,
            [
                "Over 24 clips, far-multi reaches a PSNR of 17.20 dB: ahead of worldmem (+1.10 dB); \
                 not distinguishable from temporal.",
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
        let few = Results { clips: 1, ..results() };
        let last = summary(&few).pop().unwrap();
        assert_eq!(last, "With 1 clip the intervals are rough: this claims nothing.");
    }

    #[test]
    fn without_a_learned_arm_the_best_rule_is_named() {
        let mut results = results();
        results.arms.remove("far-multi");
        let sentences = summary(&results);
        assert_eq!(sentences.len(), 1);
        assert!(sentences[0].contains("worldmem is the best rule by PSNR with 16.10 dB"));
        assert!(summary(&Results::default()).is_empty());
    }
}

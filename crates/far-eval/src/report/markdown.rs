//! The tables of some results as Markdown, for documents: values, differences, curves.

use super::headline::{Headline, PairedRow, Row};
use super::metric::{Better, MetricTable};
use super::summary::{counted, listed};
use super::verdict::Verdict;
use crate::{Interval, Results, Role};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Metrics of the first table, as far as they were measured; tiers and probes have tables of their
/// own.
const SHOWN: [&str; 9] = [
    "psnr",
    "psnr_closure",
    "one_step_psnr",
    "ssim",
    "ssim_closure",
    "lpips",
    "dreamsim",
    "psnr_raw",
    "recall_quality",
];
/// The metric whose curves are shown.
const CURVE: &str = "psnr";
/// Columns of the table of curves, at most.
const COLUMNS: usize = 10;

/// The tables under a title: arms by metrics with 95 % intervals, the learned arm minus every other,
/// the same by tier and by probe with what each probe asks, and PSNR over normalized time. The best
/// rule stands first and is bold, controls have a dot.
pub fn markdown(title: &str, results: &Results) -> String {
    let headline = Headline::of(results);
    let mut text = format!("## {title}\n\n{}\n", facts(results));
    for table in MetricTable::ALL {
        let columns: Vec<usize> = match table {
            MetricTable::Main => SHOWN.iter().filter_map(|id| headline.column(id)).collect(),
            _ => {
                let own = headline.metrics.iter().enumerate();
                own.filter(|(_, metric)| metric.table == table).map(|(place, _)| place).collect()
            }
        };
        if table != MetricTable::Main {
            if columns.is_empty() {
                continue;
            }
            let _ = writeln!(text, "\n### {}\n", table.title());
        }
        if matches!(table, MetricTable::Probe | MetricTable::Detail) {
            explanations(&mut text, &headline, &columns);
        }
        values(&mut text, &headline, &columns);
        differences(&mut text, &headline, &columns);
    }
    curves(&mut text, &headline, results);
    text
}

/// What each metric of a table asks, one line each.
fn explanations(text: &mut String, headline: &Headline, columns: &[usize]) {
    for column in columns {
        let metric = &headline.metrics[*column];
        if !metric.note.is_empty() {
            let _ = writeln!(text, "- {}: {}", metric.label, metric.note);
        }
    }
    text.push('\n');
}

fn facts(results: &Results) -> String {
    let judge = match results.judge.as_str() {
        "own" => "every arm reads with a world model of its own",
        _ => "one world model reads for all arms",
    };
    let trained = results
        .train_seconds
        .map_or(String::new(), |seconds| format!(", {seconds:.0} s of training in all"));
    let intervals = match results.seeds.as_slice() {
        [] => "n clips",
        _ => "seeds and n clips; ± the standard deviation over seeds",
    };
    let unmeasured =
        unmeasured(results).map_or(String::new(), |absent| format!(" Not measured: {absent}."));
    format!(
        "{}: {}, {} memories each, {}, on {}; {judge}{trained}. 95 % intervals over \
         {intervals}.{unmeasured}\n",
        results.corpus,
        counted(results.clips),
        results.slots,
        seeds(results),
        results.device
    )
}

/// What is not measured and why: "LPIPS: left out, not measured under seed 2; DreamSim: only with weights
/// (docs/metrics.md)".
pub(super) fn unmeasured(results: &Results) -> Option<String> {
    let has = |id: &str| results.arms.values().any(|arm| arm.contains_key(id));
    let mut absent: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (id, seeds) in &results.left_out {
        // Its tiers go without saying.
        if id.contains("_tier_") {
            continue;
        }
        let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
        let who = if seeds.len() == 1 { "seed" } else { "seeds" };
        let cause = format!("left out, not measured under {who} {}", listed(&seeds));
        absent.entry(cause).or_default().push(results.metric(id).label);
    }
    let without_weights = [("lpips", "LPIPS"), ("dreamsim", "DreamSim")]
        .into_iter()
        .filter(|(id, _)| has("psnr") && !has(id) && !results.left_out.contains_key(*id));
    for (_, name) in without_weights {
        // Whether they are there now does not matter: a demo leaves them out anyway.
        absent
            .entry("only with weights (docs/metrics.md)".to_owned())
            .or_default()
            .push(name.to_owned());
    }
    let parts = absent.iter().map(|(cause, names)| format!("{}: {cause}", listed(names)));
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// "seed 0", "seeds 0, 1 and 2".
fn seeds(results: &Results) -> String {
    match results.seeds.as_slice() {
        [] => format!("seed {}", results.seed),
        seeds => {
            let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
            format!("seeds {}", listed(&seeds))
        }
    }
}

fn name(arm: &str, role: Role) -> String {
    if role == Role::Control { format!("· {arm}") } else { arm.to_owned() }
}

fn header(text: &mut String, first: &str, titles: impl Iterator<Item = String>) {
    let titles: Vec<String> = titles.collect();
    let _ = writeln!(text, "| {first} | {} |", titles.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(titles.len()));
}

fn titles<'a>(headline: &'a Headline, columns: &'a [usize]) -> impl Iterator<Item = String> + 'a {
    columns.iter().map(|column| {
        let metric = &headline.metrics[*column];
        let unit =
            if metric.unit.is_empty() { String::new() } else { format!(", {}", metric.unit) };
        let clips = headline.clips(*column);
        let clips = clips.map_or(String::new(), |clips| format!(" (n = {clips})"));
        format!("{}{unit}{clips}", metric.label)
    })
}

fn row(text: &mut String, arm: &str, role: Role, cells: impl Iterator<Item = Option<String>>) {
    let cells: Vec<String> = cells.map(|cell| cell.unwrap_or_else(|| "–".to_owned())).collect();
    let _ = writeln!(text, "| {} | {} |", name(arm, role), cells.join(" | "));
}

fn interval(text: &str, interval: &str) -> String {
    if interval == "–" {
        return text.to_owned();
    }
    format!("{text} [{}]", interval.replace(" to ", ", "))
}

/// How many clips a value is over, where the title of its column does not say so.
fn clips(headline: &Headline, column: usize, value: Interval) -> String {
    if value.n == 0 || headline.clips(column) == Some(value.n) {
        return String::new();
    }
    format!(" (n = {})", value.n)
}

fn values(text: &mut String, headline: &Headline, columns: &[usize]) {
    header(text, "arm", titles(headline, columns));
    // Arms that a table says nothing of do not stand in it, except in the first.
    let first = columns.iter().any(|column| headline.metrics[*column].table == MetricTable::Main);
    let told = |row: &&Row| first || columns.iter().any(|column| row.cells[*column].is_some());
    for each in headline.rows.iter().filter(told) {
        let cells = columns.iter().map(|column| {
            let cell = each.cells[*column].as_ref()?;
            let mean = if cell.best { format!("**{}**", cell.text) } else { cell.text.clone() };
            let clips = clips(headline, *column, cell.value);
            let caution = if cell.wide { " †" } else { "" };
            let spread = cell.spread.as_ref();
            let mean =
                spread.map_or(mean.clone(), |spread| format!("{mean} ±{}", spread.deviation));
            Some(format!("{}{clips}{caution}", interval(&mean, &cell.interval)))
        });
        row(text, &each.arm, each.role, cells);
    }
    let mut cells = headline.rows.iter().flat_map(|row| columns.iter().map(|at| &row.cells[*at]));
    if cells.any(|cell| cell.as_ref().is_some_and(|cell| cell.wide)) {
        text.push_str("\n† the interval is wider than the value itself: do not rely on it.\n");
    }
}

fn differences(text: &mut String, headline: &Headline, columns: &[usize]) {
    let compared: Vec<usize> = columns
        .iter()
        .copied()
        .filter(|column| headline.metrics[*column].better != Better::Neither)
        .collect();
    let told = |row: &&PairedRow| compared.iter().any(|column| row.cells[*column].is_some());
    let rows: Vec<&PairedRow> = headline.paired.iter().filter(told).collect();
    let Some(learned) = headline.learned.as_deref().filter(|_| !rows.is_empty()) else { return };
    let _ = writeln!(
        text,
        "\n{learned} minus the other arm, clip by clip (* the interval excludes zero, of at least {} \
         clips):\n",
        Verdict::FEWEST_CLIPS
    );
    header(text, "other arm", titles(headline, &compared));
    for each in rows {
        let cells = compared.iter().map(|column| {
            let cell = each.cells[*column].as_ref()?;
            let star = if cell.verdict.is_decided() { " \\*" } else { "" };
            let clips = clips(headline, *column, cell.value);
            let agreement = cell.spread.as_ref().map_or(String::new(), |spread| {
                format!(" ({})", spread.agreement(cell.value.mean))
            });
            Some(format!("{}{clips}{agreement}{star}", interval(&cell.text, &cell.interval)))
        });
        row(text, &each.arm, each.role, cells);
    }
}

fn curves(text: &mut String, headline: &Headline, results: &Results) {
    let Some(metric) = headline.column(CURVE).map(|column| &headline.metrics[column]) else {
        return;
    };
    let curve = |arm: &str| results.curves.get(arm)?.get(CURVE);
    let longest = results.curves.values().filter_map(|arm| arm.get(CURVE));
    let Some(times) = longest.map(|curve| &curve.time).max_by_key(|time| time.len()) else {
        return;
    };
    let every = times.len().div_ceil(COLUMNS).max(1);
    let shown: Vec<f64> = times.iter().copied().skip(every / 2).step_by(every).collect();
    let _ = writeln!(
        text,
        "\n{} in {} along the way back, whose time runs from 0 to 1 in every clip:\n",
        metric.label, metric.unit
    );
    header(text, "arm", shown.iter().map(|time| format!("{time:.2}")));
    for each in &headline.rows {
        let Some(curve) = curve(&each.arm).filter(|curve| !curve.time.is_empty()) else { continue };
        let cells = shown.iter().map(|time| {
            let place = curve.time.iter().position(|own| (own - time).abs() < 1e-9)?;
            Some(metric.text(curve.values[place].mean))
        });
        row(text, &each.arm, each.role, cells);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metric;
    use crate::report::fixture::{interval, results};

    #[test]
    fn every_arm_stands_in_the_tables_with_its_interval() {
        let text = markdown("village", &results());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "## village");
        let first = lines.iter().find(|line| line.starts_with("| far-multi | ")).unwrap();
        assert!(first.contains("**17.20** ["), "{first}");
        assert!(text.contains("| · none | "), "{text}");
        assert!(text.contains("far-multi minus the other arm"), "{text}");
        let paired = lines.iter().filter(|line| line.starts_with("| worldmem | ")).nth(1).unwrap();
        assert!(paired.contains("+1.10 [") && paired.contains(r"] \*"), "{paired}");
        // Every row of a table has as many cells as its header.
        for table in text.split("\n\n").filter(|part| part.starts_with('|')) {
            let counts: Vec<usize> = table.lines().map(|line| line.matches('|').count()).collect();
            assert!(counts.iter().all(|count| *count == counts[0]), "{table}");
        }
    }

    #[test]
    fn tiers_and_probes_have_tables_of_their_own() {
        let mut results = results();
        let values = results.arms.get_mut("far-multi").unwrap();
        for (id, value) in [("psnr_tier_5", 19.0), ("state_surface", 0.8), ("weight_audio", 0.4)] {
            values.insert(id.into(), interval(value, 0.1));
        }
        let state = Metric::share("state_surface", "State, surface").noted("things moved");
        let weight = Metric::number("weight_audio", "λ audio").noted("mean weight of the cue");
        let weight = weight.in_table(MetricTable::Detail).with_better(Better::Neither);
        results.descriptions = vec![Metric::of("psnr").of_tier(5), state, weight];
        let pair = results.paired.get_mut("far-multi").unwrap().get_mut("worldmem").unwrap();
        pair.insert("state_surface".into(), interval(0.3, 0.1));
        let text = markdown("kitchen", &results);
        let (_, rest) = text.split_once("### By the length of the way back").unwrap();
        assert!(rest.contains("| arm | rollout PSNR, 5 m, dB (n = 24) |"), "{rest}");
        let (tiers, probes) = rest.split_once("### Probes").unwrap();
        assert!(!tiers.contains("worldmem"), "it has no value there");
        assert!(probes.contains("- State, surface: things moved"), "{probes}");
        let (answers, details) = probes.split_once("### Probes in detail").unwrap();
        assert!(answers.contains("**80.0** [70.0, 90.0] |"), "{answers}");
        assert!(details.contains("0.40 [0.30, 0.50] |"), "{details}");
        assert!(details.contains("- λ audio: mean weight of the cue"), "{details}");
        assert!(probes.contains("| other arm | State, surface, % (n = 24) |"), "{probes}");
        assert!(probes.contains(r"| worldmem | +30.0 [+20.0, +40.0] \* |"), "{probes}");
    }

    #[test]
    fn clips_are_counted_and_few_of_them_have_no_star() {
        let mut results = results();
        results.clips = 1;
        let few = Interval { n: 3, ..interval(1.1, 0.3) };
        results.arms.get_mut("worldmem").unwrap().insert("psnr".into(), few);
        let quality = Interval { mean: 1.18, lo: 0.15, hi: 9.36, n: 24 };
        results.arms.get_mut("worldmem").unwrap().insert("recall_quality".into(), quality);
        let pair = results.paired.get_mut("far-multi").unwrap().get_mut("worldmem").unwrap();
        pair.insert("psnr".into(), few);
        let text = markdown("village", &results);
        assert!(text.contains("village: 1 clip, "), "{text}");
        assert!(text.contains("| 1.10 [0.80, 1.40] (n = 3) | **1.18** [0.15, 9.36] † |"), "{text}");
        assert!(text.contains("† the interval is wider"), "{text}");
        assert!(text.contains("| worldmem | +1.10 [+0.80, +1.40] (n = 3) |"), "no star: {text}");
    }

    #[test]
    fn what_is_not_measured_has_its_true_cause() {
        assert_eq!(
            unmeasured(&results()).unwrap(),
            "LPIPS and DreamSim: only with weights (docs/metrics.md)"
        );
        let left_out = ["lpips", "lpips_tier_5"].map(|id| (id.to_owned(), [2].into())).into();
        let merged = Results { seeds: vec![0, 1, 2], left_out, ..results() };
        let expected = "rollout LPIPS: left out, not measured under seed 2; DreamSim: only with weights (docs/metrics.md)";
        assert_eq!(unmeasured(&merged).unwrap(), expected);
    }

    #[test]
    fn the_curve_is_told_at_its_times() {
        let text = markdown("village", &results());
        assert!(text.contains("| arm | 0.25 | 0.75 |"), "{text}");
        assert!(text.contains("| far-multi | 18.00 | 18.00 |"), "{text}");
    }

    #[test]
    fn nothing_measured_is_no_table_of_differences() {
        let text = markdown("empty", &Results::default());
        assert!(!text.contains("minus") && text.starts_with("## empty"));
    }
}

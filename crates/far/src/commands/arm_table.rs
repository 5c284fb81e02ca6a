//! A table of arms and metrics for the terminal.

use far_eval::{Headline, Results, Role, Verdict};
use std::collections::BTreeSet;

/// Standard metrics in the order of importance, named as everywhere; those of probes bring their own
/// titles and stand behind the first.
const COLUMNS: [&str; 8] = [
    "recall_quality",
    "psnr",
    "psnr_closure",
    "one_step_psnr",
    "ssim",
    "lpips",
    "dreamsim",
    "psnr_raw",
];

/// Prints the arms' values of the standard metrics that are `shown` and of probes, and the learned
/// arm's paired gains.
pub fn print(results: &Results, shown: &[&str]) {
    print!("{}", table(results, shown));
}

fn table(results: &Results, shown: &[&str]) -> String {
    let headline = Headline::of(results);
    let standard = COLUMNS.iter().filter(|id| shown.contains(id));
    let standard = standard.filter_map(|id| headline.column(id));
    let standard = standard.map(|column| (column, headline.metrics[column].label.as_str()));
    let metrics = headline.metrics.iter().enumerate();
    let probes = metrics.filter_map(|(column, metric)| Some((column, metric.title.as_deref()?)));
    let mut columns: Vec<(usize, &str)> = standard.collect();
    let behind = columns.len().min(1);
    columns.splice(behind..behind, probes);
    let mut text = format!("  {:<14}", "");
    for (_, title) in &columns {
        text += &format!(" {title:>14}");
    }
    let learned = headline.learned.as_deref().unwrap_or("learned");
    let psnr = headline.column("psnr");
    if let Some(psnr) = psnr {
        text += &format!("   {learned} minus it, {}", paired_title(&headline, psnr));
    }
    text.push('\n');
    for row in &headline.rows {
        let control = if row.role == Role::Control { "·" } else { " " };
        text += &format!("{control} {:<14}", row.arm);
        for (column, _) in &columns {
            let cell = row.cells[*column].as_ref();
            let shown = cell.map_or("–".to_owned(), |cell| match &cell.spread {
                Some(spread) => format!("{} ±{}", cell.text, spread.deviation),
                None => cell.text.clone(),
            });
            text += &format!(" {shown:>14}");
        }
        let paired = headline.paired.iter().find(|paired| paired.arm == row.arm);
        if let Some(cell) = psnr.and_then(|psnr| paired?.cells[psnr].as_ref()) {
            let star = if cell.verdict.is_decided() { "*" } else { "" };
            text += &format!("   {:>6} {}{star}", cell.text, cell.interval);
            if let Some(spread) = &cell.spread {
                text += &format!(", {}", spread.agreement(cell.value.mean));
            }
        }
        text.push('\n');
    }
    let fewest = Verdict::FEWEST_CLIPS;
    let seeds = if results.seeds.is_empty() { "" } else { "seeds and " };
    text += &format!(
        "\n  * the 95 % interval over {seeds}n ≥ {fewest} walks excludes zero     · a control, not a contender\n"
    );
    if !results.seeds.is_empty() {
        text +=
            "  ± the standard deviation over seeds; n of m seeds have the sign of the difference\n";
    }
    text + "  recall quality: 0 is chance, 1 is the oracle, which takes each memory by what it adds\n"
}

/// The metric of the differences and how many walks they are over.
fn paired_title(headline: &Headline, column: usize) -> String {
    let cells = headline.paired.iter().filter_map(|row| row.cells[column].as_ref());
    let counts: BTreeSet<usize> = cells.map(|cell| cell.value.n).collect();
    let label = &headline.metrics[column].label;
    match (counts.first(), counts.last()) {
        (Some(least), Some(most)) if least == most => format!("{label}, n = {most}"),
        (Some(least), Some(most)) => format!("{label}, n = {least} to {most}"),
        _ => label.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_eval::{ArmResults, Interval, Metric};

    /// Two arms of which the learned one is behind in every one of some walks.
    fn results(walks: usize) -> Results {
        let arm = |psnr: f64| {
            let values = vec![psnr; walks];
            ArmResults::from([("psnr".to_owned(), Interval::of(&values, 0))])
        };
        let mut results = Results { clips: walks, ..Results::default() };
        results.arms = [("far-multi", arm(17.0)), ("nearest-pose", arm(17.5))]
            .map(|(name, values)| (name.to_owned(), values))
            .into();
        let pair = [("nearest-pose".to_owned(), arm(-0.5))].into();
        results.paired.insert("far-multi".to_owned(), pair);
        results
    }

    #[test]
    fn one_walk_has_no_star_and_five_have() {
        let line = |walks: usize| {
            let text = table(&results(walks), &["psnr"]);
            assert!(text.contains(&format!("rollout PSNR, n = {walks}\n")), "{text}");
            text.lines().find(|line| line.contains("nearest-pose")).unwrap().to_owned()
        };
        assert!(line(1).ends_with("−0.50 one clip"), "{}", line(1));
        assert!(line(4).ends_with("−0.50 −0.50 to −0.50"), "{}", line(4));
        assert!(line(5).ends_with("−0.50 −0.50 to −0.50*"), "{}", line(5));
    }

    #[test]
    fn probes_have_their_own_titles_and_stand_behind_the_first() {
        let mut results = results(5);
        results.descriptions = vec![Metric::share("sharp", "Sharp edges").titled("sharp")];
        let arm = results.arms.get_mut("far-multi").unwrap();
        for (id, value) in [("sharp", 0.25), ("unnamed", 3.0), ("ssim", 0.5)] {
            arm.insert(id.to_owned(), Interval::of(&[value; 5], 0));
        }
        let text = table(&results, &["psnr", "ssim"]);
        let (titles, _) = text.split_once("   far-multi minus").unwrap();
        let titles = titles.split("  ").map(str::trim).filter(|title| !title.is_empty());
        let titles: Vec<&str> = titles.collect();
        assert_eq!(titles, ["rollout PSNR", "sharp", "rollout SSIM"], "{text}");
        let line = text.lines().find(|line| line.contains("far-multi  ")).unwrap();
        assert!(line.contains(" 25.0 ") && !text.contains("unnamed"), "{text}");
    }
}

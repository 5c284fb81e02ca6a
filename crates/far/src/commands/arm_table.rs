//! A table of arms and metrics for the terminal, no wider than 80 columns.

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
/// Characters of a line.
const WIDTH: usize = 80;
/// Characters of a value with the space before it, at least.
const VALUE: usize = 10;
/// Characters of a difference with its interval and the space before it, at least.
const DIFFERENCE: usize = 26;

/// Prints the arms' values of the standard metrics that are `shown` and of probes, and the learned
/// arm's paired gains.
pub fn print(results: &Results, shown: &[&str]) {
    print!("{}", table(results, shown));
}

/// A column: its title and a cell per arm.
struct Column {
    title: String,
    width: usize,
    cells: Vec<String>,
}

impl Column {
    /// A column at least `width` wide, and wider where a cell is.
    fn new(title: String, width: usize, cells: Vec<String>) -> Self {
        let longest = cells.iter().map(|cell| cell.chars().count() + 1).max().unwrap_or(0);
        Self { title, width: width.max(longest), cells }
    }
}

fn table(results: &Results, shown: &[&str]) -> String {
    let headline = Headline::of(results);
    let mut columns = values(&headline, shown);
    columns.extend(differences(&headline));
    let names = headline.rows.iter().map(|row| row.arm.chars().count());
    let first = 2 + names.max().unwrap_or(0);
    let mut text = String::new();
    let mut rest = columns.as_slice();
    while !rest.is_empty() {
        let mut width = first;
        let fits = |column: &&Column| {
            width += column.width;
            width <= WIDTH
        };
        // A first column is printed however wide it is.
        let count = rest.iter().take_while(fits).count().max(1);
        let (block, others) = rest.split_at(count);
        if !text.is_empty() {
            text.push('\n');
        }
        text += &lines(&headline, first, block);
        rest = others;
    }
    let fewest = Verdict::FEWEST_CLIPS;
    text += "\n  · a control, not a contender; recall quality is 0 at chance, 1 for the oracle\n";
    let seeds = if results.seeds.is_empty() { "" } else { "seeds and " };
    text += &format!("  * the 95 % interval over {seeds}at least {fewest} walks excludes zero\n");
    if !results.seeds.is_empty() {
        text += "  ± the standard deviation over seeds; how many have the sign of the difference\n";
    }
    let wide =
        headline.rows.iter().flat_map(|row| row.cells.iter().flatten()).any(|cell| cell.wide);
    if wide && columns.iter().any(|column| column.cells.iter().any(|cell| cell.ends_with('†'))) {
        text += "  † the interval is wider than the value itself: do not rely on it\n";
    }
    text
}

/// The columns of metrics.
fn values(headline: &Headline, shown: &[&str]) -> Vec<Column> {
    let standard = COLUMNS.iter().filter(|id| shown.contains(id));
    let standard = standard.filter_map(|id| headline.column(id));
    let standard = standard.map(|column| (column, headline.metrics[column].label.as_str()));
    let metrics = headline.metrics.iter().enumerate();
    let probes = metrics.filter_map(|(column, metric)| Some((column, metric.title.as_deref()?)));
    let mut columns: Vec<(usize, &str)> = standard.collect();
    let behind = columns.len().min(1);
    columns.splice(behind..behind, probes);
    let column = |(place, title): (usize, &str)| {
        let cells = headline.rows.iter().map(|row| match row.cells[place].as_ref() {
            Some(cell) => {
                let spread = cell.spread.as_ref();
                let spread =
                    spread.map_or(String::new(), |spread| format!(" ±{}", spread.deviation));
                format!("{}{spread}{}", cell.text, if cell.wide { " †" } else { "" })
            }
            None => "–".to_owned(),
        });
        Column::new(title.to_owned(), VALUE, cells.collect())
    };
    columns.into_iter().map(column).collect()
}

/// The column of differences, if something was compared.
fn differences(headline: &Headline) -> Option<Column> {
    let (learned, psnr) = (headline.learned.as_deref()?, headline.column("psnr")?);
    let cells = headline.rows.iter().map(|row| {
        let paired = headline.paired.iter().find(|paired| paired.arm == row.arm);
        paired.and_then(|paired| paired.cells[psnr].as_ref()).map_or(String::new(), |cell| {
            let star = if cell.verdict.is_decided() { "*" } else { " " };
            let spread = cell.spread.as_ref();
            let agreed = spread.map(|spread| format!(", {}", spread.agreement(cell.value.mean)));
            format!("{} ({}){star}{}", cell.text, cell.interval, agreed.unwrap_or_default())
        })
    });
    let cells: Vec<String> = cells.collect();
    let compared = cells.iter().any(|cell| !cell.is_empty());
    let title = format!("{learned} minus it: {}", paired_title(headline, psnr));
    compared.then(|| Column::new(title, DIFFERENCE, cells))
}

/// Title lines and one line per arm.
fn lines(headline: &Headline, first: usize, columns: &[Column]) -> String {
    let titles: Vec<Vec<String>> =
        columns.iter().map(|column| wrapped(&column.title, column.width - 1)).collect();
    let height = titles.iter().map(Vec::len).max().unwrap_or(0);
    let mut text = String::new();
    for line in 0..height {
        let mut row = " ".repeat(first);
        for (column, title) in columns.iter().zip(&titles) {
            // Titles stand at the bottom.
            let word = (line + title.len()).checked_sub(height).map_or("", |at| title[at].as_str());
            row += &format!("{word:>width$}", width = column.width);
        }
        text += row.trim_end();
        text.push('\n');
    }
    for (place, arm) in headline.rows.iter().enumerate() {
        let control = if arm.role == Role::Control { "·" } else { " " };
        let mut row = format!("{control} {:<width$}", arm.arm, width = first - 2);
        for column in columns {
            row += &format!("{:>width$}", column.cells[place], width = column.width);
        }
        text += row.trim_end();
        text.push('\n');
    }
    text
}

/// A title in lines of at most `width` characters, broken at spaces.
fn wrapped(title: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in title.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
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
            assert!(text.contains(&format!("n = {walks}\n")), "{text}");
            text.lines().find(|line| line.contains("nearest-pose")).unwrap().to_owned()
        };
        assert!(line(1).ends_with("−0.50 (one clip)"), "{}", line(1));
        assert!(line(4).ends_with("−0.50 (−0.50 to −0.50)"), "{}", line(4));
        assert!(line(5).ends_with("−0.50 (−0.50 to −0.50)*"), "{}", line(5));
    }

    #[test]
    fn probes_have_their_own_titles_and_stand_behind_the_first() {
        let mut results = results(5);
        results.descriptions = vec![Metric::share("sharp", "Sharp edges").titled("sharp")];
        let arm = results.arms.get_mut("far-multi").unwrap();
        for (id, value) in [("sharp", 0.25), ("unnamed", 3.0), ("ssim", 0.5)] {
            arm.insert(id.to_owned(), Interval::of(&[value; 5], 0));
        }
        let headline = Headline::of(&results);
        let titles: Vec<String> =
            values(&headline, &["psnr", "ssim"]).into_iter().map(|column| column.title).collect();
        assert_eq!(titles, ["rollout PSNR", "sharp", "rollout SSIM"]);
        let text = table(&results, &["psnr", "ssim"]);
        let line = text.lines().find(|line| line.contains("far-multi  ")).unwrap();
        assert!(line.contains(" 25.0 ") && !text.contains("unnamed"), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_a_terminal_and_no_value_is_lost() {
        let mut results = results(24);
        results.arms.insert("far-vision-frozen".into(), results.arms["far-multi"].clone());
        let wide = Interval { mean: 1.18, lo: 0.15, hi: 9.36, n: 24 };
        for (place, id) in COLUMNS.iter().enumerate() {
            for arm in results.arms.values_mut() {
                let values: Vec<f64> = (0..24)
                    .map(|walk| 11.11 * (place + 1) as f64 + 0.01 * f64::from(walk))
                    .collect();
                arm.insert((*id).into(), Interval::of(&values, 0));
            }
        }
        results.arms.get_mut("nearest-pose").unwrap().insert("recall_quality".into(), wide);
        let text = table(&results, &COLUMNS);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{} characters: {line}", line.chars().count());
        }
        for value in ["22.3", "33.4", "44.5", "1.18 †", "† the interval", "far-multi minus it"]
        {
            assert!(text.contains(value), "{value} is missing:\n{text}");
        }
    }
}

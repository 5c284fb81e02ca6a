//! A table of arms and metrics for the terminal.

use far_eval::{Headline, Results, Role, Verdict};

/// Titles of standard metrics, in the order of importance; those of probes bring their own and stand
/// behind the first.
const COLUMNS: [(&str, &str); 7] = [
    ("recall_quality", "recall quality"),
    ("psnr", "rollout PSNR"),
    ("psnr_closure", "at closure"),
    ("one_step_psnr", "one step"),
    ("ssim", "SSIM"),
    ("lpips", "LPIPS"),
    ("psnr_raw", "to raw frame"),
];

/// Prints the arms' values of the standard metrics that are `shown` and of probes, and the learned arm's paired gains.
pub fn print(results: &Results, shown: &[&str]) {
    let headline = Headline::of(results);
    let standard = COLUMNS.iter().filter(|(id, _)| shown.contains(id));
    let standard = standard.filter_map(|(id, title)| Some((headline.column(id)?, *title)));
    let metrics = headline.metrics.iter().enumerate();
    let probes = metrics.filter_map(|(column, metric)| Some((column, metric.title.as_deref()?)));
    let mut columns: Vec<(usize, &str)> = standard.collect();
    let behind = columns.len().min(1);
    columns.splice(behind..behind, probes);
    print!("  {:<14}", "");
    columns.iter().for_each(|(_, title)| print!(" {title:>14}"));
    let learned = headline.learned.as_deref().unwrap_or("learned");
    println!("   {learned} minus it, PSNR");
    for row in &headline.rows {
        let control = if row.role == Role::Control { "·" } else { " " };
        print!("{control} {:<14}", row.arm);
        for (column, _) in &columns {
            let cell = row.cells[*column].as_ref();
            print!(" {:>14}", cell.map_or("–", |cell| &cell.text));
        }
        let paired = headline.paired.iter().find(|paired| paired.arm == row.arm);
        let psnr = headline.column("psnr");
        if let Some(cell) = psnr.and_then(|psnr| paired?.cells[psnr].as_ref()) {
            let star = if cell.verdict == Verdict::Undecided { " " } else { "*" };
            print!("   {:>6} {}{star}", cell.text, cell.interval);
        }
        println!();
    }
    println!("\n  * the 95 % interval over walks excludes zero     · a control, not a contender");
    println!(
        "  recall quality: 0 is chance, 1 the best by utility with at most one memory per chunk"
    );
}

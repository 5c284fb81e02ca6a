//! A table of arms and metrics for the terminal.

use far_eval::{Headline, Results, Role, Verdict};
use std::collections::BTreeSet;

/// Metrics in the order of what matters; they are called as everywhere.
const COLUMNS: [&str; 10] = [
    "recall_quality",
    "state_surface",
    "state_container",
    "counterfactual",
    "psnr",
    "psnr_closure",
    "one_step_psnr",
    "ssim",
    "lpips",
    "psnr_raw",
];

/// Prints the arms' values of the metrics that are `shown`, and the learned arm's paired gains.
pub fn print(results: &Results, shown: &[&str]) {
    let headline = Headline::of(results);
    let wanted = COLUMNS.iter().filter(|id| shown.contains(id));
    let columns: Vec<usize> = wanted.filter_map(|id| headline.column(id)).collect();
    print!("  {:<14}", "");
    columns.iter().for_each(|column| print!(" {:>14}", headline.metrics[*column].label));
    let learned = headline.learned.as_deref().unwrap_or("learned");
    let psnr = headline.column("psnr");
    match psnr {
        Some(psnr) => println!("   {learned} minus it, {}", paired_title(&headline, psnr)),
        None => println!(),
    }
    for row in &headline.rows {
        let control = if Role::of(&row.arm) == Role::Control { "·" } else { " " };
        print!("{control} {:<14}", row.arm);
        for column in &columns {
            let cell = row.cells[*column].as_ref();
            print!(" {:>14}", cell.map_or("–", |cell| &cell.text));
        }
        let paired = headline.paired.iter().find(|paired| paired.arm == row.arm);
        if let Some(cell) = psnr.and_then(|psnr| paired?.cells[psnr].as_ref()) {
            let star = if cell.verdict.is_decided() { "*" } else { " " };
            print!("   {:>6} {}{star}", cell.text, cell.interval);
        }
        println!();
    }
    let fewest = Verdict::FEWEST_CLIPS;
    println!(
        "\n  * the 95 % interval over n ≥ {fewest} walks excludes zero     · a control, not a contender"
    );
    println!(
        "  recall quality: 0 is chance, 1 the best by utility with at most one memory per chunk"
    );
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

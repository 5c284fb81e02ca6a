//! A table of arms and metrics for the terminal.

use far_eval::{Headline, Results, Role, Verdict};

/// Titles of metrics, in the order of importance.
const COLUMNS: [(&str, &str); 10] = [
    ("recall_quality", "recall quality"),
    ("state_surface", "surfaces"),
    ("state_container", "containers"),
    ("counterfactual", "histories"),
    ("psnr", "rollout PSNR"),
    ("psnr_closure", "at closure"),
    ("one_step_psnr", "one step"),
    ("ssim", "SSIM"),
    ("lpips", "LPIPS"),
    ("psnr_raw", "to raw frame"),
];

/// Prints the arms' values of the metrics that are `shown`, and the learned arm's paired gains.
pub fn print(results: &Results, shown: &[&str]) {
    let headline = Headline::of(results);
    let wanted = COLUMNS.iter().filter(|(id, _)| shown.contains(id));
    let columns: Vec<(usize, &str)> =
        wanted.filter_map(|(id, title)| Some((headline.column(id)?, *title))).collect();
    print!("  {:<14}", "");
    columns.iter().for_each(|(_, title)| print!(" {title:>14}"));
    let learned = headline.learned.as_deref().unwrap_or("learned");
    println!("   {learned} minus it, PSNR");
    for row in &headline.rows {
        let control = if Role::of(&row.arm) == Role::Control { "·" } else { " " };
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

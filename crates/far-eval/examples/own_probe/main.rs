//! A probe of one's own, added by one file (`sharpness.rs`). `docs/adding-a-probe.md` walks through it.
//!
//! ```sh
//! cargo run --release -p far-eval --example own_probe -- runs/probe
//! ```

mod sharpness;
mod walk;

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(folder) = std::env::args().nth(1).map(PathBuf::from) else {
        eprintln!("usage: own_probe FOLDER");
        std::process::exit(2);
    };
    let results = walk::evaluate(&folder)?;
    let metric = results.metric("sharpness");
    println!("{}: {}", metric.label, metric.note);
    for (arm, values) in &results.arms {
        if let Some(value) = values.get("sharpness") {
            println!("{arm:<14} {}", metric.text(value.mean));
        }
    }
    println!("far report {} shows it among the probes", folder.display());
    Ok(())
}

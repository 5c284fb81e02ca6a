//! A cue of one's own: the touch of an uneven floor, added by one file (`touch.rs`) and used by
//! `far-multi` beside poses and times. `docs/adding-a-cue.md` walks through it.
//!
//! ```sh
//! cargo run --release -p far-train --example touch_cue -- runs/floors
//! ```

mod experiment;
mod touch;
mod walk;

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next().map(PathBuf::from) else {
        eprintln!("usage: touch_cue FOLDER [STEPS]");
        std::process::exit(2);
    };
    let steps = arguments.next().map_or(Ok(800), |steps| steps.parse())?;
    let (data, run) = (folder.join("data"), folder.join("run"));
    if !data.join("episodes.arrow").exists() {
        walk::write(&data, 24)?;
    }
    let (results, replays) = experiment::run(&data, &run, steps)?;
    for metric in ["recall_quality", "psnr"] {
        if let Some(value) = results.arms["far-multi"].get(metric) {
            println!("{metric}: {:.2} ({:.2} to {:.2})", value.mean, value.lo, value.hi);
        }
    }
    for (cue, weight) in experiment::mean_weights(&replays, "far-multi") {
        println!("weight of {cue}: {weight:.2}");
    }
    println!("far report {} shows what was recalled, and why", run.display());
    Ok(())
}

//! `far bench tokenizer`: encoding pictures and decoding latents.

use super::engine::EngineArguments;
use super::json_peer;
use super::world_model_run::{conclude, measure};
use super::yardstick::{Work, Yardstick, normal};
use crate::hint::Hint;
use crate::progress;
use clap::Args;
use far_model::{Autoencoder, AutoencoderConfig, AutoencoderStructure, TaesdStructure};
use far_tensor::{Tape, Tensor};
use serde_json::json;

/// What to measure and how.
#[derive(Args)]
pub struct Arguments {
    /// Weights of the TAESD family: a file, a name in the cache or `far`; random ones of taef2's structure
    /// if left out.
    #[arg(long)]
    weights: Option<String>,
    /// Width and height of the pictures, multiples of 16.
    #[arg(long, value_delimiter = ',', num_args = 1..=2, default_values_t = [128, 128])]
    resolution: Vec<usize>,
    /// Pictures at a time, one measurement each.
    #[arg(long, value_delimiter = ',', default_values_t = [64])]
    batch: Vec<usize>,
    #[command(flatten)]
    engine: EngineArguments,
    /// Seconds to measure each case for.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// A command that prints JSON lines with `direction`, `batch`, `shape`, `dtype` and `median_s`, to
    /// compare with; the fastest line of a case counts.
    #[arg(long)]
    peer: Option<String>,
}

/// Runs the benchmark.
///
/// # Errors
/// If the weights cannot be read, the device cannot be used or has no room, or the peer fails.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.batch.is_empty() || arguments.batch.contains(&0) {
        return Err(Hint::error("there is nothing to measure", "give --batch 1 or more"));
    }
    let [width, height] = match arguments.resolution[..] {
        [width, height] => [width, height],
        _ => [arguments.resolution[0]; 2],
    };
    let peers = arguments.peer.as_deref().map(json_peer::run).transpose()?;
    let engine = arguments.engine.open()?;
    let config = AutoencoderConfig { resolution: [width, height], ..AutoencoderConfig::default() };
    let tokenizer = match &arguments.weights {
        Some(weights) => {
            let config = AutoencoderConfig { weights: weights.clone(), ..config };
            Autoencoder::load(config, &engine.device)?
        }
        None => {
            let taef2 = AutoencoderStructure::Taesd(TaesdStructure::TAEF2);
            Autoencoder::untrained(taef2, config, 0, &engine.device)?
        }
    };
    let AutoencoderStructure::Taesd(structure) = *tokenizer.structure() else {
        let hint = "give the weights of one, such as far or taef2";
        return Err(Hint::error("only autoencoders of the TAESD family have a known floor", hint));
    };
    let bar = progress::bar(2 * arguments.batch.len() as u64, "cases");
    let yardstick = Yardstick::measure(&engine, &bar)?;
    let [rows, columns] = [height, width].map(|side| side / TaesdStructure::REDUCTION);
    for &batch in &arguments.batch {
        let pictures = normal([batch, height, width, 3].into(), "pictures", 0)?;
        let latents = normal([batch, rows, columns, structure.channels].into(), "latents", 0)?;
        for (direction, x) in [("encode", &pictures), ("decode", &latents)] {
            bar.set_message(direction);
            bar.tick();
            x.prepare(&engine.device)?;
            let once = || {
                let outcome = engine.device.run(|| {
                    let mut tape = Tape::inference(&engine.device);
                    match direction {
                        "encode" => tokenizer.encode_tensor(&mut tape, x),
                        _ => tokenizer.decode_tensor(&mut tape, x),
                    }
                });
                Ok(outcome?)
            };
            let mut line = engine.line(&format!("{width}x{height}"));
            line["direction"] = json!(direction);
            line["batch"] = json!(batch);
            let seconds = measure(&engine, &mut line, arguments.seconds, once)?;
            let rate = batch as f64 / seconds;
            line["frames_per_s"] = json!(rate);
            let work = work(structure, x, engine.number_bytes());
            yardstick.judge(&mut line, work, seconds);
            if let Some(lines) = &peers {
                json_peer::compare(&mut line, lines, &["shape", "dtype", "direction", "batch"])?;
            }
            let title = format!("{direction} {batch} pictures");
            let titles = [title, format!("  pictures          {rate:>9.1} per second")];
            conclude((&engine, &arguments.engine), &bar, line, "batch", titles, once)?;
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// What one batch cannot do without: every convolution multiplies, reads its input and writes its
/// output. `x` is what goes in, pictures or latents.
fn work(structure: TaesdStructure, x: &Tensor, number_bytes: f64) -> Work {
    let TaesdStructure { channels, width, blocks, looks_at_all } = structure;
    let encodes = x.shape().last() == 3;
    let blocks = blocks[usize::from(!encodes)];
    let places = x.shape().rows() as f64;
    let (largest, smallest) =
        if encodes { (places, places / 64.0) } else { (places * 64.0, places) };
    let mut work = Work::default();
    let mut add = |pixels: f64, taps: usize, [inputs, outputs]: [usize; 2], count: usize| {
        let count = count as f64;
        work.operations += count * 2.0 * pixels * (taps * inputs * outputs) as f64;
        work.bytes += count * pixels * (inputs + outputs) as f64 * number_bytes;
    };
    // The ends, the block at the pictures' resolution and the attention over everything.
    add(largest, 9, [3, width], 1);
    add(largest, 9, [width, width], 3);
    add(smallest, 9, [width, channels], 1);
    add(smallest, 1, [width, 4 * width], if looks_at_all { 2 * blocks } else { 0 });
    // Three stages of some blocks and a convolution that halves or doubles. Over doubled pixels, the four
    // pixels that one becomes are each a sum over windows of 2 × 2.
    for stage in 0..3 {
        let pixels = smallest * f64::from(1 << (2 * stage));
        add(pixels, 9, [width, width], 3 * blocks);
        let (taps, outputs) = if encodes { (9, width) } else { (4, 4 * width) };
        add(pixels, taps, [width, outputs], 1);
    }
    work
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_of_128_pixels_takes_about_eight_billion_operations() {
        let structure = TaesdStructure::TAEF2;
        let encoded = work(structure, &Tensor::zeros([1, 128, 128, 3]), 2.0);
        assert!((7.4e9..7.9e9).contains(&encoded.operations), "{encoded:?}");
        // Decoding, the three convolutions between stages have four times four taps instead of nine.
        let decoded = work(structure, &Tensor::zeros([1, 16, 16, 32]), 2.0);
        let between: f64 = [1.0, 4.0, 16.0].iter().map(|pixels| pixels * 256.0).sum();
        let more = between * 2.0 * 7.0 * 64.0 * 64.0;
        assert!((decoded.operations - encoded.operations - more).abs() < 1.0, "{decoded:?}");
    }
}

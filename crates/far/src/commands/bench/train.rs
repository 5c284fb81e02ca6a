//! `far bench train`: forward, backward and AdamW of the world model's network.

use super::json_peer::{load_average, median};
use crate::hint::Hint;
use clap::{Args, ValueEnum};
use far_model::{BlockConfig, ModulationStart, TokenDit, TokenDitConfig};
use far_tensor::{AdamWConfig, ArenaBuilder, Device, Random, Shape, Tape, Tensor, Trained};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Instant;

/// Per-token channels at the input and the output.
const CHANNELS: usize = 16;

/// What to measure and how.
#[derive(Args)]
pub struct Arguments {
    /// Size of the network and of the batch.
    #[arg(long, value_enum, default_value_t = ShapeName::Small)]
    shape: ShapeName,
    /// Where to run.
    #[arg(long, value_enum, default_value_t = DeviceName::Cpu)]
    device: DeviceName,
    /// Threads to use.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Steps in each round; the first third warms up.
    #[arg(long, default_value_t = 30)]
    steps: usize,
    /// Rounds; with a peer, each runs the peer and then this engine.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// A command that prints JSON lines with `shape` and `median_s`, to compare with.
    #[arg(long)]
    peer: Option<String>,
    /// Print one JSON line instead of a table.
    #[arg(long)]
    json: bool,
}

/// The shapes that peers are measured with.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ShapeName {
    /// Depth 4, width 128, batch 8 of 5 frames of 16 tokens.
    Small,
    /// Depth 6, width 256, batch 16 of 5 frames of 16 tokens.
    Medium,
    /// Depth 6, width 256, batch 64 of 5 frames of 64 tokens.
    GpuSmall,
    /// Depth 12, width 768, batch 32 of 5 frames of 256 tokens.
    Paper,
}

/// Devices this build can use.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum DeviceName {
    Cpu,
}

#[derive(Clone, Copy)]
struct Sizes {
    depth: usize,
    width: usize,
    heads: usize,
    batch: usize,
    frames: usize,
    tokens: usize,
}

impl ShapeName {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn sizes(self) -> Sizes {
        let [depth, width, heads, batch, frames, tokens] = match self {
            Self::Small => [4, 128, 4, 8, 5, 16],
            Self::Medium => [6, 256, 4, 16, 5, 16],
            Self::GpuSmall => [6, 256, 4, 64, 5, 64],
            Self::Paper => [12, 768, 12, 32, 5, 256],
        };
        Sizes { depth, width, heads, batch, frames, tokens }
    }
}

impl Sizes {
    /// Floating-point operations of one step in matrix products and attention; the backward of a
    /// product costs two more, that of attention two and a half (it computes the scores again).
    fn operations(&self) -> f64 {
        let Self { depth, width, batch, frames, tokens, .. } = *self;
        let rows = (batch * frames * tokens) as f64;
        let wide = width as f64;
        let block = 2.0 * rows * 12.0 * wide * wide + 2.0 * batch as f64 * 6.0 * wide * wide;
        let ends = 2.0 * rows * 2.0 * wide * CHANNELS as f64;
        let attention = |keys: usize| 4.0 * rows * keys as f64 * wide;
        let global = depth / 2;
        let scores = (depth - global) as f64 * attention(tokens)
            + global as f64 * attention(frames * tokens);
        3.0 * (depth as f64 * block + ends) + 3.5 * scores
    }
}

/// Runs the benchmark.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.steps < 3 || arguments.rounds == 0 {
        return Err(Hint::error(
            "there is nothing to measure",
            "give --steps 3 or more and --rounds 1 or more",
        ));
    }
    let shape = arguments.shape.name();
    let device = Device::with_threads(arguments.threads.max(1));
    let mut runner = Runner::new(arguments.shape.sizes(), device.clone())?;
    let (mut medians, mut fastest, mut peers) = (Vec::new(), f64::INFINITY, Vec::new());
    for _ in 0..arguments.rounds {
        if let Some(command) = &arguments.peer {
            peers.push(peer_median(command, &shape)?);
        }
        let times = device.run(|| runner.round(arguments.steps))?;
        fastest = times.iter().copied().fold(fastest, f64::min);
        medians.push(median(&times));
    }
    let rate = device.run(|| large_product_rate(&device))?;
    let profile = device.run(|| runner.profile(arguments.steps.min(10)))?;
    let best = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let mut line = json!({
        "engine": "far",
        "device": "cpu",
        "threads": arguments.threads,
        "shape": shape,
        "dtype": "f32",
        "median_s": best,
        "min_s": fastest,
        "gflops": arguments.shape.sizes().operations() / best / 1e9,
        "large_gemm_gflops": rate,
        "round_medians_s": medians,
        "load_average": load_average(),
        "profile": profile,
    });
    if !peers.is_empty() {
        let peer_best = peers.iter().copied().fold(f64::INFINITY, f64::min);
        let ratios: Vec<f64> = medians.iter().zip(&peers).map(|(far, peer)| far / peer).collect();
        line["peer_medians_s"] = json!(peers);
        line["ratio"] = json!(best / peer_best);
        line["median_ratio"] = json!(median(&ratios));
    }
    if arguments.json {
        println!("{line}");
    } else {
        print_table(&line);
    }
    Ok(())
}

fn peer_median(command: &str, shape: &str) -> anyhow::Result<f64> {
    let lines = super::json_peer::run(command)?;
    let line = lines.iter().find(|line| line["shape"] == shape && line["median_s"].is_number());
    line.and_then(|line| line["median_s"].as_f64()).ok_or_else(|| {
        Hint::error(
            format!("the peer printed no line with \"shape\": \"{shape}\" and \"median_s\""),
            "benches/peers/torch_dit.py shows what a peer prints",
        )
    })
}

/// The network with its optimizer and its batches.
struct Runner {
    sizes: Sizes,
    network: TokenDit,
    trained: Trained,
    device: Device,
    step: u64,
}

impl Runner {
    fn new(sizes: Sizes, device: Device) -> anyhow::Result<Self> {
        // The peer's block: affine norms, one modulation per sample, no QK-norm, modulation not
        // zero, so that no branch is trivially cheap.
        let block = BlockConfig {
            affine: true,
            query_key_norm: false,
            modulation: ModulationStart::Random,
            epsilon: 1e-5,
            ..BlockConfig::new(sizes.width, sizes.heads)
        };
        let mut builder = ArenaBuilder::new("bench");
        let config = TokenDitConfig { depth: sizes.depth, channels: CHANNELS, block };
        let network = TokenDit::new(&mut builder, config);
        let optimizer = AdamWConfig {
            epsilon: 1e-8,
            weight_decay: 0.01,
            clip: None,
            warm_up: 0,
            average_decay: None,
            ..AdamWConfig::default()
        };
        let trained = Trained::new(builder.build(0), optimizer);
        Ok(Self { sizes, network, trained, device, step: 0 })
    }

    /// Seconds of each step after the first third.
    fn round(&mut self, steps: usize) -> far_tensor::Result<Vec<f64>> {
        let mut times = Vec::with_capacity(steps);
        for _ in 0..steps {
            times.push(self.one_step()?);
        }
        Ok(times.split_off(steps / 3))
    }

    fn one_step(&mut self) -> far_tensor::Result<f64> {
        let Sizes { width, batch, frames, tokens, .. } = self.sizes;
        let x = normal([batch, frames, tokens, CHANNELS].into(), "x", self.step)?;
        let condition = normal([batch, width].into(), "condition", self.step)?;
        self.step += 1;
        let start = Instant::now();
        let network = &self.network;
        self.trained.step(&self.device, 1, |tape, parameters, _| {
            let y = network.forward(tape, parameters, &x, &condition)?;
            tape.squared_error(&y, &x, None)
        })?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Milliseconds of a step by kind of work.
    fn profile(&mut self, steps: usize) -> far_tensor::Result<BTreeMap<&'static str, f64>> {
        let profiled = self.device.profiled();
        let plain = std::mem::replace(&mut self.device, profiled);
        let mut total = 0.0;
        for _ in 0..steps {
            total += self.one_step()?;
        }
        let profiled = std::mem::replace(&mut self.device, plain);
        let spent = profiled.profile().map(|profile| profile.take()).unwrap_or_default();
        let mut kinds = BTreeMap::new();
        let milliseconds = 1e3 / steps as f64;
        let mut known = 0.0;
        for (operation, time) in spent {
            let kind = match operation {
                "linear" | "linear_gelu" | "feed_forward" => "linear_ms",
                "self_attention" => "attention_ms",
                _ => "elementwise_ms",
            };
            known += time.as_secs_f64();
            *kinds.entry(kind).or_default() += time.as_secs_f64() * milliseconds;
        }
        kinds.insert("optimizer_and_tape_ms", (total - known) * milliseconds);
        Ok(kinds)
    }
}

fn normal(shape: Shape, purpose: &str, step: u64) -> far_tensor::Result<Tensor> {
    let mut values = vec![0.0; shape.elements()];
    Random::stream(0, purpose, step).fill_normal(&mut values);
    Tensor::from_slice(&values, shape)
}

/// GFLOP/s of a large matrix product: the ceiling of everything else.
fn large_product_rate(device: &Device) -> far_tensor::Result<f64> {
    const SIDE: usize = 1536;
    let x = normal([SIDE, SIDE].into(), "left", 0)?;
    let weight = normal([SIDE, SIDE].into(), "right", 0)?;
    let mut times = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        Tape::inference(device).linear(&x, &weight, None)?;
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(2.0 * (SIDE * SIDE * SIDE) as f64 / median(&times) / 1e9)
}

fn print_table(line: &Value) {
    let number = |key: &str| line[key].as_f64().unwrap_or(f64::NAN);
    let shape = line["shape"].as_str().unwrap_or_default();
    println!("one training step, shape {shape}, {} threads", line["threads"]);
    println!("  median            {:>9.2} ms", 1e3 * number("median_s"));
    println!("  fastest           {:>9.2} ms", 1e3 * number("min_s"));
    println!("  rate              {:>9.1} GFLOP/s", number("gflops"));
    println!("  a large product   {:>9.1} GFLOP/s", number("large_gemm_gflops"));
    if line["ratio"].is_number() {
        println!("  against the peer  {:>9.3} × its time", number("ratio"));
    }
    if let Some(profile) = line["profile"].as_object() {
        for (kind, time) in profile {
            let kind = kind.trim_end_matches("_ms").replace('_', " ");
            println!("  {kind:<22}{:>5.2} ms", time.as_f64().unwrap_or(f64::NAN));
        }
    }
}

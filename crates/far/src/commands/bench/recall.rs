//! `far bench recall`: how long a recall takes, and how close that is to what the machine allows.

use super::floor::Floor;
use super::peer::{self, Peer};
use super::recall_fixture::{self, Fixture};
use super::timing::Timings;
use crate::hint::Hint;
use anyhow::Context;
use far_memory::policy::PolicyConfig;
use far_memory::{Recall, RecallPolicy, RetrieverConfig, ScorerConfig, Scratch, SetConfig};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// Fewest timings a median is taken from.
const FEWEST_ROUNDS: usize = 11;
/// Recalls before the first timing.
const WARM_UP: usize = 3;

/// What is measured.
#[derive(clap::Args)]
pub struct Arguments {
    /// Records in the memory.
    #[arg(long, default_value_t = 1000)]
    memories: usize,
    /// Cues of the retriever, out of meta and vision.
    #[arg(long, value_delimiter = ',', default_value = "meta,vision")]
    cues: Vec<String>,
    /// The recall rule.
    #[arg(long, default_value = "far")]
    policy: String,
    /// Memories to recall.
    #[arg(long, default_value_t = 8)]
    slots: usize,
    /// Numbers in a vision key.
    #[arg(long, default_value_t = 256)]
    dimension: usize,
    /// Layers of the metadata network, 2 or 3.
    #[arg(long, default_value_t = 2)]
    layers: usize,
    /// Width of the metadata network.
    #[arg(long, default_value_t = 128)]
    width: usize,
    /// Consecutive records of which at most one is recalled.
    #[arg(long, default_value_t = 10)]
    chunk: usize,
    /// Recall slot by slot, each memory given those before it, instead of one per chunk.
    #[arg(long)]
    sets: bool,
    /// Threads for `far`, the yardsticks and the peer.
    #[arg(long, default_value_t = NonZeroUsize::MIN)]
    threads: NonZeroUsize,
    /// Seconds to measure for.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seed of the memory, the weights and the queries.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A program that does the same work, measured turn by turn, for instance
    /// "python benches/peers/faiss_flat.py".
    #[arg(long)]
    peer: Option<String>,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    fn has_cue(&self, name: &str) -> bool {
        self.cues.iter().any(|cue| cue == name)
    }

    /// The retriever's configuration, which also says what a peer has to do.
    fn retriever_config(&self) -> anyhow::Result<RetrieverConfig> {
        if let Some(unknown) = self.cues.iter().find(|cue| !["meta", "vision"].contains(&&***cue)) {
            let hint = "use --cues meta, --cues vision or --cues meta,vision";
            return Err(Hint::error(format!("there is no cue {unknown:?} to measure"), hint));
        }
        let mut config = RetrieverConfig::meta_and_vision(self.dimension);
        config.cues.retain(|cue| self.has_cue(&cue.name));
        config.chunk_size = self.chunk;
        config.set = self.sets.then(|| SetConfig {
            length_scale: 4.0,
            time_scale: 1.0,
            key: self.has_cue("vision").then(|| "vision".to_owned()),
            abstains: true,
        });
        for cue in &mut config.cues {
            if let ScorerConfig::Metadata { layers, width, .. } = &mut cue.scorer {
                (*layers, *width) = (self.layers, self.width);
            }
        }
        Ok(config)
    }
}

/// Runs the benchmark and prints its result.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let retriever = recall_fixture::retriever(arguments.retriever_config()?, arguments.seed)?
        .with_threads(arguments.threads.get());
    let operations = match arguments.policy.as_str() {
        "far" => (retriever.operations_per_memory() * arguments.memories) as f64,
        _ => 0.0,
    };
    let dimension = arguments.has_cue("vision").then_some(arguments.dimension);
    let fixture = recall_fixture::build(arguments.memories, dimension, arguments.seed)?;
    let cue = dimension.is_some().then(|| fixture.snapshot.schema().index("vision")).transpose()?;

    let folder = tempfile::tempdir().context("cannot make a folder for the peer")?;
    let peer = match &arguments.peer {
        Some(command) => {
            let queries = &fixture.queries;
            let spinner = ProgressBar::new_spinner().with_message("starting the peer");
            spinner.enable_steady_tick(Duration::from_millis(100));
            peer::export(folder.path(), &fixture.snapshot, cue, queries, &retriever)?;
            let peer =
                Peer::start(command, folder.path(), arguments.slots, arguments.threads.get())?;
            // It must not tick while anything is measured.
            spinner.finish_and_clear();
            Some(peer)
        }
        None => None,
    };
    let policy: Box<dyn RecallPolicy> = match arguments.policy.as_str() {
        "far" => Box::new(retriever),
        id => PolicyConfig::from_id(id)
            .and_then(PolicyConfig::build)
            .map_err(|error| Hint::error(error.to_string(), "use --policy far or one of those"))?,
    };
    let measured = measure(arguments, &fixture, policy.as_ref(), cue, peer)?;
    let result = measured.result(arguments, operations);
    if arguments.json {
        println!("{result}");
    } else {
        print_table(&result);
    }
    Ok(())
}

struct Measured {
    recall: Timings,
    peer: Option<(Timings, f64)>,
    floor: Floor,
}

fn measure(
    arguments: &Arguments,
    fixture: &Fixture,
    policy: &dyn RecallPolicy,
    cue: Option<usize>,
    mut peer: Option<Peer>,
) -> anyhow::Result<Measured> {
    let Fixture { snapshot, queries } = fixture;
    let mut floor = Floor::new(arguments.threads.get());
    let (mut scratch, mut recall) = (Scratch::new(), Recall::new());
    let (mut timings, mut peer_timings) = (Timings::default(), Timings::default());
    let mut once = |query: usize, recall: &mut Recall| {
        policy.recall(snapshot, &queries[query], arguments.slots, &mut scratch, recall)
    };
    for query in 0..WARM_UP {
        once(query, &mut recall)?;
        if let Some(peer) = &mut peer {
            peer.ask(query)?;
        }
    }
    let (mut agreed, mut asked) = (0, 0);
    let bar = ProgressBar::new((arguments.seconds.max(0.0) * 1000.0) as u64)
        .with_style(ProgressStyle::with_template("measuring {wide_bar} {eta}")?);
    let start = Instant::now();
    for round in 0.. {
        bar.set_position(start.elapsed().as_millis() as u64);
        let enough = timings.count() >= FEWEST_ROUNDS;
        if enough && start.elapsed().as_secs_f64() > arguments.seconds {
            break;
        }
        let query = round % queries.len();
        let clock = Instant::now();
        once(query, &mut recall)?;
        timings.add(clock.elapsed());
        if let Some(peer) = &mut peer {
            let answer = peer.ask(query)?;
            peer_timings.add(answer.elapsed());
            asked += recall.len();
            agreed += recall.ids().zip(&answer.ids).filter(|(own, other)| own.0 == **other).count();
        }
        // Small memories give thousands of rounds; the yardsticks need only some tens.
        if round < FEWEST_ROUNDS || round % 64 == 0 || arguments.memories > 50_000 {
            floor.measure(snapshot, cue);
        }
    }
    bar.finish_and_clear();
    let agreement = if asked == 0 { 1.0 } else { agreed as f64 / asked as f64 };
    let peer = peer.map(|_| (peer_timings, agreement));
    Ok(Measured { recall: timings, peer, floor })
}

impl Measured {
    fn result(&self, arguments: &Arguments, operations: f64) -> Value {
        let (p50, floor) = (self.recall.median(), self.floor.micros(operations));
        let mut result = json!({
            "policy": arguments.policy,
            "memories": arguments.memories,
            "cues": arguments.cues,
            "slots": arguments.slots,
            "threads": arguments.threads.get(),
            "recalls": self.recall.count(),
            "p50_us": rounded(p50),
            "p99_us": rounded(self.recall.quantile(0.99)),
            "gb_per_s": rounded(self.floor.bytes() as f64 / p50 * 1e-3),
            "read_gb_per_s": rounded(self.floor.read_rate()),
            "gemm_gflop_per_s": rounded(self.floor.multiply_rate()),
        });
        if arguments.policy == "far" {
            result["floor_us"] = rounded(floor);
            result["floor_ratio"] = rounded(p50 / floor);
        }
        if let Some((timings, agreement)) = &self.peer {
            result["peer_p50_us"] = rounded(timings.median());
            result["peer_p99_us"] = rounded(timings.quantile(0.99));
            result["peer_ratio"] = rounded(p50 / timings.median());
            result["peer_agreement"] = rounded(*agreement);
        }
        result
    }
}

/// Three digits after the point are plenty.
fn rounded(value: f64) -> Value {
    json!((value * 1000.0).round() / 1000.0)
}

fn print_table(result: &Value) {
    let number = |key: &str| result[key].as_f64().unwrap_or(0.0);
    println!(
        "{} over {} memories, {} thread(s), {} recalls",
        result["policy"].as_str().unwrap_or(""),
        result["memories"],
        result["threads"],
        result["recalls"]
    );
    println!("  median             {:>12.1} µs", number("p50_us"));
    println!("  99 %               {:>12.1} µs", number("p99_us"));
    println!("  keys read          {:>12.2} GB/s", number("gb_per_s"));
    println!("  plain read         {:>12.2} GB/s", number("read_gb_per_s"));
    println!("  matrix product     {:>12.2} GFLOP/s", number("gemm_gflop_per_s"));
    if result.get("floor_us").is_some() {
        println!("  floor              {:>12.1} µs", number("floor_us"));
        println!("  median / floor     {:>12.2}", number("floor_ratio"));
    }
    if result.get("peer_p50_us").is_some() {
        println!("  peer median        {:>12.1} µs", number("peer_p50_us"));
        println!("  median / peer      {:>12.3}", number("peer_ratio"));
        println!("  same choices       {:>12.3}", number("peer_agreement"));
    }
}

//! `far bench world`: frames per second of each world on one thread or more.

use std::time::Instant;

use clap::Args;
use far_world::{Channels, Frame, Recording, Renderer, World};

use super::super::world::{explain, find};

/// What to measure.
#[derive(Args)]
#[command(after_help = "Example: far bench world --json")]
pub struct Arguments {
    /// Only this world.
    #[arg(long)]
    world: Option<String>,
    /// Width and height of the frames in pixels.
    #[arg(long, default_value_t = 64)]
    size: u32,
    /// Threads that render side by side.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Seconds to render per world.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Print one JSON line per world.
    #[arg(long)]
    json: bool,
}

/// Measures rendering: colors and visible faces of frames spread over eight episodes.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let worlds = match &arguments.world {
        Some(name) => vec![find(name)?],
        None => far_world::worlds().to_vec(),
    };
    for world in worlds {
        let threads = arguments.threads.max(1);
        let rates: Vec<anyhow::Result<f64>> = std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..threads).map(|_| scope.spawn(|| measure(world, arguments))).collect();
            workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
        });
        let rate = rates.into_iter().sum::<anyhow::Result<f64>>()?;
        let size = arguments.size;
        if arguments.json {
            println!(
                "{}",
                serde_json::json!({
                    "world": world.name(), "size": size, "threads": threads, "frames_per_s": rate.round(),
                })
            );
        } else {
            println!("{:10} {size}x{size}, {threads} threads: {rate:.0} frames/s", world.name());
        }
    }
    Ok(())
}

/// Frames per second of one thread.
fn measure(world: &dyn World, arguments: &Arguments) -> anyhow::Result<f64> {
    let recording = Recording::new(world, None, 0, arguments.size).map_err(explain)?;
    let mut moments = Vec::new();
    for id in 0..8 {
        let mut episode = world.episode(&recording, id).map_err(explain)?;
        for step in 0..8 {
            let index = (episode.course().poses.len() - 1) * step / 7;
            moments.push((episode.scene(index).clone(), episode.course().poses[index]));
        }
    }
    let (camera, size) = (world.camera(), arguments.size as usize);
    let mut renderer = Renderer::default();
    let mut frame = Frame::with_channels(Channels { faces: true, ..Channels::default() });
    let (begin, mut frames) = (Instant::now(), 0u64);
    while begin.elapsed().as_secs_f64() < arguments.seconds.max(0.1) {
        for (scene, pose) in &moments {
            renderer.render(scene, pose, &camera, size, size, &mut frame);
            frames += 1;
        }
    }
    Ok(frames as f64 / begin.elapsed().as_secs_f64())
}

//! The least time that some work can take: its operations at the rate of a large matrix product and
//! its bytes at the rate of a plain copy, both measured on the same device in the same run.

use super::engine::Engine;
use super::json_peer::median;
use far_tensor::{Random, Shape, Tape, Tensor};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// What some work cannot do without.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Floating-point operations in matrix products and attention.
    pub operations: f64,
    /// Bytes of memory read and written.
    pub bytes: f64,
}

/// What the device can do at best.
pub struct Yardstick {
    operations_per_s: f64,
    bytes_per_s: f64,
}

impl Yardstick {
    /// Measures the device, as the bar then says; takes a second or two.
    ///
    /// # Errors
    /// If a GPU has no room or has failed.
    pub fn measure(engine: &Engine, bar: &ProgressBar) -> anyhow::Result<Self> {
        bar.set_message("measuring the device");
        bar.tick();
        let device = &engine.device;
        let bytes_per_s = device.copy_rate()?;
        let operations_per_s = device.run(|| product_rate(engine))?;
        device.forget_peak();
        Ok(Self { operations_per_s, bytes_per_s })
    }

    /// Adds the rates, the floor of some work and the share of it that `seconds` reach.
    pub fn judge(&self, line: &mut Value, work: Work, seconds: f64) {
        let operations_s = work.operations / self.operations_per_s;
        let bytes_s = work.bytes / self.bytes_per_s;
        line["gflops"] = json!(work.operations / seconds / 1e9);
        line["large_gemm_gflops"] = json!(self.operations_per_s / 1e9);
        line["copy_gb_per_s"] = json!(self.bytes_per_s / 1e9);
        line["operations"] = json!(work.operations);
        line["bytes"] = json!(work.bytes);
        line["floor_operations_s"] = json!(operations_s);
        line["floor_bytes_s"] = json!(bytes_s);
        line["floor_s"] = json!(operations_s + bytes_s);
        line["share"] = json!((operations_s + bytes_s) / seconds);
    }

    /// Prints what [`Yardstick::judge`] found.
    pub fn print(line: &Value) {
        let number = |key: &str| line[key].as_f64().unwrap_or(f64::NAN);
        println!(
            "  floor             {:>9.2} ms: {:.1} GFLOP at {:.0} GFLOP/s, {:.2} GB at {:.0} GB/s",
            1e3 * number("floor_s"),
            number("operations") / 1e9,
            number("large_gemm_gflops"),
            number("bytes") / 1e9,
            number("copy_gb_per_s"),
        );
        println!("  floor / median    {:>9.2}", number("share"));
    }
}

/// A tensor of normal numbers; beyond a million they repeat.
pub fn normal(shape: Shape, purpose: &str, number: u64) -> far_tensor::Result<Tensor> {
    let mut values = vec![0.0; shape.elements().min(1 << 20)];
    Random::stream(0, purpose, number).fill_normal(&mut values);
    let values: Vec<f32> = values.iter().copied().cycle().take(shape.elements()).collect();
    Tensor::from_slice(&values, shape)
}

/// Operations per second of a large matrix product in the engine's precision.
fn product_rate(engine: &Engine) -> far_tensor::Result<f64> {
    let device = &engine.device;
    let (side, products) = if device.is_cuda() { (8192, 8) } else { (1536, 1) };
    let x = normal([side, side].into(), "left", 0)?;
    let weight = normal([side, side].into(), "right", 0)?;
    let run = || -> far_tensor::Result<f64> {
        device.synchronize()?;
        let start = Instant::now();
        for _ in 0..products {
            Tape::inference(device).linear(&x, &weight, None)?;
        }
        device.synchronize()?;
        Ok(start.elapsed().as_secs_f64() / products as f64)
    };
    // The first loads libraries, and clocks take a moment to rise.
    let warm = Instant::now();
    while run()? > 0.0 && warm.elapsed() < Duration::from_millis(200) {}
    let times = (0..7).map(|_| run()).collect::<far_tensor::Result<Vec<f64>>>()?;
    Ok(2.0 * (side as f64).powi(3) / median(&times))
}

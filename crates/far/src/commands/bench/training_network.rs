//! The network that training is measured with, its optimizer and its batches.

use super::network_shape::{CHANNELS, Sizes};
use super::yardstick::normal;
use far_model::{BlockConfig, ModulationStart, Pass, TokenDit, TokenDitConfig};
use far_tensor::{AdamWConfig, ArenaBuilder, Device, Tensor, Trained};

/// Batches that take turns.
const BATCHES: usize = 4;

/// The network in training.
pub struct TrainingNetwork {
    network: TokenDit,
    /// Parameters and optimizer.
    pub trained: Trained,
    batches: Vec<[Tensor; 2]>,
    device: Device,
    step: usize,
}

impl TrainingNetwork {
    /// A fresh network, whose batches are on the device already; the same for all devices.
    ///
    /// # Errors
    /// If a GPU has no room.
    pub fn new(sizes: Sizes, device: &Device) -> far_tensor::Result<Self> {
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
        let Sizes { width, batch, frames, .. } = sizes;
        let batches = (0..BATCHES as u64).map(|number| {
            let x = normal([batch, frames, sizes.tokens(), CHANNELS].into(), "x", number)?;
            let condition = normal([batch, width].into(), "condition", number)?;
            x.prepare(device)?;
            condition.prepare(device)?;
            Ok([x, condition])
        });
        let batches = batches.collect::<far_tensor::Result<_>>()?;
        device.synchronize()?;
        Ok(Self { network, trained, batches, device: device.clone(), step: 0 })
    }

    /// One step to its end on the device; gives the loss.
    ///
    /// # Errors
    /// If the loss is not finite or a GPU has no room.
    pub fn step(&mut self) -> far_tensor::Result<f32> {
        let [x, condition] = &self.batches[self.step % BATCHES];
        self.step += 1;
        let network = &self.network;
        let step = self.trained.step(&self.device, 1, |tape, parameters, _| {
            let y = network.forward(&mut Pass::new(tape, parameters), x, condition)?;
            tape.squared_error(&y, x, None)
        })?;
        self.device.synchronize()?;
        Ok(step.loss)
    }
}

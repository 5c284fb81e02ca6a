//! QueryViT: a frame and an action to a direction, z [T, C] and a → h with ‖h‖ = 1.
//!
//! A vision transformer over the tokens of a latent frame and one learned token \[CLS\] before them.
//! The action is told by adaLN: c = MLP(action) or, where none was taken, a learned vector ∅;
//! every block and the last norm are shifted and scaled by it. One network serves both sides:
//! keys k = enc(z, ∅), which can be made once and kept, and queries h = enc(z, a).
//!
//! Gates begin at one, not at zero as in the world model: behind closed gates \[CLS\] would pass
//! unchanged, every key and query would be the same vector, and the gradient of a cosine between
//! parallel vectors is exactly zero, so that learning would never begin.

use crate::layer::Linear;
use crate::layer::Pass;
use crate::world_model::block::{Block, Grouping};
use crate::world_model::block_config::{BlockConfig, ModulationStart};
use crate::{ActionFeatures, Error, LatentShape, Result};
use far_tensor::{
    Activation, ArenaBuilder, Initialization, Modulation, ParameterId, Tensor, position_table,
};

/// Lengths below this count as this when a key is scaled to length one.
const SHORTEST: f32 = 1e-6;

far_memory::settings! {
    /// The settings of a [`QueryVit`]; the defaults are the paper's.
    #[derive(Copy, Eq)]
    pub struct QueryVitConfig {
        /// Transformer blocks. Paper: 6.
        pub depth: usize = 6,
        /// Channels of a token, a multiple of 4. Paper: 384.
        pub width: usize = 384,
        /// Attention heads, which divide the width. Paper: 12.
        pub heads: usize = 12,
        /// Numbers of a key. Paper: 256.
        pub key: usize = 256,
    }
}

impl QueryVitConfig {
    /// Checks that the settings make a network.
    ///
    /// # Errors
    /// Names the setting that does not.
    pub fn validate(&self) -> Result<()> {
        let wrong = |setting, reason: String| Err(Error::Setting { setting, reason });
        let Self { depth, width, heads, key } = *self;
        for (setting, value) in [("encoder.depth", depth), ("encoder.key", key)] {
            if value == 0 {
                return wrong(setting, "must be at least 1".into());
            }
        }
        if width == 0 || !width.is_multiple_of(4) {
            return wrong("encoder.width", format!("{width} is not a positive multiple of 4"));
        }
        if heads == 0 || !width.is_multiple_of(heads) {
            return wrong("encoder.heads", format!("{heads} does not divide the width {width}"));
        }
        Ok(())
    }

    /// At most as many parameters as the network has; infinite rather than wrong.
    pub(crate) fn least_parameters(&self) -> f64 {
        let Self { depth, width, key, .. } = *self;
        let [depth, width, key] = [depth, width, key].map(|size| size as f64);
        width * (18.0 * depth * width + key)
    }
}

/// The encoder's network; its parameters live in the arena it was built into.
pub struct QueryVit {
    config: QueryVitConfig,
    positions: Tensor,
    input: Linear,
    class: ParameterId,
    null_action: ParameterId,
    action: [Linear; 2],
    blocks: Vec<Block>,
    modulation: Linear,
    head: Linear,
}

impl QueryVit {
    /// Adds the parameters of a network over latents of that shape and actions with so many signals.
    ///
    /// # Errors
    /// If the settings or the shape do not make a network.
    pub fn new(
        builder: &mut ArenaBuilder,
        config: QueryVitConfig,
        shape: LatentShape,
        signals: usize,
    ) -> Result<Self> {
        config.validate()?;
        if !shape.is_valid() {
            let reason = format!("{shape:?} is not cut into whole patches");
            return Err(Error::Setting { setting: "latent", reason });
        }
        let QueryVitConfig { depth, width, heads, key } = config;
        let [rows, columns] = shape.grid();
        let block = BlockConfig {
            query_key_norm: false,
            modulation: ModulationStart::Open,
            ..BlockConfig::new(width, heads)
        };
        let (zero, xavier) = (Initialization::Zero, Initialization::Xavier);
        let features = ActionFeatures::LENGTH + signals;
        let mut linear =
            |name: &str, sizes, weight| Linear::new(builder, name, sizes, weight, zero);
        let input = linear("x_embedder", [shape.token_width(), width], xavier);
        let action = [
            linear("action_embedder.mlp.0", [features, width], xavier),
            linear("action_embedder.mlp.2", [width, width], xavier),
        ];
        let modulation = linear("final_layer.adaLN_modulation.1", [width, 2 * width], zero);
        let head = linear("final_layer.linear", [width, key], xavier);
        let small = Initialization::Normal(0.02);
        Ok(Self {
            config,
            positions: position_table(rows, columns, width)?,
            input,
            class: builder.parameter("cls_token", [1, width], small),
            null_action: builder.parameter("null_action", [1, width], Initialization::Normal(1.0)),
            action,
            blocks: (0..depth)
                .map(|index| Block::new(builder, &format!("blocks.{index}"), block))
                .collect(),
            modulation,
            head,
        })
    }

    /// Frames [n, T, C] with the actions taken there [n, 8 + signals], or with none (keys) → directions
    /// [n, key] of length one.
    ///
    /// # Errors
    /// If a shape does not fit.
    pub fn forward(
        &self,
        pass: &mut Pass<'_>,
        frames: &Tensor,
        actions: Option<&Tensor>,
    ) -> far_tensor::Result<Tensor> {
        let width = self.config.width;
        let condition = match actions {
            Some(actions) => {
                let [first, second] = &self.action;
                let hidden = first.forward(pass, actions)?;
                let hidden = pass.activate(&hidden, Activation::Silu)?;
                second.forward(pass, &hidden)?
            }
            None => pass.parameters.tensor(self.null_action),
        };
        let condition = pass.activate(&condition, Activation::Silu)?;

        let tokens = self.input.forward(pass, frames)?;
        let count = tokens.shape().extents()[0];
        let positions = pass.repeat(&self.positions, 0, count)?;
        let tokens = pass.add(&tokens, &positions)?;
        let class = pass.tape.repeat(&pass.parameters.tensor(self.class), 0, count)?;
        let x = pass.concat(&[&class, &tokens], 1)?;
        let (last, others) = self.blocks.split_last().expect("a network has a block");
        let grouping = Grouping { groups: count, key_mask: None };
        let x = Block::chain(others, pass, x, &condition, |_| grouping)?;

        // Only [CLS] is read, so only it goes through most of the last block.
        let modulation = last.modulate(pass, &condition)?;
        let tokens = pass.slice(&x, 1, 1..x.shape().extents()[1])?;
        let keys = last.keys(pass, &tokens, &modulation)?;
        let class = pass.slice(&x, 1, 0..1)?;
        let class = last.enter(pass, &class, modulation)?;
        let attended = last.read(pass, &class, &keys, None)?;
        let class = last.leave(pass, &class, &attended)?;

        let class = class.reshape([count, width])?;
        let vectors = self.modulation.forward(pass, &condition)?;
        let vectors = vectors.reshape([condition.shape().rows(), 2, width])?;
        let modulation = Modulation { vectors: &vectors, shift: 0, scale: 1 };
        let class = pass.modulated_norm(&class, None, modulation, 1e-6)?;
        let key = self.head.forward(pass, &class)?;
        pass.normalize_rows(&key, SHORTEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_tensor::{Device, Parameters, Random, Tape};

    const SHAPE: LatentShape = LatentShape { channels: 3, height: 4, width: 6, patch: 2 };
    const SMALL: QueryVitConfig = QueryVitConfig { depth: 2, width: 16, heads: 2, key: 8 };

    fn normal(shape: &[usize], seed: u64) -> Tensor {
        let mut values = vec![0.0; shape.iter().product()];
        Random::stream(seed, "test", 0).fill_normal(&mut values);
        Tensor::from_slice(&values, shape).unwrap()
    }

    fn fresh() -> (QueryVit, Parameters) {
        let mut builder = ArenaBuilder::new("encoder");
        let network = QueryVit::new(&mut builder, SMALL, SHAPE, 0).unwrap();
        (network, builder.build(3))
    }

    #[test]
    fn fresh_keys_differ_between_frames_and_have_length_one() {
        let (network, parameters) = fresh();
        let frames = normal(&[5, 6, 12], 1);
        let mut tape = Tape::inference(&Device::cpu());
        let keys = network.forward(&mut Pass::new(&mut tape, &parameters), &frames, None).unwrap();
        let rows: Vec<&[f32]> = keys.values().chunks(8).collect();
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        for (index, row) in rows.iter().enumerate() {
            assert!((dot(row, row) - 1.0).abs() < 1e-5);
            for other in &rows[..index] {
                assert!(dot(row, other) < 0.99, "frame {index} looks like another");
            }
        }
    }

    /// A fresh network does not know its condition, so a query is the key of the same frame; from
    /// the second update on it does, and every parameter learns.
    #[test]
    fn gradients_reach_all_parameters() {
        let (network, parameters) = fresh();
        let (frames, actions, target) =
            (normal(&[4, 6, 12], 1), normal(&[4, 8], 2), normal(&[4, 8], 3));
        let gradient = |parameters: &Parameters| {
            let mut tape = Tape::recording(&Device::cpu());
            let mut total = Vec::new();
            for actions in [None, Some(&actions)] {
                let found = network
                    .forward(&mut Pass::new(&mut tape, parameters), &frames, actions)
                    .unwrap();
                let weighted = tape.multiply(&found, &target).unwrap();
                total.push(tape.sum(&weighted).unwrap());
            }
            let loss = tape.add(&total[0], &total[1]).unwrap();
            let mut gradients = parameters.gradients();
            tape.backward(&loss, 1.0, &mut [&mut gradients]).unwrap();
            gradients.completed().to_vec()
        };
        let untouched = |parameters: &Parameters| -> Vec<String> {
            let slopes = parameters.with_values(&gradient(parameters)).unwrap();
            let zero = |name: &str| {
                let slope = slopes.tensor(slopes.find(name).unwrap());
                slope.values().iter().all(|slope| *slope == 0.0)
            };
            let names = parameters.named().map(|(name, _)| name.to_owned());
            names.filter(|name| zero(name)).collect()
        };
        let waiting = untouched(&parameters);
        assert!(
            waiting.iter().all(|name| name.contains("action")),
            "only the condition may wait for the first update, but {waiting:?} do"
        );
        let slopes = gradient(&parameters);
        let moved: Vec<f32> =
            parameters.values().iter().zip(&slopes).map(|(x, slope)| x - 0.01 * slope).collect();
        let (_, mut parameters) = fresh();
        parameters.values_mut().unwrap().copy_from_slice(&moved);
        assert_eq!(untouched(&parameters), Vec::<String>::new());
    }

    #[test]
    fn settings_that_make_no_network_are_named() {
        let refused = |config: QueryVitConfig, shape: LatentShape| {
            let built = QueryVit::new(&mut ArenaBuilder::new("encoder"), config, shape, 0);
            built.err().expect("it is refused").to_string()
        };
        assert!(refused(QueryVitConfig { heads: 3, ..SMALL }, SHAPE).contains("encoder.heads"));
        assert!(refused(QueryVitConfig { width: 18, ..SMALL }, SHAPE).contains("encoder.width"));
        assert!(refused(QueryVitConfig { depth: 0, ..SMALL }, SHAPE).contains("encoder.depth"));
        assert!(refused(QueryVitConfig { key: 0, ..SMALL }, SHAPE).contains("encoder.key"));
        assert!(refused(SMALL, LatentShape { width: 5, ..SHAPE }).contains("latent"));
    }

    /// The paper's size: 12·D² weights per block for attention and MLP, 6·D² for the modulation.
    #[test]
    fn the_papers_encoder_has_16_million_parameters() {
        let mut builder = ArenaBuilder::new("encoder");
        let shape = LatentShape { channels: 4, height: 32, width: 32, patch: 2 };
        QueryVit::new(&mut builder, QueryVitConfig::default(), shape, 0).unwrap();
        let count = builder.build(0).count();
        assert!((16_000_000..17_000_000).contains(&count), "{count}");
        assert!(QueryVitConfig::default().least_parameters() <= count as f64);
    }
}

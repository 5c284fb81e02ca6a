//! One whole block and ten training steps against PyTorch (`scripts/make_dit_fixtures.py`).

#[path = "../../far-tensor/tests/fixture/mod.rs"]
mod fixture;

use far_model::{Block, BlockConfig, Grouping, ModulationStart, Pass, TokenDit, TokenDitConfig};
use far_tensor::{
    AdamWConfig, ArenaBuilder, Checkpoint, Device, Matching, Parameters, Tape, Tensor, Trained,
};
use fixture::{Fixture, assert_near};
use std::path::Path;

fn fixture_path(name: &str) -> String {
    format!("{}/tests/fixtures/{name}.safetensors", env!("CARGO_MANIFEST_DIR"))
}

/// Loads PyTorch's own state under a prefix, as a user would.
fn load(parameters: &mut Parameters, name: &str, prefix: &str) {
    let mut checkpoint = Checkpoint::open(Path::new(&fixture_path(name))).unwrap();
    checkpoint.load_parameters(prefix, parameters, Matching::Strict).unwrap();
}

#[test]
fn one_block_agrees_with_pytorch() {
    let fixture = Fixture::load("block");
    let mut builder = ArenaBuilder::new("block");
    let block = Block::new(&mut builder, "block", BlockConfig::new(16, 2));
    let mut parameters = builder.build(0);
    load(&mut parameters, "block", "");

    let mut tape = Tape::recording(&Device::cpu());
    let tokens = tape.variable(&fixture.tensor("tokens"));
    let condition = tape.variable(&fixture.tensor("condition"));
    let activated = tape.activate(&condition, far_tensor::Activation::Silu).unwrap();
    let mask = fixture.tensor("mask");
    let grouping = Grouping { groups: 2, key_mask: Some(&mask) };
    let output = block
        .forward(&mut Pass::new(&mut tape, &parameters), &tokens, &activated, grouping)
        .unwrap();
    assert_near("output", output.values(), fixture.tensor("output").values(), 1e-5);

    let weighted = tape.multiply(&output, &fixture.tensor("weights")).unwrap();
    let loss = tape.sum(&weighted).unwrap();
    let mut arena = parameters.gradients();
    let gradients = tape.backward(&loss, 1.0, &mut [&mut arena]).unwrap();
    for (name, variable) in [("tokens", &tokens), ("condition", &condition)] {
        let expected = fixture.tensor(&format!("gradient.{name}"));
        assert_near(name, gradients.of(variable).unwrap(), expected.values(), 2e-5);
    }
    // Parameters' gradients, read through the same layout as the parameters themselves.
    let flat = arena.completed().to_vec();
    let found = parameters.with_values(&flat).unwrap();
    let mut expected = ArenaBuilder::new("expected");
    Block::new(&mut expected, "gradient.block", BlockConfig::new(16, 2));
    let mut expected = expected.build(0);
    load(&mut expected, "block", "");
    let names: Vec<String> = parameters.named().map(|(name, _)| name.to_owned()).collect();
    for name in names {
        let found = found.tensor(found.find(&name).unwrap());
        let wanted = expected.tensor(expected.find(&format!("gradient.{name}")).unwrap());
        if name.ends_with("k_norm.bias") {
            // It shifts all scores of a query alike: the true gradient is zero.
            assert!(found.values().iter().all(|x| x.abs() < 1e-6), "{name}: {found:?}");
        } else {
            assert_near(&name, found.values(), wanted.values(), 2e-5);
        }
    }
}

#[test]
fn ten_training_steps_agree_with_pytorch() {
    let fixture = Fixture::load("training");
    let block = BlockConfig {
        affine: true,
        query_key_norm: false,
        modulation: ModulationStart::Random,
        ..BlockConfig::new(16, 2)
    };
    let build = || {
        let mut builder = ArenaBuilder::new("network");
        let network = TokenDit::new(&mut builder, TokenDitConfig { depth: 2, channels: 4, block });
        (network, builder.build(0))
    };
    let (network, mut parameters) = build();
    load(&mut parameters, "training", "start.");
    let config = AdamWConfig {
        learning_rate: 1e-3,
        epsilon: 1e-6,
        weight_decay: 0.01,
        clip: None,
        warm_up: 0,
        ..AdamWConfig::default()
    };
    let mut trained = Trained::new(parameters, config);
    let device = Device::cpu();
    let (tokens, conditions) = (fixture.tensor("tokens"), fixture.tensor("conditions"));
    let losses = fixture.tensor("losses");
    for (step, expected) in losses.values().iter().enumerate() {
        let x = Tensor::from_slice(&tokens.values()[step * 96..][..96], [2, 3, 4, 4]).unwrap();
        let condition =
            Tensor::from_slice(&conditions.values()[step * 32..][..32], [2, 16]).unwrap();
        let done = trained.step(&device, 1, |tape, parameters, _| {
            let y = network.forward(&mut Pass::new(tape, parameters), &x, &condition)?;
            tape.squared_error(&y, &x, None)
        });
        let loss = done.unwrap().loss;
        assert!((loss - expected).abs() <= 1e-4 * expected, "step {step}: {loss}, not {expected}");
    }
    let (_, mut expected) = build();
    load(&mut expected, "training", "end.");
    let parameters = &trained.parameters;
    let names: Vec<String> = parameters.named().map(|(name, _)| name.to_owned()).collect();
    for name in names {
        let id = parameters.find(&name).unwrap();
        let (found, wanted) = (parameters.tensor(id), expected.tensor(id));
        if name.ends_with("attn.qkv.bias") {
            // A key's bias shifts all scores of a query alike, so its true gradient is zero and
            // Adam follows rounding errors there; queries and values are compared.
            for part in [0..16, 32..48] {
                let (found, wanted) = (&found.values()[part.clone()], &wanted.values()[part]);
                assert_near(&name, found, wanted, 1e-4);
            }
        } else {
            assert_near(&name, found.values(), wanted.values(), 1e-4);
        }
    }
}

//! Attention, the modulated norm and AdamW against PyTorch (`scripts/make_dit_fixtures.py`).

mod fixture;

use far_tensor::{
    AdamW, AdamWConfig, Affine, ArenaBuilder, Attention, Device, Initialization, Modulation,
    Result, Tape, Tensor,
};
use fixture::{Fixture, assert_near, devices};

/// Runs an operation on variables and compares its value and all gradients with a fixture.
fn compare(
    fixture: &Fixture,
    names: &[&str],
    operation: impl Fn(&mut Tape, &[Tensor]) -> Result<Tensor>,
) {
    for (device, slack) in devices() {
        compare_on(device, 1e-5 * f64::from(*slack), fixture, names, &operation);
    }
}

fn compare_on(
    device: &Device,
    tolerance: f64,
    fixture: &Fixture,
    names: &[&str],
    operation: &impl Fn(&mut Tape, &[Tensor]) -> Result<Tensor>,
) {
    let mut tape = Tape::recording(device);
    let inputs: Vec<Tensor> =
        names.iter().map(|name| tape.variable(&fixture.tensor(name))).collect();
    let output = operation(&mut tape, &inputs).unwrap();
    assert_near("output", output.values(), fixture.tensor("output").values(), tolerance);
    let weighted = tape.multiply(&output, &fixture.tensor("weights")).unwrap();
    let loss = tape.sum(&weighted).unwrap();
    let gradients = tape.backward(&loss, 1.0, &mut []).unwrap();
    for (name, input) in names.iter().zip(&inputs) {
        let expected = fixture.tensor(&format!("gradient.{name}"));
        assert_near(name, gradients.of(input).unwrap(), expected.values(), tolerance);
    }
}

#[test]
fn attention_agrees_with_pytorch() {
    let fixture = Fixture::load("attention");
    let mask = fixture.tensor("mask");
    let attention = Attention { heads: 2, groups: 2, key_mask: Some(&mask) };
    compare(&fixture, &["qkv"], |tape, inputs| tape.self_attention(&inputs[0], attention));
}

#[test]
fn the_modulated_norm_agrees_with_pytorch() {
    let fixture = Fixture::load("modulated_norm");
    compare(&fixture, &["x", "scale", "offset", "vectors"], |tape, inputs| {
        let [x, scale, offset, vectors] = inputs else { unreachable!("four were given") };
        let modulation = Modulation { vectors, shift: 3, scale: 4 };
        tape.modulated_norm(x, Some(Affine { scale, offset }), modulation, 1e-6)
    });
}

#[test]
fn adamw_agrees_with_pytorch() {
    let fixture = Fixture::load("adamw");
    let mut builder = ArenaBuilder::new("parameter");
    builder.parameter("value", [48], Initialization::Zero);
    let mut parameters = builder.build(0);
    parameters.values_mut().unwrap().copy_from_slice(fixture.tensor("start").values());
    let config = AdamWConfig {
        learning_rate: 1e-2,
        weight_decay: 0.1,
        clip: Some(5.0),
        warm_up: 0,
        ..AdamWConfig::default()
    };
    let mut optimizer = AdamW::new(config, &parameters);
    let mut gradients = parameters.gradients();
    for step in fixture.tensor("gradients").values().chunks(48) {
        gradients.completed().copy_from_slice(step);
        optimizer.update(&mut parameters, &mut gradients).unwrap();
    }
    assert_near("parameter", parameters.values(), fixture.tensor("end").values(), 1e-6);
}

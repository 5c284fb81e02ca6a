//! What the tests of operations share: seeded data, comparison, finite differences.

use crate::{Device, Random, Result, Shape, Tape, Tensor};

/// Seeded normal values of a shape.
pub(crate) fn normal(shape: impl Into<Shape>, seed: u64) -> Tensor {
    let shape = shape.into();
    let mut values = vec![0.0; shape.elements()];
    Random::stream(seed, "test", 0).fill_normal(&mut values);
    Tensor::from_slice(&values, shape).expect("as many values as elements")
}

/// A seeded mask of zeros and ones.
pub(crate) fn mask(shape: impl Into<Shape>, seed: u64) -> Tensor {
    let source = normal(shape, seed);
    let values: Vec<f32> = source.values().iter().map(|x| f32::from(*x > -0.3)).collect();
    Tensor::from_slice(&values, *source.shape()).expect("as many values as elements")
}

/// Fails unless all values agree within `tolerance` times their scale (at least 1).
pub(crate) fn assert_close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len(), "lengths differ");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let scale = expected.abs().max(1.0);
        assert!(
            (found - expected).abs() <= tolerance * scale,
            "element {index}: found {found}, expected {expected}"
        );
    }
}

/// The value of an operation on an inference tape over poisoned memory.
pub(crate) fn evaluate(operation: impl FnOnce(&mut Tape) -> Result<Tensor>) -> Tensor {
    operation(&mut Tape::inference(&Device::poisoned())).expect("the operation accepts its input")
}

/// Compares the gradients of an operation with central finite differences, for every input.
///
/// The operation is applied twice to the same variables, so that its backward both writes and
/// accumulates; memory is poisoned, so that an element left unwritten shows as NaN.
pub(crate) fn check_gradients(
    inputs: &[Tensor],
    operation: impl Fn(&mut Tape, &[Tensor]) -> Result<Tensor>,
) {
    check_gradients_within(inputs, 6e-3, operation);
}

/// [`check_gradients`] with a tolerance of its own, for operations with large curvature.
pub(crate) fn check_gradients_within(
    inputs: &[Tensor],
    tolerance: f64,
    operation: impl Fn(&mut Tape, &[Tensor]) -> Result<Tensor>,
) {
    let device = Device::poisoned();
    let mut tape = Tape::recording(&device);
    let variables: Vec<Tensor> = inputs.iter().map(|input| tape.variable(input)).collect();
    let first = operation(&mut tape, &variables).expect("the operation accepts its input");
    let second = operation(&mut tape, &variables).expect("the operation accepts its input");
    let weights = normal(*first.shape(), 77);
    let mut weigh = |output: &Tensor| {
        let product = tape.multiply(output, &weights).expect("same shape");
        tape.sum(&product).expect("a sum exists")
    };
    let (left, right) = (weigh(&first), weigh(&second));
    let loss = tape.add(&left, &right).expect("two scalars");
    let gradients = tape.backward(&loss, 0.5, &mut []).expect("a scalar loss");

    let value = |inputs: &[Tensor]| -> f64 {
        let output = operation(&mut Tape::inference(&device), inputs).expect("as before");
        let products = output.values().iter().zip(weights.values());
        products.map(|(x, w)| f64::from(*x) * f64::from(*w)).sum()
    };
    const STEP: f32 = 4e-3;
    for (position, input) in inputs.iter().enumerate() {
        let zeros = vec![0.0; input.shape().elements()];
        let analytic = gradients.of(&variables[position]).unwrap_or(&zeros);
        for element in 0..input.shape().elements() {
            let moved = |delta: f32| -> f64 {
                let mut values = input.values().to_vec();
                values[element] += delta;
                let mut changed = inputs.to_vec();
                changed[position] = Tensor::from_slice(&values, *input.shape()).expect("same");
                value(&changed)
            };
            let numeric = (moved(STEP) - moved(-STEP)) / f64::from(2.0 * STEP);
            let found = f64::from(analytic[element]);
            let scale = numeric.abs().max(1.0);
            assert!(
                (found - numeric).abs() <= tolerance * scale,
                "input {position}, element {element}: gradient {found}, by differences {numeric}"
            );
        }
    }
}

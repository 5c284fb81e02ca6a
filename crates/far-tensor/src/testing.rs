//! Shared by the tests of operations: seeded data, comparison, finite differences.

use crate::{
    ArenaBuilder, Device, Initialization, ParameterId, Precision, Random, Result, Shape, Tape,
    Tensor,
};
use std::io::Write;
use std::sync::OnceLock;

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

/// GPUs of every precision with poisoned memory; without a GPU none, which is reported once.
pub(crate) fn gpus() -> &'static [(Precision, Device)] {
    static GPUS: OnceLock<Vec<(Precision, Device)>> = OnceLock::new();
    GPUS.get_or_init(|| {
        let opened = Precision::ALL.map(|precision| (precision, Device::poisoned_cuda(precision)));
        if let [(_, Err(error)), ..] = &opened {
            // Bypasses the capture of test output: a skipped check must be visible.
            let _ = writeln!(std::io::stderr(), "skipping all checks on a GPU: {error}");
        }
        let usable = opened.into_iter().filter_map(|(name, device)| Some((name, device.ok()?)));
        usable.collect()
    })
}

/// Fails unless ‖found − expected‖ is within a tolerance times ‖expected‖.
fn assert_near(found: &[f32], expected: &[f32], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: lengths differ");
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>();
    let pairs = || found.iter().zip(expected);
    // Infinities and NaN must be the same.
    let same = |a: f32, b: f32| a == b || (a.is_nan() && b.is_nan());
    let off = |(a, b): (&f32, &f32)| if same(*a, *b) { 0.0 } else { f64::from(a - b) };
    let distance = square(&mut pairs().map(off));
    let size = square(&mut expected.iter().map(|x| f64::from(*x)).filter(|x| x.is_finite()));
    // Values that cancel to nearly zero are compared with the rounding error of an element of order
    // 1.
    let bound = tolerance * (size.sqrt() + 0.1 * (expected.len() as f64).sqrt());
    assert!(distance.sqrt() <= bound, "{what}: off by {}, allowed {bound}", distance.sqrt());
}

/// The value of an operation on an inference tape over poisoned memory; GPUs must agree with it.
pub(crate) fn evaluate(operation: impl Fn(&mut Tape) -> Result<Tensor>) -> Tensor {
    let value = |device: &Device| {
        operation(&mut Tape::inference(device)).expect("the operation accepts its input")
    };
    let expected = value(&Device::poisoned());
    for (precision, device) in gpus() {
        let tolerance = match precision {
            Precision::F32 => 2e-5,
            Precision::Tf32 => 3e-3,
            Precision::Bf16 => 3e-2,
        };
        let found = value(device);
        assert_eq!(found.shape(), expected.shape());
        assert_near(found.values(), expected.values(), tolerance, precision.name());
    }
    expected
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

/// [`check_gradients`] with its own tolerance, for operations with large curvature.
pub(crate) fn check_gradients_within(
    inputs: &[Tensor],
    tolerance: f64,
    operation: impl Fn(&mut Tape, &[Tensor]) -> Result<Tensor>,
) {
    let device = Device::poisoned();
    let gradients = compare_gradients(inputs, &operation);

    let shape = *operation(&mut Tape::inference(&device), inputs).expect("as before").shape();
    let weights = normal(shape, 77);
    let value = |inputs: &[Tensor]| -> f64 {
        let output = operation(&mut Tape::inference(&device), inputs).expect("as before");
        let products = output.values().iter().zip(weights.values());
        products.map(|(x, w)| f64::from(*x) * f64::from(*w)).sum()
    };
    const STEP: f32 = 4e-3;
    for (position, input) in inputs.iter().enumerate() {
        let analytic = &gradients[position];
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

/// The gradient of the weighted sum of an operation's output for each input; the operation is
/// applied twice and the mean is taken.
fn gradients_on(
    device: &Device,
    inputs: &[Tensor],
    operation: &impl Fn(&mut Tape, &[Tensor]) -> Result<Tensor>,
) -> Vec<Vec<f32>> {
    let mut tape = Tape::recording(device);
    let variables: Vec<Tensor> = inputs.iter().map(|input| tape.variable(input)).collect();
    let loss = weighted_twice(&mut tape, &variables, operation);
    let gradients = tape.backward(&loss, 0.5, &mut []).expect("a scalar loss");
    let of = |variable: &Tensor| match gradients.of(variable) {
        Some(gradient) => gradient.to_vec(),
        None => vec![0.0; variable.shape().elements()],
    };
    variables.iter().map(of).collect()
}

/// The gradients as in [`gradients_on`] with parameters as inputs, whose gradients are f32 on any
/// device.
fn parameter_gradients_on(
    device: &Device,
    inputs: &[Tensor],
    operation: &impl Fn(&mut Tape, &[Tensor]) -> Result<Tensor>,
) -> Vec<Vec<f32>> {
    let mut builder = ArenaBuilder::new("test");
    let named = inputs.iter().enumerate();
    let ids: Vec<ParameterId> = named
        .map(|(n, input)| builder.parameter(n.to_string(), *input.shape(), Initialization::Zero))
        .collect();
    let mut arena = builder.build(1);
    for (id, input) in ids.iter().zip(inputs) {
        arena.set(*id, input.values()).expect("as many values");
    }
    let mut tape = Tape::recording(device);
    let variables: Vec<Tensor> = ids.iter().map(|id| arena.tensor(*id)).collect();
    let loss = weighted_twice(&mut tape, &variables, operation);
    let mut gradients = arena.gradients();
    tape.backward(&loss, 0.5, &mut [&mut gradients]).expect("a scalar loss");
    let ranges = gradients.ranges.clone();
    let values = gradients.completed();
    ranges.into_iter().map(|range| values[range].to_vec()).collect()
}

/// The weighted sum of the output of an operation that is applied twice.
fn weighted_twice(
    tape: &mut Tape,
    variables: &[Tensor],
    operation: &impl Fn(&mut Tape, &[Tensor]) -> Result<Tensor>,
) -> Tensor {
    let first = operation(tape, variables).expect("the operation accepts its input");
    let second = operation(tape, variables).expect("the operation accepts its input");
    let weights = normal(*first.shape(), 77);
    let mut weigh = |output: &Tensor| {
        let product = tape.multiply(output, &weights).expect("same shape");
        tape.sum(&product).expect("a sum exists")
    };
    let (left, right) = (weigh(&first), weigh(&second));
    tape.add(&left, &right).expect("two scalars")
}

/// Compares the gradients of an operation on GPUs with those on the CPU, for sizes at which finite
/// differences would take too long.
pub(crate) fn compare_gradients(
    inputs: &[Tensor],
    operation: impl Fn(&mut Tape, &[Tensor]) -> Result<Tensor>,
) -> Vec<Vec<f32>> {
    let gradients = gradients_on(&Device::poisoned(), inputs, &operation);
    for (precision, gpu) in gpus() {
        let tolerance = match precision {
            Precision::F32 => 1e-4,
            Precision::Tf32 => 6e-3,
            Precision::Bf16 => 5e-2,
        };
        let found = [
            ("input", gradients_on(gpu, inputs, &operation)),
            ("parameter", parameter_gradients_on(gpu, inputs, &operation)),
        ];
        for (kind, found) in found {
            for (position, (found, expected)) in found.iter().zip(&gradients).enumerate() {
                let what = format!("{precision}, gradient of {kind} {position}");
                assert_near(found, expected, tolerance, &what);
            }
        }
    }
    gradients
}

//! Results and gradients are the same bytes with one thread and with three.

use far_tensor::{
    Device, DiffusionTarget, NoiseSchedule, Padding, Prediction, Random, Result, Statistic, Tape,
    Tensor, Window,
};

fn normal(shape: &[usize], stream: u64) -> Tensor {
    let mut values = vec![0.0; shape.iter().product()];
    Random::stream(7, "threads", stream).fill_normal(&mut values);
    Tensor::from_slice(&values, shape).expect("as many values as elements")
}

/// The bits of the output and of the gradients of all inputs, on a device with this many threads.
fn bits(
    threads: usize,
    inputs: &[Tensor],
    operation: &(impl Fn(&mut Tape, &[Tensor]) -> Result<Tensor> + Sync),
) -> Vec<u32> {
    let device = Device::with_threads(threads);
    device.run(|| {
        let mut tape = Tape::recording(&device);
        let variables: Vec<Tensor> = inputs.iter().map(|input| tape.variable(input)).collect();
        let output = operation(&mut tape, &variables).expect("the operation accepts its input");
        let weights = normal(output.shape().extents(), 99);
        let weighted = tape.multiply(&output, &weights).expect("same shape");
        let total = tape.sum(&weighted).expect("a sum exists");
        let gradients = tape.backward(&total, 1.0, &mut []).expect("a scalar");
        let of = |variable| gradients.of(variable).expect("a gradient").iter();
        let all = output.values().iter().chain(variables.iter().flat_map(of));
        all.map(|value| value.to_bits()).collect()
    })
}

fn check(inputs: &[Tensor], operation: impl Fn(&mut Tape, &[Tensor]) -> Result<Tensor> + Sync) {
    assert_eq!(bits(1, inputs, &operation), bits(3, inputs, &operation));
}

#[test]
fn rows_do_not_depend_on_threads() {
    let x = [normal(&[300, 170], 1)];
    let target = normal(&[300, 170], 2);
    let indices: Vec<usize> = (0..900).map(|n| n * n % 300).collect();
    check(&x, |tape, x| tape.softmax(&x[0], None));
    check(&x, |tape, x| tape.log_sum_exp(&x[0], None));
    check(&x, |tape, x| tape.divergence(&target, &x[0], None));
    check(&x, |tape, x| tape.standardize(&x[0], None, 1));
    check(&x, |tape, x| tape.statistic(&x[0], None, 0, Statistic::Deviation));
    check(&x, |tape, x| tape.gather_rows(&x[0], indices.clone()));
    check(&x, |tape, x| tape.permute(&x[0], &[1, 0]));
    check(&x, |tape, x| tape.concat(&[&x[0], &x[0]], 1));
    check(&x, |tape, x| tape.repeat(&x[0], 1, 3));
    check(&x, |tape, x| tape.squared_error(&x[0], &target, None));
    check(&x, |tape, x| tape.cross_entropy_with_logits(&x[0], &target, Some(&target)));
    check(&[normal(&[30, 64], 3), normal(&[30, 40, 64], 4)], |tape, x| {
        tape.cosine(&x[0], &x[1], 1e-6)
    });
}

#[test]
fn images_do_not_depend_on_threads() {
    let inputs = [normal(&[3, 24, 20, 21], 1), normal(&[16, 24, 3, 3], 2), normal(&[16], 3)];
    check(&inputs, |tape, x| tape.convolution(&x[0], &x[1], Some(&x[2]), [1, 1], Padding::even(1)));
    let inputs = [normal(&[3, 24, 20, 21], 1), normal(&[24], 2), normal(&[24], 3)];
    check(&inputs, |tape, x| tape.group_norm(&x[0], 8, &x[1], &x[2], 1e-6));
    check(&inputs[..1], |tape, x| tape.maximum_pool(&x[0], Window::square(3, 2, 1)));
    check(&inputs[..1], |tape, x| tape.average_pool(&x[0], Window::square(3, 2, 1)));
    check(&inputs[..1], |tape, x| tape.upsample(&x[0], 2));
}

#[test]
fn the_diffusion_loss_does_not_depend_on_threads() {
    let schedule = NoiseSchedule::linear(1000, 1e-4, 2e-2).expect("a sound schedule");
    let timesteps = [0, 5, 300, 999, 40, 41, 42];
    let coefficients = timesteps.map(|timestep| {
        schedule.coefficients(timestep, Prediction::Noise).expect("a step of the schedule")
    });
    let (target, clean) = (normal(&[7, 4, 500], 1), normal(&[7, 4, 500], 2));
    check(&[normal(&[7, 8, 500], 3)], |tape, x| {
        let given = DiffusionTarget { target: &target, clean: &clean, weights: None };
        Ok(tape.diffusion_loss(&x[0], given, &coefficients, 1.0)?.loss)
    });
}

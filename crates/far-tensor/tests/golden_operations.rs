//! Values and gradients of single operations against PyTorch's.

mod fixture;

use far_tensor::{
    Device, DiffusionTarget, NoiseSchedule, Padding, Prediction, Statistic, Tape, Window,
    position_table,
};
use fixture::Fixture;

/// Relative to the largest value of each tensor.
const TOLERANCE: f32 = 3e-6;

#[test]
fn linear_matches() {
    Fixture::load("linear").check(&["x", "weight", "bias"], TOLERANCE, |tape, x| {
        // PyTorch's weight is [outputs, inputs], ours is [inputs, outputs].
        let weight = tape.permute(&x[1], &[1, 0])?;
        Ok(vec![
            ("plain", tape.linear(&x[0], &weight, Some(&x[2]))?),
            ("gelu", tape.linear_gelu(&x[0], &weight, Some(&x[2]))?),
        ])
    });
}

#[test]
fn convolution_matches() {
    let corner = Padding { right: 1, bottom: 1, ..Padding::default() };
    let wide = Padding { top: 1, bottom: 1, left: 2, right: 2 };
    Fixture::load("convolution").check(&["x", "weight", "bias"], TOLERANCE, |tape, x| {
        let (image, weight, bias) = (&x[0], &x[1], Some(&x[2]));
        Ok(vec![
            ("same", tape.convolution(image, weight, bias, [1, 1], Padding::even(1))?),
            ("strided", tape.convolution(image, weight, None, [2, 1], wide)?),
            ("right_bottom", tape.convolution(image, weight, bias, [2, 2], corner)?),
        ])
    });
}

#[test]
fn group_norm_matches() {
    Fixture::load("group_norm").check(&["x", "scale", "shift"], TOLERANCE, |tape, x| {
        Ok(vec![("y", tape.group_norm(&x[0], 3, &x[1], &x[2], 1e-6)?)])
    });
}

#[test]
fn pooling_and_upsampling_match() {
    let padding = Padding { left: 1, right: 1, ..Padding::default() };
    let window = Window { kernel: [2, 3], stride: [2, 1], padding };
    Fixture::load("pooling").check(&["x"], TOLERANCE, |tape, x| {
        Ok(vec![
            ("maximum", tape.maximum_pool(&x[0], Window::square(3, 2, 1))?),
            ("average", tape.average_pool(&x[0], window)?),
            ("upsampled", tape.upsample(&x[0], 2)?),
        ])
    });
}

#[test]
fn softmax_and_divergence_match() {
    let fixture = Fixture::load("softmax");
    let (mask, scores) = (fixture.input("mask"), fixture.input("target_scores"));
    fixture.check(&["x"], TOLERANCE, |tape, x| {
        let target = tape.softmax(&scores, Some(&mask))?;
        Ok(vec![
            ("plain", tape.softmax(&x[0], Some(&mask))?),
            ("logarithm", tape.log_softmax(&x[0], Some(&mask))?),
            ("log_sum", tape.log_sum_exp(&x[0], Some(&mask))?),
            ("divergence", tape.divergence(&target, &x[0], Some(&mask))?),
        ])
    });
}

#[test]
fn losses_match() {
    let fixture = Fixture::load("loss");
    let (target, weights) = (fixture.input("target"), fixture.input("weights"));
    fixture.check(&["x"], TOLERANCE, |tape, x| {
        Ok(vec![
            ("squared", tape.squared_error(&x[0], &target, None)?),
            ("weighted", tape.squared_error(&x[0], &target, Some(&weights))?),
            ("smooth", tape.smooth_l1(&x[0], &target, 0.7, None)?),
            ("entropy", tape.cross_entropy_with_logits(&x[0], &target, Some(&weights))?),
        ])
    });
}

#[test]
fn cosines_match() {
    Fixture::load("cosine").check(&["query", "keys"], TOLERANCE, |tape, x| {
        Ok(vec![
            ("cosine", tape.cosine(&x[0], &x[1], 1e-6)?),
            ("unit", tape.normalize_rows(&x[1], 1e-6)?),
        ])
    });
}

#[test]
fn masked_statistics_match() {
    let fixture = Fixture::load("masked");
    let mask = fixture.input("mask");
    fixture.check(&["x"], 1e-5, |tape, x| {
        let mut of = |statistic| tape.statistic(&x[0], Some(&mask), 1, statistic);
        let mut outputs = vec![
            ("mean", of(Statistic::Mean)?),
            ("variance", of(Statistic::Variance)?),
            ("deviation", of(Statistic::Deviation)?),
            ("maximum", of(Statistic::Maximum)?),
        ];
        outputs.push(("standardized", tape.standardize(&x[0], Some(&mask), 1)?));
        Ok(outputs)
    });
}

#[test]
fn sinusoidal_embeddings_match() {
    let fixture = Fixture::load("sinusoidal");
    let mut tape = Tape::inference(&Device::cpu());
    let timesteps = fixture.input("timesteps");
    let found = tape.timestep_embedding(timesteps.values(), 16).expect("an even width");
    fixture.assert_output("timesteps", found.values(), TOLERANCE);
    let found = position_table(3, 4, 16).expect("a multiple of four");
    fixture.assert_output("positions", found.values(), TOLERANCE);
}

#[test]
fn the_diffusion_loss_matches_for_noise_and_velocity() {
    let schedule = NoiseSchedule::linear(1000, 1e-4, 2e-2).expect("a sound schedule");
    for (name, prediction) in
        [("diffusion_noise", Prediction::Noise), ("diffusion_velocity", Prediction::Velocity)]
    {
        let fixture = Fixture::load(name);
        let (target, clean) = (fixture.input("target"), fixture.input("clean"));
        let weights = fixture.input("weights");
        let coefficients: Vec<_> = fixture
            .input("timesteps")
            .values()
            .iter()
            .map(|timestep| schedule.coefficients(*timestep as usize, prediction))
            .collect::<Result<_, _>>()
            .expect("timesteps of the schedule");
        fixture.check(&["output"], 2e-5, |tape, x| {
            let given = DiffusionTarget { target: &target, clean: &clean, weights: Some(&weights) };
            let found = tape.diffusion_loss(&x[0], given, &coefficients, 0.8)?;
            fixture.assert_output("error", found.error.values(), TOLERANCE);
            fixture.assert_output("bound", found.bound.values(), 2e-5);
            Ok(vec![("y", found.loss)])
        });
    }
}

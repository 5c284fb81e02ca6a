use super::*;
use crate::testing::{assert_close, check_gradients, compare_gradients, evaluate, normal};
use crate::{Activation, Device};
use proptest::prelude::*;

/// The formula, element by element; x is [batch, height, width, channels].
fn reference(x: &Tensor, filter: &Filter<'_>) -> Vec<f32> {
    let (&[batch, height, width, channels], &[outputs, _, rows, columns]) =
        (x.shape().extents(), filter.weight.shape().extents())
    else {
        panic!("four axes each")
    };
    let Filter { padding, stride, repeat, .. } = *filter;
    let tall = (height * repeat + padding.top + padding.bottom - rows) / stride[0] + 1;
    let wide = (width * repeat + padding.left + padding.right - columns) / stride[1] + 1;
    let at = |b: usize, y: usize, z: usize, c: usize| {
        let (Some(y), Some(z)) = (y.checked_sub(padding.top), z.checked_sub(padding.left)) else {
            return 0.0;
        };
        let (y, z) = (y / repeat, z / repeat);
        let inside = y < height && z < width;
        if inside { x.values()[((b * height + y) * width + z) * channels + c] } else { 0.0 }
    };
    let mut result = Vec::new();
    for n in 0..batch * tall * wide * outputs {
        let (b, r) = (n / (tall * wide * outputs), n / (wide * outputs) % tall);
        let (q, o) = (n / outputs % wide, n % outputs);
        let mut sum = filter.bias.map_or(0.0, |bias| bias.values()[o]);
        sum += filter.residual.map_or(0.0, |residual| residual.values()[n]);
        for k in 0..channels * rows * columns {
            let (c, i, j) = (k / (rows * columns), k / columns % rows, k % columns);
            sum += filter.weight.values()[o * channels * rows * columns + k]
                * at(b, r * stride[0] + i, q * stride[1] + j, c);
        }
        result.push(if filter.relu { sum.max(0.0) } else { sum });
    }
    result
}

fn turned(x: &Tensor, axes: &[usize]) -> Tensor {
    Tape::inference(&Device::cpu()).permute(x, axes).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn values_match_the_reference(
        batch in 0usize..3, channels in 1usize..20, outputs in 1usize..40,
        image in prop::array::uniform2(1usize..9), kernel in prop::array::uniform2(1usize..4),
        stride in prop::array::uniform2(1usize..4), sides in prop::array::uniform4(0usize..3),
        repeat in 1usize..3, fused in prop::array::uniform3(any::<bool>()), seed in 0u64..99,
    ) {
        let [top, bottom, left, right] = sides;
        let padding = Padding { top, bottom, left, right };
        prop_assume!(kernel[0] <= image[0] + top + bottom && kernel[1] <= image[1] + left + right);
        let x = normal([batch, image[0], image[1], channels], seed);
        let weight = normal([outputs, channels, kernel[0], kernel[1]], seed + 1);
        let bias = normal([outputs], seed + 2);
        let bias = fused[0].then_some(&bias);
        let plain = Filter { stride, padding, repeat, bias, ..Filter::same(&weight) };
        let fit = Sliding::new(&x, &plain).unwrap().fit;
        let residual = normal([batch, fit[0], fit[1], outputs], seed + 3);
        let residual = fused[1].then_some(&residual);
        let filter = Filter { residual, relu: fused[2], ..plain };
        let found = evaluate(|tape| tape.convolution_channels_last(&x, &filter));
        assert_close(found.values(), &reference(&x, &filter), 3e-5);
    }

    #[test]
    fn the_way_back_is_the_transpose(
        image in prop::array::uniform2(1usize..9), kernel in prop::array::uniform2(1usize..4),
        stride in prop::array::uniform2(1usize..4), sides in prop::array::uniform4(0usize..3),
        repeat in 1usize..3, outputs in 1usize..4, seed in 0u64..99,
    ) {
        let [top, bottom, left, right] = sides;
        let padding = Padding { top, bottom, left, right };
        prop_assume!(kernel[0] <= image[0] + top + bottom && kernel[1] <= image[1] + left + right);
        let x = normal([2, image[0], image[1], 3], seed);
        let weight = normal([outputs, 3, kernel[0], kernel[1]], seed + 1);
        // ⟨conv(x, W), d⟩ is linear in x and in W, so each gradient times its argument is the value.
        let run = |tape: &mut Tape, x: &[Tensor]| {
            let filter = Filter { stride, padding, repeat, ..Filter::same(&x[1]) };
            tape.convolution_channels_last(&x[0], &filter)
        };
        let inputs = [x, weight];
        let y = evaluate(|tape| run(tape, &inputs));
        let weights = normal(*y.shape(), 77);
        let product = |a: &[f32], b: &[f32]| -> f64 {
            a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        let value = product(y.values(), weights.values());
        for (gradient, input) in compare_gradients(&inputs, run).iter().zip(&inputs) {
            let found = product(gradient, input.values());
            prop_assert!((found - value).abs() < 1e-3 * (1.0 + value.abs()), "{found} {value}");
        }
    }
}

#[test]
fn channels_may_come_first() {
    let (x, weight, bias) = (normal([2, 3, 5, 6], 1), normal([4, 3, 3, 3], 2), normal([4], 3));
    let padding = Padding::even(1);
    let found = evaluate(|tape| tape.convolution(&x, &weight, Some(&bias), [2, 1], padding));
    let filter = Filter { bias: Some(&bias), stride: [2, 1], padding, ..Filter::same(&weight) };
    let last = turned(&x, &[0, 2, 3, 1]);
    let expected = Tensor::from_slice(&reference(&last, &filter), [2, 3, 6, 4]).unwrap();
    assert_close(found.values(), turned(&expected, &[0, 3, 1, 2]).values(), 2e-5);
}

#[test]
fn many_channels_and_outputs_match_the_reference() {
    for (channels, outputs, kernel) in [(64, 64, 3), (72, 100, 1), (40, 3, 3), (3, 70, 5)] {
        let (x, weight) =
            (normal([2, 17, 19, channels], 1), normal([outputs, channels, kernel, kernel], 2));
        for stride in [1, 2] {
            let filter = Filter { stride: [stride; 2], ..Filter::same(&weight) };
            let found = evaluate(|tape| tape.convolution_channels_last(&x, &filter));
            assert_close(found.values(), &reference(&x, &filter), 1e-4);
        }
    }
}

/// Pixels doubled under a window, with what each kernel of a GPU takes: few and odd channels, few outputs,
/// images of one pixel, of less than a tile and of several; results of even and of odd extents.
#[test]
fn windows_over_repeated_pixels_match_the_reference() {
    let odd = Padding { top: 1, bottom: 0, left: 1, right: 2 };
    for (image, channels, outputs) in [
        ([1, 1], 64, 64),
        ([17, 9], 64, 64),
        ([5, 7], 32, 24),
        ([3, 4], 72, 100),
        ([6, 5], 40, 3),
        ([4, 3], 3, 70),
        ([5, 5], 20, 17),
    ] {
        for padding in [Padding::even(1), odd] {
            let x = normal([2, image[0], image[1], channels], 1);
            let (weight, bias) = (normal([outputs, channels, 3, 3], 2), normal([outputs], 3));
            let plain = Filter { padding, repeat: 2, ..Filter::same(&weight) };
            let fit = Sliding::new(&x, &plain).unwrap().fit;
            let residual = normal([2, fit[0], fit[1], outputs], 4);
            let fused =
                Filter { bias: Some(&bias), residual: Some(&residual), relu: true, ..plain };
            for filter in [plain, fused] {
                let found = evaluate(|tape| tape.convolution_channels_last(&x, &filter));
                assert_close(found.values(), &reference(&x, &filter), 1e-4);
            }
        }
    }
}

/// More tiles than all multiprocessors take in one turn.
#[test]
fn gpus_agree_on_large_images_of_repeated_pixels() {
    let (x, weight) = (normal([9, 64, 72, 64], 1), normal([64, 64, 3, 3], 2));
    let filter = Filter { repeat: 2, relu: true, ..Filter::same(&weight) };
    evaluate(|tape| tape.convolution_channels_last(&x, &filter));
}

#[test]
fn gradients_match_differences() {
    let inputs = [normal([2, 4, 5, 2], 1), normal([3, 2, 3, 2], 2), normal([3], 3)];
    let uneven = Padding { top: 0, bottom: 1, left: 2, right: 1 };
    for (stride, padding, repeat) in
        [([1, 1], Padding::even(1), 1), ([2, 3], uneven, 1), ([1, 1], Padding::even(1), 2)]
    {
        for biased in [true, false] {
            check_gradients(&inputs[..2 + usize::from(biased)], |tape, x| {
                let filter =
                    Filter { stride, padding, repeat, bias: x.get(2), ..Filter::same(&x[1]) };
                tape.convolution_channels_last(&x[0], &filter)
            });
        }
    }
}

#[test]
fn what_is_fused_has_the_gradients_of_what_it_replaces() {
    let inputs =
        [normal([2, 6, 5, 4], 1), normal([7, 4, 3, 3], 2), normal([7], 3), normal([2, 6, 5, 7], 4)];
    let fused = compare_gradients(&inputs, |tape, x| {
        let filter =
            Filter { bias: Some(&x[2]), residual: Some(&x[3]), relu: true, ..Filter::same(&x[1]) };
        tape.convolution_channels_last(&x[0], &filter)
    });
    let plain = compare_gradients(&inputs, |tape, x| {
        let filter = Filter { bias: Some(&x[2]), ..Filter::same(&x[1]) };
        let y = tape.convolution_channels_last(&x[0], &filter)?;
        let y = tape.add(&y, &x[3])?;
        tape.activate(&y, Activation::Relu)
    });
    for (fused, plain) in fused.iter().zip(&plain) {
        assert_close(fused, plain, 1e-5);
    }
}

#[test]
fn gpus_agree_on_gradients_of_wide_images() {
    for (channels, outputs, kernel) in
        [(8, 16, 3), (64, 72, 3), (96, 80, 1), (3, 24, 3), (24, 3, 3)]
    {
        let inputs = [
            normal([3, 16, 18, channels], 1),
            normal([outputs, channels, kernel, kernel], 2),
            normal([outputs], 3),
        ];
        for (stride, repeat) in [(1, 1), (2, 1), (1, 2)] {
            let run = |tape: &mut Tape, x: &[Tensor]| {
                let (bias, stride) = (Some(&x[2]), [stride; 2]);
                let filter = Filter { stride, repeat, bias, ..Filter::same(&x[1]) };
                tape.convolution_channels_last(&x[0], &filter)
            };
            evaluate(|tape| run(tape, &inputs));
            compare_gradients(&inputs, run);
        }
    }
}

/// Images of several tiles, of less than one, and of more than all multiprocessors take in one turn.
#[test]
fn gpus_agree_on_what_is_fused_over_tiles_of_images() {
    for (batch, image, channels, outputs) in
        [(2, [33, 17], 64, 64), (3, [5, 7], 32, 24), (9, [64, 72], 64, 64)]
    {
        let inputs = [
            normal([batch, image[0], image[1], channels], 1),
            normal([outputs, channels, 3, 3], 2),
            normal([outputs], 3),
            normal([batch, image[0], image[1], outputs], 4),
        ];
        let run = |tape: &mut Tape, x: &[Tensor], relu: bool| {
            let (bias, residual) = (Some(&x[2]), Some(&x[3]));
            let filter = Filter { bias, residual, relu, ..Filter::same(&x[1]) };
            tape.convolution_channels_last(&x[0], &filter)
        };
        evaluate(|tape| run(tape, &inputs, true));
        if batch < 9 {
            // Rounding turns the sign of a few sums, and a ReLU passes their whole gradient or nothing.
            compare_gradients(&inputs, |tape, x| run(tape, x, false));
        }
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let mut tape = Tape::inference(&Device::cpu());
    let (x, weight) = (normal([1, 2, 4, 4], 1), normal([3, 1, 3, 3], 1));
    let error = tape.convolution(&x, &weight, None, [1, 1], Padding::even(0)).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("convolution: [1, 4, 4, 2] does not fit [3, 1, 3, 3]"), "{text}");
    let weight = normal([3, 2, 5, 5], 1);
    assert!(tape.convolution(&x, &weight, None, [1, 1], Padding::even(0)).is_err());
    assert!(tape.convolution(&x, &weight, None, [0, 1], Padding::even(2)).is_err());
    assert!(
        tape.convolution(&normal([2, 4, 4], 1), &weight, None, [1, 1], Padding::even(2)).is_err()
    );
    let residual = normal([1, 2, 4, 3], 1);
    let filter = Filter { residual: Some(&residual), ..Filter::same(&weight) };
    assert!(tape.convolution_channels_last(&normal([1, 4, 4, 2], 1), &filter).is_err());
    assert!(
        tape.convolution_channels_last(
            &normal([1, 4, 4, 2], 1),
            &Filter { repeat: 0, ..Filter::same(&weight) }
        )
        .is_err()
    );
}

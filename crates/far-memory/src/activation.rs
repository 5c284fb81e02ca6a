//! The nonlinear functions of the scorers: plain references and vector versions with bounded error.
//!
//! The polynomials are minimax fits (Remez exchange in double precision, coefficients rounded to
//! f32) made for this file; the tests sweep the whole range and state the largest error.

use pulp::Simd;

/// GELU in the tanh form: `x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))`. The reference.
pub fn gelu_reference(x: f32) -> f32 {
    let x = f64::from(x);
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
    (0.5 * x * (1.0 + inner.tanh())) as f32
}

/// `sign(x)·ln(1 + |x|)`: nearly linear for small gaps, logarithmic for large ones. The reference.
pub fn signed_log_reference(x: f32) -> f32 {
    x.abs().ln_1p().copysign(x)
}

/// Beyond this |x| the difference between GELU and the hinge `max(x, 0)` is taken as constant.
const GELU_REACH: f32 = 4.7;

/// `z·(1 − Φ(z))` for `z` in [0, `GELU_REACH`], in powers of `z − GELU_REACH/2`, lowest first.
const GELU_TAIL: [f32; 14] = [
    2.168_974_5e-2,
    -5.046_476e-2,
    4.515_811_8e-2,
    -1.459_505_1e-2,
    -4.923_927e-3,
    5.954_003_4e-3,
    -1.759_646_7e-3,
    -1.647_65e-4,
    2.550_055_5e-4,
    -4.824_158e-5,
    -1.320_666_9e-5,
    5.344_759_3e-6,
    2.155_108_2e-7,
    -1.886_550_8e-7,
];

/// `exp(r)` for |r| ≤ ln(2)/2, lowest power first.
const EXP: [f32; 7] = [1.0, 1.0, 0.5, 0.166_664_14, 0.041_666_083, 0.008_375_213, 0.001_395_619];

/// `ln(1 + f)/f` for `f` in [√½ − 1, √2 − 1], lowest power first.
const LOG: [f32; 8] = [
    0.999_999_94,
    -0.500_003_46,
    0.333_356_08,
    -0.249_715_6,
    0.198_842_35,
    -0.172_124_25,
    0.163_381_47,
    -0.103_787_19,
];

/// Polynomials with the lowest power first, by Horner's rule, for several vectors in lockstep: the
/// steps of one vector depend on each other, those of the others hide their latency.
#[inline(always)]
fn polynomial<S: Simd, const N: usize, const V: usize>(
    simd: S,
    x: [S::f32s; V],
    coefficients: &[f32; N],
) -> [S::f32s; V] {
    let mut sums = [simd.splat_f32s(coefficients[N - 1]); V];
    for &coefficient in coefficients[..N - 1].iter().rev() {
        let coefficient = simd.splat_f32s(coefficient);
        for (sum, x) in sums.iter_mut().zip(x) {
            *sum = simd.mul_add_e_f32s(*sum, x, coefficient);
        }
    }
    sums
}

/// GELU (tanh form) of several vectors, absolute error below 2e-6. It is the hinge `max(x, 0)` less
/// an even bump, and the bump is a polynomial: no exponential, no division. NaN stays NaN.
#[inline(always)]
pub(crate) fn gelu<S: Simd, const V: usize>(simd: S, x: [S::f32s; V]) -> [S::f32s; V] {
    let (zero, half) = (simd.splat_f32s(0.0), simd.splat_f32s(0.5 * GELU_REACH));
    let mut centered = x;
    for centered in &mut centered {
        *centered = simd.min_f32s(simd.sub_f32s(simd.abs_f32s(*centered), half), half);
    }
    let mut values = polynomial(simd, centered, &GELU_TAIL);
    for (value, x) in values.iter_mut().zip(x) {
        *value = simd.sub_f32s(simd.max_f32s(zero, x), *value);
    }
    values
}

/// `exp(x)` for x in [−87, 87], relative error below 3e-7; the argument must be in range.
#[inline(always)]
fn exp<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    // Adding 1.5·2²³ rounds to an integer and leaves it in the low bits of the sum.
    let magic = simd.splat_f32s(12_582_912.0);
    let log2_e = simd.splat_f32s(std::f32::consts::LOG2_E);
    let shifted = simd.mul_add_f32s(x, log2_e, magic);
    let whole = simd.sub_f32s(shifted, magic);
    // ln(2) in two parts keeps the remainder exact where the product would round.
    let rest = simd.mul_add_f32s(whole, simd.splat_f32s(-0.693_145_75), x);
    let rest = simd.mul_add_f32s(whole, simd.splat_f32s(-1.428_606_8e-6), rest);
    let [fraction] = polynomial(simd, [rest], &EXP);
    let bits = simd.transmute_u32s_f32s(shifted);
    let exponent = simd.wrapping_dyn_shl_u32s(bits, simd.splat_u32s(23));
    simd.transmute_f32s_u32s(simd.add_u32s(simd.transmute_u32s_f32s(fraction), exponent))
}

/// `tanh(x)`, absolute error below 5e-7. NaN stays NaN.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let one = simd.splat_f32s(1.0);
    // Beyond 10 the result rounds to ±1; the bound also keeps `exp` in range. NaN passes, because
    // the second operand is taken when the comparison fails, and is restored at the end in any
    // case.
    let limit = simd.splat_f32s(10.0);
    let inside = simd.min_f32s(simd.abs_f32s(x), limit);
    let grown = exp(simd, simd.add_f32s(inside, inside));
    let size = simd.sub_f32s(one, simd.div_f32s(simd.splat_f32s(2.0), simd.add_f32s(grown, one)));
    let signed = simd.or_f32s(size, simd.and_f32s(x, simd.splat_f32s(-0.0)));
    simd.select_f32s(simd.equal_f32s(x, x), signed, x)
}

/// `sign(x)·ln(1 + |x|)`, error below 3e-7 of max(1, result). The argument must be finite.
#[inline(always)]
pub(crate) fn signed_log<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let one = simd.splat_f32s(1.0);
    let value = simd.add_f32s(simd.abs_f32s(x), one);
    // value = mantissa·2^exponent with the mantissa in [√½, √2): subtracting the bits of √½ before
    // taking the exponent moves the boundary from 1 to √½.
    let offset = simd.splat_u32s(1f32.to_bits() - std::f32::consts::FRAC_1_SQRT_2.to_bits());
    let bits = simd.add_u32s(simd.transmute_u32s_f32s(value), offset);
    let exponent_bits = simd.wrapping_dyn_shr_u32s(bits, simd.splat_u32s(23));
    let mantissa_bits = simd.add_u32s(
        simd.and_u32s(bits, simd.splat_u32s(0x007f_ffff)),
        simd.splat_u32s(std::f32::consts::FRAC_1_SQRT_2.to_bits()),
    );
    let f = simd.sub_f32s(simd.transmute_f32s_u32s(mantissa_bits), one);
    // An integer below 2²³ becomes a float by setting it as the mantissa of 2²³.
    let float_bits = simd.or_u32s(exponent_bits, simd.splat_u32s(0x4b00_0000));
    let exponent =
        simd.sub_f32s(simd.transmute_f32s_u32s(float_bits), simd.splat_f32s(8_388_608.0 + 127.0));
    let [quotient] = polynomial(simd, [f], &LOG);
    let log = simd.mul_f32s(f, quotient);
    let log = simd.mul_add_f32s(exponent, simd.splat_f32s(std::f32::consts::LN_2), log);
    simd.or_f32s(log, simd.and_f32s(x, simd.splat_f32s(-0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruction_set::on_each;
    use pulp::WithSimd;

    enum Function {
        Gelu,
        Tanh,
        SignedLog,
    }

    struct Sweep<'a>(Function, &'a [f32]);

    impl WithSimd for Sweep<'_> {
        type Output = Vec<f32>;

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> Vec<f32> {
            let mut values = vec![0.0; self.1.len()];
            let (inputs, _) = S::as_simd_f32s(self.1);
            let (outputs, _) = S::as_mut_simd_f32s(&mut values);
            for (input, output) in inputs.iter().zip(outputs) {
                *output = match self.0 {
                    Function::Gelu => gelu(simd, [*input])[0],
                    Function::Tanh => tanh(simd, *input),
                    Function::SignedLog => signed_log(simd, *input),
                };
            }
            values
        }
    }

    /// The largest error over a sweep, divided by `max(floor, |reference|)`.
    fn largest_error(
        function: fn() -> Function,
        inputs: &[f32],
        reference: fn(f32) -> f64,
        floor: f64,
    ) -> f64 {
        let mut largest: f64 = 0.0;
        for outputs in on_each(|| Sweep(function(), inputs)) {
            for (&x, y) in inputs.iter().zip(outputs) {
                let expected = reference(x);
                let error = (f64::from(y) - expected).abs() / expected.abs().max(floor);
                largest = largest.max(error);
            }
        }
        largest
    }

    fn sweep(reach: f32) -> Vec<f32> {
        let count = 1 << 18;
        (0..count).map(|step| (step as f32 / count as f32 * 2.0 - 1.0) * reach).collect()
    }

    #[test]
    fn gelu_is_within_2e_6() {
        let reference = |x: f32| {
            let x = f64::from(x);
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        };
        let error = largest_error(|| Function::Gelu, &sweep(8.0), reference, 1.0);
        assert!(error < 2e-6, "{error}");
        let error = largest_error(|| Function::Gelu, &sweep(1e4), reference, 1.0);
        assert!(error < 2e-6, "{error}");
    }

    #[test]
    fn tanh_is_within_5e_7_and_keeps_nan() {
        for reach in [0.01, 3.0, 30.0] {
            let error =
                largest_error(|| Function::Tanh, &sweep(reach), |x| f64::from(x).tanh(), 1.0);
            assert!(error < 5e-7, "{error}");
        }
        for outputs in on_each(|| Sweep(Function::Tanh, &[f32::NAN; 64])) {
            assert!(outputs.iter().all(|value| value.is_nan()));
        }
    }

    #[test]
    fn signed_log_is_within_3e_7() {
        for reach in [0.01, 10.0, 1e9] {
            let reference = |x: f32| f64::from(x).abs().ln_1p().copysign(f64::from(x));
            let error = largest_error(|| Function::SignedLog, &sweep(reach), reference, 1.0);
            assert!(error < 3e-7, "{error}");
        }
    }
}

//! One plain loop, compiled for several instruction sets, chosen at run time.
//!
//! [`vectorized!`] wraps a function whose loops the compiler can vectorize: on x86-64 it is
//! compiled three times (AVX-512, AVX2 with FMA, baseline) and the best one the processor has is
//! called; on aarch64 the baseline already has NEON and FMA. Inside, `FUSED` says whether
//! multiply-add is one instruction. Sums keep [`LANE`] partial sums in a fixed order, so that a
//! result does not depend on the width of the registers.

use crate::buffer::LANE;

/// The instruction sets that loops are compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    /// AVX-512 (F, BW, DQ, VL) and FMA.
    #[cfg(target_arch = "x86_64")]
    Wide,
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Middle,
    /// The baseline of this architecture.
    Base,
}

impl Level {
    /// The best level of this processor; the standard library caches the detection.
    #[inline]
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let fused = std::is_x86_feature_detected!("fma");
            if fused
                && std::is_x86_feature_detected!("avx512f")
                && std::is_x86_feature_detected!("avx512bw")
                && std::is_x86_feature_detected!("avx512dq")
                && std::is_x86_feature_detected!("avx512vl")
            {
                return Self::Wide;
            }
            if fused && std::is_x86_feature_detected!("avx2") {
                return Self::Middle;
            }
        }
        Self::Base
    }
}

/// Whether the baseline of this architecture has fused multiply-add.
pub(crate) const BASE_FUSED: bool = cfg!(target_arch = "aarch64");

/// Compiles a function for several instruction sets and calls the best one. Its arguments must not
/// be named `body`, `wide` or `middle`, the names of the functions inside.
macro_rules! vectorized {
    ($($(#[$meta:meta])* $visibility:vis fn $name:ident $(<$generic:ident: $bound:path>)?
        ($($argument:ident: $type:ty),* $(,)?) $(-> $output:ty)? $body:block)+) => {$(
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $visibility fn $name $(<$generic: $bound>)? ($($argument: $type),*) $(-> $output)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments, clippy::extra_unused_type_parameters)]
            fn body<const FUSED: bool $(, $generic: $bound)?>($($argument: $type),*) $(-> $output)? $body

            #[cfg(target_arch = "x86_64")]
            {
                use $crate::vectorize::Level;
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
                #[allow(clippy::too_many_arguments)]
                fn wide $(<$generic: $bound>)? ($($argument: $type),*) $(-> $output)? {
                    body::<true $(, $generic)?>($($argument),*)
                }
                #[target_feature(enable = "avx2,fma")]
                #[allow(clippy::too_many_arguments)]
                fn middle $(<$generic: $bound>)? ($($argument: $type),*) $(-> $output)? {
                    body::<true $(, $generic)?>($($argument),*)
                }
                match Level::detect() {
                    // SAFETY: the processor has the features, as just detected.
                    Level::Wide => return unsafe { wide $(::<$generic>)? ($($argument),*) },
                    // SAFETY: the processor has the features, as just detected.
                    Level::Middle => return unsafe { middle $(::<$generic>)? ($($argument),*) },
                    Level::Base => {}
                }
            }
            body::<{ $crate::vectorize::BASE_FUSED } $(, $generic)?>($($argument),*)
        }
    )+};
}
pub(crate) use vectorized;

/// a·b + c, with one rounding if that is one instruction.
#[inline(always)]
pub(crate) fn fused<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// eˣ within 2 units in the last place, for |x| ≤ 87; beyond, it saturates. NaN stays NaN.
#[inline(always)]
pub(crate) fn exponential<const FUSED: bool>(x: f32) -> f32 {
    // Adding 1.5·2²³ rounds to an integer and leaves it in the low bits of the sum.
    const ROUND: f32 = 12_582_912.0;
    let clamped = if x > 88.0 { 88.0 } else { x };
    let clamped = if clamped < -87.3 { -87.3 } else { clamped };
    let shifted = fused::<FUSED>(clamped, std::f32::consts::LOG2_E, ROUND);
    let whole = shifted - ROUND;
    let rest = fused::<FUSED>(whole, -0.693_359_4, clamped);
    let rest = fused::<FUSED>(whole, 2.121_944_4e-4, rest);
    let mut sum = 1.987_569_1e-4;
    for coefficient in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5, 1.0, 1.0] {
        sum = fused::<FUSED>(sum, rest, coefficient);
    }
    let scale = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    sum * scale
}

/// 1 / (1 + e⁻ˣ).
#[inline(always)]
pub(crate) fn logistic<const FUSED: bool>(x: f32) -> f32 {
    1.0 / (1.0 + exponential::<FUSED>(-x))
}

/// tanh x, accurate for small x too.
#[inline(always)]
pub(crate) fn hyperbolic_tangent<const FUSED: bool>(x: f32) -> f32 {
    let square = x * x;
    let mut series = -5.704_988_7e-3;
    for coefficient in [2.063_909e-2, -5.373_971e-2, 1.333_144_2e-1, -3.333_328e-1] {
        series = fused::<FUSED>(series, square, coefficient);
    }
    let near = fused::<FUSED>(series * square, x, x);
    let far = 1.0 - 2.0 / (1.0 + exponential::<FUSED>(2.0 * x.abs()));
    let far = far.copysign(x);
    if x.abs() < 0.625 { near } else { far }
}

/// Adds up [`LANE`] partial sums in a fixed order.
#[inline(always)]
pub(crate) fn fold(lanes: [f32; LANE]) -> f32 {
    let mut lanes = lanes;
    let mut width = LANE / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// Σ f(i) over 0..length in [`LANE`] partial sums; inline it into a vectorized function.
#[inline(always)]
pub(crate) fn lane_sum(length: usize, mut term: impl FnMut(usize) -> f32) -> f32 {
    let mut lanes = [0.0; LANE];
    let whole = length / LANE * LANE;
    for start in (0..whole).step_by(LANE) {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += term(start + lane);
        }
    }
    let mut total = fold(lanes);
    for index in whole..length {
        total += term(index);
    }
    total
}

/// Writes a row, or adds it to the existing one.
pub(crate) fn put_row(target: &mut [f32], source: &[f32], accumulate: bool) {
    if accumulate {
        add_assign(target, source);
    } else {
        target.copy_from_slice(source);
    }
}

vectorized! {
    /// target ← target + source.
    pub(crate) fn add_assign(target: &mut [f32], source: &[f32]) {
        for (target, source) in target.iter_mut().zip(source) {
            *target += source;
        }
    }

    /// target ← target + factor · source.
    pub(crate) fn add_scaled(target: &mut [f32], source: &[f32], factor: f32) {
        for (target, source) in target.iter_mut().zip(source) {
            *target = fused::<FUSED>(factor, *source, *target);
        }
    }

    /// Σ values, in lanes.
    pub(crate) fn sum(values: &[f32]) -> f32 {
        lane_sum(values.len(), |index| values[index])
    }

    /// Σ left · right, in lanes.
    pub(crate) fn dot(left: &[f32], right: &[f32]) -> f32 {
        let right = &right[..left.len()];
        lane_sum(left.len(), |index| left[index] * right[index])
    }

    /// Adds each row of a [rows, width] matrix to `sums` [width].
    pub(crate) fn add_rows(sums: &mut [f32], matrix: &[f32]) {
        for row in matrix.chunks_exact(sums.len()) {
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum += value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    vectorized! {
        fn map_exponential(values: &mut [f32]) {
            for value in values { *value = exponential::<FUSED>(*value); }
        }
    }
    vectorized! {
        fn map_tangent(values: &mut [f32]) {
            for value in values { *value = hyperbolic_tangent::<FUSED>(*value); }
        }
    }

    fn grid() -> Vec<f32> {
        (-8000..=8000).map(|step| step as f32 * 0.01).chain([1e-6, -1e-4, 0.3]).collect()
    }

    #[test]
    fn exponential_is_accurate() {
        let mut values = grid();
        map_exponential(&mut values);
        for (x, y) in grid().into_iter().zip(values) {
            let exact = f64::from(x).exp();
            assert!((f64::from(y) - exact).abs() <= 3e-7 * exact, "exp({x}) = {y}");
        }
    }

    #[test]
    fn exponential_saturates_and_keeps_nan() {
        let mut values = [f32::NAN, 1e9, -1e9, f32::NEG_INFINITY];
        map_exponential(&mut values);
        assert!(values[0].is_nan() && values[1] > 1e38 && values[2] < 1e-37 && values[3] < 1e-37);
    }

    #[test]
    fn tangent_is_accurate_near_and_far() {
        let mut values = grid();
        map_tangent(&mut values);
        for (x, y) in grid().into_iter().zip(values) {
            let exact = f64::from(x).tanh();
            assert!((f64::from(y) - exact).abs() <= 4e-7 * exact.abs(), "tanh({x}) = {y}");
        }
    }

    #[test]
    fn lane_sums_match_plain_ones() {
        for length in [0, 1, 15, 16, 17, 100] {
            let values: Vec<f32> = (0..length).map(|i| i as f32 * 0.5).collect();
            assert_eq!(sum(&values), values.iter().sum::<f32>());
            assert!(
                (dot(&values, &values) - values.iter().map(|x| x * x).sum::<f32>()).abs() < 1e-2
            );
        }
    }
}

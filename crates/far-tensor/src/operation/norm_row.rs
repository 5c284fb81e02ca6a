//! LayerNorm of one row, forward and backward, shared by the modulated norm and the norm of heads.
//! The formulas are in `modulated_norm.rs`.

use crate::buffer::LANE;
use crate::vectorize::{add_assign, fold, fused, lane_sum, vectorized};

vectorized! {
    /// One row forward; `statistics` receives the mean and 1/√(σ² + ε).
    pub(super) fn forward_row(
        output: &mut [f32],
        statistics: &mut [f32],
        x: &[f32],
        affine: Option<[&[f32]; 2]>,
        modulation: Option<[&[f32]; 2]>,
        epsilon: f32,
    ) {
        let width = x.len();
        let mean = lane_sum(width, |index| x[index]) / width as f32;
        let variance = lane_sum(width, |index| (x[index] - mean) * (x[index] - mean)) / width as f32;
        let inverse = 1.0 / (variance + epsilon).sqrt();
        statistics.copy_from_slice(&[mean, inverse]);
        for (output, x) in output.iter_mut().zip(x) {
            *output = (x - mean) * inverse;
        }
        if let Some([scale, offset]) = affine {
            for ((output, scale), offset) in output.iter_mut().zip(scale).zip(offset) {
                *output = fused::<FUSED>(*output, *scale, *offset);
            }
        }
        if let Some([shift, scale]) = modulation {
            for ((output, shift), scale) in output.iter_mut().zip(shift).zip(scale) {
                *output = fused::<FUSED>(*output, 1.0 + scale, *shift);
            }
        }
    }
}

/// Two small vectors and the sums of their gradients.
pub(super) type Pair<'a> = ([&'a [f32]; 2], [&'a mut [f32]; 2]);

vectorized! {
    /// One row backward: writes or adds dx, and adds to the sums of the given small vectors.
    pub(super) fn backward_row(
        gradient: &mut [f32],
        accumulate: bool,
        upstream: &[f32],
        x: &[f32],
        statistics: &[f32],
        affine: Option<Pair<'_>>,
        modulation: Option<Pair<'_>>,
        scratch: &mut [f32],
    ) {
        let width = x.len();
        let (mean, inverse) = (statistics[0], statistics[1]);
        let d = &mut scratch[..width];
        d.copy_from_slice(&upstream[..width]);
        if let Some(([_, scale], [shift_sum, scale_sum])) = modulation {
            add_assign(shift_sum, d);
            let (scale, scale_sum) = (&scale[..width], &mut scale_sum[..width]);
            if let Some(([factor, offset], _)) = &affine {
                let (factor, offset) = (&factor[..width], &offset[..width]);
                for i in 0..width {
                    let n = fused::<FUSED>((x[i] - mean) * inverse, factor[i], offset[i]);
                    scale_sum[i] = fused::<FUSED>(d[i], n, scale_sum[i]);
                    d[i] *= 1.0 + scale[i];
                }
            } else {
                for i in 0..width {
                    scale_sum[i] = fused::<FUSED>(d[i], (x[i] - mean) * inverse, scale_sum[i]);
                    d[i] *= 1.0 + scale[i];
                }
            }
        }
        if let Some(([factor, _], [factor_sum, offset_sum])) = affine {
            let (factor, factor_sum) = (&factor[..width], &mut factor_sum[..width]);
            let offset_sum = &mut offset_sum[..width];
            for i in 0..width {
                offset_sum[i] += d[i];
                factor_sum[i] = fused::<FUSED>(d[i], (x[i] - mean) * inverse, factor_sum[i]);
                d[i] *= factor[i];
            }
        }
        let (mut plain, mut weighted) = ([0.0f32; LANE], [0.0f32; LANE]);
        let whole = width / LANE * LANE;
        for start in (0..whole).step_by(LANE) {
            for lane in 0..LANE {
                let e = d[start + lane];
                plain[lane] += e;
                weighted[lane] =
                    fused::<FUSED>(e, (x[start + lane] - mean) * inverse, weighted[lane]);
            }
        }
        let (mut plain, mut weighted) = (fold(plain), fold(weighted));
        for i in whole..width {
            plain += d[i];
            weighted += d[i] * (x[i] - mean) * inverse;
        }
        let (plain, weighted) = (plain / width as f32, weighted / width as f32);
        let gradient = &mut gradient[..width];
        if accumulate {
            for i in 0..width {
                let normal = (x[i] - mean) * inverse;
                gradient[i] += inverse * fused::<FUSED>(-normal, weighted, d[i] - plain);
            }
        } else {
            for i in 0..width {
                let normal = (x[i] - mean) * inverse;
                gradient[i] = inverse * fused::<FUSED>(-normal, weighted, d[i] - plain);
            }
        }
    }
}

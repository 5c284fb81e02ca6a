//! GroupNorm: channels standardized in groups, then scaled and shifted one by one.
//!
//! For each sample and group of C/G channels, with the mean μ and population variance of all their
//! elements: x̂ = (x − μ) / √(variance + ε), y = x̂·γ_c + β_c.
//!
//! Shapes: x [B, C, S…], γ and β [C], y [B, C, S…].
//!
//! Backward, with d = dL/dy and e = d·γ: dx = (e − mean(e) − x̂·mean(e·x̂)) / √(variance + ε) over
//! the group; dγ = Σ d·x̂ and dβ = Σ d over samples and S….

use super::row::{for_rows, put, row_of};
use crate::buffer::Buffer;
use crate::cuda::ChannelGroups;
use crate::gradient::GradientStore;
use crate::vectorize::{fused, lane_sum, vectorized};
use crate::{Result, Tape, Tensor};

impl Tape {
    /// GroupNorm of x [B, C, S…] in `groups` groups of channels, scaled by γ `[C]` and shifted by
    /// β `[C]`.
    ///
    /// # Errors
    /// If the groups do not divide the channels, or γ or β does not have one element per channel.
    pub fn group_norm(
        &mut self,
        x: &Tensor,
        groups: usize,
        scale: &Tensor,
        shift: &Tensor,
        epsilon: f32,
    ) -> Result<Tensor> {
        let extents = x.shape().extents();
        let sound = extents.len() >= 2 && groups > 0 && extents[1].is_multiple_of(groups);
        x.expect("group_norm", sound, || {
            format!("[batch, channels, …] with channels in {groups} equal groups is needed")
        })?;
        let (batch, channels) = (extents[0], extents[1]);
        expect_parameters(x, channels, [scale, shift])?;
        let space = extents[2..].iter().product();
        let sizes = ChannelGroups { batch, channels, groups, space, last: false };
        if let Some(cuda) = self.cuda() {
            return self.group_norm_cuda(&cuda, sizes, [x, scale, shift], epsilon);
        }
        let block = sizes.block();
        let mut moments = self.device().buffer(batch * groups * 2);
        for_rows(&mut moments, 2, 2 * block, |group, part| {
            let (mean, factor) = group_moments(row_of(x.values(), block, group), epsilon);
            part.copy_from_slice(&[mean, factor]);
        });
        let mut output = self.device().buffer(x.shape().elements());
        for_rows(&mut output, sizes.space, sizes.space, |row, part| {
            let (channel, group) = sizes.place(row);
            let (mean, factor) = (moments[2 * group], moments[2 * group + 1]);
            let x = row_of(x.values(), sizes.space, row);
            let slope = factor * scale.values()[channel];
            affine_about(part, x, mean, slope, shift.values()[channel]);
        });
        let shape = *x.shape();
        Ok(self.record("group_norm", shape, output, &[x, scale, shift], |_| {
            let node = GroupNormBackward {
                x: x.clone(),
                scale: scale.clone(),
                shift: shift.clone(),
                moments,
                sizes,
            };
            move |upstream, gradients| node.backward(upstream, gradients)
        }))
    }

    /// [`Tape::group_norm`] of x [B, S…, C], whose channels come last.
    ///
    /// # Errors
    /// As [`Tape::group_norm`].
    pub fn group_norm_channels_last(
        &mut self,
        x: &Tensor,
        groups: usize,
        scale: &Tensor,
        shift: &Tensor,
        epsilon: f32,
    ) -> Result<Tensor> {
        let shape = *x.shape();
        let (rank, channels) = (shape.rank(), shape.last());
        let sound = rank >= 2 && groups > 0 && channels.is_multiple_of(groups);
        x.expect("group_norm", sound, || {
            format!("[batch, …, channels] with channels in {groups} equal groups is needed")
        })?;
        expect_parameters(x, channels, [scale, shift])?;
        let batch = shape.extents()[0];
        let space = shape.extents()[1..rank - 1].iter().product();
        if let Some(cuda) = self.cuda() {
            let sizes = ChannelGroups { batch, channels, groups, space, last: true };
            return self.group_norm_cuda(&cuda, sizes, [x, scale, shift], epsilon);
        }
        let first = self.permute(&x.reshape([batch, space, channels])?, &[0, 2, 1])?;
        let y = self.group_norm(&first, groups, scale, shift, epsilon)?;
        self.permute(&y, &[0, 2, 1])?.reshape(shape)
    }
}

fn expect_parameters(x: &Tensor, channels: usize, parameters: [&Tensor; 2]) -> Result<()> {
    let requirement = "scale and shift have one element per channel";
    parameters
        .into_iter()
        .try_for_each(|parameter| parameter.expect_elements("group_norm", channels, x, requirement))
}

impl ChannelGroups {
    /// Elements of one group of one sample.
    fn block(&self) -> usize {
        self.channels / self.groups * self.space
    }

    /// The channel and the group (counted through all samples) of a row of S… elements.
    fn place(&self, row: usize) -> (usize, usize) {
        (row % self.channels, row / (self.channels / self.groups))
    }
}

vectorized! {
    /// μ and 1/√(variance + ε).
    fn group_moments(x: &[f32], epsilon: f32) -> (f32, f32) {
        let count = x.len() as f32;
        let mean = lane_sum(x.len(), |index| x[index]) / count;
        let variance =
            lane_sum(x.len(), |index| (x[index] - mean) * (x[index] - mean)) / count;
        (mean, 1.0 / (variance + epsilon).sqrt())
    }

    /// output ← (x − mean)·slope + level.
    fn affine_about(output: &mut [f32], x: &[f32], mean: f32, slope: f32, level: f32) {
        for (output, x) in output.iter_mut().zip(x) {
            *output = fused::<FUSED>(x - mean, slope, level);
        }
    }

    /// Σ d and Σ d·x̂ of one row.
    fn row_sums(d: &[f32], x: &[f32], mean: f32, factor: f32) -> [f32; 2] {
        let x = &x[..d.len()];
        let level = lane_sum(d.len(), |index| d[index]);
        let along = lane_sum(d.len(), |index| d[index] * ((x[index] - mean) * factor));
        [level, along]
    }

    /// gradient ← (d·γ − level − x̂·along)·factor.
    fn row_backward(
        gradient: &mut [f32],
        d: &[f32],
        x: &[f32],
        mean: f32,
        factor: f32,
        scale: f32,
        level: f32,
        along: f32,
        accumulate: bool,
    ) {
        let length = gradient.len();
        let (d, x) = (&d[..length], &x[..length]);
        for index in 0..length {
            let standard = (x[index] - mean) * factor;
            let inner = fused::<FUSED>(-standard, along, fused::<FUSED>(d[index], scale, -level));
            put(&mut gradient[index], inner * factor, accumulate);
        }
    }
}

struct GroupNormBackward {
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    /// μ and 1/√(variance + ε) of each group of each sample.
    moments: Buffer,
    sizes: ChannelGroups,
}

impl GroupNormBackward {
    fn backward(&self, upstream: Buffer, gradients: &mut GradientStore<'_>) {
        let ChannelGroups { batch, channels, groups, space, .. } = self.sizes;
        let moments = |group: usize| (self.moments[2 * group], self.moments[2 * group + 1]);
        let x = |row: usize| row_of(self.x.values(), space, row);
        // Σ d and Σ d·x̂ of each row, from which everything else follows.
        let mut sums = gradients.device().buffer(batch * channels * 2);
        for_rows(&mut sums, 2, 2 * space, |row, part| {
            let (mean, factor) = moments(self.sizes.place(row).1);
            part.copy_from_slice(&row_sums(row_of(&upstream, space, row), x(row), mean, factor));
        });
        for (parameter, which) in [(&self.shift, 0), (&self.scale, 1)] {
            gradients.with(parameter, |gradient, accumulate| {
                for (channel, gradient) in gradient.iter_mut().enumerate() {
                    let rows = (0..batch).map(|sample| sample * channels + channel);
                    put(gradient, rows.map(|row| sums[2 * row + which]).sum(), accumulate);
                }
            });
        }
        let scale = self.scale.values();
        let share = 1.0 / self.sizes.block().max(1) as f32;
        gradients.with(&self.x, |gradient, accumulate| {
            for_rows(gradient, space, space, |row, part| {
                let (channel, group) = self.sizes.place(row);
                let (mean, factor) = moments(group);
                let members = channels / groups;
                let mut means = [0.0; 2];
                for member in group * members..(group + 1) * members {
                    let weight = scale[member % channels] * share;
                    means[0] += weight * sums[2 * member];
                    means[1] += weight * sums[2 * member + 1];
                }
                let (d, scale) = (row_of(&upstream, space, row), scale[channel]);
                let [level, along] = means;
                row_backward(part, d, x(row), mean, factor, scale, level, along, accumulate);
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        assert_close, check_gradients_within, compare_gradients, evaluate, normal,
    };
    use proptest::prelude::*;

    fn reference(x: &Tensor, groups: usize, scale: &[f32], shift: &[f32]) -> Vec<f32> {
        let &[batch, channels, space] = x.shape().extents() else { panic!("three axes") };
        let block = channels / groups * space;
        let mut result = Vec::new();
        for group in 0..batch * groups {
            let values: Vec<f64> =
                x.values()[group * block..][..block].iter().map(|x| f64::from(*x)).collect();
            let mean = values.iter().sum::<f64>() / block as f64;
            let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / block as f64;
            for (place, value) in values.iter().enumerate() {
                let channel = (group * block + place) / space % channels;
                let standard = (value - mean) / (variance + 1e-5).sqrt();
                result.push(standard as f32 * scale[channel] + shift[channel]);
            }
        }
        result
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn values_match_the_reference(
            batch in 1usize..4, groups in 1usize..4, members in 1usize..4, space in 1usize..40,
            seed in 0u64..99,
        ) {
            let channels = groups * members;
            // One element per group is only noise: its deviation is below epsilon.
            prop_assume!(members * space > 2);
            let x = normal([batch, channels, space], seed);
            let (scale, shift) = (normal([channels], seed + 1), normal([channels], seed + 2));
            let found = evaluate(|tape| tape.group_norm(&x, groups, &scale, &shift, 1e-5));
            let expected = reference(&x, groups, scale.values(), shift.values());
            assert_close(found.values(), &expected, 5e-5);
        }
    }

    #[test]
    fn gradients_match_differences() {
        let inputs = [normal([2, 4, 3, 2], 1), normal([4], 2), normal([4], 3)];
        for groups in [1, 2] {
            check_gradients_within(&inputs, 1e-2, |tape, x| {
                tape.group_norm(&x[0], groups, &x[1], &x[2], 1e-5)
            });
        }
    }

    #[test]
    fn channels_may_come_last() {
        for space in [3, 400] {
            let x = normal([2, space, 8], 1);
            let inputs = [x, normal([8], 2), normal([8], 3)];
            let last = |tape: &mut Tape, x: &[Tensor]| {
                tape.group_norm_channels_last(&x[0], 2, &x[1], &x[2], 1e-5)
            };
            let first = |tape: &mut Tape, x: &[Tensor]| {
                let turned = tape.permute(&x[0], &[0, 2, 1])?;
                let y = tape.group_norm(&turned, 2, &x[1], &x[2], 1e-5)?;
                tape.permute(&y, &[0, 2, 1])
            };
            let [found, expected] =
                [evaluate(|tape| last(tape, &inputs)), evaluate(|tape| first(tape, &inputs))];
            assert_close(found.values(), expected.values(), 1e-6);
            let (found, expected) =
                (compare_gradients(&inputs, last), compare_gradients(&inputs, first));
            found.iter().zip(&expected).for_each(|(a, b)| assert_close(a, b, 1e-5));
        }
    }

    #[test]
    fn uneven_groups_are_refused() {
        let mut tape = Tape::inference(&crate::Device::cpu());
        let (x, four) = (normal([2, 4, 3], 1), normal([4], 1));
        let error = tape.group_norm(&x, 3, &four, &four, 1e-5).unwrap_err();
        assert!(error.to_string().starts_with("group_norm: [2, 4, 3] is not accepted"), "{error}");
        let error = tape.group_norm(&x, 2, &normal([3], 1), &four, 1e-5).unwrap_err();
        assert!(error.to_string().starts_with("group_norm: [3] does not fit [2, 4, 3]"), "{error}");
        let three = normal([3], 1);
        assert!(tape.group_norm_channels_last(&x, 2, &three, &three, 1e-5).is_err());
        assert!(tape.group_norm_channels_last(&x, 3, &four, &four, 1e-5).is_err());
    }

    #[test]
    fn gpus_agree_on_large_groups() {
        let inputs = [normal([2, 8, 20, 20], 1), normal([8], 2), normal([8], 3)];
        evaluate(|tape| tape.group_norm(&inputs[0], 2, &inputs[1], &inputs[2], 1e-5));
        compare_gradients(&inputs, |tape, x| tape.group_norm(&x[0], 2, &x[1], &x[2], 1e-5));
    }
}

//! Sinusoidal embeddings of timesteps and other scalars, and the fixed position table.
//!
//! A scalar t becomes waves t·f_k with f_k = P^(−k/h), k = 0 … h−1, for h = ⌊width/2⌋ and the
//! longest period 2πP: all cosines then all sines, or the reverse; an odd width ends in a zero.
//! Everything is computed in double precision. No gradient flows to the inputs.

use super::row::for_rows;
use crate::tensor::Origin;
use crate::{Error, Result, Shape, Tape, Tensor};

/// P for diffusion timesteps and positions.
const CUSTOMARY_PERIOD: f64 = 10_000.0;

/// Which half of a sinusoidal embedding comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaveOrder {
    /// [cos ‖ sin], as for diffusion timesteps.
    CosineFirst,
    /// [sin ‖ cos], as in position tables.
    SineFirst,
}

impl Tape {
    /// DiT's embedding of diffusion timesteps: n values → [n, width], cosines first, P = 10,000.
    ///
    /// # Errors
    /// If the width is below 2.
    pub fn timestep_embedding(&mut self, timesteps: &[f32], width: usize) -> Result<Tensor> {
        self.scalar_embedding(timesteps, width, CUSTOMARY_PERIOD, WaveOrder::CosineFirst)
    }

    /// Sinusoidal embedding of any scalars: n values → [n, width], with the longest period 2πP.
    ///
    /// # Errors
    /// If the width is below 2 or P is not positive.
    pub fn scalar_embedding(
        &mut self,
        values: &[f32],
        width: usize,
        period: f64,
        order: WaveOrder,
    ) -> Result<Tensor> {
        let shape = Shape::new(&[values.len(), width]);
        if width < 2 || period.is_nan() || period <= 0.0 {
            return Err(Error::Unsupported {
                operation: "scalar_embedding",
                shape,
                requirement: format!(
                    "a width of 2 and a positive period, not {period}, are needed"
                ),
            });
        }
        let mut output = self.device().buffer(shape.elements());
        // A sine costs about thirty times as much as other arithmetic.
        for_rows(&mut output, width, 32 * width, |row, part| {
            waves(part, f64::from(values[row]), period, order);
        });
        Ok(Tensor::of_host(shape, output, Origin::Constant))
    }
}

/// The fixed position table of a grid, row-major: [rows·columns, width].
///
/// The first half of the channels encodes the column, the second the row, each as [sin ‖ cos] with
/// P = 10,000.
///
/// ```
/// let table = far_tensor::position_table(2, 3, 8)?;
/// assert_eq!(table.shape().extents(), [6, 8]);
/// assert_eq!(table.values()[..4], [0.0, 0.0, 1.0, 1.0]);
/// # Ok::<(), far_tensor::Error>(())
/// ```
///
/// # Errors
/// If the width is not a positive multiple of 4.
pub fn position_table(rows: usize, columns: usize, width: usize) -> Result<Tensor> {
    let shape = Shape::new(&[rows * columns, width]);
    if width == 0 || !width.is_multiple_of(4) {
        return Err(Error::Unsupported {
            operation: "position_table",
            shape,
            requirement: "the width must be a positive multiple of 4".into(),
        });
    }
    let mut table = crate::Buffer::zeroed(shape.elements());
    for_rows(&mut table, width, 32 * width, |place, part| {
        let (first, second) = part.split_at_mut(width / 2);
        waves(first, (place % columns) as f64, CUSTOMARY_PERIOD, WaveOrder::SineFirst);
        waves(second, (place / columns) as f64, CUSTOMARY_PERIOD, WaveOrder::SineFirst);
    });
    Ok(Tensor::of_host(shape, table, Origin::Constant))
}

fn waves(target: &mut [f32], value: f64, period: f64, order: WaveOrder) {
    let half = target.len() / 2;
    for k in 0..half {
        let (sine, cosine) = (value * period.powf(-(k as f64) / half as f64)).sin_cos();
        let (first, second) = match order {
            WaveOrder::CosineFirst => (cosine, sine),
            WaveOrder::SineFirst => (sine, cosine),
        };
        (target[k], target[half + k]) = (first as f32, second as f32);
    }
    target[2 * half..].fill(0.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, evaluate};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn values_match_the_formula(width in 2usize..70, t in 0f32..1000.0, u in -5f32..5.0) {
            let found = evaluate(|tape| tape.timestep_embedding(&[t, u], width));
            let turned = evaluate(|tape| {
                tape.scalar_embedding(&[t, u], width, 10_000.0, WaveOrder::SineFirst)
            });
            let half = width / 2;
            for (row, value) in [t, u].into_iter().enumerate() {
                let found = &found.values()[row * width..][..width];
                let turned = &turned.values()[row * width..][..width];
                let angle = |k: usize| {
                    f64::from(value) * (-(10_000f64.ln()) * k as f64 / half as f64).exp()
                };
                let mut expected: Vec<f32> = (0..half).map(|k| angle(k).cos() as f32).collect();
                expected.extend((0..half).map(|k| angle(k).sin() as f32));
                expected.resize(width, 0.0);
                assert_close(found, &expected, 1e-6);
                assert_close(&turned[..half], &found[half..2 * half], 0.0);
                assert_close(&turned[half..2 * half], &found[..half], 0.0);
            }
        }

        #[test]
        fn positions_encode_columns_then_rows(rows in 1usize..6, columns in 1usize..6, quarter in 1usize..9) {
            let width = 4 * quarter;
            let table = position_table(rows, columns, width).unwrap();
            for place in 0..rows * columns {
                let found = &table.values()[place * width..][..width];
                for k in 0..quarter {
                    let frequency = 10_000f64.powf(-(k as f64) / quarter as f64);
                    let column = (place % columns) as f64 * frequency;
                    let row = (place / columns) as f64 * frequency;
                    let waves = [column.sin(), column.cos(), row.sin(), row.cos()];
                    for (part, expected) in waves.into_iter().enumerate() {
                        assert_close(&[found[part * quarter + k]], &[expected as f32], 1e-6);
                    }
                }
            }
        }
    }

    #[test]
    fn bad_widths_are_refused() {
        assert!(position_table(2, 2, 6).is_err());
        let mut tape = Tape::inference(&crate::Device::cpu());
        let error = tape.timestep_embedding(&[1.0], 1).unwrap_err();
        assert!(
            error.to_string().starts_with("scalar_embedding: [1, 1] is not accepted"),
            "{error}"
        );
        assert!(tape.scalar_embedding(&[1.0], 4, -1.0, WaveOrder::SineFirst).is_err());
    }
}

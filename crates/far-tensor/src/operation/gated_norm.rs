//! s = x + gate·f and y = Norm(s)·(1 + scale) + shift: the end of one half of an adaLN-Zero block
//! and the start of the next. Two operations, see `gated_residual.rs` and `modulated_norm.rs`, which a GPU
//! computes in one pass each way.

use super::modulated_norm::{Affine, Modulation, check_modulation};
use crate::{Result, Tape, Tensor};

/// Which of the vectors of a modulation [G, P, D] gates a residual.
#[derive(Clone, Copy, Debug)]
pub struct Gate<'a> {
    /// The vectors: [G, P, D], G dividing the number of rows.
    pub vectors: &'a Tensor,
    /// Which of the P vectors is the gate.
    pub part: usize,
}

impl Tape {
    /// [s, y] with s = x + gate·f, as of [`Tape::gated_residual`], and y the norm of s, as of
    /// [`Tape::modulated_norm`].
    ///
    /// # Errors
    /// If x and f differ in shape, or a modulation or the affine map does not fit.
    pub fn gated_norm(
        &mut self,
        [x, f]: [&Tensor; 2],
        gate: Gate<'_>,
        affine: Option<Affine<'_>>,
        modulation: Modulation<'_>,
        epsilon: f32,
    ) -> Result<[Tensor; 2]> {
        x.expect_same("gated_norm", f)?;
        check_modulation("gated_norm", x, gate.vectors, gate.part)?;
        let last = modulation.shift.max(modulation.scale);
        check_modulation("gated_norm", x, modulation.vectors, last)?;
        let mut small = affine.iter().flat_map(|affine| [affine.scale, affine.offset]);
        let fits = small.all(|vector| vector.shape().elements() == x.shape().last());
        if let Some(cuda) = self.cuda()
            && fits
            && let Some(both) =
                self.gated_norm_cuda(&cuda, [x, f], gate, affine, modulation, epsilon)?
        {
            return Ok(both);
        }
        let sum = self.gated_residual(x, f, gate.vectors, gate.part)?;
        let normed = self.modulated_norm(&sum, affine, modulation, epsilon)?;
        Ok([sum, normed])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::testing::{compare_gradients, evaluate, gpus, normal};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        /// Both results equal those of the two operations, to the bit, on every device.
        #[test]
        fn one_pass_gives_what_two_give(
            groups in 1usize..5, group_rows in 1usize..40, eighths in 1usize..20, odd in 0usize..2,
            with_affine in any::<bool>(), seed in 0u64..1000,
        ) {
            let width = 8 * eighths + odd;
            let rows = groups * group_rows;
            let [x, f] = [normal([rows, width], seed), normal([rows, width], seed + 1)];
            let gates = normal([groups, 6, width], seed + 2);
            let vectors = normal([groups, 3, width], seed + 3);
            let [scale, offset] = [normal([width], seed + 4), normal([width], seed + 5)];
            let affine = with_affine.then_some(Affine { scale: &scale, offset: &offset });
            let gate = Gate { vectors: &gates, part: 5 };
            let modulation = Modulation { vectors: &vectors, shift: 2, scale: 0 };
            let cpu = Device::cpu();
            for device in gpus().iter().map(|(_, device)| device).chain([&cpu]) {
                let mut tape = Tape::inference(device);
                let [sum, normed] =
                    tape.gated_norm([&x, &f], gate, affine, modulation, 1e-5).unwrap();
                let expected = tape.gated_residual(&x, &f, &gates, 5).unwrap();
                prop_assert_eq!(sum.values(), expected.values());
                let expected = tape.modulated_norm(&expected, affine, modulation, 1e-5).unwrap();
                prop_assert_eq!(normed.values(), expected.values());
            }
            for which in 0..2 {
                evaluate(|tape| {
                    let both = tape.gated_norm([&x, &f], gate, affine, modulation, 1e-5)?;
                    Ok(both[which].clone())
                });
            }
        }
    }

    /// Of whole vectors and not, with and without an affine map, with vectors of fewer groups than gates;
    /// what is gated comes from a linear map, whose bias a GPU gives its gradient on the way.
    #[test]
    fn gradients_agree_on_every_device() {
        for (rows, width, groups) in [(80, 48, 2), (82, 264, 2), (80, 33, 2), (80, 48, 1)] {
            let x = [
                normal([rows, width], 1),
                normal([rows, 16], 2),
                normal([2, 6, width], 3),
                normal([groups, 3, width], 4),
                normal([width], 5),
                normal([width], 6),
                normal([16, width], 7),
                normal([width], 8),
            ];
            let both = |tape: &mut Tape, x: &[Tensor], affine: bool| {
                let f = tape.linear(&x[1], &x[6], Some(&x[7]))?;
                let affine = affine.then_some(Affine { scale: &x[4], offset: &x[5] });
                let gate = Gate { vectors: &x[2], part: 5 };
                let modulation = Modulation { vectors: &x[3], shift: 2, scale: 0 };
                let both = tape.gated_norm([&x[0], &f], gate, affine, modulation, 1e-5)?;
                Ok((f, both))
            };
            for affine in [false, true] {
                compare_gradients(&x, |tape, x| Ok(both(tape, x, affine)?.1[1].clone()));
                compare_gradients(&x, |tape, x| {
                    let (_, [sum, normed]) = both(tape, x, affine)?;
                    let late = tape.multiply(&sum, &x[0])?;
                    tape.add(&normed, &late)
                });
                // What is gated is read once more, so that its gradient begins before.
                compare_gradients(&x, |tape, x| {
                    let (f, [sum, normed]) = both(tape, x, affine)?;
                    let late = tape.multiply(&sum, &f)?;
                    tape.add(&normed, &late)
                });
                compare_gradients(&x, |tape, x| Ok(both(tape, x, affine)?.1[0].clone()));
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (x, vectors) = (normal([4, 8], 1), normal([2, 3, 8], 2));
        let mut tape = Tape::inference(&Device::cpu());
        let gate = Gate { vectors: &vectors, part: 3 };
        let modulation = Modulation { vectors: &vectors, shift: 0, scale: 1 };
        assert!(tape.gated_norm([&x, &x], gate, None, modulation, 1e-5).is_err());
        let other = normal([4, 9], 3);
        let gate = Gate { vectors: &vectors, part: 2 };
        assert!(tape.gated_norm([&x, &other], gate, None, modulation, 1e-5).is_err());
    }
}

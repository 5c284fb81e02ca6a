//! s = x + gate·f and y = Norm(s)·(1 + scale) + shift: the end of one half of an adaLN-Zero block
//! and the start of the next. One pass on a GPU if no gradient is needed; otherwise two operations,
//! see `gated_residual.rs` and `modulated_norm.rs`.

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
        check_modulation(
            "gated_norm",
            x,
            modulation.vectors,
            modulation.shift.max(modulation.scale),
        )?;
        let small = affine.iter().flat_map(|affine| [affine.scale, affine.offset]);
        let mut inputs = [x, f, gate.vectors, modulation.vectors].into_iter().chain(small.clone());
        let fits = small.clone().all(|vector| vector.shape().elements() == x.shape().last());
        if let Some(cuda) = self.cuda()
            && fits
            && !inputs.any(|input| self.wants(input))
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
    use crate::testing::{evaluate, gpus, normal};
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

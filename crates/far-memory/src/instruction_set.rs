//! For tests: the same vector code on every instruction set this machine has.

use pulp::{Arch, Simd, WithSimd};

/// The results of an operation without vectors, with each narrower set, and with the best one.
pub(crate) fn on_each<Op: WithSimd>(make: impl Fn() -> Op) -> Vec<Op::Output> {
    let mut results = vec![make().with_simd(pulp::Scalar::new())];
    #[cfg(target_arch = "x86_64")]
    results.extend(pulp::x86::V3::try_new().map(|simd| Simd::vectorize(simd, make())));
    results.push(Arch::new().dispatch(make()));
    results
}

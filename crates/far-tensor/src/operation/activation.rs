//! Functions of one element: SiLU, both forms of GELU, ReLU, tanh, sigmoid, exp, log.
//!
//! | activation | y | dy/dx |
//! |---|---|---|
//! | SiLU | x·σ(x) | σ(x)(1 + x(1 − σ(x))) |
//! | GELU | x·Φ(x) | Φ(x) + x·φ(x) |
//! | GELU (tanh) | x·σ(2u), u = √(2/π)(x + 0.044715x³) | s + 2x·s(1 − s)·du/dx with s = σ(2u) |
//! | ReLU | max(x, 0) | 1 where x > 0, else 0 |
//! | tanh, sigmoid, exp, log | as named | 1 − y², y(1 − y), y, 1/x |

use super::arithmetic::pieces;
use crate::parallel::{GRAIN, for_parts};
use crate::vectorize::{exponential, fused, hyperbolic_tangent, logistic, vectorized};
use crate::{Result, Tape, Tensor};

/// A function of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// x·σ(x), also called swish.
    Silu,
    /// x·Φ(x) with the normal distribution function Φ.
    Gelu,
    /// GELU in its tanh approximation, as DiT uses it.
    GeluTanh,
    /// max(x, 0).
    Relu,
    /// Hyperbolic tangent.
    Tanh,
    /// 1 / (1 + e⁻ˣ).
    Sigmoid,
    /// eˣ.
    Exp,
    /// Natural logarithm.
    Log,
}

/// Value and derivative of an activation, for the vectorized loops.
pub(super) trait Scalar {
    /// y(x).
    fn value<const FUSED: bool>(x: f32) -> f32;
    /// dy/dx, given x and y.
    fn slope<const FUSED: bool>(x: f32, y: f32) -> f32;
}

macro_rules! scalar {
    ($name:ident, |$x:ident| $value:expr, |$sx:ident, $sy:ident| $slope:expr) => {
        pub(super) struct $name;
        impl Scalar for $name {
            #[inline(always)]
            fn value<const FUSED: bool>($x: f32) -> f32 {
                $value
            }
            #[inline(always)]
            fn slope<const FUSED: bool>($sx: f32, $sy: f32) -> f32 {
                $slope
            }
        }
    };
}

/// √(8/π): twice the factor inside the tanh form of GELU.
const TWICE_ROOT: f32 = 1.595_769;
const CUBIC: f32 = 0.044_715;

scalar!(Silu, |x| x * logistic::<FUSED>(x), |x, _y| {
    let s = logistic::<FUSED>(x);
    s * fused::<FUSED>(x, 1.0 - s, 1.0)
});
scalar!(Gelu, |x| x * normal_cdf(x), |x, _y| {
    let density = 0.398_942_3 * exponential::<FUSED>(-0.5 * x * x);
    fused::<FUSED>(x, density, normal_cdf(x))
});
scalar!(
    GeluTanh,
    |x| {
        let argument = TWICE_ROOT * x * fused::<FUSED>(CUBIC * x, x, 1.0);
        x * logistic::<FUSED>(argument)
    },
    |x, _y| {
        let square = x * x;
        let s = logistic::<FUSED>(TWICE_ROOT * x * fused::<FUSED>(CUBIC, square, 1.0));
        let inner = TWICE_ROOT * fused::<FUSED>(3.0 * CUBIC, square, 1.0);
        s * fused::<FUSED>(x * (1.0 - s), inner, 1.0)
    }
);
scalar!(Relu, |x| if x > 0.0 { x } else { 0.0 * x }, |x, _y| f32::from(x > 0.0));
scalar!(Tanh, |x| hyperbolic_tangent::<FUSED>(x), |_x, y| fused::<FUSED>(-y, y, 1.0));
scalar!(Sigmoid, |x| logistic::<FUSED>(x), |_x, y| y * (1.0 - y));
scalar!(Exp, |x| exponential::<FUSED>(x), |_x, y| y);
scalar!(Log, |x| x.ln(), |x, _y| 1.0 / x);

/// Φ(x): libm's error function, because the standard library has none.
fn normal_cdf(x: f32) -> f32 {
    0.5 * (1.0 + libm::erff(x * std::f32::consts::FRAC_1_SQRT_2))
}

vectorized! {
    /// output ← y(x).
    pub(super) fn apply<S: Scalar>(output: &mut [f32], x: &[f32]) {
        for (output, x) in output.iter_mut().zip(x) {
            *output = S::value::<FUSED>(*x);
        }
    }

    /// values ← y(values).
    pub(super) fn apply_in_place<S: Scalar>(values: &mut [f32]) {
        for value in values {
            *value = S::value::<FUSED>(*value);
        }
    }

    /// gradient ← upstream · dy/dx, added if `accumulate`.
    fn apply_slope<S: Scalar>(
        gradient: &mut [f32],
        x: &[f32],
        y: &[f32],
        upstream: &[f32],
        accumulate: bool,
    ) {
        let length = gradient.len();
        let (x, y, upstream) = (&x[..length], &y[..length], &upstream[..length]);
        for index in 0..length {
            let slope = upstream[index] * S::slope::<FUSED>(x[index], y[index]);
            gradient[index] = if accumulate { gradient[index] + slope } else { slope };
        }
    }

    /// gradient ← gradient · dy/dx in place.
    pub(super) fn multiply_slope<S: Scalar>(gradient: &mut [f32], x: &[f32]) {
        for (gradient, x) in gradient.iter_mut().zip(x) {
            *gradient *= S::slope::<FUSED>(*x, 0.0);
        }
    }
}

/// Runs `$body` with `$scalar` bound to the type of an activation.
macro_rules! with_scalar {
    ($activation:expr, $scalar:ident => $body:expr) => {
        with_scalar!(
            $activation, $scalar => $body; Silu Gelu GeluTanh Relu Tanh Sigmoid Exp Log
        )
    };
    ($activation:expr, $scalar:ident => $body:expr; $($name:ident)+) => {
        match $activation {
            $(Activation::$name => {
                type $scalar = $name;
                $body
            })+
        }
    };
}

impl Tape {
    /// Applies an activation to every element.
    ///
    /// # Errors
    /// None at present; the result type matches the other operations.
    pub fn activate(&mut self, x: &Tensor, activation: Activation) -> Result<Tensor> {
        if let Some(cuda) = self.cuda() {
            return self.activate_cuda(&cuda, x, activation);
        }
        let mut output = self.device().buffer(x.shape().elements());
        pieces(&mut output, x.values(), x.values(), |output, x, _| {
            with_scalar!(activation, S => apply::<S>(output, x));
        });
        Ok(self.record("activate", *x.shape(), output, &[x], |y| {
            let (x, y) = (x.clone(), y.clone());
            move |upstream, gradients| {
                gradients.with(&x, |gradient, accumulate| {
                    for_parts(gradient, 1, GRAIN, |range, part| {
                        let [x, y] = [&x, &y].map(|of| &of.values()[range.clone()]);
                        let d = &upstream[range];
                        with_scalar!(activation, S => apply_slope::<S>(part, x, y, d, accumulate));
                    });
                });
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, check_gradients, evaluate, normal};
    use proptest::prelude::*;

    const ALL: [Activation; 8] = [
        Activation::Silu,
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::Relu,
        Activation::Tanh,
        Activation::Sigmoid,
        Activation::Exp,
        Activation::Log,
    ];

    fn reference(activation: Activation, x: f32) -> f32 {
        let x = f64::from(x);
        let y = match activation {
            Activation::Silu => x / (1.0 + (-x).exp()),
            Activation::Gelu => 0.5 * x * (1.0 + libm::erf(x / 2f64.sqrt())),
            Activation::GeluTanh => {
                let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
                0.5 * x * (1.0 + u.tanh())
            }
            Activation::Relu => x.max(0.0),
            Activation::Tanh => x.tanh(),
            Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Activation::Exp => x.exp(),
            Activation::Log => x.ln(),
        };
        y as f32
    }

    /// Inputs in the domain of the activation: positive for the logarithm.
    fn input(activation: Activation, shape: [usize; 2], seed: u64) -> Tensor {
        let x = normal(shape, seed);
        if activation != Activation::Log {
            return evaluate(|tape| tape.affine(&x, 3.0, 0.0));
        }
        let values: Vec<f32> = x.values().iter().map(|x| x.abs() + 0.3).collect();
        Tensor::from_slice(&values, shape).expect("as many values")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn values_match_the_reference(rows in 1usize..5, columns in 1usize..90, seed in 0u64..99) {
            for activation in ALL {
                let x = input(activation, [rows, columns], seed);
                let expected: Vec<f32> = x.values().iter().map(|x| reference(activation, *x)).collect();
                let here = Tape::inference(&crate::Device::poisoned()).activate(&x, activation);
                assert_close(here.unwrap().values(), &expected, 2e-6);
                // bf16 rounds an exponent near 16 by 0.03, and so its exponential by 3 %.
                let small = if activation == Activation::Exp { 0.4 } else { 1.0 };
                let x = evaluate(|tape| tape.affine(&x, small, 0.0));
                let expected: Vec<f32> = x.values().iter().map(|x| reference(activation, *x)).collect();
                let found = evaluate(|tape| tape.activate(&x, activation));
                assert_close(found.values(), &expected, 2e-6);
            }
        }
    }

    #[test]
    fn gradients_match_differences() {
        for activation in ALL {
            let x = normal([4, 5], 3);
            // Away from the kink of ReLU and from the pole of the logarithm.
            let away = |x: &f32| {
                if activation == Activation::Log { x.abs() + 0.5 } else { x + 0.1 * x.signum() }
            };
            let values: Vec<f32> = x.values().iter().map(away).collect();
            let x = Tensor::from_slice(&values, [4, 5]).expect("as many values");
            check_gradients(&[x], |tape, x| tape.activate(&x[0], activation));
        }
    }
}

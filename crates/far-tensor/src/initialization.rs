//! Initialization of parameters.

use crate::{Random, Shape};

/// A rule for the initial values of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initialization {
    /// All zero: biases, and the layers that adaLN-Zero starts as the identity.
    Zero,
    /// All one: scales of norms.
    One,
    /// One constant.
    Constant(f32),
    /// Normal with mean 0 and this deviation; DiT uses 0.02 for its embedders.
    Normal(f32),
    /// Uniform in ±√(6/(I + O)) for a matrix [I, O]: DiT's rule for linear layers.
    Xavier,
    /// Uniform in ±1/√I for a matrix [I, O], PyTorch's default for a linear layer.
    FanIn,
    /// Uniform in ± this bound: PyTorch's default for a bias is ±1/√I.
    Uniform(f32),
    /// Equal parts of consecutive elements, each with its own constant: a bias whose outputs are
    /// several vectors with different initial values.
    Parts(&'static [f32]),
}

impl Initialization {
    pub(crate) fn fill(&self, values: &mut [f32], shape: &Shape, random: &Random) {
        let (inputs, outputs) = fans(shape);
        match *self {
            Self::Zero => values.fill(0.0),
            Self::One => values.fill(1.0),
            Self::Constant(value) => values.fill(value),
            Self::Normal(deviation) => {
                random.fill_normal(values);
                values.iter_mut().for_each(|value| *value *= deviation);
            }
            Self::Xavier => {
                let bound = (6.0 / (inputs + outputs) as f32).sqrt();
                random.fill_uniform(values, -bound, bound);
            }
            Self::FanIn => {
                let bound = 1.0 / (inputs.max(1) as f32).sqrt();
                random.fill_uniform(values, -bound, bound);
            }
            Self::Uniform(bound) => random.fill_uniform(values, -bound, bound),
            Self::Parts(constants) => {
                let length = values.len().div_ceil(constants.len().max(1)).max(1);
                for (part, constant) in values.chunks_mut(length).zip(constants) {
                    part.fill(*constant);
                }
            }
        }
    }
}

/// Inputs and outputs of a parameter: [I, O] for a linear layer, [O, I, height, width] for a
/// convolution, whose window multiplies both.
fn fans(shape: &Shape) -> (usize, usize) {
    match *shape.extents() {
        [inputs, outputs] => (inputs, outputs),
        [outputs, inputs, height, width] => (inputs * height * width, outputs * height * width),
        _ => (shape.elements(), shape.elements()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(rule: Initialization, shape: impl Into<Shape>) -> Vec<f32> {
        let shape = shape.into();
        let mut values = vec![f32::NAN; shape.elements()];
        rule.fill(&mut values, &shape, &Random::stream(1, "w", 0));
        values
    }

    #[test]
    fn xavier_stays_inside_its_bound_and_fills_it() {
        let values = filled(Initialization::Xavier, [30, 20]);
        let bound = (6.0f32 / 50.0).sqrt();
        let largest = values.iter().fold(0f32, |largest, value| largest.max(value.abs()));
        assert!(largest <= bound && largest > 0.95 * bound);
    }

    #[test]
    fn normal_has_its_deviation() {
        let values = filled(Initialization::Normal(0.02), [100, 100]);
        let variance = values.iter().map(|x| x * x).sum::<f32>() / values.len() as f32;
        assert!((variance.sqrt() - 0.02).abs() < 1e-3);
    }

    #[test]
    fn parts_begin_at_constants_of_their_own() {
        let values = filled(Initialization::Parts(&[0.0, 1.0, -2.0]), [6]);
        assert_eq!(values, [0.0, 0.0, 1.0, 1.0, -2.0, -2.0]);
    }

    #[test]
    fn a_convolution_counts_its_window() {
        assert_eq!(fans(&Shape::from([8, 3, 5, 5])), (75, 200));
    }
}

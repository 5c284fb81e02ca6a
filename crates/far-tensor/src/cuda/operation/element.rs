//! Which element type a kernel works with, and how many elements a thread takes at once.

use crate::Tensor;
use crate::cuda::{Cuda, Element};
use crate::tensor::Origin;

impl Cuda {
    /// What an operation of these inputs computes its result as: bf16 if any of them is.
    pub(crate) fn common_element(&self, inputs: &[&Tensor]) -> Element {
        let half = inputs.iter().any(|input| input.element(self) == Element::Bf16);
        if half { Element::Bf16 } else { Element::F32 }
    }

    /// What to write the gradient of an input as, given the type of what it is computed from: its own,
    /// as long as that loses nothing.
    pub(crate) fn gradient_element(&self, input: &Tensor, upstream: Element) -> Element {
        match (upstream, input.origin) {
            (Element::F32, _) | (_, Origin::Parameter { .. }) => Element::F32,
            _ => input.element(self),
        }
    }
}

/// How many elements a thread may take at once if all these widths and offsets are multiples of it.
pub(super) fn run_length(multiples: &[usize]) -> usize {
    let fits = |run: &usize| multiples.iter().all(|number| number.is_multiple_of(*run));
    [8, 4].into_iter().find(fits).unwrap_or(1)
}

/// The version of a kernel for a source element type, which [`Cuda::launch`] adds the target's to:
/// `name_f32_to` or `name_bf16_to`.
macro_rules! kernel_from {
    ($program:expr, $name:literal, $element:expr) => {
        $crate::cuda::Kernel {
            program: &$program,
            name: match $element {
                $crate::cuda::Element::F32 => concat!($name, "_f32_to"),
                $crate::cuda::Element::Bf16 => concat!($name, "_bf16_to"),
            },
        }
    };
}
pub(super) use kernel_from;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_divide_all_they_are_for() {
        assert_eq!(run_length(&[16, 8, 0]), 8);
        assert_eq!(run_length(&[16, 12]), 4);
        assert_eq!(run_length(&[16, 6]), 1);
    }
}

//! Weights of the loss where something changed: small regions count more, the mean stays 1.
//!
//! With m the share of a latent's cell that the mask covers and a its mean over the frame, the
//! weight is w = (1 + c·m/a)/(1 + c): the masked region gets c/(1 + c) of all weight, however small it
//! is. A frame without a mask is weighted evenly, and so is one whose mask covers more than 15 % of it.

use crate::config::{ChangeMaskConfig, ChangeMaskSource};
use crate::example::Example;
use crate::{Error, Result};
use far_data::{Dataset, Mask};
use far_model::LatentShape;
use rayon::prelude::*;

/// Share of a frame up to which a mask is a local change, as in the paper.
const LARGEST_AREA: f32 = 0.15;

/// Weights of the futures of these examples, B × E as tokens, each future's with mean 1.
///
/// # Errors
/// If an episode or a mask cannot be read.
pub(crate) fn change_weights(
    config: &ChangeMaskConfig,
    dataset: &Dataset,
    examples: &[&Example],
    shape: LatentShape,
) -> Result<Vec<f32>> {
    let weights: Vec<Vec<f32>> = examples
        .par_iter()
        .map(|example| {
            let episode = dataset.episode(example.query.episode().id())?;
            let mask = match config.source {
                ChangeMaskSource::Change => {
                    episode.change(example.query.goal())?.map(|change| change.mask)
                }
                ChangeMaskSource::Silhouette => episode.silhouette(example.query.goal())?,
            };
            Ok::<_, Error>(mask_weights(config, mask.as_ref(), shape))
        })
        .collect::<Result<_>>()?;
    Ok(weights.concat())
}

/// The weights of one future, as tokens.
fn mask_weights(config: &ChangeMaskConfig, mask: Option<&Mask>, shape: LatentShape) -> Vec<f32> {
    let cells = mask.map(|mask| shape.cover(mask)).unwrap_or_default();
    let area = cells.iter().sum::<f32>() / cells.len().max(1) as f32;
    if area <= 0.0 || area > LARGEST_AREA {
        return vec![1.0; shape.elements()];
    }
    let factor = config.coefficient / area;
    // The mean over cells of 1 + factor · m.
    let mean = 1.0 + factor * area;
    let weights: Vec<f32> = cells.iter().map(|cell| (1.0 + factor * cell) / mean).collect();
    shape.to_tokens(&weights.repeat(shape.channels))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: LatentShape = LatentShape { channels: 2, height: 4, width: 4, patch: 2 };

    fn config(coefficient: f32) -> ChangeMaskConfig {
        ChangeMaskConfig { source: ChangeMaskSource::Change, coefficient, utility_coefficient: 0.0 }
    }

    /// One cell of sixteen, half covered, in the upper left.
    fn small() -> Mask {
        Mask::from_fn(8, 8, |x, y| x == 0 && y < 2)
    }

    fn mean(weights: &[f32]) -> f32 {
        weights.iter().sum::<f32>() / weights.len() as f32
    }

    #[test]
    fn a_small_change_takes_its_share_and_the_mean_stays_one() {
        let weights = mask_weights(&config(5.0), Some(&small()), SHAPE);
        assert_eq!(weights.len(), SHAPE.elements());
        assert!((mean(&weights) - 1.0).abs() < 1e-6, "{weights:?}");
        // The first token's first cell, both channels: (1 + 5·16)/6.
        assert!((weights[0] - 13.5).abs() < 1e-5 && weights[0] == weights[1], "{weights:?}");
        assert!((weights[2] - 1.0 / 6.0).abs() < 1e-6);
    }

    #[test]
    fn credits_have_a_coefficient_of_their_own() {
        assert_eq!(config(0.3).of_utility(), None);
        let mask = ChangeMaskConfig { utility_coefficient: 5.0, ..config(0.3) };
        let weights = mask.of_utility().map(|mask| mask_weights(&mask, Some(&small()), SHAPE));
        assert_eq!(weights, Some(mask_weights(&config(5.0), Some(&small()), SHAPE)));
    }

    #[test]
    fn no_change_and_a_change_of_everything_weigh_evenly() {
        let even = vec![1.0; SHAPE.elements()];
        let all = Mask::from_fn(8, 8, |_, _| true);
        let none = Mask::from_fn(8, 8, |_, _| false);
        for mask in [None, Some(&all), Some(&none)] {
            assert_eq!(mask_weights(&config(0.3), mask, SHAPE), even);
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
        #[test]
        fn the_weights_of_every_mask_have_a_mean_of_one(
            bits in proptest::collection::vec(proptest::bool::weighted(0.2), 64),
            coefficient in 0.01f32..10.0,
        ) {
            let mask = Mask { width: 8, height: 8, pixels: bits };
            let weights = mask_weights(&config(coefficient), Some(&mask), SHAPE);
            proptest::prop_assert!((mean(&weights) - 1.0).abs() < 1e-4);
            proptest::prop_assert!(weights.iter().all(|weight| *weight > 0.0));
        }
    }
}

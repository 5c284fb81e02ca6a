//! Weights of the loss where something changed: small regions count more, the mean stays 1.
//!
//! With m the share of a latent's cell that the mask covers and a its mean over the frame,
//! w = (1 + c·m/a)/(1 + c). A frame without a mask, or whose mask covers more than the largest area
//! and so is no local change, is weighted evenly.

use crate::config::{ChangeMaskConfig, ChangeMaskSource};
use crate::question::Question;
use crate::{Error, Result};
use far_data::{Dataset, Mask};
use far_model::LatentShape;
use rayon::prelude::*;

/// Weights of the futures of these questions, B × E as tokens, each future's with mean 1.
///
/// # Errors
/// If an episode or a mask cannot be read.
pub(crate) fn change_weights(
    config: &ChangeMaskConfig,
    dataset: &Dataset,
    questions: &[&Question],
    shape: LatentShape,
) -> Result<Vec<f32>> {
    let weights: Vec<Vec<f32>> = questions
        .par_iter()
        .map(|question| {
            let episode = dataset.episode(question.episode.id())?;
            let mask = match config.source {
                ChangeMaskSource::Change => {
                    episode.change(question.future)?.map(|change| change.mask)
                }
                ChangeMaskSource::Silhouette => episode.silhouette(question.future)?,
            };
            Ok::<_, Error>(mask_weights(config, mask.as_ref(), shape))
        })
        .collect::<Result<_>>()?;
    Ok(weights.concat())
}

/// The weights of one future, as tokens.
fn mask_weights(config: &ChangeMaskConfig, mask: Option<&Mask>, shape: LatentShape) -> Vec<f32> {
    let cells = mask.map(|mask| shape.cover(mask)).unwrap_or_default();
    let mean = cells.iter().sum::<f32>() / cells.len().max(1) as f32;
    if mean <= 0.0 || mean > config.largest_area {
        return vec![1.0; shape.elements()];
    }
    let weigh = |cell: &f32| (1.0 + config.coefficient * cell / mean) / (1.0 + config.coefficient);
    let weights: Vec<f32> = cells.iter().map(weigh).collect();
    shape.to_tokens(&weights.repeat(shape.channels))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: LatentShape = LatentShape { channels: 2, height: 4, width: 4, patch: 2 };

    fn config(coefficient: f32) -> ChangeMaskConfig {
        ChangeMaskConfig {
            source: ChangeMaskSource::Change,
            coefficient,
            largest_area: 0.15,
            in_utility: false,
        }
    }

    #[test]
    fn a_small_change_takes_its_share_and_the_mean_stays_one() {
        // One cell of sixteen, half covered, in the upper left.
        let mask = Mask::from_fn(8, 8, |x, y| x == 0 && y < 2);
        let weights = mask_weights(&config(5.0), Some(&mask), SHAPE);
        assert_eq!(weights.len(), SHAPE.elements());
        let mean = weights.iter().sum::<f32>() / weights.len() as f32;
        assert!((mean - 1.0).abs() < 1e-6, "{mean}");
        // The first token's first cell, both channels: (1 + 5·16)/6.
        assert!((weights[0] - 13.5).abs() < 1e-5 && weights[0] == weights[1], "{weights:?}");
        assert!((weights[2] - 1.0 / 6.0).abs() < 1e-6);
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
}

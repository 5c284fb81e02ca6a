//! InfoNCE with several positives: the loss that draws a query toward the keys of its goal.
//!
//! With similarities s = cos/τ of one query to P positives p and N negatives n, the loss is
//! −1/P Σₚ [sₚ − ln(e^{sₚ} + Σₙ e^{sₙ})]: the paper's equation, applied to each positive in turn, so that
//! positives do not push each other away.

use far_tensor::{Result, Statistic, Tape, Tensor};

/// Temperature τ; the paper gives none, 0.07 is the custom.
const TEMPERATURE: f32 = 0.07;

/// Cosines of queries with some of their keys, of which some may be missing.
#[derive(Clone, Copy, Debug)]
pub struct Similarities<'a> {
    /// Cosines [B, n].
    pub cosines: &'a Tensor,
    /// 1 where there is a key, 0 where there is none, [B, n].
    pub present: &'a Tensor,
}

/// The mean loss over the queries that have a positive: cosines [B, P] and [B, N] → scalar.
///
/// A query without negatives has nothing to tell its positives from; its loss is 0.
///
/// # Errors
/// If the shapes do not fit.
pub fn info_nce(
    tape: &mut Tape,
    positives: Similarities<'_>,
    negatives: Similarities<'_>,
) -> Result<Tensor> {
    let sharpness = 1.0 / TEMPERATURE;
    let positive = tape.affine(positives.cosines, sharpness, 0.0)?;
    let negative = tape.affine(negatives.cosines, sharpness, 0.0)?;
    let against = tape.log_sum_exp(&negative, Some(negatives.present))?;
    let any_negative = any(negatives.present)?;
    let losses = alone(tape, &positive, positives.present, &against, &any_negative)?;
    tape.statistic(&losses, Some(&any(positives.present)?), 0, Statistic::Mean)
}

/// The loss of each positive alone, averaged by query: [B, P], mask [B, P], [B], mask [B] → [B].
fn alone(
    tape: &mut Tape,
    positive: &Tensor,
    present: &Tensor,
    against: &Tensor,
    any: &Tensor,
) -> Result<Tensor> {
    let &[batch, count] = positive.shape().extents() else {
        return Err(far_tensor::Error::Unsupported {
            operation: "info_nce",
            shape: *positive.shape(),
            requirement: "one row of positives per query".into(),
        });
    };
    let pair = [batch, count, 1];
    let against = tape.repeat(against, 1, count)?.reshape(pair)?;
    let both = tape.concat(&[&positive.reshape(pair)?, &against], 2)?;
    let any = tape.repeat(any, 1, count)?.reshape(pair)?;
    let mask = tape.concat(&[&present.reshape(pair)?, &any], 2)?;
    let both = tape.log_sum_exp(&both, Some(&mask))?;
    let losses = tape.subtract(&both, positive)?;
    tape.statistic(&losses, Some(present), 1, Statistic::Mean)
}

/// 1 for the rows with a key: [B, n] → [B].
fn any(present: &Tensor) -> Result<Tensor> {
    let width = present.shape().last().max(1);
    let rows = present.values().chunks(width);
    let found: Vec<f32> = rows.map(|row| f32::from(row.iter().any(|x| *x != 0.0))).collect();
    Tensor::from_slice(&found, [found.len()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use far_tensor::{Device, Random};

    /// The formula in plain loops; `None` stands for a missing key.
    fn reference(queries: &[[Vec<Option<f64>>; 2]]) -> f64 {
        let mut losses = Vec::new();
        for keys in queries {
            let [positives, negatives] = keys.each_ref().map(|cosines| {
                let sharpness = 1.0 / f64::from(TEMPERATURE);
                cosines.iter().flatten().map(|cosine| cosine * sharpness).collect::<Vec<f64>>()
            });
            if positives.is_empty() {
                continue;
            }
            let against = negatives.iter().map(|s| s.exp()).sum::<f64>();
            let alone = positives.iter().map(|s| (s.exp() + against).ln() - s);
            losses.push(alone.sum::<f64>() / positives.len() as f64);
        }
        losses.iter().sum::<f64>() / losses.len().max(1) as f64
    }

    /// Cosines and masks of a seeded batch: 4 queries, 3 positives, 5 negatives, the third query
    /// without a positive and the fourth without a negative.
    fn batch(seed: u64) -> [(Tensor, Tensor); 2] {
        let mut random = Random::stream(seed, "cosines", 0);
        [3, 5].map(|width| {
            let cosines: Vec<f32> = (0..4 * width).map(|_| 2.0 * random.uniform() - 1.0).collect();
            let absent = if width == 3 { 2 } else { 3 };
            let kept = |index: usize| index / width != absent && random.uniform() > 0.3;
            let mask: Vec<f32> = (0..4 * width).map(kept).map(f32::from).collect();
            let tensor = |values: &[f32]| Tensor::from_slice(values, [4, width]).unwrap();
            (tensor(&cosines), tensor(&mask))
        })
    }

    fn plain(batch: &[(Tensor, Tensor); 2]) -> Vec<[Vec<Option<f64>>; 2]> {
        let row = |(cosines, mask): &(Tensor, Tensor), query: usize| {
            let width = mask.shape().last();
            let of = |tensor: &Tensor| tensor.values()[query * width..][..width].to_vec();
            let pairs = of(cosines).into_iter().zip(of(mask));
            pairs.map(|(cosine, kept)| (kept != 0.0).then_some(f64::from(cosine))).collect()
        };
        (0..4).map(|query| [row(&batch[0], query), row(&batch[1], query)]).collect()
    }

    fn value(tape: &mut Tape, batch: &[(Tensor, Tensor); 2]) -> Tensor {
        let [positives, negatives] =
            batch.each_ref().map(|(cosines, present)| Similarities { cosines, present });
        info_nce(tape, positives, negatives).unwrap()
    }

    #[test]
    fn losses_match_the_plain_formula() {
        for seed in 0..20 {
            let batch = batch(seed);
            let found = value(&mut Tape::inference(&Device::cpu()), &batch).item().unwrap();
            let expected = reference(&plain(&batch));
            let close = (f64::from(found) - expected).abs() < 1e-5 * expected.abs().max(1.0);
            assert!(close, "seed {seed}: {found}, expected {expected}");
        }
    }

    #[test]
    fn gradients_match_differences() {
        let given = batch(7);
        let mut tape = Tape::recording(&Device::cpu());
        let variables = given.clone().map(|(cosines, mask)| (tape.variable(&cosines), mask));
        let output = value(&mut tape, &variables);
        let gradients = tape.backward(&output, 1.0, &mut []).unwrap();
        let given = plain(&given);
        for side in 0..2 {
            let width = variables[side].1.shape().last();
            let found = gradients.of(&variables[side].0).unwrap();
            for (element, slope) in found.iter().enumerate() {
                let at = |delta: f64| {
                    let mut moved = given.clone();
                    let cosine = &mut moved[element / width][side][element % width];
                    *cosine = cosine.map(|cosine| cosine + delta);
                    reference(&moved)
                };
                let numeric = (at(1e-5) - at(-1e-5)) / 2e-5;
                let near = (f64::from(*slope) - numeric).abs() < 1e-4;
                assert!(near, "side {side}, {element}: {slope} and {numeric}");
            }
        }
    }

    #[test]
    fn one_positive_is_as_computed_by_hand() {
        let tensor = |values: &[f32]| Tensor::from_slice(values, [1, values.len()]).unwrap();
        let batch = [(tensor(&[0.3]), tensor(&[1.0])), (tensor(&[0.25, 0.2]), tensor(&[1.0, 1.0]))];
        let loss = value(&mut Tape::inference(&Device::cpu()), &batch);
        // ln(1 + e^{(0.25 − 0.3)/0.07} + e^{(0.2 − 0.3)/0.07}).
        assert!((loss.item().unwrap() - 0.547655).abs() < 1e-5, "{loss:?}");
    }
}

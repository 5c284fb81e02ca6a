//! InfoNCE with several positives: the loss that draws a query toward the keys of its goal.
//!
//! With similarities s = cos/τ of one query to P positives p and N negatives n:
//!
//! | form | loss |
//! |---|---|
//! | per positive | −1/P Σₚ [sₚ − ln(e^{sₚ} + Σₙ e^{sₙ})] |
//! | supervised contrastive | −1/P Σₚ [sₚ − ln(Σ over both e^s)] |
//! | multiple instance | −[ln Σₚ e^{sₚ} − ln(Σ over both e^s)] |
//!
//! All three are the same where P = 1. The first is the paper's equation, applied to each positive
//! in turn: its positives do not push each other away. The second does (SupCon's "out" form), the
//! third is content with any one of them (MIL-NCE).

use far_tensor::{Result, Statistic, Tape, Tensor};
use serde::{Deserialize, Serialize};

/// How several positives share one loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PositiveForm {
    /// Each positive alone against all negatives, averaged.
    #[default]
    PerPositive,
    /// Each positive against everything, averaged.
    Supcon,
    /// All positives together against everything.
    MilNce,
}

/// The settings of the loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InfoNce {
    /// How several positives share one loss; the paper prints one positive only.
    pub form: PositiveForm,
    /// Temperature τ; the paper gives none, 0.07 is the custom.
    pub temperature: f32,
}

impl Default for InfoNce {
    fn default() -> Self {
        Self { form: PositiveForm::default(), temperature: 0.07 }
    }
}

/// Cosines of queries with some of their keys, of which some may be missing.
#[derive(Clone, Copy, Debug)]
pub struct Similarities<'a> {
    /// Cosines [B, n].
    pub cosines: &'a Tensor,
    /// 1 where there is a key, 0 where there is none, [B, n].
    pub present: &'a Tensor,
}

impl InfoNce {
    /// The mean loss over the queries that have a positive: cosines [B, P] and [B, N] → scalar.
    ///
    /// A query without negatives has nothing to tell its positives from; its loss is 0 in the
    /// first form.
    ///
    /// # Errors
    /// If the shapes do not fit.
    pub fn loss(
        &self,
        tape: &mut Tape,
        positives: Similarities<'_>,
        negatives: Similarities<'_>,
    ) -> Result<Tensor> {
        let sharpness = 1.0 / self.temperature;
        let positive = tape.affine(positives.cosines, sharpness, 0.0)?;
        let negative = tape.affine(negatives.cosines, sharpness, 0.0)?;
        let losses = match self.form {
            PositiveForm::PerPositive => {
                let against = tape.log_sum_exp(&negative, Some(negatives.present))?;
                let any = any(negatives.present)?;
                self.alone(tape, &positive, positives.present, &against, &any)?
            }
            PositiveForm::Supcon => {
                let all = self.all(tape, [&positive, &negative], [&positives, &negatives])?;
                let drawn =
                    tape.statistic(&positive, Some(positives.present), 1, Statistic::Mean)?;
                tape.subtract(&all, &drawn)?
            }
            PositiveForm::MilNce => {
                let all = self.all(tape, [&positive, &negative], [&positives, &negatives])?;
                let drawn = tape.log_sum_exp(&positive, Some(positives.present))?;
                tape.subtract(&all, &drawn)?
            }
        };
        tape.statistic(&losses, Some(&any(positives.present)?), 0, Statistic::Mean)
    }

    /// The loss of each positive alone, averaged by query: [B, P], mask [B, P], [B], mask [B] → [B].
    fn alone(
        &self,
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

    /// ln Σ e^s over positives and negatives, [B].
    fn all(
        &self,
        tape: &mut Tape,
        scores: [&Tensor; 2],
        [positives, negatives]: [&Similarities<'_>; 2],
    ) -> Result<Tensor> {
        let scores = tape.concat(&scores, 1)?;
        let present = tape.concat(&[positives.present, negatives.present], 1)?;
        tape.log_sum_exp(&scores, Some(&present))
    }
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

    const FORMS: [PositiveForm; 3] =
        [PositiveForm::PerPositive, PositiveForm::Supcon, PositiveForm::MilNce];

    /// The formulas of the table, in plain loops; `None` stands for a missing key.
    fn reference(loss: InfoNce, queries: &[[Vec<Option<f64>>; 2]]) -> f64 {
        let mut losses = Vec::new();
        for keys in queries {
            let [positives, negatives] = keys.each_ref().map(|cosines| {
                let sharpness = 1.0 / f64::from(loss.temperature);
                cosines.iter().flatten().map(|cosine| cosine * sharpness).collect::<Vec<f64>>()
            });
            if positives.is_empty() {
                continue;
            }
            let sum = |scores: &[f64]| scores.iter().map(|s| s.exp()).sum::<f64>();
            let all = sum(&positives) + sum(&negatives);
            let mean = |term: &dyn Fn(f64) -> f64| {
                positives.iter().map(|s| term(*s)).sum::<f64>() / positives.len() as f64
            };
            losses.push(match loss.form {
                PositiveForm::PerPositive => mean(&|s| (s.exp() + sum(&negatives)).ln() - s),
                PositiveForm::Supcon => mean(&|s| all.ln() - s),
                PositiveForm::MilNce => all.ln() - sum(&positives).ln(),
            });
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

    fn value(loss: InfoNce, tape: &mut Tape, batch: &[(Tensor, Tensor); 2]) -> Tensor {
        let [positives, negatives] =
            batch.each_ref().map(|(cosines, present)| Similarities { cosines, present });
        loss.loss(tape, positives, negatives).unwrap()
    }

    #[test]
    fn all_forms_match_the_plain_formulas() {
        for seed in 0..20 {
            let batch = batch(seed);
            for form in FORMS {
                let loss = InfoNce { form, temperature: 0.2 };
                let found = value(loss, &mut Tape::inference(&Device::cpu()), &batch);
                let (found, expected) = (found.item().unwrap(), reference(loss, &plain(&batch)));
                let close = (f64::from(found) - expected).abs() < 1e-5 * expected.abs().max(1.0);
                assert!(close, "{form:?}, seed {seed}: {found}, expected {expected}");
            }
        }
    }

    #[test]
    fn gradients_match_differences() {
        let given = batch(7);
        for form in FORMS {
            let loss = InfoNce { form, temperature: 0.3 };
            let mut tape = Tape::recording(&Device::cpu());
            let variables = given.clone().map(|(cosines, mask)| (tape.variable(&cosines), mask));
            let output = value(loss, &mut tape, &variables);
            let gradients = tape.backward(&output, 1.0, &mut []).unwrap();
            for side in 0..2 {
                let cosines = &given[side].0;
                let found = gradients.of(&variables[side].0).unwrap();
                for (element, slope) in found.iter().enumerate() {
                    let at = |delta: f32| {
                        let mut values = cosines.values().to_vec();
                        values[element] += delta;
                        let mut moved = given.clone();
                        moved[side].0 = Tensor::from_slice(&values, *cosines.shape()).unwrap();
                        reference(loss, &plain(&moved))
                    };
                    let numeric = (at(1e-3) - at(-1e-3)) / 2e-3;
                    let near = (f64::from(*slope) - numeric).abs() < 2e-3;
                    assert!(near, "{form:?}, side {side}, {element}: {slope} and {numeric}");
                }
            }
        }
    }

    #[test]
    fn one_positive_makes_all_forms_the_same() {
        let tensor = |values: &[f32]| Tensor::from_slice(values, [1, values.len()]).unwrap();
        let batch = [(tensor(&[0.8]), tensor(&[1.0])), (tensor(&[0.1, -0.4]), tensor(&[1.0, 1.0]))];
        let mut tape = Tape::inference(&Device::cpu());
        let losses = FORMS.map(|form| value(InfoNce { form, temperature: 0.5 }, &mut tape, &batch));
        // ln(1 + e^{(0.1 − 0.8)/0.5} + e^{(−0.4 − 0.8)/0.5}), by hand.
        for loss in losses {
            assert!((loss.item().unwrap() - 0.290_664).abs() < 1e-5, "{loss:?}");
        }
    }
}

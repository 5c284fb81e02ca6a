//! One-step prediction: the present is real, the goal lies some frames ahead.

use crate::frame_quality::{FrameQuality, Truth};
use crate::prediction::{Ask, Predictor};
use crate::{EvaluationPlan, Result};
use far_memory::Recall;

/// PSNR of an arm's predictions against the decoded truth, one per question, in dB; none if the
/// tokenizer cannot decode.
///
/// # Errors
/// If the world model refuses a context.
pub fn one_step_psnr(
    predictor: &Predictor<'_>,
    quality: &FrameQuality<'_>,
    plan: &EvaluationPlan,
    asks: &[Ask<'_>],
    recalls: &[Recall],
    truths: &[Truth],
) -> Result<Vec<f64>> {
    let mut values = Vec::with_capacity(asks.len());
    let parts = asks.chunks(plan.batch).zip(recalls.chunks(plan.batch));
    for ((asks, recalls), truths) in parts.zip(truths.chunks(plan.batch)) {
        let latents = predictor.generate(asks, recalls)?;
        let frames: Vec<&[f32]> = latents.chunks(latents.len() / asks.len()).collect();
        let pictures = quality.pictures(&frames).unwrap_or_default();
        let compared = quality.compare(&pictures, truths)?;
        values.extend(compared.into_iter().filter_map(|values| values[0]));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Copier, arms, clips, plan, road};
    use crate::{Arm, Control};

    #[test]
    fn the_nearest_memory_predicts_and_the_latest_does_not() {
        let (_folder, dataset) = road(&[21, 15], None);
        let clips = clips(&dataset);
        let (copier, plan) = (Copier::new(), plan());
        let quality = FrameQuality::new(&dataset, crate::Perceptual::default());
        let mut asks = Vec::new();
        let mut truths = Vec::new();
        for clip in &clips {
            for query in clip.queries(&plan) {
                truths.extend(quality.truths(clip, &[query.goal()]).unwrap().unwrap());
                asks.push(Ask::recorded(clip, query));
            }
        }
        let mut arms = arms(&["temporal", "nearest-pose"]);
        arms.push(Arm::control(Control::None));
        let psnr = |arm: &Arm| {
            let predictor = Predictor::new(arm, &arms, &copier, dataset.encoders(), &plan).unwrap();
            let recalls = predictor.recall(&asks).unwrap();
            let values = one_step_psnr(&predictor, &quality, &plan, &asks, &recalls, &truths);
            values.unwrap()
        };
        let [temporal, nearest, none] = [0, 1, 2].map(|arm| psnr(&arms[arm]));
        assert_eq!(nearest, vec![100.0; asks.len()]);
        assert!(temporal.iter().chain(&none).all(|value| *value < 100.0));
        // Without memory the copier repeats the present, which is real.
        let Ask { clip, query, .. } = &asks[4];
        let seen = |frame| quality.truths(clip, &[frame]).unwrap().unwrap().remove(0).decoded;
        let expected = far_model::psnr(&seen(query.now()), &seen(query.goal())).unwrap();
        assert_eq!(none[4], expected);
    }
}

//! The probe `sharpness`: do rollouts blur? This file is all that a probe needs.

use far_data::Picture;
use far_eval::{ClipGroup, EvaluationContext, Measured, Metric, Observed, Probe, Result, Truth};

/// How strong the edges of a rollout are beside those of the true frames.
pub struct Sharpness {
    /// The edges of the true frames of each clip in the group under way.
    truths: Vec<f64>,
    measured: Measured,
}

impl Sharpness {
    /// Nothing measured yet.
    pub fn new() -> Self {
        let metric = Metric::number("sharpness", "Sharpness")
            .titled("sharpness")
            .noted("edges of the rollout beside those of the true frames, 1 is as sharp");
        Self { truths: Vec::new(), measured: Measured::new(metric) }
    }
}

impl Probe for Sharpness {
    fn prepare(
        &mut self,
        _: &EvaluationContext<'_>,
        _: &ClipGroup,
        truths: &[Vec<Truth>],
    ) -> Result<()> {
        let edges = |frames: &Vec<Truth>| edges(frames.iter().map(|truth| &truth.decoded));
        self.truths = truths.iter().map(edges).collect();
        Ok(())
    }

    fn observe(&mut self, _: &EvaluationContext<'_>, seen: &Observed<'_>) -> Result<()> {
        let Some(pictures) = seen.pictures else { return Ok(()) };
        let truth = self.truths[seen.place];
        // A clip without any edge says nothing of sharpness.
        if truth > 0.0 {
            self.measured.set(seen.arm.id(), seen.row, edges(pictures.iter()) / truth);
        }
        Ok(())
    }

    fn finish(&mut self, _: &EvaluationContext<'_>) -> Result<Vec<Measured>> {
        Ok(vec![self.measured.clone()])
    }
}

/// The mean difference of neighbors in a row, over all colors and pictures.
fn edges<'a>(pictures: impl Iterator<Item = &'a Picture>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for picture in pictures {
        for row in picture.pixels.chunks(3 * picture.width as usize) {
            for (left, right) in row.iter().zip(&row[3..]) {
                sum += f64::from(left.abs_diff(*right));
                count += 1.0;
            }
        }
    }
    if count > 0.0 { sum / count } else { 0.0 }
}

//! What recalled memories are worth: the one measurement behind training's credit, recall quality and
//! the oracle.

use crate::retriever::utility::with_auxiliary;
use crate::{
    ContextBuilder, Future, Futures, Perturbations, Present, Result, UtilityEstimator, WorldModel,
};

/// Measures utilities under one world model.
pub struct UtilityMeter<'a> {
    /// The world model whose loss counts.
    pub model: &'a dyn WorldModel,
    /// Utilities are divided by it; 1 is the printed formula.
    pub temperature: f32,
    /// Weights of the futures with mean 1, B × E, where some elements count more.
    pub weights: Option<&'a [f32]>,
}

/// Utilities of the candidates of B queries.
#[derive(Clone, Debug, PartialEq)]
pub struct Utilities {
    /// U of each candidate of each query, in nats; only differences mean something.
    pub values: Vec<Vec<f32>>,
    /// For each noise level how far apart it puts the candidates, in nats, on average over queries.
    pub spread: Vec<f32>,
}

impl UtilityMeter<'_> {
    /// The utility of every candidate of every query: minus the error in predicting the future when
    /// the world model reads the candidate's memories and no others. A candidate is a list of frames,
    /// usually one. All candidates of a query meet the same noise.
    ///
    /// What else the model is trained on, its auxiliary loss, counts beside the error of the frame.
    ///
    /// # Errors
    /// If the world model refuses a context or a loss is not finite.
    pub fn measure(
        &self,
        presents: &[Present<'_>],
        candidates: &[Vec<Vec<usize>>],
        drawn: &Perturbations,
    ) -> Result<Utilities> {
        // Every future gets equally many contexts; shorter lists repeat "no memory at all".
        let most = candidates.iter().map(Vec::len).max().unwrap_or(0);
        let slots = candidates.iter().flatten().map(Vec::len).max().unwrap_or(0);
        let mut contexts = ContextBuilder::new(self.model, slots.max(1));
        for (present, candidates) in presents.iter().zip(candidates) {
            for place in 0..most {
                let memories = candidates.get(place).map_or(&[][..], Vec::as_slice);
                contexts.add(*present, memories.iter().copied())?;
            }
        }
        let contexts = contexts.build();
        let futures: Futures = presents.iter().map(|present| Future::of(present.query)).collect();
        let losses = self.model.losses(&contexts, &futures, drawn, self.weights)?;
        let elements = self.model.shape().elements();
        let estimator = UtilityEstimator { temperature: self.temperature, elements };
        let auxiliary = self.model.auxiliary_losses(&contexts, &futures)?;
        let counted = with_auxiliary(&losses, auxiliary.as_deref())?;
        let levels = drawn.draws;
        let mut values = Vec::with_capacity(presents.len());
        let mut spread = vec![0.0; levels];
        for (place, candidates) in candidates.iter().enumerate() {
            let own = place * most * levels..(place * most + candidates.len()) * levels;
            values.push(estimator.utilities(&counted[own.clone()], levels)?);
            let share = 1.0 / presents.len() as f32;
            let apart = estimator.spread(&losses[own], levels)?;
            spread.iter_mut().zip(apart).for_each(|(mean, own)| *mean += share * own);
        }
        Ok(Utilities { values, spread })
    }
}

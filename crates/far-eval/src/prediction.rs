//! One prediction of one arm: what it recalls, and what is generated from that.
//!
//! Rollouts and one-step prediction differ only in the present they start from.

use crate::arm::{Arm, Choice, Control};
use crate::encoded_clip::EncodedClip;
use crate::recall_quality::distinct;
use crate::utility::UtilityMeter;
use crate::{Error, EvaluationPlan, Result};
use far_memory::{Recall, RecallPolicy, RecallQuery};
use far_model::{
    ContextBuilder, CueEncoder, Present, Query, WorldModel, embed_queries, recall_all,
};
use std::sync::Arc;

/// A query about a clip, with the latent of the present as it is believed to be: recorded or generated.
#[derive(Clone)]
pub struct Ask<'a> {
    /// The clip.
    pub clip: &'a EncodedClip,
    /// From which frame to which.
    pub query: Query,
    /// The latent of the present.
    pub latent: &'a [f32],
}

impl<'a> Ask<'a> {
    /// A query whose present is as it was recorded.
    pub fn recorded(clip: &'a EncodedClip, query: Query) -> Self {
        Self { clip, latent: clip.episode().latent(query.now()), query }
    }

    /// The state of the present as it was recorded; empty where the corpus has none.
    pub fn recorded_state(&self) -> &'a [f32] {
        self.clip.episode().state(self.query.now())
    }
}

/// Frames that were generated.
pub struct Imagined {
    /// Their latents, one after another.
    pub latents: Vec<f32>,
    /// The auxiliary prediction of each, one after another; empty for a model without one.
    pub states: Vec<f32>,
}

/// Recalls and generates for one arm.
pub struct Predictor<'a> {
    arm: &'a Arm,
    /// The policies that are asked: its own, the one that is copied, or all for the oracle.
    policies: Vec<&'a dyn RecallPolicy>,
    model: &'a dyn WorldModel,
    encoders: &'a [Arc<dyn CueEncoder>],
    plan: &'a EvaluationPlan,
}

impl<'a> Predictor<'a> {
    /// A predictor for an arm of `arms`. `judge` generates unless the arm has a world model of its
    /// own; `encoders` are those of the clips.
    ///
    /// # Errors
    /// If the arm is the control `copy` and no arm has a policy to copy from.
    pub fn new(
        arm: &'a Arm,
        arms: &'a [Arm],
        judge: &'a dyn WorldModel,
        encoders: &'a [Arc<dyn CueEncoder>],
        plan: &'a EvaluationPlan,
    ) -> Result<Self> {
        let policies: Vec<&dyn RecallPolicy> = match arm.choice() {
            Choice::Policy(policy) => vec![policy.as_ref()],
            Choice::Control(Control::Copy) => Arm::copied(arms).into_iter().collect(),
            Choice::Control(Control::Oracle) => arms.iter().filter_map(Arm::as_policy).collect(),
            Choice::Control(Control::None | Control::Tokenizer) => Vec::new(),
        };
        if arm.is(Control::Copy) && policies.is_empty() {
            return Err(Error::Setting {
                setting: "copy".to_owned(),
                reason: "no arm has a policy whose first memory could be pasted".to_owned(),
            });
        }
        let model = arm.model().unwrap_or(judge);
        Ok(Self { arm, policies, model, encoders, plan })
    }

    /// The arm.
    pub fn arm(&self) -> &'a Arm {
        self.arm
    }

    /// What the arm recalls for each question; nothing for `none` and `tokenizer`. The oracle chooses
    /// among evenly spaced candidates and what a policy of any arm would recall in its place.
    ///
    /// # Errors
    /// If a policy refuses a query or the world model an oracle's candidates.
    pub fn recall(&self, asks: &[Ask<'_>]) -> Result<Vec<Recall>> {
        let queries = if self.policies.is_empty() { Vec::new() } else { self.queries(asks)? };
        let answers = self.policies.iter().map(|policy| self.ask(*policy, asks, &queries));
        let mut answers: Vec<Vec<Recall>> = answers.collect::<Result<_>>()?;
        if !self.arm.is(Control::Oracle) {
            return Ok(answers.pop().unwrap_or_else(|| vec![Recall::new(); asks.len()]));
        }
        let meter = UtilityMeter::new(self.model, self.plan);
        let most = self.plan.utility.candidates;
        let recalls = asks.iter().enumerate().map(|(place, ask)| {
            let sets = answers.iter().map(|recalls| &recalls[place]);
            let sets = sets.map(|recall| recall.indices().collect());
            let rivals = distinct(&sets.collect::<Vec<_>>());
            let besides = rivals.iter().flatten().copied();
            meter.oracle(ask, &ask.clip.candidates_and(most, besides), &rivals)
        });
        recalls.collect()
    }

    fn queries(&self, asks: &[Ask<'_>]) -> Result<Vec<RecallQuery>> {
        let query = |ask: &Ask<'_>| ask.clip.recall_query(&ask.query, self.plan.seed);
        let mut queries: Vec<RecallQuery> = asks.iter().map(query).collect();
        let presents: Vec<Present<'_>> =
            asks.iter().map(|ask| Present { latent: ask.latent, ..ask.query.recorded() }).collect();
        embed_queries(self.encoders, &self.model.scale(), &presents, &mut queries)?;
        Ok(queries)
    }

    fn ask(
        &self,
        policy: &dyn RecallPolicy,
        asks: &[Ask<'_>],
        queries: &[RecallQuery],
    ) -> Result<Vec<Recall>> {
        // With one slot a policy gives its best, whatever order it reports several in.
        let slots = if self.arm.is(Control::Copy) { 1 } else { self.plan.slots };
        let pairs = asks.iter().map(|ask| ask.clip.episode().memory()).zip(queries);
        Ok(recall_all(policy, &pairs.collect::<Vec<_>>(), slots)?)
    }

    /// The latents of the goals given what was recalled, one after another. The noise comes from the
    /// clip and the two frames alone, so that it is the same for every arm.
    ///
    /// # Errors
    /// If the world model refuses a context or generates something that is not a number.
    pub fn generate(&self, asks: &[Ask<'_>], recalls: &[Recall]) -> Result<Vec<f32>> {
        let states: Vec<Vec<f32>> = asks.iter().map(|ask| ask.recorded_state().to_vec()).collect();
        let noise = self.noise(asks, |ask| ask.query.goal());
        Ok(self.imagine(asks, recalls, &states, &noise)?.latents)
    }

    /// The noise that each future is made from, one after another: that of the frame which `noise_of`
    /// names. Questions of a clip with the same present and the same such frame meet the same noise.
    pub fn noise(&self, asks: &[Ask<'_>], noise_of: impl Fn(&Ask<'_>) -> usize) -> Vec<f32> {
        let elements = self.model.shape().elements();
        let mut noise = vec![0.0; asks.len() * elements];
        for (ask, noise) in asks.iter().zip(noise.chunks_mut(elements)) {
            let purpose = format!("noise from frame {}", ask.query.now());
            ask.clip.stream(self.plan.seed, &purpose, noise_of(ask)).fill_normal(noise);
        }
        noise
    }

    /// As [`Predictor::generate`] from this noise, with the believed state of each present.
    ///
    /// # Errors
    /// As [`Predictor::generate`].
    pub fn imagine(
        &self,
        asks: &[Ask<'_>],
        recalls: &[Recall],
        states: &[Vec<f32>],
        noise: &[f32],
    ) -> Result<Imagined> {
        let pairs = || asks.iter().zip(recalls);
        let seen = |latents| Imagined { latents, states: Vec::new() };
        match self.arm.choice() {
            Choice::Control(Control::Copy) => Ok(seen(gather(pairs().map(|(ask, recall)| {
                let first = recall.ids().next();
                first.map_or(ask.latent, |id| ask.clip.episode().latent(id.index()))
            })))),
            Choice::Control(Control::Tokenizer) => {
                let goals = asks.iter();
                Ok(seen(gather(goals.map(|ask| ask.clip.episode().latent(ask.query.goal())))))
            }
            _ => {
                let mut contexts = ContextBuilder::new(self.model, self.plan.slots);
                for ((ask, recall), state) in pairs().zip(states) {
                    let present = Present { query: &ask.query, latent: ask.latent, state };
                    contexts.add(present, recall.indices())?;
                }
                let contexts = contexts.build();
                let latents = self.model.sample(&contexts, noise, &self.plan.sampler)?;
                self.check(asks, &latents)?;
                let states = self.model.auxiliary(&contexts)?.unwrap_or_default();
                Ok(Imagined { latents, states })
            }
        }
    }

    fn check(&self, asks: &[Ask<'_>], futures: &[f32]) -> Result<()> {
        let elements = self.model.shape().elements();
        match futures.iter().position(|value| !value.is_finite()) {
            None => Ok(()),
            Some(place) => {
                let ask = &asks[place / elements];
                Err(Error::Diverged {
                    arm: self.arm.id().to_owned(),
                    episode: ask.clip.episode().id(),
                    frame: ask.query.goal(),
                    value: futures[place],
                })
            }
        }
    }
}

fn gather<'a>(latents: impl Iterator<Item = &'a [f32]>) -> Vec<f32> {
    latents.flatten().copied().collect()
}

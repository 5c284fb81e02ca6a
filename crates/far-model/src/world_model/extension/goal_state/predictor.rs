//! Where a second agent will be: attention over what recalled frames say of it.
//!
//! Each frame k of the context, the current one among them, is a token
//! u_k = LayerNorm(MLP([g_k, pose_k from the goal, pose_k from now, Δt_k])) with g_k the agent's state in
//! it and a little earlier. The question is e = MLP([goal's pose, stride, g_now]); p = e + what e gathers
//! from the tokens, and MLP(p) = (logit of presence, position) in the goal's camera. The loss is
//! BCE(logit, v*) + w·v*·smoothL1(position), each averaged over the examples that it applies to.

use crate::layer::Linear;
use crate::layer::Pass;
use crate::world_model::context::ContextBatch;
use crate::world_model::frame_condition::{ContextFrame, FrameCondition, Goal};
use crate::{POSE_FEATURES, SignalLayout};
use far_tensor::{ArenaBuilder, Attention, Initialization, Result, Tensor};
use std::ops::Range;

/// ε of the norm of tokens.
const EPSILON: f32 = 1e-6;
/// Where smooth L1 turns from a square into a line.
const BETA: f32 = 1.0;

/// Channels of its tokens; the paper gives none.
const WIDTH: usize = 128;
/// Heads of its attention; the paper gives none.
const HEADS: usize = 4;
/// Weight of the position within its loss, as in the paper.
const POSITION_WEIGHT: f32 = 0.05;

/// Linear, GELU, linear.
struct Mlp([Linear; 2]);

impl Mlp {
    fn new(builder: &mut ArenaBuilder, name: &str, [inputs, hidden, outputs]: [usize; 3]) -> Self {
        let mut layer = |place: usize, sizes| {
            let name = format!("state_predictor.{name}.mlp.{place}");
            Linear::new(builder, &name, sizes, Initialization::FanIn, Initialization::Zero)
        };
        Self([layer(0, [inputs, hidden]), layer(2, [hidden, outputs])])
    }

    fn forward(&self, pass: &mut Pass<'_>, x: &Tensor) -> Result<Tensor> {
        let hidden = self.0[0].forward_gelu(pass, x)?;
        self.0[1].forward(pass, &hidden)
    }
}

/// The predictor; its parameters live in the world model's arena.
pub(crate) struct StatePredictor {
    goal_state: usize,
    slot: Mlp,
    question: Mlp,
    query: Linear,
    key_value: Linear,
    projection: Linear,
    head: Mlp,
}

impl StatePredictor {
    /// Adds the parameters of a predictor of the states of this layout.
    pub(crate) fn new(builder: &mut ArenaBuilder, signals: SignalLayout) -> Self {
        let (states, goal_state) = (signals.state.width, signals.goal_state.width);
        let slot = [states + 2 * POSE_FEATURES + 1, WIDTH, WIDTH];
        let question = [POSE_FEATURES + 1 + states, WIDTH, WIDTH];
        let mut linear = |part: &str, sizes| {
            let name = format!("state_predictor.attn.{part}");
            Linear::new(builder, &name, sizes, Initialization::Xavier, Initialization::Zero)
        };
        let query = linear("q", [WIDTH, WIDTH]);
        let key_value = linear("kv", [WIDTH, 2 * WIDTH]);
        let projection = linear("proj", [WIDTH, WIDTH]);
        Self {
            goal_state,
            slot: Mlp::new(builder, "slot", slot),
            question: Mlp::new(builder, "query", question),
            query,
            key_value,
            projection,
            head: Mlp::new(builder, "head", [WIDTH, WIDTH, goal_state]),
        }
    }

    /// Logit of presence and position for some predictions: [n, goal_state].
    pub(crate) fn forward(
        &self,
        pass: &mut Pass<'_>,
        contexts: &ContextBatch<'_>,
        range: Range<usize>,
    ) -> Result<Tensor> {
        let (count, frames) = (range.len(), 1 + contexts.slots());
        let (mut slots, mut questions, mut mask) = (Vec::new(), Vec::new(), Vec::new());
        for example in range {
            for frame in 0..frames {
                let ContextFrame { condition, state, .. } =
                    contexts.frame(example * frames + frame);
                let FrameCondition { from_current, from_goal, time, .. } = condition;
                slots.extend_from_slice(state);
                slots.extend(from_goal.iter().chain(from_current).chain([time]));
                let slot = frame.checked_sub(1);
                let present =
                    slot.is_none_or(|slot| contexts.present()[example * (frames - 1) + slot]);
                mask.push(f32::from(present));
            }
            let Goal { condition: goal, stride, .. } = contexts.goal(example);
            questions.extend(goal.from_current);
            questions.push(stride);
            questions.extend_from_slice(contexts.frame(example * frames).state);
        }
        let slots = Tensor::from_slice(&slots, [count * frames, slots.len() / (count * frames)])?;
        let questions = Tensor::from_slice(&questions, [count, questions.len() / count])?;
        let mask = Tensor::from_slice(&mask, [count, frames])?;
        let tokens = self.slot.forward(pass, &slots)?;
        let tokens = pass.layer_norm(&tokens, None, EPSILON)?;
        let key_value = self.key_value.forward(pass, &tokens)?;
        let question = self.question.forward(pass, &questions)?;
        let query = self.query.forward(pass, &question)?;
        let attention = Attention { heads: HEADS, groups: count, key_mask: Some(&mask) };
        let gathered = pass.cross_attention(&query, &key_value, attention)?;
        let gathered = self.projection.forward(pass, &gathered)?;
        let pooled = pass.add(&question, &gathered)?;
        self.head.forward(pass, &pooled)
    }

    /// What it adds to the training loss of some predictions. The truths are the states at the goals of
    /// all predictions, [B, goal_state].
    pub(crate) fn loss(
        &self,
        pass: &mut Pass<'_>,
        contexts: &ContextBatch<'_>,
        truths: &[f32],
        range: Range<usize>,
    ) -> Result<Tensor> {
        let predicted = self.forward(pass, contexts, range.clone())?;
        let (count, numbers) = (range.len(), self.goal_state);
        let truths = &truths[range.start * numbers..range.end * numbers];
        let (mut presence, mut positions, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        let seen = truths.chunks_exact(numbers).filter(|truth| truth[0] > 0.0).count();
        for truth in truths.chunks_exact(numbers) {
            presence.push(truth[0]);
            positions.extend_from_slice(&truth[1..]);
            // A mean over the examples that have a position.
            let weight = truth[0] * count as f32 / seen.max(1) as f32;
            weights.resize(weights.len() + numbers - 1, weight);
        }
        let logit = pass.slice(&predicted, 1, 0..1)?;
        let presence = Tensor::from_slice(&presence, [count, 1])?;
        let present = pass.cross_entropy_with_logits(&logit, &presence, None)?;
        let position = pass.slice(&predicted, 1, 1..numbers)?;
        let [positions, weights] =
            [positions, weights].map(|values| Tensor::from_slice(&values, [count, numbers - 1]));
        let placed = pass.smooth_l1(&position, &positions?, BETA, Some(&weights?))?;
        pass.weighted_sum(&present, 1.0, &placed, POSITION_WEIGHT)
    }

    /// The loss of one prediction, given what was predicted and the truth, both [goal_state].
    pub(crate) fn error(&self, predicted: &[f32], truth: &[f32]) -> f32 {
        let logit = predicted[0];
        let presence = logit.max(0.0) - logit * truth[0] + (-logit.abs()).exp().ln_1p();
        let distances = predicted[1..].iter().zip(&truth[1..]).map(|(a, b)| (a - b).abs());
        let smooth = |distance: f32| {
            if distance < BETA { distance * distance / (2.0 * BETA) } else { distance - BETA / 2.0 }
        };
        let position = distances.map(smooth).sum::<f32>() / (truth.len() - 1).max(1) as f32;
        presence + POSITION_WEIGHT * truth[0] * position
    }
}

/// A prediction as a state: present or not, and no position for who is not there.
pub(crate) fn decided(predicted: &[f32]) -> Vec<f32> {
    if predicted[0] <= 0.0 {
        return vec![0.0; predicted.len()];
    }
    [1.0].into_iter().chain(predicted[1..].iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SIGNALS, assert_near, contexts, futures, shaken};
    use far_tensor::{Device, Parameters, Tape};

    fn predictor() -> (StatePredictor, Parameters) {
        let mut builder = ArenaBuilder::new("predictor");
        let predictor = StatePredictor::new(&mut builder, SIGNALS);
        let parameters = shaken(&builder.build(1), 1);
        (predictor, parameters)
    }

    #[test]
    fn the_loss_of_a_batch_is_that_of_its_predictions() {
        let (predictor, parameters) = predictor();
        let contexts = contexts(2, &[2, 1, 0, 2, 2, 2], 5);
        let mut tape = Tape::inference(&Device::cpu());
        let predicted =
            predictor.forward(&mut Pass::new(&mut tape, &parameters), &contexts, 0..6).unwrap();
        let truths = futures(6, 5).states;
        let found = predictor
            .loss(&mut Pass::new(&mut tape, &parameters), &contexts, &truths, 0..6)
            .unwrap();
        // By hand: presence over all six, position over the two that are there.
        let (mut presence, mut position) = (0.0, 0.0);
        for (predicted, truth) in predicted.values().chunks(3).zip(truths.chunks(3)) {
            let probability = 1.0 / (1.0 + (-predicted[0]).exp());
            presence -= if truth[0] > 0.0 { probability } else { 1.0 - probability }.ln() / 6.0;
            let misses = [1, 2].map(|place| (predicted[place] - truth[place]).abs());
            let smooth = misses.map(|e| if e < 1.0 { e * e / 2.0 } else { e - 0.5 });
            position += truth[0] * (smooth[0] + smooth[1]) / 2.0 / 2.0;
        }
        let expected = presence + POSITION_WEIGHT * position;
        assert_near("loss", &[found.item().unwrap()], &[expected]);
        // With one prediction the mean is the error itself.
        for example in 0..6 {
            let one = example..example + 1;
            let loss = predictor
                .loss(&mut Pass::new(&mut tape, &parameters), &contexts, &truths, one)
                .unwrap();
            let predicted = &predicted.values()[3 * example..3 * example + 3];
            let truth = &truths[3 * example..3 * example + 3];
            let error = predictor.error(predicted, truth);
            assert_near("error", &[error], &[loss.item().unwrap()]);
        }
    }

    #[test]
    fn empty_slots_say_nothing_and_memories_do() {
        let (predictor, parameters) = predictor();
        let predict = |slots: usize, filled: usize| {
            let contexts = contexts(slots, &[filled], 5);
            let mut tape = Tape::inference(&Device::cpu());
            let found =
                predictor.forward(&mut Pass::new(&mut tape, &parameters), &contexts, 0..1).unwrap();
            found.values().to_vec()
        };
        assert_near("padding", &predict(4, 2), &predict(2, 2));
        assert_ne!(predict(2, 1), predict(2, 2));
    }

    #[test]
    fn who_is_not_there_has_no_position() {
        assert_eq!(decided(&[-0.1, 3.0, 4.0]), [0.0; 3]);
        assert_eq!(decided(&[0.1, 3.0, 4.0]), [1.0, 3.0, 4.0]);
    }
}

//! What the world model is told of each frame besides its latent: c_f, which modulates every block.
//!
//! c_f = diffusion time + pose + time since + role; the target's also has the stride and, where the
//! corpus has them, further signals. Context frames are clean: their diffusion time is 0. Where a second
//! agent is told of, context frames have its state then and a little earlier, the target that at the
//! goal.

use crate::world_model::block::Linear;
use crate::world_model::context::{ContextBatch, FrameCondition};
use crate::{ContextTold, POSE_FEATURES};
use far_tensor::{
    Activation, ArenaBuilder, Initialization, ParameterId, Parameters, Result, Tape, Tensor,
};
use std::ops::Range;

/// Waves of a sinusoidal embedding.
const WAVES: usize = 256;
/// Times and strides are of the order of 1; waves tell numbers of the order of 1,000 apart.
const WAVE_SCALE: f32 = 1000.0;

/// Linear, SiLU, linear.
struct Embedder {
    first: Linear,
    second: Linear,
}

impl Embedder {
    fn new(
        builder: &mut ArenaBuilder,
        name: &str,
        inputs: usize,
        width: usize,
        weight: Initialization,
    ) -> Self {
        let mut layer = |place: usize, inputs: usize| {
            let name = format!("{name}.mlp.{place}");
            Linear::new(builder, &name, [inputs, width], weight, Initialization::Zero)
        };
        Self { first: layer(0, inputs), second: layer(2, width) }
    }

    fn forward(&self, tape: &mut Tape, parameters: &Parameters, x: &Tensor) -> Result<Tensor> {
        let hidden = self.first.forward(tape, parameters, x)?;
        let hidden = tape.activate(&hidden, Activation::Silu)?;
        self.second.forward(tape, parameters, &hidden)
    }

    /// Of numbers of the order of 1,000, as waves.
    fn waves(&self, tape: &mut Tape, parameters: &Parameters, values: &[f32]) -> Result<Tensor> {
        let waves = tape.timestep_embedding(values, WAVES)?;
        self.forward(tape, parameters, &waves)
    }
}

/// Which part a frame plays.
#[derive(Clone, Copy)]
enum Role {
    Target,
    Current,
    Recalled,
}

/// The parameters behind c_f.
pub(crate) struct FrameEmbedding {
    diffusion: Embedder,
    pose: Embedder,
    time: Embedder,
    stride: Embedder,
    roles: ParameterId,
    signals: Option<Linear>,
    /// Of how much farther the acted door is open than at the goal; where signals are told.
    door: Option<ParameterId>,
    /// Of the states of context frames, and of those at the goals.
    states: Option<[Linear; 2]>,
}

impl FrameEmbedding {
    pub(crate) fn new(builder: &mut ArenaBuilder, width: usize, told: ContextTold) -> Self {
        let ContextTold { signals, states } = told;
        let small = Initialization::Normal(0.02);
        // A dozen numbers of the order of 1 would drown beside hundreds of waves: poses begin as loud
        // as anything else (decision 084).
        let loud = Initialization::FanIn;
        Self {
            diffusion: Embedder::new(builder, "t_embedder", WAVES, width, small),
            pose: Embedder::new(builder, "pose_embedder", 2 * POSE_FEATURES, width, loud),
            time: Embedder::new(builder, "time_embedder", WAVES, width, small),
            stride: Embedder::new(builder, "stride_embedder", WAVES, width, small),
            roles: builder.parameter("role_embedding", [3, width], small),
            signals: (signals > 0).then(|| {
                let sizes = [signals, width];
                Linear::new(builder, "signal_embedder", sizes, small, Initialization::Zero)
            }),
            // Its offset is that of the role.
            door: (signals > 0).then(|| builder.linear("door_embedder.weight", 1, width, loud)),
            states: (states > 0).then(|| {
                [("state_embedder", states), ("goal_state_embedder", states / 2)].map(
                    |(name, inputs)| {
                        Linear::new(builder, name, [inputs, width], loud, Initialization::Zero)
                    },
                )
            }),
        }
    }

    /// SiLU(c) of context frames, counted over all predictions [B, 1 + K]: one row each.
    pub(crate) fn context(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        contexts: &ContextBatch<'_>,
        frames: &[usize],
    ) -> Result<Tensor> {
        let per_prediction = 1 + contexts.slots();
        let conditions = frames.iter().map(|frame| contexts.condition_and_state(*frame).0);
        let roles = frames.iter().map(|frame| {
            let current = frame.is_multiple_of(per_prediction);
            (if current { Role::Current } else { Role::Recalled }) as usize
        });
        let place = self.place(tape, parameters, conditions)?;
        let role = tape.gather_rows(&parameters.tensor(self.roles), roles.collect::<Vec<_>>())?;
        let clean = self.diffusion.waves(tape, parameters, &[0.0])?;
        let clean = tape.gather_rows(&clean, vec![0; frames.len()])?;
        let sum = tape.add(&place, &role)?;
        let mut sum = tape.add(&sum, &clean)?;
        if let Some(door) = self.door {
            let doors = frames.iter().map(|frame| contexts.condition_and_state(*frame).0.door);
            let doors = Tensor::from_slice(&doors.collect::<Vec<_>>(), [frames.len(), 1])?;
            let told = tape.linear(&doors, &parameters.tensor(door), None)?;
            sum = tape.add(&sum, &told)?;
        }
        if let Some([states, _]) = self.states {
            let rows = frames.iter().map(|frame| contexts.condition_and_state(*frame).1);
            sum = tell(tape, parameters, &sum, states, rows)?;
        }
        tape.activate(&sum, Activation::Silu)
    }

    /// The part of c of some predictions' targets that does not depend on the noise: [n, D].
    pub(crate) fn goal(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        contexts: &ContextBatch<'_>,
        range: Range<usize>,
    ) -> Result<Tensor> {
        let goals = range.clone().map(|example| contexts.goal(example));
        let mut sum = self.place(tape, parameters, goals.clone().map(|goal| goal.0))?;
        let strides: Vec<f32> = goals.clone().map(|goal| WAVE_SCALE * goal.1).collect();
        let stride = self.stride.waves(tape, parameters, &strides)?;
        sum = tape.add(&sum, &stride)?;
        let roles = parameters.tensor(self.roles);
        let role = tape.gather_rows(&roles, vec![Role::Target as usize; range.len()])?;
        sum = tape.add(&sum, &role)?;
        if let Some(signals) = self.signals {
            sum = tell(tape, parameters, &sum, signals, goals.clone().map(|goal| goal.2))?;
        }
        if let Some([_, states]) = self.states {
            sum = tell(tape, parameters, &sum, states, goals.map(|goal| goal.3))?;
        }
        Ok(sum)
    }

    /// SiLU(c) of noisy targets, given what [`FrameEmbedding::goal`] says of each, [m, D], and their
    /// diffusion times.
    pub(crate) fn target(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        goal: &Tensor,
        timesteps: &[f32],
    ) -> Result<Tensor> {
        let diffusion = self.diffusion.waves(tape, parameters, timesteps)?;
        let sum = tape.add(goal, &diffusion)?;
        tape.activate(&sum, Activation::Silu)
    }

    /// Pose, from the present and from the goal, and time of some frames: one row each.
    fn place<'a>(
        &self,
        tape: &mut Tape,
        parameters: &Parameters,
        frames: impl Iterator<Item = &'a FrameCondition>,
    ) -> Result<Tensor> {
        let (mut poses, mut times) = (Vec::new(), Vec::new());
        for condition in frames {
            poses.extend(condition.from_current);
            poses.extend(condition.from_goal);
            times.push(WAVE_SCALE * condition.time);
        }
        let width = poses.len() / times.len().max(1);
        let poses = Tensor::from_slice(&poses, [times.len(), width])?;
        let pose = self.pose.forward(tape, parameters, &poses)?;
        let time = self.time.waves(tape, parameters, &times)?;
        tape.add(&pose, &time)
    }
}

/// Conditions [n, D] with what one row of numbers each tells besides.
fn tell<'a>(
    tape: &mut Tape,
    parameters: &Parameters,
    conditions: &Tensor,
    embedder: Linear,
    rows: impl Iterator<Item = &'a [f32]>,
) -> Result<Tensor> {
    let values: Vec<f32> = rows.flatten().copied().collect();
    let count = conditions.shape().rows();
    let values = Tensor::from_slice(&values, [count, values.len() / count.max(1)])?;
    let told = embedder.forward(tape, parameters, &values)?;
    tape.add(conditions, &told)
}

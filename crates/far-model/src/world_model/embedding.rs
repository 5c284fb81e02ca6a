//! The conditioning of each frame besides its latent: c_f, which modulates every block.
//!
//! c_f = diffusion time + pose + time since + role; the target's also has the stride. Context frames are
//! clean: their diffusion time is 0. Channels of signals that the corpus has are added: those of the
//! action and the state at the goal to the target, viewpoint and state to context frames.

use crate::layer::Linear;
use crate::layer::Pass;
use crate::world_model::context::ContextBatch;
use crate::world_model::frame_condition::FrameCondition;
use crate::world_model::signal::Channel;
use crate::{POSE_FEATURES, SignalLayout};
use far_tensor::{Activation, ArenaBuilder, Initialization, ParameterId, Result, Tensor};
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

    fn forward(&self, pass: &mut Pass<'_>, x: &Tensor) -> Result<Tensor> {
        let hidden = self.first.forward(pass, x)?;
        let hidden = pass.activate(&hidden, Activation::Silu)?;
        self.second.forward(pass, &hidden)
    }

    /// Of numbers of the order of 1,000, as waves.
    fn waves(&self, pass: &mut Pass<'_>, values: &[f32]) -> Result<Tensor> {
        let waves = pass.timestep_embedding(values, WAVES)?;
        self.forward(pass, &waves)
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
    action: Option<Linear>,
    viewpoint: Option<ParameterId>,
    state: Option<Linear>,
    goal_state: Option<Linear>,
}

impl FrameEmbedding {
    pub(crate) fn new(builder: &mut ArenaBuilder, width: usize, signals: SignalLayout) -> Self {
        let small = Initialization::Normal(0.02);
        // A dozen numbers of the order of 1 would drown beside hundreds of waves: poses begin as loud
        // as anything else (decision 084).
        let loud = Initialization::FanIn;
        let SignalLayout { action, viewpoint, state, goal_state } = signals;
        let channel = |builder: &mut ArenaBuilder, channel: Channel, weight| {
            channel.is_present().then(|| {
                let (name, sizes) = (format!("{}_embedder", channel.name), [channel.width, width]);
                Linear::new(builder, &name, sizes, weight, Initialization::Zero)
            })
        };
        Self {
            diffusion: Embedder::new(builder, "t_embedder", WAVES, width, small),
            pose: Embedder::new(builder, "pose_embedder", 2 * POSE_FEATURES, width, loud),
            time: Embedder::new(builder, "time_embedder", WAVES, width, small),
            stride: Embedder::new(builder, "stride_embedder", WAVES, width, small),
            roles: builder.parameter("role_embedding", [3, width], small),
            action: channel(builder, action, small),
            // An offset of 0 adds nothing: the bias is the role's.
            viewpoint: viewpoint.is_present().then(|| {
                let name = format!("{}_embedder.weight", viewpoint.name);
                builder.linear(name, viewpoint.width, width, loud)
            }),
            state: channel(builder, state, loud),
            goal_state: channel(builder, goal_state, loud),
        }
    }

    /// SiLU(c) of context frames, counted over all predictions [B, 1 + K]: one row each.
    pub(crate) fn context(
        &self,
        pass: &mut Pass<'_>,
        contexts: &ContextBatch<'_>,
        frames: &[usize],
    ) -> Result<Tensor> {
        let per_prediction = 1 + contexts.slots();
        let rows = frames.iter().map(|frame| contexts.frame(*frame));
        let conditions = rows.clone().map(|frame| frame.condition);
        let roles = frames.iter().map(|frame| {
            let current = frame.is_multiple_of(per_prediction);
            (if current { Role::Current } else { Role::Recalled }) as usize
        });
        let place = self.place(pass, conditions)?;
        let role = pass
            .tape
            .gather_rows(&pass.parameters.tensor(self.roles), roles.collect::<Vec<_>>())?;
        let clean = self.diffusion.waves(pass, &[0.0])?;
        let clean = pass.gather_rows(&clean, vec![0; frames.len()])?;
        let sum = pass.add(&place, &role)?;
        let mut sum = pass.add(&sum, &clean)?;
        if let Some(viewpoint) = self.viewpoint {
            let offsets = table(rows.clone().map(|frame| frame.viewpoint))?;
            let embedded = pass.tape.linear(&offsets, &pass.parameters.tensor(viewpoint), None)?;
            sum = pass.add(&sum, &embedded)?;
        }
        if let Some(state) = self.state {
            let states = table(rows.map(|frame| frame.state))?;
            let embedded = state.forward(pass, &states)?;
            sum = pass.add(&sum, &embedded)?;
        }
        pass.activate(&sum, Activation::Silu)
    }

    /// The part of c of some predictions' targets that does not depend on the noise: [n, D]. The states
    /// at the goals are those of all predictions, [B, goal_state].
    pub(crate) fn goal(
        &self,
        pass: &mut Pass<'_>,
        contexts: &ContextBatch<'_>,
        goal_states: &[f32],
        range: Range<usize>,
    ) -> Result<Tensor> {
        let goals = range.clone().map(|example| contexts.goal(example));
        let mut sum = self.place(pass, goals.clone().map(|goal| goal.condition))?;
        let strides: Vec<f32> = goals.clone().map(|goal| WAVE_SCALE * goal.stride).collect();
        let stride = self.stride.waves(pass, &strides)?;
        sum = pass.add(&sum, &stride)?;
        let roles = pass.parameters.tensor(self.roles);
        let role = pass.gather_rows(&roles, vec![Role::Target as usize; range.len()])?;
        sum = pass.add(&sum, &role)?;
        if let Some(action) = self.action {
            let actions = table(goals.map(|goal| goal.action))?;
            let embedded = action.forward(pass, &actions)?;
            sum = pass.add(&sum, &embedded)?;
        }
        if let Some(state) = self.goal_state {
            let width = goal_states.len() / contexts.examples();
            let states = range.map(|example| &goal_states[example * width..(example + 1) * width]);
            let embedded = state.forward(pass, &table(states)?)?;
            sum = pass.add(&sum, &embedded)?;
        }
        Ok(sum)
    }

    /// SiLU(c) of noisy targets, given the rows of [`FrameEmbedding::goal`], [m, D], and their
    /// diffusion times.
    pub(crate) fn target(
        &self,
        pass: &mut Pass<'_>,
        goal: &Tensor,
        timesteps: &[f32],
    ) -> Result<Tensor> {
        let diffusion = self.diffusion.waves(pass, timesteps)?;
        let sum = pass.add(goal, &diffusion)?;
        pass.activate(&sum, Activation::Silu)
    }

    /// Pose, from the present and from the goal, and time of some frames: one row each.
    fn place<'a>(
        &self,
        pass: &mut Pass<'_>,
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
        let pose = self.pose.forward(pass, &poses)?;
        let time = self.time.waves(pass, &times)?;
        pass.add(&pose, &time)
    }
}

/// Rows of equal width as a tensor, [n, width].
fn table<'a>(rows: impl ExactSizeIterator<Item = &'a [f32]>) -> Result<Tensor> {
    let count = rows.len();
    let values: Vec<f32> = rows.flatten().copied().collect();
    Tensor::from_slice(&values, [count, values.len() / count.max(1)])
}

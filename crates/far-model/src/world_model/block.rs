//! The diffusion transformer's block: attention and an MLP, both modulated by adaLN-Zero.
//!
//! With (shift₁, scale₁, gate₁, shift₂, scale₂, gate₂) = W·SiLU(c) + b for each sample or frame:
//! x ← x + gate₁·Attention(Norm(x)·(1 + scale₁) + shift₁),
//! x ← x + gate₂·MLP(Norm(x)·(1 + scale₂) + shift₂).
//! Blocks alternate between attention inside each frame and attention over all frames.

use crate::layer::{Linear, Pass, Scaling};
use crate::world_model::block_config::BlockConfig;
use far_tensor::{
    Affine, ArenaBuilder, Attention, Gate, Initialization, Modulation, Result, Tape, Tensor,
};

/// Which tokens attend to each other.
#[derive(Clone, Copy, Debug)]
pub struct Grouping<'a> {
    /// The number of groups of consecutive tokens: batch × frames for frame attention, the batch
    /// for global attention.
    pub groups: usize,
    /// Keys that can be seen, [groups, tokens per group]; `None` shows all.
    pub key_mask: Option<&'a Tensor>,
}

/// ε of the norms per head.
const HEAD_EPSILON: f32 = 1e-5;

/// Tokens that have entered a block and stand before its attention.
pub(crate) struct Entered {
    /// The tokens, [rows…, D].
    pub(crate) x: Tensor,
    /// Shifts, scales and gates, [G, 6, D].
    pub(crate) modulation: Tensor,
    /// Queries, keys and values, [rows…, 3·D].
    pub(crate) qkv: Tensor,
}

impl Entered {
    /// The same after a change of all three, which keeps what lies beyond their first axes.
    pub(crate) fn map(&self, mut change: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<Self> {
        let Self { x, modulation, qkv } = self;
        Ok(Self { x: change(x)?, modulation: change(modulation)?, qkv: change(qkv)? })
    }
}

/// One transformer block; its parameters live in the arena it was built into.
pub struct Block {
    config: BlockConfig,
    norms: Option<[Scaling; 2]>,
    head_norms: Option<[Scaling; 2]>,
    qkv: Linear,
    projection: Linear,
    expand: Linear,
    contract: Linear,
    modulation: Linear,
}

impl Block {
    /// Adds a block's parameters under `name`, called and initialized as DiT does.
    pub fn new(builder: &mut ArenaBuilder, name: &str, config: BlockConfig) -> Self {
        let BlockConfig { width, heads, expansion, .. } = config;
        let hidden = expansion * width;
        let xavier = |builder: &mut ArenaBuilder, part: &str, sizes: [usize; 2]| {
            let name = format!("{name}.{part}");
            Linear::new(builder, &name, sizes, Initialization::Xavier, Initialization::Zero)
        };
        let norms = config.affine.then(|| {
            ["norm1", "norm2"].map(|part| Scaling::new(builder, &format!("{name}.{part}"), width))
        });
        let head_norms = config.query_key_norm.then(|| {
            ["attn.q_norm", "attn.k_norm"]
                .map(|part| Scaling::new(builder, &format!("{name}.{part}"), width / heads.max(1)))
        });
        let modulation = format!("{name}.adaLN_modulation.1");
        let [weight, bias] = config.modulation.initialization();
        Self {
            config,
            norms,
            head_norms,
            qkv: xavier(builder, "attn.qkv", [width, 3 * width]),
            projection: xavier(builder, "attn.proj", [width, width]),
            expand: xavier(builder, "mlp.fc1", [width, hidden]),
            contract: xavier(builder, "mlp.fc2", [hidden, width]),
            modulation: Linear::new(builder, &modulation, [width, 6 * width], weight, bias),
        }
    }

    /// x [rows…, D] with `condition` = SiLU(c) [G, D], one row per sample or per frame → x's shape.
    ///
    /// # Errors
    /// If a shape does not fit.
    pub fn forward(
        &self,
        pass: &mut Pass<'_>,
        x: &Tensor,
        condition: &Tensor,
        grouping: Grouping<'_>,
    ) -> Result<Tensor> {
        let modulation = self.modulate(pass, condition)?;
        let entered = self.enter(pass, x, modulation)?;
        let attended = self.attend(pass, &entered, grouping)?;
        self.leave(pass, &entered, &attended)
    }

    /// x through several blocks, as [`Block::forward`] through each; `grouping` is that of a block by its place.
    pub(crate) fn chain<'a>(
        blocks: &[Self],
        pass: &mut Pass<'_>,
        x: Tensor,
        condition: &Tensor,
        grouping: impl Fn(usize) -> Grouping<'a>,
    ) -> Result<Tensor> {
        let Some(first) = blocks.first() else { return Ok(x) };
        let modulation = first.modulate(pass, condition)?;
        let entered = first.enter(pass, &x, modulation)?;
        let modulate = |pass: &mut Pass<'_>, place: usize| blocks[place].modulate(pass, condition);
        Self::run(blocks, pass, entered, modulate, |pass, place, entered| {
            blocks[place].attend(pass, entered, grouping(place))
        })
    }

    /// Tokens that have entered the first of these blocks, from there through all of them; what they
    /// gather in a block and its `modulation` are those of its place.
    pub(crate) fn run(
        blocks: &[Self],
        pass: &mut Pass<'_>,
        mut entered: Entered,
        modulation: impl Fn(&mut Pass<'_>, usize) -> Result<Tensor>,
        mut gather: impl FnMut(&mut Pass<'_>, usize, &Entered) -> Result<Tensor>,
    ) -> Result<Tensor> {
        for (place, pair) in blocks.windows(2).enumerate() {
            let attended = gather(pass, place, &entered)?;
            let modulation = modulation(pass, place + 1)?;
            entered = pair[0].leave_into(pass, (&entered, &attended), &pair[1], modulation)?;
        }
        let last = blocks.len() - 1;
        let attended = gather(pass, last, &entered)?;
        blocks[last].leave(pass, &entered, &attended)
    }

    /// Shifts, scales and gates for `condition` = SiLU(c) [G, D]: [G, 6, D].
    pub(crate) fn modulate(&self, pass: &mut Pass<'_>, condition: &Tensor) -> Result<Tensor> {
        let modulation = self.modulation.forward(pass, condition)?;
        modulation.reshape([condition.shape().rows(), 6, self.config.width])
    }

    /// The first half up to attention.
    pub(crate) fn enter(
        &self,
        pass: &mut Pass<'_>,
        x: &Tensor,
        modulation: Tensor,
    ) -> Result<Entered> {
        let y = self.norm(pass, x, &modulation, 0)?;
        self.entered(pass, x.clone(), &y, modulation)
    }

    /// Tokens x and what the first norm made of them, before attention.
    fn entered(
        &self,
        pass: &mut Pass<'_>,
        x: Tensor,
        y: &Tensor,
        modulation: Tensor,
    ) -> Result<Entered> {
        let qkv = self.qkv.forward(pass, y)?;
        let qkv = match self.head_norms {
            Some(norms) => {
                let [query, key] = norms.map(|norm| norm.tensors(pass.parameters));
                let [query, key] =
                    [&query, &key].map(|[scale, offset]| Some(Affine { scale, offset }));
                pass.head_norm_owned(qkv, self.config.heads, &[query, key, None], HEAD_EPSILON)?
            }
            None => qkv,
        };
        Ok(Entered { x, modulation, qkv })
    }

    /// Keys and values [rows…, 2·D] alone, for tokens that are read here and go no further.
    pub(crate) fn keys(
        &self,
        pass: &mut Pass<'_>,
        x: &Tensor,
        modulation: &Tensor,
    ) -> Result<Tensor> {
        let width = self.config.width;
        let y = self.norm(pass, x, modulation, 0)?;
        let [weight, bias] = self.qkv.tensors(pass.parameters);
        let weight = pass.slice(&weight, 1, width..3 * width)?;
        let bias = pass.slice(&bias, 0, width..3 * width)?;
        let keys = pass.linear(&y, &weight, Some(&bias))?;
        let Some([_, norm]) = self.head_norms else { return Ok(keys) };
        let [scale, offset] = norm.tensors(pass.parameters);
        let norm = Some(Affine { scale: &scale, offset: &offset });
        pass.head_norm_owned(keys, self.config.heads, &[norm, None], HEAD_EPSILON)
    }

    /// What tokens gather from each other, [rows…, D].
    pub(crate) fn attend(
        &self,
        tape: &mut Tape,
        entered: &Entered,
        grouping: Grouping<'_>,
    ) -> Result<Tensor> {
        let Grouping { groups, key_mask } = grouping;
        let heads = self.config.heads;
        tape.self_attention(&entered.qkv, Attention { heads, groups, key_mask })
    }

    /// What G groups of tokens [G, T, D] gather from each other and from tokens that only left
    /// their `keys` [G, L, 2·D]: [G, T, D]. The mask is [G, T + L].
    pub(crate) fn read(
        &self,
        tape: &mut Tape,
        entered: &Entered,
        keys: &Tensor,
        key_mask: Option<&Tensor>,
    ) -> Result<Tensor> {
        let (width, heads) = (self.config.width, self.config.heads);
        let query = tape.slice(&entered.qkv, 2, 0..width)?;
        let own = tape.slice(&entered.qkv, 2, width..3 * width)?;
        let key_value = tape.concat(&[&own, keys], 1)?;
        let groups = keys.shape().extents()[0];
        tape.cross_attention(&query, &key_value, Attention { heads, groups, key_mask })
    }

    /// The second half: what attention gathered goes into x, then the MLP.
    pub(crate) fn leave(
        &self,
        pass: &mut Pass<'_>,
        entered: &Entered,
        attended: &Tensor,
    ) -> Result<Tensor> {
        let [x, y] = self.second_half(pass, entered, attended)?;
        pass.gated_residual(&x, &y, &entered.modulation, 5)
    }

    /// The second half, and the first one of the block that follows, up to attention.
    pub(crate) fn leave_into(
        &self,
        pass: &mut Pass<'_>,
        (entered, attended): (&Entered, &Tensor),
        next: &Self,
        modulation: Tensor,
    ) -> Result<Entered> {
        let both = self.second_half(pass, entered, attended)?;
        let gate = Gate { vectors: &entered.modulation, part: 5 };
        let [x, y] = next.gated_norm(pass, both, gate, &modulation, 0)?;
        next.entered(pass, x, &y, modulation)
    }

    /// Tokens with what attention gathered, and what the MLP makes of them.
    fn second_half(
        &self,
        pass: &mut Pass<'_>,
        entered: &Entered,
        attended: &Tensor,
    ) -> Result<[Tensor; 2]> {
        let Entered { x, modulation, .. } = entered;
        let y = self.projection.forward(pass, attended)?;
        let gate = Gate { vectors: modulation, part: 2 };
        let both = [x.clone(), y];
        let [x, y] = self.gated_norm(pass, both, gate, modulation, 1)?;
        let [[w1, b1], [w2, b2]] =
            [self.expand, self.contract].map(|linear| linear.tensors(pass.parameters));
        Ok([x, pass.feed_forward(&y, [&w1, &b1], [&w2, &b2])?])
    }

    /// x + gate·f, and its norm as of [`Block::norm`].
    fn gated_norm(
        &self,
        pass: &mut Pass<'_>,
        [x, f]: [Tensor; 2],
        gate: Gate<'_>,
        vectors: &Tensor,
        which: usize,
    ) -> Result<[Tensor; 2]> {
        let modulation = Modulation { vectors, shift: 3 * which, scale: 3 * which + 1 };
        let scaling = self.norms.map(|norms| norms[which].tensors(pass.parameters));
        let affine = scaling.as_ref().map(|[scale, offset]| Affine { scale, offset });
        pass.gated_norm([&x, &f], gate, affine, modulation, self.config.epsilon)
    }

    /// The modulated norm before attention (0) or before the MLP (1).
    fn norm(
        &self,
        pass: &mut Pass<'_>,
        x: &Tensor,
        vectors: &Tensor,
        which: usize,
    ) -> Result<Tensor> {
        let modulation = Modulation { vectors, shift: 3 * which, scale: 3 * which + 1 };
        let scaling = self.norms.map(|norms| norms[which].tensors(pass.parameters));
        let affine = scaling.as_ref().map(|[scale, offset]| Affine { scale, offset });
        pass.modulated_norm(x, affine, modulation, self.config.epsilon)
    }
}

//! The settings of a transformer block: the world model's, and what other networks set otherwise.

use far_tensor::Initialization;

/// How the shifts, scales and gates of a fresh [`Block`](crate::Block) begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModulationStart {
    /// All at zero: the block is the identity (adaLN-Zero).
    Closed,
    /// Shifts and scales at zero, gates at one: the block is an ordinary one that does not know
    /// its condition yet. What reads a single token needs it: behind closed gates that token
    /// would be the same for every input.
    Open,
    /// At random, as PyTorch's linear maps.
    Random,
}

impl ModulationStart {
    /// The first values of the linear map's weight and bias.
    pub(super) fn initialization(self) -> [Initialization; 2] {
        match self {
            Self::Closed => [Initialization::Zero; 2],
            Self::Open => {
                let gates = Initialization::Parts(&[0.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
                [Initialization::Zero, gates]
            }
            Self::Random => [Initialization::FanIn, Initialization::Zero],
        }
    }
}

/// The settings of a [`Block`](crate::Block).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockConfig {
    /// Channels D of a token.
    pub width: usize,
    /// Heads H, which divide the width.
    pub heads: usize,
    /// Hidden channels of the MLP as a multiple of the width. DiT: 4.
    pub expansion: usize,
    /// Whether the two norms have a scale and an offset of their own. DiT: no.
    pub affine: bool,
    /// Whether queries and keys are normalized per head before they meet (as VGGT does).
    pub query_key_norm: bool,
    /// How the modulation begins. DiT: closed.
    pub modulation: ModulationStart,
    /// ε of the two norms. DiT: 1e-6.
    pub epsilon: f32,
}

impl BlockConfig {
    /// The world model's block: DiT's, with QK-norm.
    pub fn new(width: usize, heads: usize) -> Self {
        Self {
            width,
            heads,
            expansion: 4,
            affine: false,
            query_key_norm: true,
            modulation: ModulationStart::Closed,
            epsilon: 1e-6,
        }
    }
}

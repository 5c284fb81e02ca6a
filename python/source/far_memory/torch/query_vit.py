"""QueryViT: a frame and an action to a direction of length one."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import InputError


class Attention(nn.Module):
    """Attention of all tokens of a frame with each other."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        count, length, width = tokens.shape
        packed = self.qkv(tokens).view(count, length, 3, self.heads, width // self.heads)
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.proj(mixed.transpose(1, 2).reshape(tokens.shape))  # type: ignore[no-any-return]


class Mlp(nn.Module):
    """Two layers, four times as wide between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(tokens), approximate="tanh"))  # type: ignore[no-any-return]


class Block(nn.Module):
    """A transformer block that is shifted, scaled and gated by the action. Its gates begin open."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attn = Attention(width, heads)
        self.mlp = Mlp(width)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        modulation: nn.Linear = self.adaLN_modulation[1]  # type: ignore[assignment]
        nn.init.zeros_(modulation.weight)
        with torch.no_grad():  # behind closed gates every frame would have the same key
            modulation.bias.copy_(torch.tensor([0.0, 0.0, 1.0] * 2).repeat_interleave(width))

    def forward(self, tokens: Tensor, condition: Tensor) -> Tensor:
        parts = self.adaLN_modulation(condition)[:, None].chunk(6, dim=-1)
        shift, scale, gate, mlp_shift, mlp_scale, mlp_gate = parts
        tokens = tokens + gate * self.attn(_norm(tokens) * (1 + scale) + shift)
        return tokens + mlp_gate * self.mlp(_norm(tokens) * (1 + mlp_scale) + mlp_shift)  # type: ignore[no-any-return]


class QueryViT(nn.Module):
    """Keys k = enc(frame, ∅), which can be made once and kept, and queries h = enc(frame, action).

    A vision transformer over the tokens of a frame and one learned token before them; the action is told by adaLN. One
    network serves both sides. Parameters have the names of Rust's encoder. The defaults are the paper's.
    """

    positions: Tensor

    def __init__(
        self, grid: tuple[int, int], channels: int, *, depth: int = 6, width: int = 384, heads: int = 12, key: int = 256, action: int = 8
    ) -> None:
        super().__init__()
        if width % 4 or width % heads or min(*grid, channels, depth, key, action) < 1:
            raise InputError(f"no network has width {width} and {heads} heads on a grid {grid}", "width is a multiple of 4 and of the heads")
        self.x_embedder = nn.Linear(channels, width)
        self.action_embedder = nn.ModuleDict(
            {"mlp": nn.Sequential(nn.Linear(action, width), nn.SiLU(), nn.Linear(width, width))}
        )
        self.cls_token = nn.Parameter(0.02 * torch.randn(1, width))
        self.null_action = nn.Parameter(torch.randn(1, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.final_layer = nn.ModuleDict(
            {"adaLN_modulation": nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width)), "linear": nn.Linear(width, key)}
        )
        for layer in [self.x_embedder, *self.action_embedder["mlp"][::2], self.final_layer["linear"]]:  # type: ignore[index]
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        modulation = self.final_layer["adaLN_modulation"][1]  # type: ignore[index]
        nn.init.zeros_(modulation.weight)
        nn.init.zeros_(modulation.bias)
        self.register_buffer("positions", _positions(*grid, width), persistent=False)

    def forward(self, frames: Tensor, actions: Tensor | None = None) -> Tensor:
        """Frames [n, tokens, channels] with the actions taken there [n, action], or with none (keys), to [n, key]."""
        condition = self.null_action if actions is None else self.action_embedder["mlp"](actions)
        condition = condition.expand(len(frames), -1)
        tokens = self.x_embedder(frames) + self.positions
        tokens = torch.cat([self.cls_token.expand(len(frames), 1, -1), tokens], dim=1)
        for block in self.blocks:
            tokens = block(tokens, condition)
        shift, scale = self.final_layer["adaLN_modulation"](condition).chunk(2, dim=-1)
        return F.normalize(self.final_layer["linear"](_norm(tokens[:, 0]) * (1 + scale) + shift), dim=-1, eps=1e-6)


def _norm(tokens: Tensor) -> Tensor:
    return F.layer_norm(tokens, tokens.shape[-1:], eps=1e-6)


def _positions(rows: int, columns: int, width: int) -> Tensor:
    """The fixed table: waves of the column in the first half of the channels, of the row in the second."""
    rates = 10_000.0 ** (-torch.arange(width // 4, dtype=torch.float64) / (width // 4))
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    waves = [torch.cat([f(places.reshape(-1, 1) * rates) for f in (torch.sin, torch.cos)], dim=1) for places in (column, row)]
    return torch.cat(waves, dim=1).float()

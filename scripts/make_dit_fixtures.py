#!/usr/bin/env python3
"""Golden values for the diffusion transformer, made once with PyTorch in double precision.

Writes small safetensors: attention, the modulated norm, AdamW, one whole block, and ten training
steps of a network of two blocks, each with inputs, outputs and gradients.

    pip install torch safetensors numpy
    python3 scripts/make_dit_fixtures.py
"""
import argparse
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

torch.set_default_dtype(torch.float64)


class Attention(nn.Module):
    def __init__(self, width, heads, head_norm):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        if head_norm:
            self.q_norm = nn.LayerNorm(width // heads, eps=1e-5)
            self.k_norm = nn.LayerNorm(width // heads, eps=1e-5)
        self.head_norm = head_norm

    def forward(self, tokens, groups, mask=None):
        shape = tokens.shape
        packed = self.qkv(tokens).reshape(groups, -1, 3, self.heads, shape[-1] // self.heads)
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        if self.head_norm:
            query, key = self.q_norm(query), self.k_norm(key)
        mask = None if mask is None else mask.bool()[:, None, None, :]
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.proj(mixed.transpose(1, 2).reshape(shape))


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, tokens):
        return self.fc2(F.gelu(self.fc1(tokens), approximate="tanh"))


class Block(nn.Module):
    """The block under the names that DiT gives its parts."""

    def __init__(self, width, heads, affine, head_norm):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6, elementwise_affine=affine)
        self.norm2 = nn.LayerNorm(width, eps=1e-6, elementwise_affine=affine)
        self.attn = Attention(width, heads, head_norm)
        self.mlp = Mlp(width)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, tokens, condition, groups, mask=None):
        """tokens [rows, width]; condition [modulation groups, width]."""
        rows, width = tokens.shape
        modulation = self.adaLN_modulation(condition)
        modulation = modulation.repeat_interleave(rows // condition.shape[0], dim=0)
        shift, scale, gate, mlp_shift, mlp_scale, mlp_gate = modulation.chunk(6, dim=-1)
        tokens = tokens + gate * self.attn(self.norm1(tokens) * (1 + scale) + shift, groups, mask)
        return tokens + mlp_gate * self.mlp(self.norm2(tokens) * (1 + mlp_scale) + mlp_shift)


class Network(nn.Module):
    def __init__(self, depth, width, heads, channels):
        super().__init__()
        self.inp = nn.Linear(channels, width)
        self.out = nn.Linear(width, channels)
        self.blocks = nn.ModuleList(Block(width, heads, True, False) for _ in range(depth))

    def forward(self, tokens, condition):
        batch, frames, count, channels = tokens.shape
        rows = self.inp(tokens.reshape(-1, channels))
        for index, block in enumerate(self.blocks):
            rows = block(rows, condition, batch * frames if index % 2 == 0 else batch)
        return self.out(rows).reshape(tokens.shape)


def write(path, tensors):
    tensors = {name: value.detach().to(torch.float32).contiguous() for name, value in tensors.items()}
    save_file(tensors, path)
    print(f"{path}: {path.stat().st_size} bytes")


def gradients(output, inputs, prefix="gradient."):
    """Gradients of a fixed weighting of the output, so that every element counts differently."""
    weights = torch.sin(torch.arange(output.numel(), dtype=torch.float64)).reshape(output.shape)
    found = torch.autograd.grad((output * weights).sum(), list(inputs.values()))
    return {"weights": weights} | {prefix + name: value for name, value in zip(inputs, found)}


def attention_fixture():
    generator = torch.Generator().manual_seed(1)
    qkv = torch.randn(2 * 19, 3 * 2 * 16, generator=generator, requires_grad=True)
    mask = torch.ones(2, 19)
    mask[0, 3:7] = 0
    mask[1, 18] = 0
    query, key, value = qkv.reshape(2, 19, 3, 2, 16).permute(2, 0, 3, 1, 4)
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask.bool()[:, None, None, :])
    output = output.transpose(1, 2).reshape(2 * 19, 32)
    return {"qkv": qkv, "mask": mask, "output": output} | gradients(output, {"qkv": qkv})


def modulated_norm_fixture():
    generator = torch.Generator().manual_seed(2)
    make = lambda *shape: torch.randn(*shape, generator=generator, requires_grad=True)
    x, scale, offset, vectors = make(6, 24), make(24), make(24), make(3, 6, 24)
    shift, factor = (vectors[:, which].repeat_interleave(2, dim=0) for which in (3, 4))
    output = F.layer_norm(x, (24,), scale, offset, 1e-6) * (1 + factor) + shift
    inputs = {"x": x, "scale": scale, "offset": offset, "vectors": vectors}
    return inputs | {"output": output} | gradients(output, inputs)


def adamw_fixture():
    generator = torch.Generator().manual_seed(3)
    value = torch.randn(48, generator=generator)
    steps = torch.randn(6, 48, generator=generator)
    parameter = nn.Parameter(value.clone())
    optimizer = torch.optim.AdamW([parameter], lr=1e-2, eps=1e-6, weight_decay=0.1)
    for step in steps:
        parameter.grad = step.clone()
        torch.nn.utils.clip_grad_norm_([parameter], 5.0)
        optimizer.step()
    return {"start": value, "gradients": steps, "end": parameter}


def block_fixture():
    torch.manual_seed(4)
    block = Block(16, 2, affine=False, head_norm=True)
    tokens = torch.randn(2 * 3 * 4, 16, requires_grad=True)
    condition = torch.randn(2 * 3, 16, requires_grad=True)
    mask = torch.ones(2, 12)
    mask[1, 4:8] = 0
    output = block(tokens, condition, 2, mask)
    inputs = {"tokens": tokens, "condition": condition}
    parameters = {"block." + name: value for name, value in block.named_parameters()}
    found = gradients(output, inputs | parameters)
    return inputs | parameters | {"mask": mask, "output": output} | found


def training_fixture():
    torch.manual_seed(5)
    network = Network(2, 16, 2, 4)
    start = {"start." + name: value.clone() for name, value in network.state_dict().items()}
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, eps=1e-6, weight_decay=0.01)
    tokens = torch.randn(10, 2, 3, 4, 4).float().double()
    conditions = torch.randn(10, 2, 16).float().double()
    # The start is what the file holds, in single precision.
    network.load_state_dict({name[6:]: value.float().double() for name, value in start.items()})
    losses = []
    for x, condition in zip(tokens, conditions):
        optimizer.zero_grad()
        loss = (network(x, condition) - x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    end = {"end." + name: value for name, value in network.state_dict().items()}
    return start | end | {"tokens": tokens, "conditions": conditions, "losses": torch.stack(losses)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    here = pathlib.Path(__file__).resolve().parent.parent / "crates"
    parser.add_argument("--crates", type=pathlib.Path, default=here, help="where the crates are")
    crates = parser.parse_args().crates
    operations = crates / "far-tensor/tests/fixtures"
    models = crates / "far-model/tests/fixtures"
    for folder in (operations, models):
        folder.mkdir(parents=True, exist_ok=True)
    write(operations / "attention.safetensors", attention_fixture())
    write(operations / "modulated_norm.safetensors", modulated_norm_fixture())
    write(operations / "adamw.safetensors", adamw_fixture())
    write(models / "block.safetensors", block_fixture())
    write(models / "training.safetensors", training_fixture())


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""One training step of the world model's network in PyTorch, for `far bench train --peer`.

The same shapes and arithmetic: a transformer whose blocks alternate between attention inside each
frame and over all frames, modulated by one vector per sample; mean squared error; AdamW. Prints one
JSON line per shape.

    python3 benches/peers/torch_dit.py cpu --shape small --threads 2
"""
import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional as F

CHANNELS = 16
# depth, width, heads, batch, frames, tokens per frame
SHAPES = {
    "small": (4, 128, 4, 8, 5, 16),
    "medium": (6, 256, 4, 16, 5, 16),
    "gpu-small": (6, 256, 4, 64, 5, 64),
    "paper": (12, 768, 12, 32, 5, 256),
}


class Block(nn.Module):
    def __init__(self, width, heads, over_all_frames):
        super().__init__()
        self.heads = heads
        self.over_all_frames = over_all_frames
        self.before_attention = nn.LayerNorm(width)
        self.before_mlp = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)
        self.modulation = nn.Linear(width, 6 * width)

    def attend(self, tokens, frames):
        batch, length, width = tokens.shape
        groups = batch if self.over_all_frames else batch * frames
        packed = self.qkv(tokens).reshape(groups, -1, 3, self.heads, width // self.heads)
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.projection(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, tokens, condition, frames):
        modulation = self.modulation(F.silu(condition)).unsqueeze(1).chunk(6, dim=-1)
        shift, scale, gate, mlp_shift, mlp_scale, mlp_gate = modulation
        inside = self.before_attention(tokens) * (1 + scale) + shift
        tokens = tokens + gate * self.attend(inside, frames)
        inside = self.before_mlp(tokens) * (1 + mlp_scale) + mlp_shift
        return tokens + mlp_gate * self.contract(F.gelu(self.expand(inside), approximate="tanh"))


class Network(nn.Module):
    def __init__(self, depth, width, heads):
        super().__init__()
        self.enter = nn.Linear(CHANNELS, width)
        self.blocks = nn.ModuleList(Block(width, heads, index % 2 == 1) for index in range(depth))
        self.leave = nn.Linear(width, CHANNELS)

    def forward(self, tokens, condition, frames):
        tokens = self.enter(tokens)
        for block in self.blocks:
            tokens = block(tokens, condition, frames)
        return self.leave(tokens)


def measure(device, shape, steps):
    depth, width, heads, batch, frames, tokens = SHAPES[shape]
    network = Network(depth, width, heads).to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
    times = []
    for _ in range(steps):
        inputs = torch.randn(batch, frames * tokens, CHANNELS, device=device)
        condition = torch.randn(batch, width, device=device)
        start = time.perf_counter()
        loss = (network(inputs, condition, frames) - inputs).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    times = sorted(times[steps // 3:])
    result = {"engine": "torch", "version": torch.__version__, "device": device, "shape": shape}
    result |= {"dtype": "f32", "median_s": times[len(times) // 2], "min_s": times[0]}
    print(json.dumps(result), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", choices=["cpu", "cuda"])
    parser.add_argument("--shape", choices=SHAPES, action="append", help="default: small and medium")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for shape in arguments.shape or ["small", "medium"]:
        measure(arguments.device, shape, arguments.steps)


if __name__ == "__main__":
    main()

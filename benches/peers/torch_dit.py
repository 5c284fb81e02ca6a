#!/usr/bin/env python3
"""One training step of the world model's network in PyTorch, for `far bench train --peer`.

The same shapes and arithmetic: a transformer whose blocks alternate between attention inside each
frame and over all frames, modulated by one vector per sample; mean squared error; AdamW. Batches are
on the device before the clock starts. Prints one JSON line per case with the median and the fastest
step and, on a GPU, the most memory that tensors held.

    python3 benches/peers/torch_dit.py cpu --shape small --threads 2
    python3 benches/peers/torch_dit.py cuda --shape paper --dtype bf16 --engine torch-compile
"""
import argparse
import contextlib
import itertools
import json
import sys
import time

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn import functional as F

from turn import await_turn

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


def attention_choice(name):
    """PyTorch's own choice among its kernels for attention, or one of them."""
    kernels = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
    return sdpa_kernel(kernels[name]) if name in kernels else contextlib.nullcontext()


def measure(device, shape, dtype, engine, attention, steps, turns):
    depth, width, heads, batch, frames, tokens = SHAPES[shape]
    on_gpu = device == "cuda"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    if on_gpu:
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    torch.compiler.reset()
    network = Network(depth, width, heads).to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=on_gpu)
    forward = torch.compile(network, dynamic=False) if engine == "torch-compile" else network
    inputs = [torch.randn(batch, frames * tokens, CHANNELS, device=device) for _ in range(4)]
    conditions = [torch.randn(batch, width, device=device) for _ in range(4)]
    times = []
    with attention_choice(attention):
        for step in range(steps):
            if step == steps // 3:
                await_turn(turns, shape)
            x, condition = inputs[step % 4], conditions[step % 4]
            wait()
            start = time.perf_counter()
            with torch.autocast(device, dtype=torch.bfloat16, enabled=dtype == "bf16"):
                loss = (forward(x, condition, frames) - x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            wait()
            times.append(time.perf_counter() - start)
    result = {"engine": engine, "version": torch.__version__, "device": device, "shape": shape}
    kept = sorted(times[steps // 3:])
    result |= {"dtype": dtype, "attention": attention, "first_step_s": times[0]}
    result |= {"median_s": kept[len(kept) // 2], "min_s": kept[0]}
    if on_gpu:
        result["peak_bytes"] = torch.cuda.max_memory_allocated()
    print(json.dumps(result), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", choices=["cpu", "cuda"])
    parser.add_argument("--shape", choices=SHAPES, action="append", help="default: small and medium")
    parser.add_argument("--dtype", choices=["bf16", "tf32", "f32"], action="append", help="default: f32")
    parser.add_argument("--engine", choices=["torch", "torch-compile"], action="append", help="default: torch")
    parser.add_argument("--attention", choices=["default", "flash", "cudnn"], default="default")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", metavar="FOLDER", help="compile each shape, then wait there for SHAPE.go")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    shapes, dtypes = arguments.shape or ["small", "medium"], arguments.dtype or ["f32"]
    failed = False
    for shape, dtype, engine in itertools.product(shapes, dtypes, arguments.engine or ["torch"]):
        try:
            measure(arguments.device, shape, dtype, engine, arguments.attention, arguments.steps, arguments.turns)
        except RuntimeError as problem:  # The other cases are still worth measuring.
            print(f"{shape}, {dtype}, {engine}: {problem}", file=sys.stderr)
            failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The world model's sampler in PyTorch, for `far bench rollout --peer`.

The same network and arithmetic: a diffusion transformer over the noisy target, the current frame and
the recalled ones, whose blocks attend in turn inside each frame and over all of them; adaLN-Zero with
one condition per frame, QK-norm, an output for the target only; twenty steps of DDIM. What a
good PyTorch program does is done: weights in the compute type, one product for queries, keys and values,
fused attention, the condition of the context and its embedding computed once per frame, `torch.compile`.
`--share` also computes once per frame what does not depend on the target (the context's way through
the first block) and leaves out what nobody reads (the context's way through the last block).

Clips are independent; a frame of one clip is one sample. Prints one JSON line per case.

    python3 benches/peers/torch_rollout.py cuda --clips 1 --clips 8
    python3 benches/peers/torch_rollout.py cpu --tiny --mode eager
"""
import argparse
import json
import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

from torch_dit import attention_choice

WAVES = 256
POSE_FEATURES = 7


class Setting:
    """Sizes: the paper's, or tiny ones to see that everything runs."""

    def __init__(self, tiny, context):
        self.depth, self.width, self.heads = (4, 32, 2) if tiny else (12, 768, 12)
        self.grid, self.token = (4, 16) if tiny else (16, 16)
        self.frames = 2 + context
        self.tokens = self.grid * self.grid


def waves(values, count):
    """Cosines, then sines, as DiT embeds timesteps."""
    half = count // 2
    rates = torch.exp(torch.arange(half, device=values.device) * (-math.log(1e4) / half))
    angles = values.float()[..., None] * rates
    return torch.cat([angles.cos(), angles.sin()], -1)


def position_table(grid, width):
    """Fixed positions of a square grid: the column, then the row, each as sines and cosines."""
    def line(values):
        cosine, sine = waves(values, width // 2).chunk(2, -1)
        return torch.cat([sine, cosine], -1)
    place = torch.arange(grid * grid)
    return torch.cat([line(place % grid), line(place // grid)], -1)


class Embedder(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(inputs, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, x):
        return self.mlp(x.to(self.mlp[0].weight.dtype))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.q_norm = nn.LayerNorm(width // heads, eps=1e-5)
        self.k_norm = nn.LayerNorm(width // heads, eps=1e-5)
        self.proj = nn.Linear(width, width)

    def forward(self, x, groups, target=None):
        """Attention inside groups of tokens; of `target` tokens of each group only, if given."""
        width = x.shape[-1]
        packed = self.qkv(x).view(groups, -1, 3, self.heads, width // self.heads)
        query, key, value = packed.permute(2, 0, 3, 1, 4).unbind(0)
        if target:
            query = query[:, :, :target]
        mixed = F.scaled_dot_product_attention(self.q_norm(query), self.k_norm(key), value)
        return self.proj(mixed.transpose(1, 2).reshape(groups, -1, width))


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attn = Attention(width, heads)
        self.mlp = Mlp(width)
        self.adaLN_modulation = nn.Sequential(nn.Identity(), nn.Linear(width, 6 * width))

    def forward(self, x, condition, over_all_frames, only_target=False):
        """x [clips, frames, tokens, width], condition [clips, frames, width] after SiLU."""
        clips, frames, tokens, width = x.shape
        parts = self.adaLN_modulation(condition)[:, :, None].chunk(6, -1)
        shift, scale, gate, mlp_shift, mlp_scale, mlp_gate = parts
        inside = F.layer_norm(x, (width,), eps=1e-6) * (1 + scale) + shift
        groups = clips if over_all_frames else clips * frames
        mixed = self.attn(inside.view(groups, -1, width), groups, tokens if only_target else None)
        if only_target:
            x, gate, mlp_shift, mlp_scale, mlp_gate = (
                part[:, :1] for part in (x, gate, mlp_shift, mlp_scale, mlp_gate)
            )
        x = x + gate * mixed.view(x.shape)
        inside = F.layer_norm(x, (width,), eps=1e-6) * (1 + mlp_scale) + mlp_shift
        return x + mlp_gate * self.mlp(inside)


class Network(nn.Module):
    """The world model's network, with the names of its checkpoints."""

    def __init__(self, setting):
        super().__init__()
        width, self.token = setting.width, setting.token
        self.x_embedder = nn.ModuleDict({"proj": nn.Linear(setting.token, width)})
        self.t_embedder = Embedder(WAVES, width)
        self.pose_embedder = Embedder(2 * POSE_FEATURES, width)
        self.time_embedder = Embedder(WAVES, width)
        self.stride_embedder = Embedder(WAVES, width)
        self.role_embedding = nn.Parameter(0.02 * torch.randn(3, width))
        self.blocks = nn.ModuleList(Block(width, setting.heads) for _ in range(setting.depth))
        self.final_layer = nn.ModuleDict({
            "linear": nn.Linear(width, 2 * setting.token),
            "adaLN_modulation": nn.Sequential(nn.Identity(), nn.Linear(width, 2 * width)),
        })
        positions = position_table(setting.grid, width)
        self.register_buffer("positions", positions, persistent=False)

    def embed(self, tokens):
        return self.x_embedder["proj"](tokens.to(self.positions.dtype)) + self.positions

    def context(self, latents, poses, times, strides, share):
        """What is computed once per frame: the context's tokens and conditions, and the target's
        condition without its diffusion time. Frames are the target, the current, the recalled."""
        place = self.pose_embedder(poses) + self.time_embedder(waves(1000 * times, WAVES))
        clean = self.t_embedder(waves(torch.zeros(1, device=times.device), WAVES))
        roles = self.role_embedding[[1] + [2] * (times.shape[1] - 2)]
        target = place[:, 0] + self.role_embedding[0]
        target = target + self.stride_embedder(waves(1000 * strides, WAVES))
        tokens, conditions = self.embed(latents), F.silu(place[:, 1:] + roles + clean)
        if share:
            tokens = self.blocks[0](tokens, conditions, False)
        return tokens, conditions, target

    def forward(self, noisy, timesteps, tokens, conditions, target, share):
        """The prediction for the noisy target [clips, tokens, token width]."""
        condition = F.silu(target + self.t_embedder(waves(timesteps, WAVES)))[:, None]
        both = torch.cat([condition, conditions], 1)
        x = self.embed(noisy)[:, None]
        if share:
            x = self.blocks[0](x, condition, False)
        x = torch.cat([x, tokens], 1)
        last = len(self.blocks) - 1
        for index in range(1 if share else 0, len(self.blocks)):
            over_all_frames = index % 2 == 1
            only_target = share and index == last and over_all_frames
            x = self.blocks[index](x, both, over_all_frames, only_target)
        x = x[:, 0]
        shift, scale = self.final_layer["adaLN_modulation"](condition).chunk(2, -1)
        x = F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift
        return self.final_layer["linear"](x)[..., : self.token]


def ddim_factors(steps, device):
    """For every step, from the noisiest: its time, and what x and the noise are multiplied with."""
    kept = torch.cumprod(1 - torch.linspace(1e-4, 2e-2, 1000, dtype=torch.float64), 0)
    times = torch.arange(steps) * (1000 // steps)
    here = kept[times]
    there = torch.cat([torch.ones(1, dtype=torch.float64), here[:-1]])
    of_x = (there / here).sqrt()
    of_noise = (1 - there).sqrt() - ((1 - here) / here * there).sqrt()
    order = [factor.flip(0).float().to(device) for factor in (times, of_x, of_noise)]
    return list(zip(*order))


def inputs(setting, clips, device):
    """Random contexts."""
    frames, tokens, token = setting.frames, setting.tokens, setting.token
    latents = torch.randn(clips, frames - 1, tokens, token, device=device)
    poses = torch.randn(clips, frames, 2 * POSE_FEATURES, device=device)
    times, strides = torch.rand(clips, frames, device=device), torch.rand(clips, device=device)
    return latents, poses, times, strides


def measure(arguments, setting, clips, mode):
    device, share = arguments.device, arguments.share
    dtype = torch.bfloat16 if arguments.dtype == "bf16" else torch.float32
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    if device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = arguments.dtype == "tf32"
    torch.compiler.reset()
    torch.manual_seed(0)
    network = Network(setting).to(device=device, dtype=dtype).eval()
    step = network
    if mode != "eager":
        step = torch.compile(network, mode=None if mode == "default" else mode, dynamic=False)
    steps = ddim_factors(arguments.steps, device)
    given = inputs(setting, clips, device)

    def frame():
        tokens, conditions, target = network.context(*given, share)
        x = torch.randn(clips, setting.tokens, setting.token, device=device)
        for timestep, of_x, of_noise in steps:
            predicted = step(x, timestep.expand(clips), tokens, conditions, target, share)
            x = of_x * x + of_noise * predicted
        return x.cpu()

    times = []
    with torch.inference_mode(), attention_choice(arguments.attention):
        began = time.perf_counter()
        frame()
        first = time.perf_counter() - began
        until = time.perf_counter() + arguments.seconds
        while len(times) < 3 or time.perf_counter() < until:
            wait()
            start = time.perf_counter()
            frame()
            times.append(time.perf_counter() - start)
    times = sorted(times[1:])
    median = times[len(times) // 2]
    result = {"engine": "torch" if mode == "eager" else "torch-compile", "mode": mode, "share": share}
    result |= {"version": torch.__version__, "device": device, "dtype": arguments.dtype}
    result |= {"attention": arguments.attention, "clips": clips, "context": setting.frames - 2}
    result |= {"shape": "tiny" if arguments.tiny else "paper", "steps": arguments.steps}
    result |= {"first_s": first, "median_s": median, "min_s": times[0], "frames_per_s": clips / median}
    print(json.dumps(result), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", choices=["cpu", "cuda"])
    parser.add_argument("--clips", type=int, action="append", help="default: 1 and 8")
    parser.add_argument("--context", type=int, default=12, help="recalled frames")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--dtype", choices=["bf16", "tf32", "f32"], default="bf16")
    modes = ["eager", "default", "reduce-overhead", "max-autotune-no-cudagraphs"]
    parser.add_argument("--mode", choices=modes, action="append", help="default: default, and reduce-overhead for one clip")
    parser.add_argument("--attention", choices=["default", "flash", "cudnn"], default="default")
    parser.add_argument("--share", action="store_true", help="compute once per frame what can be")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long to measure each case")
    parser.add_argument("--tiny", action="store_true", help="a tiny network, to see that it runs")
    arguments = parser.parse_args()
    setting = Setting(arguments.tiny, arguments.context)
    failed = False
    for clips in arguments.clips or [1, 8]:
        for mode in arguments.mode or (["reduce-overhead", "default"] if clips == 1 else ["default"]):
            try:
                measure(arguments, setting, clips, mode)
            except RuntimeError as problem:  # The other cases are still worth measuring.
                print(f"{clips} clips, {mode}: {problem}", file=sys.stderr)
                failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A tokenizer of the TAESD family in PyTorch, for `far bench tokenizer --peer`.

The same layers as `far`'s: an encoder and a decoder of 3×3 convolutions with ReLU, at the latent's resolution
with a group norm over the whole picture. What a good PyTorch program does is done: images and weights lie
channels last, weights in the compute type, `torch.compile`, the best convolution of cuDNN looked for.
Weights are random: speed does not depend on them. Prints one JSON line per case.

    python3 benches/peers/torch_tokenizer.py cuda --batch 64
    python3 benches/peers/torch_tokenizer.py cpu --batch 2 --mode eager
"""
import argparse
import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


def three(inputs, outputs, **options):
    """A 3×3 convolution that keeps the size of an image."""
    return nn.Conv2d(inputs, outputs, 3, padding=1, **options)


class Block(nn.Module):
    """relu(x + three convolutions), after a look at the whole picture if asked."""

    def __init__(self, width, looks):
        super().__init__()
        self.conv = nn.Sequential(
            three(width, width), nn.ReLU(), three(width, width), nn.ReLU(), three(width, width)
        )
        self.pool = None
        if looks:
            self.pool = nn.Sequential(
                nn.Conv2d(width, 4 * width, 1, bias=False),
                nn.GroupNorm(4, 4 * width),
                nn.ReLU(),
                nn.Conv2d(4 * width, width, 1, bias=False),
            )

    def forward(self, x):
        if self.pool is not None:
            x = x + self.pool(x)
        return F.relu(self.conv(x) + x)


class Bend(nn.Module):
    def forward(self, x):
        return 3 * torch.tanh(x / 3)


def encoder(channels, width, looks):
    """Modules in the published order, so that parameters have the published names."""
    layers = [three(3, width), Block(width, False)]
    for stage in range(3):
        layers.append(three(width, width, stride=2, bias=False))
        layers += [Block(width, looks and stage == 2) for _ in range(3)]
    return nn.Sequential(*layers, three(width, channels))


def decoder(channels, width, looks):
    """As `encoder`."""
    layers = [Bend(), three(channels, width), nn.ReLU()]
    for stage in range(3):
        layers += [Block(width, looks and stage == 0) for _ in range(3)]
        layers += [nn.Upsample(scale_factor=2), three(width, width, bias=False)]
    return nn.Sequential(*layers, Block(width, False), three(width, 3))


def measure(arguments, name, network, x, mode):
    """Times one direction of one batch."""
    wait = torch.cuda.synchronize if arguments.device == "cuda" else lambda: None
    torch.compiler.reset()
    step = network
    if mode != "eager":
        step = torch.compile(network, mode=None if mode == "default" else mode, dynamic=False)
    times = []
    with torch.inference_mode():
        began = time.perf_counter()
        step(x)
        wait()
        first = time.perf_counter() - began
        for _ in range(3):
            step(x)
        until = time.perf_counter() + arguments.seconds
        while len(times) < 5 or time.perf_counter() < until:
            wait()
            start = time.perf_counter()
            step(x)
            wait()
            times.append(time.perf_counter() - start)
    times.sort()
    median, batch = times[len(times) // 2], x.shape[0]
    result = {"engine": "torch" if mode == "eager" else "torch-compile", "mode": mode}
    result |= {"version": torch.__version__, "device": arguments.device, "dtype": arguments.dtype}
    result |= {"shape": f"{arguments.width}x{arguments.height}", "direction": name, "batch": batch}
    result |= {"first_s": first, "median_s": median, "min_s": times[0], "frames_per_s": batch / median}
    print(json.dumps(result), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("device", choices=["cpu", "cuda"])
    parser.add_argument("--batch", type=int, action="append", help="pictures at a time; default: 64")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--height", type=int, default=128)
    parser.add_argument("--channels", type=int, default=32, help="of the latent")
    parser.add_argument("--dtype", choices=["bf16", "tf32", "f32"], help="default: bf16 on a GPU, f32 on a CPU")
    modes = ["eager", "default", "reduce-overhead", "max-autotune-no-cudagraphs"]
    parser.add_argument("--mode", choices=modes, action="append", help="default: default")
    parser.add_argument("--threads", type=int, default=2, help="of a CPU")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long to measure each case")
    arguments = parser.parse_args()
    on_gpu = arguments.device == "cuda"
    arguments.dtype = arguments.dtype or ("bf16" if on_gpu else "f32")
    dtype = torch.bfloat16 if arguments.dtype == "bf16" else torch.float32
    torch.set_num_threads(arguments.threads)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = arguments.dtype == "tf32"
    torch.manual_seed(0)
    looks = arguments.channels == 32
    networks = {
        "encode": (encoder(arguments.channels, 64, looks), 3, 1),
        "decode": (decoder(arguments.channels, 64, looks), arguments.channels, 8),
    }
    failed = False
    for batch in arguments.batch or [64]:
        for name, (network, channels, reduction) in networks.items():
            network = network.to(arguments.device, dtype, memory_format=torch.channels_last).eval()
            size = (batch, channels, arguments.height // reduction, arguments.width // reduction)
            x = torch.rand(size, device=arguments.device, dtype=dtype)
            x = x.to(memory_format=torch.channels_last)
            for mode in arguments.mode or ["default"]:
                try:
                    measure(arguments, name, network, x, mode)
                except RuntimeError as problem:  # The other cases are still worth measuring.
                    print(f"{name}, {batch}, {mode}: {problem}", file=sys.stderr)
                    failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()

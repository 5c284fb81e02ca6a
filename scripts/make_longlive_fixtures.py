#!/usr/bin/env python3
"""Golden values for the LongLive-RAG autoencoder, made once with PyTorch in double precision.

A small network with random weights under the names that `far` gives them, windows of latents of an odd
size, the terms of the loss, and the gradient of every weight.

    pip install torch safetensors numpy
    python3 scripts/make_longlive_fixtures.py
"""
import argparse
import math
import pathlib

import torch
from safetensors.torch import save_file
from torch.nn import functional as F

torch.set_default_dtype(torch.float64)
CHANNELS, HEIGHT, WIDTH = 3, 5, 6
WIDTHS, EMBEDDING = [4, 8, 12], 7
WINDOWS, FRAMES = 2, 5


class Weights(dict):
    """Weights by name, made when they are first asked for."""

    def get_or_make(self, name, shape, spread):
        if name not in self:
            values = torch.randn(shape) * spread + (1.0 if spread == NORM_SPREAD else 0.0)
            self[name] = values.float().double().requires_grad_()
        return self[name]


NORM_SPREAD = 0.2


def convolve(weights, name, x, outputs, stride=1):
    inputs = x.shape[1]
    spread = math.sqrt(1 / (9 * inputs))
    kernel = weights.get_or_make(f"{name}.weight", (outputs, inputs, 3, 3), spread)
    bias = weights.get_or_make(f"{name}.bias", (outputs,), 0.1)
    return F.conv2d(x, kernel, bias, stride=stride, padding=1)


def activate(weights, name, x):
    channels = x.shape[1]
    groups = next(g for g in (32, 16, 8, 4, 2, 1) if channels % g == 0 and channels // g >= 2)
    scale = weights.get_or_make(f"{name}.weight", (channels,), NORM_SPREAD)
    shift = weights.get_or_make(f"{name}.bias", (channels,), 0.1)
    return F.silu(F.group_norm(x, groups, scale, shift, 1e-5))


def linear(weights, name, x, outputs):
    weight = weights.get_or_make(f"{name}.weight", (outputs, x.shape[1]), x.shape[1] ** -0.5)
    return F.linear(x, weight, weights.get_or_make(f"{name}.bias", (outputs,), 0.1))


def stage(weights, name, x, outputs, stride=1):
    x = activate(weights, f"{name}.norm", convolve(weights, f"{name}.conv", x, outputs, stride))
    y = x
    for number in (1, 2):
        y = activate(weights, f"{name}.residual.norm{number}", y)
        y = convolve(weights, f"{name}.residual.conv{number}", y, outputs)
    return x + y


def enlarge(x):
    return F.interpolate(x, scale_factor=2, mode="nearest")


def forward(weights, images):
    x = images
    for number, width in enumerate(WIDTHS):
        x = stage(weights, f"encoder.{number}", x, width, stride=2)
    bottom = x.shape[1:]
    x = activate(weights, "encoder.norm", x).mean((2, 3))
    embeddings = linear(weights, "encoder.fc", x, EMBEDDING)
    x = F.silu(linear(weights, "decoder.fc", embeddings, bottom.numel())).reshape(-1, *bottom)
    for number, width in enumerate(reversed(WIDTHS[:-1])):
        x = stage(weights, f"decoder.{number}", enlarge(x), width)
    x = convolve(weights, "decoder.last", enlarge(x), CHANNELS)
    return embeddings, x[:, :, :HEIGHT, :WIDTH]


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    folder = root / "crates/far-model/tests/fixtures"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=folder)
    options = parser.parse_args()
    torch.manual_seed(11)
    weights = Weights()
    images = torch.randn(WINDOWS * FRAMES, CHANNELS, HEIGHT, WIDTH).float().double()
    embeddings, decoded = forward(weights, images)
    sequence = embeddings.reshape(WINDOWS, FRAMES, EMBEDDING)

    reconstruction = F.mse_loss(decoded, images)
    hinges = []
    for lag in (1, 2, 3):
        cosine = F.cosine_similarity(sequence[:, lag:], sequence[:, :-lag], dim=-1)
        hinges.append(F.relu(cosine - 0.85).mean())
    difference = torch.stack(hinges).mean()
    change = sequence[:, 2:] - 2 * sequence[:, 1:-1] + sequence[:, :-2]
    smoothness = torch.sqrt(change.pow(2).sum(-1) + 1e-8).mean()
    total = reconstruction + difference + smoothness
    total.backward()
    assert difference > 0.001, "the hinge is closed: take another seed"

    tensors = {f"weight.{name}": value.detach() for name, value in weights.items()}
    tensors |= {f"gradient.{name}": value.grad for name, value in weights.items()}
    tensors["images"] = images
    tensors["embeddings"] = embeddings.detach()
    tensors["losses"] = torch.stack([total, reconstruction, difference, smoothness]).detach()
    tensors = {name: value.float().contiguous() for name, value in tensors.items()}
    save_file(tensors, options.out / "longlive.safetensors")
    print(tensors["losses"].tolist(), sum(value.numel() for value in weights.values()), "weights")


if __name__ == "__main__":
    main()

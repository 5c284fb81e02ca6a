#!/usr/bin/env python3
"""Makes the golden tensors of crates/far-tensor/tests/fixtures with PyTorch.

    python3 scripts/make_fixtures.py [--output FOLDER] [--only NAME ...]

One function per fixture, one safetensors file each: `input.*` (what the operation is given),
`output.*`, `upstream.*` (the gradient of each output) and `gradient.*` (of each input that has
one). Inputs are drawn in single precision from a seed that depends on the fixture's name alone;
everything is computed in double precision and stored in single, so that files are the same bytes
wherever they are made with the same PyTorch. Needs torch and safetensors.

To add one, write a function that takes a `Draw` and returns what `differentiate` returns.
"""

import argparse
import math
import pathlib
import zlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

FIXTURES = {}


def fixture(function):
    """Registers a function under its own name."""
    FIXTURES[function.__name__] = function
    return function


class Draw:
    """Seeded random tensors, single-precision values held in double."""

    def __init__(self, name):
        self.generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))

    def normal(self, *shape, scale=1.0):
        values = torch.randn(shape, generator=self.generator) * scale
        return values.double()

    def mask(self, *shape):
        """Zeros and ones, the first of each row being one."""
        values = (torch.rand(shape, generator=self.generator) > 0.4).double()
        values[..., 0] = 1.0
        return values


def differentiate(draw, variables, function, constants=None):
    """Runs `function(**variables, **constants)` and backpropagates drawn gradients.

    `function` returns a tensor or a dictionary of tensors; constants are stored as inputs too.
    """
    constants = constants or {}
    variables = {name: value.clone().requires_grad_() for name, value in variables.items()}
    outputs = function(**variables, **constants)
    if torch.is_tensor(outputs):
        outputs = {"y": outputs}
    upstream = {name: draw.normal(*value.shape) for name, value in outputs.items()}
    total = sum((upstream[name] * value).sum() for name, value in outputs.items())
    total.backward()
    stored = {}
    for name, value in {**variables, **constants}.items():
        stored[f"input.{name}"] = value.detach()
    for name, value in outputs.items():
        stored[f"output.{name}"] = value.detach()
        stored[f"upstream.{name}"] = upstream[name]
    for name, value in variables.items():
        stored[f"gradient.{name}"] = value.grad
    return stored


@fixture
def linear(draw):
    variables = {"x": draw.normal(3, 4, 7), "weight": draw.normal(5, 7), "bias": draw.normal(5)}
    return differentiate(
        draw,
        variables,
        lambda x, weight, bias: {
            "plain": F.linear(x, weight, bias),
            "gelu": F.gelu(F.linear(x, weight, bias), approximate="tanh"),
        },
    )


@fixture
def convolution(draw):
    variables = {
        "x": draw.normal(2, 3, 7, 6),
        "weight": draw.normal(4, 3, 3, 3),
        "bias": draw.normal(4),
    }
    return differentiate(
        draw,
        variables,
        lambda x, weight, bias: {
            "same": F.conv2d(x, weight, bias, padding=1),
            "strided": F.conv2d(x, weight, None, stride=(2, 1), padding=(1, 2)),
            "right_bottom": F.conv2d(F.pad(x, (0, 1, 0, 1)), weight, bias, stride=2),
        },
    )


@fixture
def group_norm(draw):
    variables = {
        "x": draw.normal(2, 6, 3, 5),
        "scale": draw.normal(6),
        "shift": draw.normal(6),
    }
    return differentiate(
        draw, variables, lambda x, scale, shift: F.group_norm(x, 3, scale, shift, eps=1e-6)
    )


@fixture
def pooling(draw):
    return differentiate(
        draw,
        {"x": draw.normal(2, 2, 7, 6)},
        lambda x: {
            "maximum": F.max_pool2d(x, 3, stride=2, padding=1),
            "average": F.avg_pool2d(x, (2, 3), stride=(2, 1), padding=(0, 1)),
            "upsampled": F.interpolate(x, scale_factor=2, mode="nearest"),
        },
    )


@fixture
def softmax(draw):
    constants = {"mask": draw.mask(6, 9), "target_scores": draw.normal(6, 9)}

    def forms(x, mask, target_scores):
        hidden = x.masked_fill(mask == 0, -1e30)
        target = F.softmax(target_scores.masked_fill(mask == 0, -1e30), dim=-1)
        logarithm = F.log_softmax(hidden, dim=-1).masked_fill(mask == 0, 0.0)
        divergence = F.kl_div(logarithm, target, reduction="none") * mask
        return {
            "plain": F.softmax(hidden, dim=-1),
            "logarithm": logarithm,
            "log_sum": torch.logsumexp(hidden, dim=-1),
            "divergence": divergence.sum(dim=-1).mean(),
        }

    return differentiate(draw, {"x": draw.normal(6, 9, scale=3.0)}, forms, constants)


@fixture
def loss(draw):
    constants = {"target": draw.mask(4, 9), "weights": draw.normal(4, 9).abs()}
    return differentiate(
        draw,
        {"x": draw.normal(4, 9, scale=2.0)},
        lambda x, target, weights: {
            "squared": F.mse_loss(x, target),
            "weighted": (weights * (x - target) ** 2).mean(),
            "smooth": F.smooth_l1_loss(x, target, beta=0.7),
            "entropy": F.binary_cross_entropy_with_logits(x, target, weight=weights),
        },
        constants,
    )


@fixture
def cosine(draw):
    return differentiate(
        draw,
        {"query": draw.normal(3, 8), "keys": draw.normal(3, 5, 8)},
        lambda query, keys: {
            "cosine": F.cosine_similarity(query[:, None], keys, dim=-1, eps=1e-6),
            "unit": F.normalize(keys, dim=-1, eps=1e-6),
        },
    )


@fixture
def masked(draw):
    """Standardization by masked moments, through autograd."""

    def forms(x, mask):
        count = mask.sum(dim=1, keepdim=True)
        mean = (x * mask).sum(dim=1, keepdim=True) / count
        variance = ((x - mean) ** 2 * mask).sum(dim=1, keepdim=True) / count
        deviation = torch.sqrt(variance + 1e-12)
        return {
            "standardized": (x - mean) / (deviation + 1e-4) * mask,
            "mean": mean.squeeze(1),
            "variance": variance.squeeze(1),
            "deviation": deviation.squeeze(1),
            "maximum": x.masked_fill(mask == 0, -1e30).amax(dim=1),
        }

    mask = draw.mask(3, 2, 8).transpose(1, 2).contiguous()
    return differentiate(draw, {"x": draw.normal(3, 8, 2)}, forms, {"mask": mask})


@fixture
def sinusoidal(draw):
    del draw
    timesteps = torch.tensor([0.0, 1.0, 57.0, 999.0], dtype=torch.float64)
    frequencies = torch.exp(-math.log(10000.0) * torch.arange(8, dtype=torch.float64) / 8)
    angles = timesteps[:, None] * frequencies
    rows, columns, width = 3, 4, 16
    omega = 1.0 / 10000.0 ** (torch.arange(width // 4, dtype=torch.float64) / (width / 4))
    grid_row, grid_column = torch.meshgrid(
        torch.arange(rows, dtype=torch.float64),
        torch.arange(columns, dtype=torch.float64),
        indexing="ij",
    )
    halves = [place.reshape(-1, 1) * omega for place in (grid_column, grid_row)]
    table = torch.cat([wave(half) for half in halves for wave in (torch.sin, torch.cos)], dim=1)
    return {
        "input.timesteps": timesteps,
        "output.timesteps": torch.cat([torch.cos(angles), torch.sin(angles)], dim=1),
        "output.positions": table,
    }


def diffusion_terms(output, clean, noise, weights, timesteps, velocity):
    """Squared error and variational bound by sample, spelled out from the definitions."""
    beta = torch.linspace(1e-4, 2e-2, 1000, dtype=torch.float64)
    kept = torch.cumprod(1.0 - beta, dim=0)
    before = torch.cat([torch.ones(1, dtype=torch.float64), kept[:-1]])
    posterior = beta * (1.0 - before) / (1.0 - kept)
    low = torch.log(torch.cat([posterior[1:2], posterior[1:]]))
    steps = timesteps.long()

    def at(table):
        return table[steps].reshape(-1, 1, 1, 1)

    noisy = at(kept).sqrt() * clean + (1.0 - at(kept)).sqrt() * noise
    prediction, logits = output.chunk(2, dim=1)
    fixed = prediction.detach()
    if velocity:
        target = at(kept).sqrt() * noise - (1.0 - at(kept)).sqrt() * clean
        guess = at(kept).sqrt() * noisy - (1.0 - at(kept)).sqrt() * fixed
    else:
        target = noise
        guess = (noisy - (1.0 - at(kept)).sqrt() * fixed) / at(kept).sqrt()

    def posterior_mean(start):
        from_clean = at(beta) * at(before).sqrt() / (1.0 - at(kept))
        from_noisy = (1.0 - at(before)) * (1.0 - at(beta)).sqrt() / (1.0 - at(kept))
        return from_clean * start + from_noisy * noisy

    share = (logits + 1.0) / 2.0
    log_variance = share * torch.log(at(beta)) + (1.0 - share) * at(low)
    true_mean, mean = posterior_mean(clean), posterior_mean(guess)
    gap = (true_mean - mean) ** 2
    divergence = 0.5 * (
        -1.0
        + log_variance
        - at(low)
        + torch.exp(at(low) - log_variance)
        + gap * torch.exp(-log_variance)
    )

    def distribution(z):
        return 0.5 * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (z + 0.044715 * z**3)))

    inverse = torch.exp(-0.5 * log_variance)
    above = distribution(inverse * (clean - mean + 1.0 / 255.0))
    below = distribution(inverse * (clean - mean - 1.0 / 255.0))
    probability = torch.where(
        clean < -0.999, above, torch.where(clean > 0.999, 1.0 - below, above - below)
    )
    surprise = -torch.log(probability.clamp(min=1e-12))
    bound = torch.where(at(torch.arange(1000)) == 0, surprise, divergence) / math.log(2.0)
    error = (weights * (prediction - target) ** 2).mean(dim=(1, 2, 3))
    return target, error, bound.mean(dim=(1, 2, 3))


def diffusion(draw, velocity):
    timesteps = torch.tensor([0, 0, 1, 37, 500, 999], dtype=torch.float64)
    batch = len(timesteps)
    clean = draw.normal(batch, 3, 4, 5, scale=0.7).clamp(-1.0, 1.0)
    noise = draw.normal(*clean.shape)
    constants = {
        "clean": clean,
        "noise": noise,
        "weights": draw.normal(*clean.shape).abs(),
        "timesteps": timesteps,
    }
    guess = noise + draw.normal(*clean.shape, scale=0.4)
    output = torch.cat([guess, draw.normal(*clean.shape)], dim=1).float().double()
    target, *_ = diffusion_terms(output, velocity=velocity, **constants)

    def losses(output, **constants):
        _, error, bound = diffusion_terms(output, velocity=velocity, **constants)
        return error + 0.8 * bound

    stored = differentiate(draw, {"output": output}, losses, constants)
    _, error, bound = diffusion_terms(output, velocity=velocity, **constants)
    return {**stored, "input.target": target, "output.error": error, "output.bound": bound}


@fixture
def diffusion_noise(draw):
    return diffusion(draw, velocity=False)


@fixture
def diffusion_velocity(draw):
    return diffusion(draw, velocity=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = pathlib.Path(__file__).parent.parent / "crates/far-tensor/tests/fixtures"
    parser.add_argument("--output", type=pathlib.Path, default=folder, help="where to write")
    parser.add_argument("--only", nargs="*", choices=sorted(FIXTURES), help="these alone")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name, make in FIXTURES.items():
        if arguments.only and name not in arguments.only:
            continue
        tensors = {key: value.float().contiguous() for key, value in make(Draw(name)).items()}
        path = arguments.output / f"{name}.safetensors"
        save_file(tensors, path)
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes crates/far-model/tests/fixtures/autoencoder.safetensors with PyTorch.

    pip install torch safetensors
    python3 scripts/make_autoencoder_fixtures.py [--output FILE]

Two small autoencoders, `kl` of AutoencoderKL's structure and `vit` of the OASIS ViT-VAE's, written down here
from their published definitions. Their weights are a formula of name and place, so that only the names and
shapes are stored, as JSON notes; beside them a picture, its latent and what that is decoded to. Images lie
channels last. Everything is computed in double precision and stored in single.
"""
import argparse
import json
import math
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.functional import interpolate, pad, scaled_dot_product_attention, silu

ROOT = pathlib.Path(__file__).resolve().parent.parent


def fill(network):
    """Weights by formula: for the n-th number of a tensor sin(12.9898·(n + 1) + sum of its name's bytes),
    divided by the root of what a number of the result sums over; those of norms are around one."""
    with torch.no_grad():
        for name, value in network.named_parameters():
            offset = sum(name.encode())
            flat = torch.tensor([math.sin(12.9898 * (n + 1) + offset) for n in range(value.numel())])
            if value.dim() > 1:
                flat = flat * math.sqrt(2 / value[0].numel())
            elif "norm" in name and name.endswith("weight"):
                flat = 1 + 0.2 * flat
            else:
                flat = 0.1 * flat
            # As a file in single precision would hold it.
            value.copy_(flat.float().double().reshape(value.shape))


def norm(width):
    return nn.GroupNorm(32, width, eps=1e-6)


class Resnet(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm1, self.conv1 = norm(inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm2, self.conv2 = norm(outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.conv_shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x):
        y = self.conv1(silu(self.norm1(x)))
        y = self.conv2(silu(self.norm2(y)))
        return y + (x if self.conv_shortcut is None else self.conv_shortcut(x))


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.group_norm = norm(width)
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(width, width)])

    def forward(self, x):
        tokens = self.group_norm(x).flatten(2).transpose(1, 2)
        scores = self.to_q(tokens) @ self.to_k(tokens).transpose(1, 2) / math.sqrt(x.shape[1])
        read = self.to_out[0](scores.softmax(-1) @ self.to_v(tokens))
        return x + read.transpose(1, 2).reshape(x.shape)


class Middle(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.resnets = nn.ModuleList([Resnet(width, width), Resnet(width, width)])
        self.attentions = nn.ModuleList([Attention(width)])

    def forward(self, x):
        return self.resnets[1](self.attentions[0](self.resnets[0](x)))


class Stage(nn.Module):
    def __init__(self, widths, count, way):
        super().__init__()
        inputs, outputs = widths
        sizes = [(inputs if n == 0 else outputs, outputs) for n in range(count)]
        self.resnets = nn.ModuleList([Resnet(*size) for size in sizes])
        if way == "down":
            self.downsamplers = nn.ModuleList([Convolution(outputs, stride=2)])
        if way == "up":
            self.upsamplers = nn.ModuleList([Convolution(outputs, padding=1)])

    def forward(self, x):
        for resnet in self.resnets:
            x = resnet(x)
        if hasattr(self, "downsamplers"):
            x = self.downsamplers[0].conv(pad(x, (0, 1, 0, 1)))
        if hasattr(self, "upsamplers"):
            x = self.upsamplers[0].conv(interpolate(x, scale_factor=2.0, mode="nearest"))
        return x


class Convolution(nn.Module):
    def __init__(self, width, **options):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, **options)


class Encoder(nn.Module):
    def __init__(self, channels, widths, count):
        super().__init__()
        self.conv_in = nn.Conv2d(3, widths[0], 3, padding=1)
        pairs = zip([widths[0]] + widths[:-1], widths)
        last = len(widths) - 1
        stages = [Stage(pair, count, "down" if n < last else "") for n, pair in enumerate(pairs)]
        self.down_blocks = nn.ModuleList(stages)
        self.mid_block = Middle(widths[-1])
        self.conv_norm_out = norm(widths[-1])
        self.conv_out = nn.Conv2d(widths[-1], 2 * channels, 3, padding=1)

    def forward(self, x):
        x = self.conv_in(x)
        for stage in self.down_blocks:
            x = stage(x)
        return self.conv_out(silu(self.conv_norm_out(self.mid_block(x))))


class Decoder(nn.Module):
    def __init__(self, channels, widths, count):
        super().__init__()
        widths = widths[::-1]
        self.conv_in = nn.Conv2d(channels, widths[0], 3, padding=1)
        self.mid_block = Middle(widths[0])
        pairs = zip([widths[0]] + widths[:-1], widths)
        last = len(widths) - 1
        stages = [Stage(pair, count + 1, "up" if n < last else "") for n, pair in enumerate(pairs)]
        self.up_blocks = nn.ModuleList(stages)
        self.conv_norm_out = norm(widths[-1])
        self.conv_out = nn.Conv2d(widths[-1], 3, 3, padding=1)

    def forward(self, x):
        x = self.mid_block(self.conv_in(x))
        for stage in self.up_blocks:
            x = stage(x)
        return self.conv_out(silu(self.conv_norm_out(x)))


class AutoencoderKL(nn.Module):
    def __init__(self, channels, widths, count):
        super().__init__()
        self.encoder, self.decoder = Encoder(channels, widths, count), Decoder(channels, widths, count)
        self.quant_conv = nn.Conv2d(2 * channels, 2 * channels, 1)
        self.post_quant_conv = nn.Conv2d(channels, channels, 1)

    def encode(self, x, scale):
        return self.quant_conv(self.encoder(2 * x - 1)).chunk(2, 1)[0] * scale

    def decode(self, z, scale):
        return (self.decoder(self.post_quant_conv(z / scale)) + 1) / 2


class Block(nn.Module):
    HEAD = 64

    def __init__(self, width, hidden):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attn = nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "proj": nn.Linear(width, width)})
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, hidden), "fc2": nn.Linear(hidden, width)})

    def forward(self, x, angles):
        count, tokens, width = x.shape
        qkv = self.attn["qkv"](self.norm1(x)).reshape(count, tokens, 3, width // self.HEAD, self.HEAD)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        read = scaled_dot_product_attention(turn(q, angles), turn(k, angles), v)
        x = x + self.attn["proj"](read.transpose(1, 2).reshape(x.shape))
        return x + self.mlp["fc2"](nn.functional.gelu(self.mlp["fc1"](self.norm2(x))))


def turn(x, angles):
    """Turns neighboring pairs of the first channels; the rest passes."""
    turned, rest = x[..., : angles.shape[-1]], x[..., angles.shape[-1] :]
    pairs = turned.unflatten(-1, (-1, 2))
    crossed = torch.stack([-pairs[..., 1], pairs[..., 0]], -1).flatten(-2)
    return torch.cat([turned * angles.cos() + crossed * angles.sin(), rest], -1)


def grid_angles(rows, columns):
    """[rows · columns, 32]: sixteen by the row, sixteen by the column."""
    rates = torch.linspace(1, rows * columns / 2, Block.HEAD // 8).double() * math.pi
    row, column = (torch.linspace(-1, 1, count).double()[:, None] * rates for count in (rows, columns))
    row, column = (value.repeat_interleave(2, -1) for value in (row, column))
    both = torch.cat([row[:, None].expand(-1, columns, -1), column[None].expand(rows, -1, -1)], -1)
    return both.reshape(rows * columns, -1)


class VitVae(nn.Module):
    def __init__(self, channels, patch, width, hidden, depth):
        super().__init__()
        self.patch, self.channels = patch, channels
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, width, patch, stride=patch)})
        self.encoder = nn.ModuleList([Block(width, hidden) for _ in range(depth[0])])
        self.enc_norm = nn.LayerNorm(width, eps=1e-6)
        self.quant_conv = nn.Linear(width, 2 * channels)
        self.post_quant_conv = nn.Linear(channels, width)
        self.decoder = nn.ModuleList([Block(width, hidden) for _ in range(depth[1])])
        self.dec_norm = nn.LayerNorm(width, eps=1e-6)
        self.predictor = nn.Linear(width, 3 * patch * patch)

    def encode(self, x, scale):
        x = self.patch_embed["proj"](2 * x - 1)
        rows, columns = x.shape[2:]
        tokens, angles = x.flatten(2).transpose(1, 2), grid_angles(rows, columns)
        for block in self.encoder:
            tokens = block(tokens, angles)
        mean = self.quant_conv(self.enc_norm(tokens)).chunk(2, -1)[0] * scale
        return mean.transpose(1, 2).reshape(len(x), self.channels, rows, columns)

    def decode(self, z, scale):
        rows, columns = z.shape[2:]
        tokens, angles = self.post_quant_conv((z / scale).flatten(2).transpose(1, 2)), grid_angles(rows, columns)
        for block in self.decoder:
            tokens = block(tokens, angles)
        patches = self.predictor(self.dec_norm(tokens))
        patches = patches.reshape(len(z), rows, columns, 3, self.patch, self.patch)
        picture = patches.permute(0, 3, 1, 4, 2, 5).reshape(len(z), 3, rows * self.patch, columns * self.patch)
        return (picture + 1) / 2


def result(name, network, size, scale):
    """What a network makes of a picture, and its names and shapes."""
    network = network.double().eval()
    fill(network)
    height, width = size
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    planes = [torch.sin(0.4 * columns + color) * torch.cos(0.3 * rows - color) for color in range(3)]
    picture = (0.5 + 0.4 * torch.stack(planes)[None]).float().double()
    with torch.no_grad():
        latent = network.encode(picture, scale)
        decoded = network.decode(latent, scale)
    print(f"{name}: latent deviation {latent.std():.3f}, decoded {decoded.mean():.3f} ± {decoded.std():.3f}")
    values = {"picture": picture, "latent": latent, "decoded": decoded}
    shapes = {key: list(value.shape) for key, value in network.named_parameters()}
    tensors = {f"{name}.{key}": value.permute(0, 2, 3, 1).float().contiguous() for key, value in values.items()}
    return tensors, {name: json.dumps(shapes)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    place = ROOT / "crates/far-model/tests/fixtures/autoencoder.safetensors"
    parser.add_argument("--output", type=pathlib.Path, default=place)
    options = parser.parse_args()
    kl, kl_shapes = result("kl", AutoencoderKL(3, [32, 64, 64], 2), (16, 24), 0.25)
    vit, vit_shapes = result("vit", VitVae(5, 4, 128, 96, [1, 2]), (8, 12), 0.5)
    save_file(kl | vit, options.output, metadata=kl_shapes | vit_shapes)
    print(f"{options.output}: {options.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes crates/far-model/tests/fixtures/taesd.safetensors with PyTorch.

    pip install torch safetensors
    python3 scripts/make_taesd_fixtures.py [--output FILE]

Two small tokenizers of the TAESD family with random weights, `looking` with a look at the whole picture
and `plain` without: their weights, a picture, its latent and what that is decoded to. Where the published
weights of taef2 are in the cache (`scripts/make_taesd_weights.py`), the same three of them, under `taef2`.
Images lie channels last. Everything is computed in double precision and stored in single.
"""
import argparse
import os
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches" / "peers"))
from torch_tokenizer import decoder, encoder  # noqa: E402

HEIGHT, WIDTH = 16, 24


def picture():
    """Stripes with a little noise, [1, 3, height, width] in 0..1; not square."""
    rows, columns = torch.meshgrid(torch.arange(HEIGHT), torch.arange(WIDTH), indexing="ij")
    planes = [torch.sin(0.4 * columns + color) * torch.cos(0.3 * rows - color) for color in range(3)]
    stripes = 0.5 + 0.4 * torch.stack(planes)[None]
    return (stripes + 0.1 * (torch.rand(stripes.shape) - 0.5)).clamp(0, 1).float().double()


def result(networks, name):
    """What the networks make of the picture."""
    with torch.no_grad():
        x = picture()
        latent = networks["encoder"](x)
        values = {"picture": x, "latent": latent, "decoded": networks["decoder"](latent)}
    return {f"{name}.{key}": value.permute(0, 2, 3, 1) for key, value in values.items()}


def made_up(name, channels, width, looks):
    """A tokenizer with random weights, about as large as trained ones."""
    networks = {"encoder": encoder(channels, width, looks), "decoder": decoder(channels, width, looks)}
    tensors = {}
    for part, network in networks.items():
        for key, value in network.named_parameters():
            fan = value[0].numel() if value.dim() == 4 else 4
            value.data = torch.randn(value.shape).float() / fan**0.5
            tensors[f"{name}.weights.{part}.{key}"] = value.detach().clone()
        network.double()
    return tensors | result(networks, name)


def published(path):
    """taef2 with its own weights."""
    networks = {"encoder": encoder(32, 64, True), "decoder": decoder(32, 64, True)}
    weights = load_file(path)
    for part, network in networks.items():
        own = {key.removeprefix(f"{part}."): value for key, value in weights.items() if key.startswith(part)}
        network.double().load_state_dict(own)
    return result(networks, "taef2")


def main():
    home = pathlib.Path(os.environ.get("FAR_CACHE") or pathlib.Path.home() / ".cache" / "far")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    place = ROOT / "crates/far-model/tests/fixtures/taesd.safetensors"
    parser.add_argument("--output", type=pathlib.Path, default=place)
    options = parser.parse_args()
    torch.manual_seed(21)
    tensors = made_up("looking", 5, 5, True) | made_up("plain", 4, 4, False)
    weights = home / "taef2.safetensors"
    if weights.exists():
        tensors |= published(weights)
    else:
        print(f"{weights} is not there: the fixture will lack taef2", file=sys.stderr)
    tensors = {name: value.float().contiguous() for name, value in tensors.items()}
    save_file(tensors, options.output)
    print(f"{options.output}: {len(tensors)} tensors, {options.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Golden values for DreamSim: its three networks in PyTorch, small and with made-up weights.

The networks stand here as the authors' modules have them, adapters beside the attention and not merged;
the file that the test reads is made by `make_dreamsim_weights.py`, which merges them. So layout, merging
and every branch's own way (norms, activations, embedding) are compared.

    pip install torch safetensors numpy
    python3 scripts/make_dreamsim_fixtures.py
"""
import pathlib

import numpy
import torch
from safetensors.torch import save_file

from make_dreamsim_weights import convert, save

FIXTURES = pathlib.Path(__file__).parent.parent / "crates/far-model/tests/fixtures"
WIDTH, HEADS, DEPTH, PATCH, GRID, EMBEDDING, RANK, ALPHA = 16, 2, 2, 4, 3, 8, 3, 5.0
SIZES = [(12, 12), (20, 9), (7, 30)]
COLORS = {
    "dino": ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    "clip": ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]),
}
COLORS["open_clip"] = COLORS["clip"]


def picture(number, width, height):
    """Slopes and noise, bytes [height, width, 3], by a formula that the test has too."""
    place = numpy.arange(width * height * 3)
    return ((place * (37 + 12 * number) + place // 3 * 5) % 251).astype("uint8").reshape(height, width, 3)


def made_up(branch, draw):
    """A state of the authors' module with numbers drawn."""
    shapes = {
        "cls_token": (1, 1, WIDTH),
        "pos_embed": (1, GRID * GRID + 1, WIDTH),
        "patch_embed.proj.weight": (WIDTH, 3, PATCH, PATCH),
        "patch_embed.proj.bias": (WIDTH,),
    }
    for block in range(DEPTH):
        name = f"blocks.{block}."
        for norm in ("norm1", "norm2"):
            shapes |= {f"{name}{norm}.weight": (WIDTH,), f"{name}{norm}.bias": (WIDTH,)}
        for part, sizes in (
            ("attn.qkv", (3 * WIDTH, WIDTH)),
            ("attn.proj", (WIDTH, WIDTH)),
            ("mlp.fc1", (4 * WIDTH, WIDTH)),
            ("mlp.fc2", (WIDTH, 4 * WIDTH)),
        ):
            shapes |= {f"{name}{part}.weight": sizes, f"{name}{part}.bias": sizes[:1]}
    if branch != "dino":
        shapes |= {"pos_drop.weight": (WIDTH,), "pos_drop.bias": (WIDTH,)}
        shapes |= {"norm.weight": (WIDTH,), "norm.bias": (WIDTH,), "proj": (WIDTH, EMBEDDING)}
    return {name: draw(shape) for name, shape in shapes.items()}


def forward(branch, state, adapters, images):
    """The embedding of images [n, 3, side, side] in [0, 1]."""
    functional = torch.nn.functional
    clip = branch != "dino"
    epsilon = 1e-5 if clip else 1e-6
    mean, deviation = (torch.tensor(part).double().view(3, 1, 1) for part in COLORS[branch])
    norm = lambda x, name: functional.layer_norm(
        x, (WIDTH,), state[f"{name}.weight"], state[f"{name}.bias"], epsilon
    )
    linear = lambda x, name: functional.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])
    act = (lambda x: x * torch.sigmoid(1.702 * x)) if branch == "clip" else functional.gelu
    x = functional.conv2d(
        (images - mean) / deviation,
        state["patch_embed.proj.weight"],
        state["patch_embed.proj.bias"],
        stride=PATCH,
    )
    x = x.flatten(2).transpose(1, 2)
    x = torch.cat([state["cls_token"].expand(len(x), -1, -1), x], dim=1) + state["pos_embed"]
    x = norm(x, "pos_drop") if clip else x
    for block in range(DEPTH):
        name = f"blocks.{block}"
        normed = norm(x, f"{name}.norm1")
        low = adapters[block]
        qkv = linear(normed, f"{name}.attn.qkv") + ALPHA / RANK * (normed @ low["A"].T @ low["B"].T)
        q, k, v = qkv.reshape(len(x), -1, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v)
        x = x + linear(attended.transpose(1, 2).reshape(x.shape), f"{name}.attn.proj")
        hidden = act(linear(norm(x, f"{name}.norm2"), f"{name}.mlp.fc1"))
        x = x + linear(hidden, f"{name}.mlp.fc2")
    return norm(x, "norm")[:, 0] @ state["proj"] if clip else x[:, 0]


def centered(embedding):
    embedding = embedding - embedding.mean(dim=1, keepdim=True)
    return embedding / embedding.norm(dim=1, keepdim=True)


def main():
    generator = torch.Generator().manual_seed(7)
    draw = lambda shape: 0.4 * torch.randn(shape, generator=generator)
    branches = list(COLORS)
    states = {branch: made_up(branch, draw) for branch in branches}
    low = {
        (number, block): {"A": draw((RANK, WIDTH)), "B": draw((3 * WIDTH, RANK))}
        for number in range(3)
        for block in range(DEPTH)
    }
    side = PATCH * GRID
    images = []
    for number, (width, height) in enumerate(SIZES):
        pixels = torch.from_numpy(picture(number, width, height)).permute(2, 0, 1)[None].double()
        resized = torch.nn.functional.interpolate(
            pixels, (side, side), mode="bicubic", antialias=True, align_corners=False
        )
        images.append(resized.round().clamp(0, 255) / 255)
    images = torch.cat(images)
    embeddings = {}
    for number, branch in enumerate(branches):
        state = {name: value.double() for name, value in states[branch].items()}
        own = [{k: v.double() for k, v in low[number, block].items()} for block in range(DEPTH)]
        embeddings[branch] = forward(branch, state, own, images)
    ensemble = centered(torch.cat([embeddings[branch] for branch in branches], dim=1))
    values = {
        "sizes": torch.tensor(SIZES).float(),
        "resized": images.float(),
        "ensemble": ensemble.float(),
        "dino": centered(embeddings["dino"]).float(),
        "distances": torch.stack([1 - ensemble[0] @ ensemble[1], 1 - ensemble[0] @ ensemble[2]]).float(),
    }
    save_file({name: value.contiguous() for name, value in values.items()}, FIXTURES / "dreamsim_values.safetensors")
    tensors = convert(states, low, ALPHA / RANK)
    save(tensors, branches, HEADS, FIXTURES / "dreamsim.safetensors")
    alone = {(0, block): low[0, block] for block in range(DEPTH)}
    tensors = convert({"dino": states["dino"]}, alone, ALPHA / RANK)
    save(tensors, ["dino"], HEADS, FIXTURES / "dreamsim_dino.safetensors")


if __name__ == "__main__":
    main()

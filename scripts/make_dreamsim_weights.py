#!/usr/bin/env python3
"""The weights of DreamSim as one safetensors file, made once from the authors' own files.

The authors publish archives (github.com/ssundaram21/dreamsim, releases) with the backbones
`dino_vitb16_pretrain.pth`, `clip_vitb16_pretrain.pth.tar`, `open_clip_vitb16_pretrain.pth.tar` and a
folder of low-rank adapters (`ensemble_lora/` or `dino_vitb16_lora/` …: `adapter_config.json` and
`adapter_model.safetensors` or `.bin`). Unpack them into one folder; nothing is downloaded here.

    pip install torch safetensors
    python3 scripts/make_dreamsim_weights.py FOLDER                    # the ensemble
    python3 scripts/make_dreamsim_weights.py FOLDER --branches dino    # one network: a third of the time

Adapters are merged: W + (alpha / r) * B @ A. The file goes where `far` looks for it: $FAR_CACHE, or
~/.cache/far.
"""
import argparse
import json
import os
import pathlib
import re

import torch
from safetensors.torch import load_file, save_file

BACKBONES = {
    "dino": "dino_vitb16_pretrain.pth",
    "clip": "clip_vitb16_pretrain.pth.tar",
    "open_clip": "open_clip_vitb16_pretrain.pth.tar",
}
# What a network reads, in the names of the authors' modules; the rest of a file (heads of training) is left out.
BLOCK = re.compile(r"blocks\.\d+\.(norm1|norm2|attn\.qkv|attn\.proj|mlp\.fc1|mlp\.fc2)\.(weight|bias)")
FIRST = ("patch_embed.proj.weight", "patch_embed.proj.bias", "cls_token", "pos_embed")
CLIP = ("pos_drop.weight", "pos_drop.bias", "norm.weight", "norm.bias", "proj")
ADAPTER = re.compile(
    r"extractor_list\.(\d+)\..*?blocks\.(\d+)\.attn\.qkv\.lora_([AB])(?:\.default)?\.weight"
)


def backbone(path):
    """The state of a backbone; files of CLIP's kind hold the projection beside it."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    if "state_dict" in state:
        state = {**state["state_dict"], **({"proj": state["proj"]} if "proj" in state else {})}
    return {name.removeprefix("module."): value for name, value in state.items()}


def adapters(folder):
    """The matrices A and B by branch and block, and alpha / r."""
    config = json.loads((folder / "adapter_config.json").read_text())
    tensors = folder / "adapter_model.safetensors"
    if tensors.exists():
        state = load_file(tensors)
    else:
        state = torch.load(folder / "adapter_model.bin", map_location="cpu", weights_only=True)
    found = {}
    for name, value in state.items():
        match = ADAPTER.search(name)
        if match is None:
            raise SystemExit(f"{folder}: {name} is no adapter of attn.qkv")
        branch, block, part = int(match[1]), int(match[2]), match[3]
        found.setdefault((branch, block), {})[part] = value.float()
    return found, config["lora_alpha"] / config["r"]


def convert(states, merged, scale):
    """One file's tensors of all branches; `merged` has A and B by number of the branch and block."""
    tensors = {}
    for number, (branch, state) in enumerate(states.items()):
        names = [name for name in state if BLOCK.fullmatch(name)] + list(FIRST)
        names += CLIP if branch != "dino" else []
        for name in names:
            value = state[name].float()
            if name == "patch_embed.proj.weight":
                value = value.flatten(1)
            elif name in ("cls_token", "pos_embed"):
                value = value[0]
            tensors[f"{branch}.{name}"] = value.contiguous()
        for (owner, block), parts in merged.items():
            if owner == number:
                name = f"{branch}.blocks.{block}.attn.qkv.weight"
                tensors[name] = tensors[name] + scale * parts["B"] @ parts["A"]
    return tensors


def save(tensors, branches, heads, path):
    notes = {"branches": ",".join(branches), "heads": str(heads)}
    save_file(tensors, path, metadata={"far": json.dumps(notes)})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--branches", default="dino,clip,open_clip")
    parser.add_argument("--adapters", type=pathlib.Path, help="folder of the adapters (default: the one in FOLDER)")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    branches = arguments.branches.split(",")
    if not set(branches) <= set(BACKBONES):
        parser.error(f"--branches knows {', '.join(BACKBONES)}")
    kind = "ensemble_lora" if len(branches) > 1 else f"{branches[0]}_vitb16_lora"
    folder = arguments.adapters or arguments.folder / kind
    states = {branch: backbone(arguments.folder / BACKBONES[branch]) for branch in branches}
    merged, scale = adapters(folder)
    due = {(number, block) for number in range(len(branches)) for block in range(12)}
    if set(merged) != due or any(set(parts) != {"A", "B"} for parts in merged.values()):
        raise SystemExit(f"{folder}: adapters of {sorted(merged)}, not of 12 blocks of {branches}")
    home = pathlib.Path(os.environ.get("FAR_CACHE") or pathlib.Path.home() / ".cache" / "far")
    out = arguments.out or home / "dreamsim.safetensors"
    out.parent.mkdir(parents=True, exist_ok=True)
    save(convert(states, merged, scale), branches, 12, out)
    print(f"{out}: {', '.join(branches)}, adapters merged at {scale:g}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The weights of a large published autoencoder as `far` reads them, made once from the published file.

    pip install numpy safetensors
    python3 scripts/make_autoencoder_weights.py sdxl-vae diffusion_pytorch_model.safetensors
    python3 scripts/make_autoencoder_weights.py sd-vae   vae-ft-mse-840000-ema-pruned.safetensors
    python3 scripts/make_autoencoder_weights.py oasis    vit-l-20.safetensors

AutoencoderKL (`sd-vae`, `sdxl-vae`) may be named as diffusers names it or as the original repository does,
alone or inside a whole checkpoint (`first_stage_model.`); the ViT-VAE (`oasis`) as its authors do. A .pth or
.ckpt file is read by an unpickler that knows tensors and nothing else. Numbers keep their precision. The
result goes where `far` looks for it: $FAR_CACHE, or ~/.cache/far.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import sys

import numpy
from safetensors import safe_open
from safetensors.numpy import save_file

from make_taesd_weights import read as read_archive

# What latents are multiplied by to have about unit variance.
SCALES = {"sd-vae": 0.18215, "sdxl-vae": 0.13025, "oasis": 0.07843137255}
# Parts of the original names of AutoencoderKL, and of older diffusers files, with what they are now.
RENAMED = [
    (r"^first_stage_model\.", ""),
    (r"\.down\.(\d+)\.block\.(\d+)\.", r".down_blocks.\1.resnets.\2."),
    (r"\.down\.(\d+)\.downsample\.", r".down_blocks.\1.downsamplers.0."),
    (r"\.up\.(\d+)\.block\.(\d+)\.", r".up_blocks.@\1.resnets.\2."),
    (r"\.up\.(\d+)\.upsample\.", r".up_blocks.@\1.upsamplers.0."),
    (r"\.mid\.block_1\.", ".mid_block.resnets.0."),
    (r"\.mid\.block_2\.", ".mid_block.resnets.1."),
    (r"\.mid\.attn_1\.", ".mid_block.attentions.0."),
    (r"\.attentions\.0\.norm\.", ".attentions.0.group_norm."),
    (r"\.attentions\.0\.(q|query)\.", ".attentions.0.to_q."),
    (r"\.attentions\.0\.(k|key)\.", ".attentions.0.to_k."),
    (r"\.attentions\.0\.(v|value)\.", ".attentions.0.to_v."),
    (r"\.attentions\.0\.(proj_out|proj_attn)\.", ".attentions.0.to_out.0."),
    (r"\.nin_shortcut\.", ".conv_shortcut."),
    (r"coder\.norm_out\.", "coder.conv_norm_out."),
]


def read(path):
    """The tensors of a file."""
    if path.suffix == ".safetensors":
        with safe_open(path, "numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}
    return read_archive(path)


def renamed(tensors):
    """AutoencoderKL's tensors under diffusers' names."""
    if any(name.startswith("first_stage_model.") for name in tensors):
        tensors = {name: value for name, value in tensors.items() if name.startswith("first_stage_model.")}
    result = {}
    for name, value in tensors.items():
        for pattern, replacement in RENAMED:
            name = re.sub(pattern, replacement, name)
        if ".attentions." in name and name.endswith("weight") and value.ndim == 4:
            value = value.reshape(value.shape[:2])
        result[name] = value
    # The original counts the decoder's stages from the picture, diffusers from the latent.
    stages = {int(number) for name in result for number in re.findall(r"\.up_blocks\.@(\d+)\.", name)}
    turn = lambda match: f".up_blocks.{max(stages) - int(match[1])}."  # noqa: E731
    return {re.sub(r"\.up_blocks\.@(\d+)\.", turn, name): value for name, value in result.items()}


def wanted(name):
    """Whether a tensor belongs to the network; the rest are losses and tables that are computed."""
    parts = ("encoder.", "decoder.", "quant_conv.", "post_quant_conv.", "patch_embed.", "enc_norm.", "dec_norm.")
    return name.startswith(parts + ("predictor.",)) and "rotary" not in name


def main():
    home = pathlib.Path(os.environ.get("FAR_CACHE") or pathlib.Path.home() / ".cache" / "far")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(SCALES), help="what it is, and the name of the result")
    parser.add_argument("file", type=pathlib.Path, help="the published file")
    parser.add_argument("--out", type=pathlib.Path, default=home, help="the folder of the result")
    options = parser.parse_args()
    tensors = read(options.file)
    if options.name != "oasis":
        tensors = renamed(tensors)
    tensors = {name: numpy.ascontiguousarray(value) for name, value in tensors.items() if wanted(name)}
    needed = "patch_embed.proj.weight" if options.name == "oasis" else "encoder.conv_in.weight"
    if needed not in tensors:
        sys.exit(f"{options.file}: {needed} is missing, so it is no {options.name}")
    for name, value in tensors.items():
        if not numpy.isfinite(value).all():
            sys.exit(f"{options.file}: {name} is not finite")
    options.out.mkdir(parents=True, exist_ok=True)
    target = options.out / f"{options.name}.safetensors"
    save_file(tensors, target, metadata={"far": json.dumps({"scale": str(SCALES[options.name])})})
    count = sum(value.size for value in tensors.values())
    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    print(f"{target}: {len(tensors)} tensors, {count} weights, sha256 {digest}")


if __name__ == "__main__":
    main()

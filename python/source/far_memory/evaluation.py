"""Judges a world model under many recall rules: rollouts, recall quality, controls and paired intervals.

The findings have the shape of the project's ``results.json``, so that ``far report FOLDER`` makes its page.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .convention import Convention
from .data import Dataset, Episode
from .errors import InputError
from .memory import Memory
from .queries import Queries
from .snapshot import Snapshot

# As far eval does: the ends of an interval then vary by about 2 % of its width.
DRAWS = 2_000
# Sets of random memories that stand for chance, for each question.
RANDOM_SETS = 8


@dataclass(frozen=True)
class Step:
    """What a model may know when it predicts a frame."""

    frame: NDArray[np.uint8]
    """The present picture, [height, width, 3]: in a rollout, what the model predicted before."""
    pose: NDArray[np.float32]
    """Where the camera is: position and quaternion in ``Convention.native()``, [7]."""
    goal: NDArray[np.float32]
    """The camera of the frame to be predicted, [7]."""
    stride: float
    """Seconds to it."""
    memories: NDArray[np.uint8]
    """Recalled pictures, best first, [k, height, width, 3]; zeros where ``mask`` is False."""
    memory_poses: NDArray[np.float32]
    """Their cameras, [k, 7]."""
    mask: NDArray[np.bool_]
    """Where there is a memory, [k]."""
    seed: int
    """For models that draw: the same for every rule."""


class WorldModel(Protocol):
    """What is judged."""

    def predict(self, steps: Sequence[Step]) -> NDArray[np.uint8]:
        """The predicted pictures, [steps, height, width, 3]."""

    def keys(self, frames: NDArray[np.uint8]) -> Mapping[str, NDArray[np.float32]]:
        """Keys of pictures by cue, for the memory and for queries; empty if the model has no key cues."""


@dataclass(frozen=True)
class Clip:
    """One episode as it is judged: what is remembered, and the frames to be generated."""

    episode: Episode
    memory: Snapshot
    remembered: NDArray[np.int64]
    frames: NDArray[np.int64]


def evaluate(
    model: WorldModel,
    dataset: Dataset,
    policies: Mapping[str, object],
    *,
    k: int,
    clips: int = 16,
    split: str = "test",
    stride: int = 4,
    pool: int = 200,
    questions: int = 4,
    candidates: int = 40,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    train_seconds: float | None = None,
) -> dict[str, Any]:
    """Judges a model under every policy (by the name of its arm) on the same clips; returns and writes ``results.json``.

    The controls ``none`` and ``random`` are always among the arms. ``psnr`` is of whole rollouts, ``one_step_psnr`` of
    predictions from real frames, ``recall_quality`` compares utilities of whole sets: 0 is chance, 1 the oracle, which takes
    each memory by what it adds. Intervals are over clips (95 %, bootstrap). With ``folder``, ``far report`` makes the page if it is installed.
    """
    arms: dict[str, object] = {"none": "none", "random": "random", **policies}
    walks = [_clip(model, dataset, id, stride, pool) for id in dataset.select(split)[:clips]]
    walks = [walk for walk in walks if len(walk.frames) > 1 and len(walk.remembered)]
    if not walks or k < 1:
        raise InputError(f"the part {split!r} has no clip to judge, or k is {k}", "record more episodes, and recall at least one memory")
    values: dict[str, dict[str, list[float]]] = {arm: {"psnr": [], "one_step_psnr": [], "gain": []} for arm in arms}
    best: list[float] = []
    for number, walk in enumerate(walks):
        asked = np.linspace(0, len(walk.frames) - 2, min(questions, len(walk.frames) - 1)).astype(int)
        recalls: dict[str, NDArray[np.int64]] = {}
        for arm, policy in arms.items():
            values[arm]["psnr"].append(_rollout(model, walk, policy, k, seed + number))
            single, recalls[arm] = _one_step(model, walk, policy, asked, k, seed + number)
            values[arm]["one_step_psnr"].append(single)
        gains, oracle = _gains(model, walk, asked, recalls, candidates, k, seed + number)
        best.append(oracle)
        for arm in arms:
            values[arm]["gain"].append(gains[arm])
    results = _results(dataset, values, np.array(best), len(walks), k, seed, train_seconds)
    if folder is not None:
        write_results(results, folder)
    return results


def write_results(results: dict[str, Any], folder: str | os.PathLike[str]) -> Path | None:
    """Writes ``results.json`` and, where the program ``far`` is installed, the page; returns the page's path."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    (place / "results.json").write_text(json.dumps(results, indent=2, allow_nan=False) + "\n")
    program = shutil.which(os.environ.get("FAR", "far"))
    if program is None:
        return None
    page = place / "report.html"
    subprocess.run([program, "report", str(place), "--out", str(page)], check=True, capture_output=True)
    return page


def _clip(model: WorldModel, dataset: Dataset, id: int, stride: int, pool: int) -> Clip:
    episode = dataset.episode(id)
    count = min(pool, episode.boundary)
    remembered = np.arange(count, dtype=np.int64) * episode.boundary // max(count, 1)
    frames = np.arange(episode.boundary, len(episode), stride, dtype=np.int64)
    keys = dict(model.keys(episode.frames(remembered))) if count else {}
    cues: dict[str, int | None] = {"meta": None} | {cue: rows.shape[1] for cue, rows in keys.items()}
    memory = Memory(cues)
    episode.remember(memory, remembered, keys)
    return Clip(episode, memory.snapshot(), remembered, frames)


def _queries(model: WorldModel, walk: Clip, steps: Sequence[int], frames: NDArray[np.uint8], seed: int) -> Queries:
    """From the frames at these steps to the next ones."""
    times, poses = walk.episode.times(), walk.episode.poses()
    now, goal = walk.frames[list(steps)], walk.frames[[step + 1 for step in steps]]
    return Queries(
        time=times[now],
        pose=(poses[now, :3], poses[now, 3:]),
        goal=(poses[goal, :3], poses[goal, 3:]),
        convention=Convention.native(),
        keys=dict(model.keys(frames)),
        stride=times[goal] - times[now],
        seed=[seed * 1_000 + step for step in steps],
    )


def _steps(
    walk: Clip, steps: Sequence[int], frames: NDArray[np.uint8], ids: NDArray[np.int64], seed: int
) -> list[Step]:
    times, poses = walk.episode.times(), walk.episode.poses()
    found = []
    for place, step in enumerate(steps):
        mask = ids[place] >= 0
        recalled = walk.remembered[np.where(mask, ids[place], 0)]
        pictures = walk.episode.frames(recalled)
        pictures[~mask] = 0
        now, goal = walk.frames[step], walk.frames[step + 1]
        stride = float(times[goal] - times[now])
        found.append(Step(frames[place], poses[now], poses[goal], stride, pictures, poses[recalled], mask, seed * 1_000 + step))
    return found


def _rollout(model: WorldModel, walk: Clip, policy: object, k: int, seed: int) -> float:
    """The mean PSNR of a rollout: every prediction starts from the one before."""
    frame = walk.episode.frames(walk.frames[:1])
    quality = []
    for step in range(len(walk.frames) - 1):
        ids = walk.memory.recall(policy, _queries(model, walk, [step], frame, seed), k).ids
        frame = model.predict(_steps(walk, [step], frame, ids, seed))
        quality.append(_psnr(frame[0], walk.episode.frames(walk.frames[step + 1 : step + 2])[0]))
    return float(np.mean(quality))


def _one_step(
    model: WorldModel, walk: Clip, policy: object, asked: NDArray[np.int64], k: int, seed: int
) -> tuple[float, NDArray[np.int64]]:
    """The mean PSNR of predictions from real frames, and what was recalled for them."""
    steps = asked.tolist()
    frames = walk.episode.frames(walk.frames[steps])
    ids = walk.memory.recall(policy, _queries(model, walk, steps, frames, seed), k).ids
    predicted = model.predict(_steps(walk, steps, frames, ids, seed))
    truth = walk.episode.frames(walk.frames[[step + 1 for step in steps]])
    return float(np.mean([_psnr(*pair) for pair in zip(predicted, truth)])), ids


def _gains(
    model: WorldModel,
    walk: Clip,
    asked: NDArray[np.int64],
    recalls: dict[str, NDArray[np.int64]],
    candidates: int,
    k: int,
    seed: int,
) -> tuple[dict[str, float], float]:
    """U(recalled) − U(random) of every arm and of the oracle, the mean over questions.

    U of a set is measured as it is read, whole. Random sets stand for chance; the oracle chooses by one seed and is judged by
    another, like everybody.
    """
    totals, best = dict.fromkeys(recalls, 0.0), 0.0
    count = min(candidates, len(walk.remembered))
    spread = (np.arange(count) * len(walk.remembered) // count).tolist()
    for place, step in enumerate(asked.tolist()):
        recalled = {arm: [int(id) for id in ids[place] if id >= 0] for arm, ids in recalls.items()}
        open = sorted({*spread, *(id for ids in recalled.values() for id in ids)})
        oracle = greedy(open, list(recalled.values()), k, lambda sets: _utilities(model, walk, step, sets, k, seed + 700_000))
        drawn = np.random.default_rng(seed + step).permutation(len(walk.remembered)).tolist()
        size = min(k, len(drawn))
        chance = [drawn[first : first + size] for first in range(0, min(RANDOM_SETS * size, len(drawn) - size + 1), size)]
        judged = _utilities(model, walk, step, [*chance, *recalled.values(), oracle], k, seed + 500_000)
        gains = judged[len(chance) :] - judged[: len(chance)].mean()
        best += float(gains[-1]) / len(asked)
        for arm, gain in zip(recalls, gains):
            totals[arm] += float(gain) / len(asked)
    return totals, best


def greedy(
    candidates: Sequence[int], rivals: Sequence[list[int]], k: int, utility: Callable[[list[list[int]]], NDArray[np.float64]]
) -> list[int]:
    """The oracle's set: each memory by what it adds to those before it, or a rival's set where that is worth more.

    From the second memory on, the better half of the candidates is tried. It stops where nothing adds anything.
    """
    nothing, *alone = utility([[], *([id] for id in candidates)])
    taken: list[int] = []
    worth, open = float(nothing), list(zip(candidates, alone))
    while open and len(taken) < k and max(value for _, value in open) > worth:
        id, worth = max(open, key=lambda one: one[1])
        taken.append(id)
        half = sorted(open, key=lambda one: -one[1])[: (len(candidates) + 1) // 2 + 1] if len(taken) == 1 else open
        left = sorted(one for one, _ in half if one != id)
        open = list(zip(left, utility([[*taken, one] for one in left]))) if left and len(taken) < k else []
    if rivals:
        values = utility(list(rivals))
        if values.max() > worth:
            return rivals[int(values.argmax())]
    return taken


def _utilities(
    model: WorldModel, walk: Clip, step: int, sets: Sequence[list[int]], k: int, seed: int
) -> NDArray[np.float64]:
    """Minus the squared error of the prediction with each set of memories as the context."""
    frames = np.repeat(walk.episode.frames(walk.frames[[step]]), len(sets), axis=0)
    ids = np.array([[*ids, *[-1] * (k - len(ids))] for ids in sets])
    asked = _steps(walk, [step] * len(sets), frames, ids, seed)
    truth = walk.episode.frames(walk.frames[[step + 1]]).astype(np.float64)
    errors: NDArray[np.float64] = np.square((model.predict(asked) - truth) / 255).reshape(len(sets), -1).sum(1)
    return -errors


def _psnr(found: NDArray[np.uint8], truth: NDArray[np.uint8]) -> float:
    error = float(np.mean(np.square((found.astype(np.float64) - truth) / 255)))
    return min(-10 * math.log10(max(error, 1e-12)), 100.0)


def interval(above: NDArray[np.float64], below: NDArray[np.float64], seed: int) -> dict[str, float] | None:
    """Σ above / Σ below over clips with its 95 % bootstrap interval; None where the ratio means nothing."""
    if len(above) == 0 or below.sum() <= 0:
        return None
    drawn = np.random.default_rng(seed).integers(0, len(above), (DRAWS, len(above)))
    parts = above[drawn].sum(1), below[drawn].sum(1)
    ratios = np.sort(parts[0][parts[1] > 0] / parts[1][parts[1] > 0])
    ends = [float(ratios[round(share * (len(ratios) - 1))]) for share in (0.025, 0.975)]
    return {"mean": float(above.sum() / below.sum()), "lo": ends[0], "hi": ends[1]}


def _results(
    dataset: Dataset,
    values: dict[str, dict[str, list[float]]],
    best: NDArray[np.float64],
    clips: int,
    k: int,
    seed: int,
    train_seconds: float | None,
) -> dict[str, Any]:
    metrics = {"psnr": "psnr", "one_step_psnr": "one_step_psnr", "recall_quality": "gain"}
    below = {"psnr": np.ones(clips), "one_step_psnr": np.ones(clips), "recall_quality": best}

    def compared(first: str, second: str | None) -> dict[str, dict[str, float]]:
        found = {}
        for metric, name in metrics.items():
            own = np.array(values[first][name])
            other = np.array(values[second][name]) if second is not None else 0.0
            if (one := interval(own - other, below[metric], seed)) is not None:
                found[metric] = one
        return found

    return {
        "corpus": dataset.description["corpus"],
        "clips": clips,
        "seed": seed,
        "device": "cpu",
        "train_seconds": train_seconds,
        "judge": "common",
        "slots": k,
        "arms": {arm: compared(arm, None) for arm in values},
        "paired": {arm: {other: compared(arm, other) for other in values if other != arm} for arm in values},
        "curves": {},
    }

"""Judges a world model under many recall rules, as ``far eval`` does, and makes the page of ``far report``.

Rollouts, recall quality, controls, intervals and the page are the project's own; only the model is asked here.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from . import _native
from .arrays import numpy_of
from .data import Dataset
from .errors import InputError
from .policy import policy_of


@dataclass(frozen=True)
class Steps:
    """What a model may know when it predicts n frames. Poses are positions and quaternions in ``Convention.native()``."""

    frames: NDArray[np.uint8]
    """The present pictures, [n, height, width, 3]: in a rollout, what the model predicted before."""
    poses: NDArray[np.float32]
    """Where the camera is, [n, 7]."""
    goals: NDArray[np.float32]
    """The camera of the frame to be predicted, [n, 7]."""
    strides: NDArray[np.float32]
    """Seconds to it, [n]."""
    memories: NDArray[np.uint8]
    """Recalled pictures, best first, [n, k, height, width, 3]; zeros where ``mask`` is False."""
    memory_poses: NDArray[np.float32]
    """Their cameras, [n, k, 7]; zeros where ``mask`` is False."""
    mask: NDArray[np.bool_]
    """Where there is a memory, [n, k]. The width k is that of the longest context, which can be 0."""
    seeds: NDArray[np.uint64]
    """For models that draw, [n]: the same for every rule and for every context of a question."""

    def __len__(self) -> int:
        return len(self.frames)


class WorldModel(Protocol):
    """What is judged.

    A model may also have ``queries(frames, actions)``, the embeddings by which memories are looked for, where those are not the
    keys of the present picture: ``actions`` [n, 8] are those of ``Queries.actions``.
    """

    def predict(self, steps: Steps) -> NDArray[np.uint8]:
        """The predicted pictures, [n, height, width, 3]."""

    def keys(self, frames: NDArray[np.uint8]) -> Mapping[str, NDArray[np.float32]]:
        """Keys of pictures by cue, for the memory and for queries; empty if the model has no key cues."""


def evaluate(
    model: WorldModel,
    dataset: Dataset,
    policies: Mapping[str, object],
    *,
    k: int,
    clips: int = 16,
    split: str = "test",
    stride: int = 4,
    horizon: int | None = None,
    pool: int = 200,
    questions: int = 4,
    candidates: int = 60,
    draws: int = 1,
    replays: int = 3,
    seed: int = 0,
    lpips: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    device: str = "cpu",
    train_seconds: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Judges a model under every policy, by the name of its arm, on the same clips; returns what ``results.json`` holds.

    ``random`` and the controls ``none`` (no memory), ``copy`` (the first memory pasted) and ``oracle`` (knows the future) are
    always among the arms. A rule given by its id sees with the dataset's camera. ``stride`` is the frames from one generated
    frame to the next, ``horizon`` the most from the present to the goal of a question (``2 * stride``), ``pool`` the most
    memories. ``draws`` predictions, each with its own seed, are averaged where a model draws. Metrics are those of ``far eval``:
    PSNR and SSIM of whole rollouts and at their end, LPIPS if ``lpips`` names its weights, ``one_step_psnr`` from real frames,
    ``recall_quality`` of whole sets (0 is chance, 1 the oracle); intervals are over clips (95 %, bootstrap).

    With ``folder``, ``results.json``, scores, replays of the first clips and the page ``report/index.html`` are written there.
    """
    for name, value, least in [("k", k, 1), ("clips", clips, 1), ("stride", stride, 1), ("pool", pool, 1), ("seed", seed, 0)]:
        if not isinstance(value, int) or value < least:
            raise InputError(f"{name} is {value!r}", f"give a whole number of at least {least}")
    episodes = dataset.select(split)
    if not episodes:
        raise InputError(f"the part {split!r} has no clip to judge", "record more episodes, or name another part")
    asked = _Asked(model, dataset.description["resolution"])
    arms = {**policies, "random": policies.get("random", "random")}  # the last: `copy` pastes what the first one recalls
    plan = {
        "walk": {"stride": stride, "pool": pool},
        "slots": k,
        "clips": clips,
        "questions": questions,
        "horizon": 2 * stride if horizon is None else horizon,
        "utility": {"draws": draws, "candidates": candidates},
        "replays": replays,
        "seed": seed,
    }
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as cache:
        text = _native.evaluate_model(
            dataset._native,
            episodes,
            asked.predict,
            asked.keys,
            asked.cues(dataset.episode(episodes[0]).frames([0])),
            [(name, one, None) if isinstance(one, str) else (name, None, policy_of(one, None)) for name, one in arms.items()],
            json.dumps(plan),
            cache,
            None if lpips is None else os.fspath(lpips),
            device,
            train_seconds,
            None if folder is None else os.fspath(folder),
            progress,
        )
    if folder is not None:
        if sys.argv and sys.argv[0] not in ("", "-c"):
            (Path(folder) / "command.txt").write_text(shlex.join(["python", *sys.argv]) + "\n")
        report(folder)
    results: dict[str, Any] = json.loads(text)
    return results


def report(folder: str | os.PathLike[str]) -> Path:
    """Writes the self-contained page of an evaluation's folder, as ``far report`` does; returns its path."""
    return Path(_native.write_report(os.fspath(folder)))


class _Asked:
    """A model's answers, checked."""

    def __init__(self, model: WorldModel, resolution: list[int]) -> None:
        self.model, self.size = model, (resolution[1], resolution[0], 3)
        self.known: dict[str, int] = {}

    def cues(self, frames: NDArray[np.uint8]) -> list[tuple[str, int]]:
        """The model's key cues and their dimensions."""
        self.known = {cue: numpy_of(rows, f"keys of cue {cue!r}").shape[-1] for cue, rows in self.model.keys(frames).items()}
        return list(self.known.items())

    def predict(self, *parts: Any) -> NDArray[np.uint8]:
        """Pictures, from the parts of ``Steps``."""
        steps = Steps(*parts)
        found = numpy_of(self.model.predict(steps), "what the model predicted")
        if found.dtype != np.uint8 or found.shape != (len(steps), *self.size):
            raise InputError(
                f"the model predicted {found.dtype} of shape {found.shape}", f"return bytes [{len(steps)}, height, width, 3]"
            )
        return found

    def keys(self, cue: str, frames: NDArray[np.uint8], actions: NDArray[np.float32] | None) -> NDArray[np.float32]:
        """The keys of one cue, or its query embeddings if the actions are told."""
        queries = None if actions is None else getattr(self.model, "queries", None)
        what, found = ("keys", self.model.keys(frames)) if queries is None else ("queries", queries(frames, actions))
        rows = numpy_of(found[cue], f"{what} of cue {cue!r}") if cue in found else np.zeros(0)
        if rows.shape != (len(frames), self.known[cue]) or not np.isfinite(rows).all():
            raise InputError(
                f"the model's {what} of cue {cue!r} have the shape {rows.shape} or a value that is not finite",
                f"return finite numbers [{len(frames)}, {self.known[cue]}]",
            )
        return np.ascontiguousarray(rows, np.float32)

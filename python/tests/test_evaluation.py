"""Judging a model: what is measured, against values that can be found by hand."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from far_memory import InputError, evaluate
from far_memory.data import Dataset, Writer
from far_memory.evaluation import Step, greedy, interval, write_results

from .test_data import SAID, walk


class Copier:
    """Predicts the mean of its memories, or black without one."""

    def keys(self, frames: np.ndarray) -> dict[str, np.ndarray]:
        return {"vision": frames.reshape(len(frames), -1)[:, :6].astype(np.float32)}

    def predict(self, steps: Sequence[Step]) -> np.ndarray:
        found = [step.memories[step.mask].mean(0) if step.mask.any() else np.zeros_like(step.frame) for step in steps]
        return np.stack(found).astype(np.uint8)


@pytest.fixture
def circle(tmp_path: Path) -> Dataset:
    """Walks in a circle, twice around: colors depend on the place, so the nearest memory shows the future."""
    writer = Writer(tmp_path / "circle", corpus="circle", fps=10, resolution=(4, 4), field_of_view=(90, 90))
    poses = np.concatenate([walk(40)[1][:-1], walk(40)[1][:-1]])
    angle = np.arctan2(poses[:, 1, 3], poses[:, 0, 3])
    colors = np.stack([128 + 100 * np.cos(angle), 128 + 100 * np.sin(angle), np.full_like(angle, 60)], axis=1)
    frames = np.tile(colors.astype(np.uint8)[:, None, None], (1, 4, 4, 1))
    for id in range(4):
        writer.episode(id, scene=f"{id}", split="test", time=np.arange(78) / 10, pose=poses, convention=SAID, frames=frames, boundary=39)
    writer.finish()
    return Dataset(tmp_path / "circle")


def test_the_rule_that_finds_the_future_is_the_best(circle: Dataset, tmp_path: Path) -> None:
    results = evaluate(Copier(), circle, {"nearest-pose": "nearest-pose", "temporal": "temporal"}, k=1, clips=3, folder=tmp_path / "run")
    arms = results["arms"]
    assert results["clips"] == 3 and set(arms) == {"none", "random", "nearest-pose", "temporal"}
    assert arms["nearest-pose"]["psnr"]["mean"] > 40 > 20 > arms["temporal"]["psnr"]["mean"]
    assert arms["nearest-pose"]["recall_quality"]["mean"] == pytest.approx(1.0, abs=0.02)
    assert arms["none"]["recall_quality"]["mean"] < 0 and arms["temporal"]["recall_quality"]["mean"] < 0.5
    gap = results["paired"]["nearest-pose"]["temporal"]["psnr"]
    assert gap["mean"] == pytest.approx(arms["nearest-pose"]["psnr"]["mean"] - arms["temporal"]["psnr"]["mean"])
    assert json.loads((tmp_path / "run/results.json").read_text()) == results


def test_the_oracle_alone_defines_one(circle: Dataset) -> None:
    """With the best memory at every question, quality is 1."""
    results = evaluate(Copier(), circle, {"nearest-pose": "nearest-pose"}, k=2, clips=2, candidates=39)
    assert 0.9 < results["arms"]["nearest-pose"]["recall_quality"]["mean"] <= 1.05


def test_the_oracle_takes_what_adds_most_and_stops() -> None:
    """Memories show cells of a view: the second best alone adds less than the one that shows the rest."""
    shown = {0: {1, 2, 3}, 1: {1, 2}, 2: {4}, 3: set()}

    def utility(sets: list[list[int]]) -> np.ndarray:
        return np.array([len(set().union(*(shown[id] for id in ids))) - 0.1 * len(ids) for ids in sets])

    assert greedy([0, 1, 2, 3], [], 3, utility) == [0, 2]
    assert greedy([1, 3], [[0, 2]], 3, utility) == [0, 2]
    assert greedy([3], [[3]], 3, utility) == []


def test_intervals_are_about_two_standard_errors() -> None:
    values = np.random.default_rng(5).normal(size=400)
    found = interval(values, np.ones(400), 1)
    assert found is not None and found["hi"] - found["lo"] == pytest.approx(2 * 1.96 / 20, abs=0.03)
    assert interval(np.array([1.0, 1.0]), np.array([1.0, -1.0]), 0) is None and interval(np.zeros(0), np.zeros(0), 0) is None


def test_the_page_is_made_by_the_program_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAR", "no-such-program")
    assert write_results({"arms": {}}, tmp_path / "run") is None
    program = tmp_path / "far"
    program.write_text("#!/bin/sh\ntouch \"$4\"\n")
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("FAR", os.fspath(program))
    page = write_results({"arms": {}}, tmp_path / "run")
    assert page is not None and page.exists()


def test_nothing_to_judge_is_said(circle: Dataset) -> None:
    with pytest.raises(InputError, match="no clip"):
        evaluate(Copier(), circle, {}, k=1, split="train")

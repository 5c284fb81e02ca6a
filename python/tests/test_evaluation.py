"""Judging a model: what is measured, against values that can be found by hand, and the page."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from far_memory import Convention, DatasetError, InputError, Queries, evaluate, report
from far_memory.data import Dataset, Writer
from far_memory.evaluation import Steps

from .test_data import SAID, walk

SIDE = 12


class Copier:
    """Predicts the mean of its memories, or black without one. Remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Steps] = []

    def keys(self, frames: np.ndarray) -> dict[str, np.ndarray]:
        return {"vision": frames.reshape(len(frames), -1)[:, :6].astype(np.float32)}

    def predict(self, steps: Steps) -> np.ndarray:
        self.asked.append(steps)
        count = np.maximum(steps.mask.sum(1), 1)[:, None, None, None]
        return (steps.memories.astype(float).sum(1) / count).astype(np.uint8)


@pytest.fixture
def circle(tmp_path: Path) -> Dataset:
    """Walks in a circle, twice around: colors depend on the place, so the nearest memory shows the future."""
    about = {"corpus": "circle", "fps": 10, "resolution": (SIDE, SIDE), "field_of_view": (90, 90)}
    poses = np.concatenate([walk(40)[1][:-1], walk(40)[1][:-1]])
    angle = np.arctan2(poses[:, 1, 3], poses[:, 0, 3])
    colors = np.stack([128 + 100 * np.cos(angle), 128 + 100 * np.sin(angle), np.full_like(angle, 60)], axis=1)
    frames = np.tile(colors.astype(np.uint8)[:, None, None], (1, SIDE, SIDE, 1))
    with Writer(tmp_path / "circle", **about) as writer:  # type: ignore[arg-type]
        for id in range(4):
            writer.episode(id, scene=f"{id}", split="test", time=np.arange(78) / 10, pose=poses, convention=SAID, frames=frames, boundary=39)
    return Dataset(tmp_path / "circle")


def test_the_rule_that_finds_the_future_is_the_best(circle: Dataset, tmp_path: Path) -> None:
    model = Copier()
    results = evaluate(model, circle, {"nearest-pose": "nearest-pose", "temporal": "temporal"}, k=1, clips=3, folder=tmp_path / "run")
    arms = results["arms"]
    assert results["clips"] == 3 and set(arms) == {"none", "copy", "oracle", "random", "nearest-pose", "temporal"}
    assert arms["nearest-pose"]["psnr"]["mean"] > 40 > 20 > arms["temporal"]["psnr"]["mean"]
    assert arms["nearest-pose"]["ssim"]["mean"] > arms["temporal"]["ssim"]["mean"]
    assert arms["nearest-pose"]["recall_quality"]["mean"] == pytest.approx(1.0, abs=0.02)
    assert arms["oracle"]["recall_quality"]["mean"] == 1.0 and arms["temporal"]["recall_quality"]["mean"] < 0.5
    gap = results["paired"]["nearest-pose"]["temporal"]["psnr"]
    assert gap["mean"] == pytest.approx(arms["nearest-pose"]["psnr"]["mean"] - arms["temporal"]["psnr"]["mean"])
    assert gap["lo"] <= gap["mean"] <= gap["hi"] and gap["n"] == 3
    assert json.loads((tmp_path / "run/results.json").read_text()) == results
    page = (tmp_path / "run/report/index.html").read_text()
    assert "nearest-pose" in page and "http://" not in page.replace("http://www.w3.org", "")
    assert len(list((tmp_path / "run/replays").iterdir())) == 3 and len(list((tmp_path / "run/scores").iterdir())) == 6


def test_a_model_is_told_what_it_may_know(circle: Dataset) -> None:
    """Pictures, cameras and seconds are those of the dataset, by hand."""
    model = Copier()
    evaluate(model, circle, {"nearest-pose": "nearest-pose"}, k=2, clips=1, stride=3, questions=2)
    episode = circle.episode(0)
    poses, frames = episode.poses(), episode.frames(range(len(episode)))
    known = {tuple(np.round(pose, 4)): number for number, pose in enumerate(poses[:39])}
    seen = 0
    for steps in model.asked:
        assert steps.memories.shape == (len(steps), steps.mask.shape[1], SIDE, SIDE, 3) and (steps.memories[~steps.mask] == 0).all()
        assert steps.frames.dtype == np.uint8 and steps.seeds.dtype == np.uint64 and (steps.strides > 0).all()
        for row in range(len(steps)):
            for pose, picture in zip(steps.memory_poses[row][steps.mask[row]], steps.memories[row][steps.mask[row]]):
                assert (picture == frames[known[tuple(np.round(pose, 4))]]).all()
                seen += 1
            assert min(np.abs(poses[39:] - steps.goals[row]).max(1)) < 1e-5 and min(np.abs(poses[39:] - steps.poses[row]).max(1)) < 1e-5
    assert seen > 50
    rollouts = [steps for steps in model.asked if len(steps) == 1]
    assert any(np.allclose(steps.strides, 0.3) for steps in rollouts)


def test_models_that_draw_meet_the_same_seeds_under_every_rule(circle: Dataset) -> None:
    class Drawing(Copier):
        def predict(self, steps: Steps) -> np.ndarray:
            noise = [np.random.default_rng(int(seed)).integers(0, 9, (SIDE, SIDE, 3)) for seed in steps.seeds]
            return np.clip(super().predict(steps) + np.stack(noise), 0, 255).astype(np.uint8)

    rules = {"nearest-pose": "nearest-pose", "also": "nearest-pose"}
    results = evaluate(Drawing(), circle, rules, k=1, clips=2, draws=2)
    assert results["arms"]["nearest-pose"] == results["arms"]["also"]


def test_a_model_may_ask_by_what_it_expects_to_see(circle: Dataset) -> None:
    """Keys are where on the circle a picture was taken; a query turns its own by the way ahead."""

    class Placed(Copier):
        def keys(self, frames: np.ndarray) -> dict[str, np.ndarray]:
            return {"vision": (frames[:, 0, 0, :2].astype(np.float32) - 128) / 100}

    class Expecting(Placed):
        told: list[np.ndarray] = []

        def queries(self, frames: np.ndarray, actions: np.ndarray) -> dict[str, np.ndarray]:
            self.told.append(actions)
            (east, north), (sine, cosine) = self.keys(frames)["vision"].T, actions[:, 3:5].T
            return {"vision": np.stack([east * cosine - north * sine, north * cosine + east * sine], 1)}

    quality = lambda model: evaluate(model, circle, {"rule": "longlive-rag"}, k=1, clips=2, stride=6)["arms"]["rule"]["recall_quality"]["mean"]  # noqa: E731
    assert quality(Expecting()) > 0.95 > 0.8 > quality(Placed())
    # The same numbers come from queries.
    episode, told = circle.episode(0), np.concatenate(Expecting.told)
    times, poses = episode.times(), episode.poses()
    now, goal = np.arange(39, 72), np.arange(45, 78)
    pair = lambda frames: (poses[frames, :3], poses[frames, 3:])  # noqa: E731
    native = Convention.native()
    asked = Queries(time=times[now], pose=pair(now), goal=pair(goal), convention=native, stride=times[goal] - times[now])
    actions = asked.actions()
    assert actions.shape == (33, 8) and actions[:, 7] == pytest.approx(0.6)
    way = np.linalg.norm(poses[goal, :3] - poses[now, :3], axis=1)
    assert np.linalg.norm(actions[:, :3], axis=1) == pytest.approx(way, abs=1e-4)
    assert np.hypot(actions[:, 3], actions[:, 4]) == pytest.approx(1)
    rolled = told[np.isclose(told[:, 7], 0.6, atol=1e-4)]
    assert len(rolled) > 5 and (np.abs(rolled[:, None] - actions).max(2).min(1) < 1e-4).all()

    class Wrong(Placed):
        def queries(self, frames: np.ndarray, actions: np.ndarray) -> dict[str, np.ndarray]:
            return {"vision": actions}

    with pytest.raises(InputError, match="queries of cue 'vision'"):
        quality(Wrong())


def test_the_page_is_that_of_the_program(circle: Dataset, tmp_path: Path) -> None:
    """Where `far` can be found, its report on the folder is the same page to the byte."""
    built = Path(__file__).resolve().parents[2] / "target/release/far"
    program = shutil.which(os.environ.get("FAR", "far")) or (str(built) if built.exists() else None)
    if program is None:
        pytest.skip("the program far is not installed")
    evaluate(Copier(), circle, {"temporal": "temporal"}, k=1, clips=2, folder=tmp_path / "run")
    own = (tmp_path / "run/report/index.html").read_bytes()
    subprocess.run([program, "report", str(tmp_path / "run"), "--out", str(tmp_path / "page.html")], check=True, capture_output=True)
    assert (tmp_path / "page.html").read_bytes() == own == report(tmp_path / "run").read_bytes()


def test_what_goes_wrong_is_said(circle: Dataset, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no clip"):
        evaluate(Copier(), circle, {}, k=1, split="train")
    with pytest.raises(InputError, match="k is 0"):
        evaluate(Copier(), circle, {}, k=0)
    with pytest.raises(DatasetError, match="results.json is missing"):
        report(tmp_path)

    class Broken(Copier):
        def predict(self, steps: Steps) -> np.ndarray:
            raise ZeroDivisionError("of the model's own")

    with pytest.raises(ZeroDivisionError, match="own"):
        evaluate(Broken(), circle, {"temporal": "temporal"}, k=1)

    class Small(Copier):
        def predict(self, steps: Steps) -> np.ndarray:
            return steps.frames[:, :4]

    with pytest.raises(InputError, match="of shape"):
        evaluate(Small(), circle, {"temporal": "temporal"}, k=1)

    class Keyless(Copier):
        def keys(self, frames: np.ndarray) -> dict[str, np.ndarray]:
            return {"vision": np.full((len(frames), 3), np.nan, np.float32)}

    with pytest.raises(InputError, match="not finite"):
        evaluate(Keyless(), circle, {"temporal": "temporal"}, k=1)
    with pytest.raises(InputError, match="lpips|read|cannot"):
        evaluate(Copier(), circle, {"temporal": "temporal"}, k=1, lpips=tmp_path / "nothing.safetensors")

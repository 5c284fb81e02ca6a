"""Datasets: written and read back, drawn as Rust draws, and recorded from built-in worlds."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from far_memory import ClosedError, Convention, DatasetError, FarError, InputError, Memory
from far_memory.data import Dataset, TrainingExamples, Writer
from far_memory.worlds import record, variants

# A walker: x right, y down, z forward, Z up.
LEVEL = np.array([[0.0, 0, 1], [-1, 0, 0], [0, -1, 0]])


def walk(count: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, poses of a walker who turns all around, and frames."""
    angles = np.linspace(0, 2 * np.pi, count)
    poses = np.tile(np.eye(4), (count, 1, 1))
    for pose, angle in zip(poses, angles):
        turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
        pose[:3, :3] = turn @ LEVEL
        pose[:3, 3] = [3 * np.cos(angle), 3 * np.sin(angle), 1.6]
    frames = np.random.default_rng(0).integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)
    return np.arange(count) / 10, poses, frames


SAID = Convention(axes="RDF", up="+z", handedness="right", transform="camera-to-world")


def write(path: Path, **changes: object) -> Writer:
    writer = Writer(path, corpus="garden", fps=10, resolution=(8, 8), field_of_view=(90, 90))
    times, poses, frames = walk()
    given: dict[str, object] = {
        "scene": "lawn", "split": "train", "time": times, "pose": poses, "convention": SAID, "frames": frames, "boundary": 30,
    }  # fmt: skip
    try:
        for id in range(3):
            writer.episode(id, **(given | changes))  # type: ignore[arg-type]
    except FarError:
        writer.close()  # the exception still holds the writer, but the folder is free
        raise
    return writer


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    assert write(tmp_path).finish() == 3
    dataset = pickle.loads(pickle.dumps(Dataset(tmp_path)))
    assert len(dataset) == 3 and dataset.ids() == dataset.select("train") == [0, 1, 2] and dataset.select("test") == []
    assert dataset.description["corpus"] == "garden" and dataset.lengths(1) == (40, 30)
    episode = dataset.episode(2)
    times, poses, frames = walk()
    assert (episode.frames([39, 0, 5]) == frames[[39, 0, 5]]).all() and (episode.times() == times).all()
    np.testing.assert_allclose(episode.poses()[:, :3], poses[:, :3, 3], atol=1e-5)
    memory = Memory(cues={"meta": None})
    assert episode.remember(memory, range(0, 30, 3)) == range(10) and memory.payload(4) == "12"
    stored, expected = memory.poses(), episode.poses()[:30:3]
    np.testing.assert_allclose(stored[:, :3], expected[:, :3], atol=1e-6)
    turned = np.abs((stored[:, 3:] * expected[:, 3:]).sum(1))  # a quaternion and its negative turn alike
    np.testing.assert_allclose(turned, 1, atol=1e-6)


def test_draws_come_from_before_the_present_and_lead_to_goals_after_it(tmp_path: Path) -> None:
    write(tmp_path).finish()
    examples = TrainingExamples(tmp_path, steps=5, seed=3, batch=8, goals_per_observation=2, horizon=6, pool=12)
    assert len(examples) == 20 and examples.settings["horizon"] == 6
    other = pickle.loads(pickle.dumps(examples))
    for number in range(len(examples)):
        item = examples[number]
        pool = item["pool"][item["pool"] >= 0]
        assert (pool < 30).all() and item["current"] >= 30 and len(pool) == 12
        assert ((item["goals"] > item["current"]) & (item["goals"] <= item["current"] + 6)).all()
        assert item["futures"].shape == (2, 8, 8, 3) and (item["goals"] == other[number]["goals"]).all()
    assert any((examples[n]["goals"] != TrainingExamples(tmp_path, steps=5, seed=4, batch=8, goals_per_observation=2)[n]["goals"]).any() for n in range(20))


def test_items_are_the_draws_of_rust_s_sampler_in_order(tmp_path: Path) -> None:
    write(tmp_path).finish()
    examples = TrainingExamples(tmp_path, steps=1, seed=7, batch=4, goals_per_observation=2, horizon=8, pool=3)
    native = [examples._native.observation(0, number) for number in range(2)]
    found = [(item["episode"], item["current"], item["pool"].tolist(), item["goals"].tolist()) for item in (examples[0], examples[1])]
    assert found == [(id, current, pool, goals) for id, current, pool, goals, _, _ in native]


def test_data_loaders_collate_examples_in_forked_and_spawned_workers(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    write(tmp_path).finish()
    examples = TrainingExamples(tmp_path, steps=4, batch=4, goals_per_observation=2, horizon=6, pool=12)
    expected = [examples[number]["current"] for number in range(8)]
    for method in ["fork", "spawn"]:
        loader = torch.utils.data.DataLoader(examples, batch_size=4, num_workers=2, multiprocessing_context=method)
        batches = list(loader)
        assert batches[0]["futures"].shape == (4, 2, 8, 8, 3)
        assert [int(current) for batch in batches for current in batch["current"]] == expected


def test_a_trajectory_that_cannot_be_meant_so_is_refused(tmp_path: Path) -> None:
    poses = walk()[1]
    said = {"axes": "RDF", "up": "+z", "handedness": "right", "transform": "camera-to-world"}
    for name, value, pose in [
        ("transform", "world-to-camera", poses),
        ("transform", "camera-to-world", np.linalg.inv(poses)),
        ("up", "-z", poses),
        ("axes", "LUF", poses),
    ]:
        wrong = Convention(**(said | {name: value}))  # type: ignore[arg-type]
        with pytest.raises(InputError, match="cannot be|on their heads"):
            write(tmp_path / "refused", pose=pose, convention=wrong)
        write(tmp_path / f"{name}{value}", pose=pose, convention=wrong, check=False)
    write(tmp_path / "right", pose=np.linalg.inv(poses), convention=Convention(**(said | {"transform": "world-to-camera"})))


def test_bad_data_is_named(tmp_path: Path) -> None:
    frames = walk()[2]
    refused: list[tuple[dict[str, object], str]] = [
        ({"frames": frames[:3]}, "3 frames for 40"),
        ({"frames": frames.astype(float)}, "float64"),
        ({"frames": frames[..., :1]}, "1 channels"),
        ({"frames": frames[:, :4]}, "pixels where"),
        ({"time": np.zeros(40)}, "does not come after"),
        ({"split": "exam"}, "no part"),
        ({"boundary": -1}, "no episode"),
    ]
    for changes, cause in refused:
        with pytest.raises(FarError, match=cause) as caught:
            write(tmp_path / "refused", **changes)
        assert caught.value.hint
    with pytest.raises(DatasetError, match="dataset.json is missing"):
        Dataset(tmp_path / "nothing")
    with pytest.raises(DatasetError, match="not finished"):
        Dataset(tmp_path / "refused")
    tmp_path = tmp_path / "whole"
    write(tmp_path).finish()
    with pytest.raises(DatasetError, match="not one of"):
        Dataset(tmp_path).episode(9)
    with pytest.raises(InputError, match="no frame 40"):
        Dataset(tmp_path).episode(0).frames([40])
    with pytest.raises(FarError, match="unknown field"):
        TrainingExamples(tmp_path, steps=1, horizn=3)
    with pytest.raises(DatasetError, match="another recording"):
        Writer(tmp_path, corpus="garden", fps=20, resolution=(8, 8), field_of_view=(90, 90))


def test_a_writer_lets_go_of_its_folder(tmp_path: Path) -> None:
    about: dict[str, object] = {"corpus": "garden", "fps": 10, "resolution": (8, 8), "field_of_view": (90, 90)}
    times, poses, frames = walk()
    given: dict[str, object] = {"scene": "lawn", "split": "train", "time": times, "pose": poses, "convention": SAID, "boundary": 30}
    with pytest.raises(InputError, match="float64") as caught, Writer(tmp_path, **about) as writer:  # type: ignore[arg-type]
        writer.episode(0, frames=frames, **given)  # type: ignore[arg-type]
        with pytest.raises(DatasetError, match="is being written"):
            Writer(tmp_path, **about)  # type: ignore[arg-type]
        writer.episode(1, frames=frames.astype(float), **given)  # type: ignore[arg-type]
    assert caught.value.__traceback__ is not None, "it holds the frames that hold the writer"
    with pytest.raises(ClosedError, match="closed") as closed:
        writer.episode(2, frames=frames, **given)  # type: ignore[arg-type]
    assert "same folder" in closed.value.hint
    with Writer(tmp_path, **about) as again:  # type: ignore[arg-type]
        again.episode(1, frames=frames, **given)  # type: ignore[arg-type]
    assert Dataset(tmp_path).ids() == [0, 1], "the first was complete, and the block finished"
    with Writer(tmp_path, **about) as third:  # type: ignore[arg-type]
        assert third.finish() == 2
    third.close()
    with pytest.raises(ClosedError):
        third.finish()


def test_worlds_are_recorded(tmp_path: Path) -> None:
    assert {"village", "apartment", "kitchen", "corridor"} <= set(variants())
    dataset = record("village", tmp_path / "village", episodes=1, seed=1, size=16)
    assert len(dataset) == 1 and dataset.description["resolution"] == [16, 16]
    frames, boundary = dataset.lengths(0)
    assert 0 < boundary < frames and dataset.episode(0).frames([0, frames - 1]).shape == (2, 16, 16, 3)
    with pytest.raises(InputError, match="no world"):
        record("atlantis", tmp_path / "x", episodes=1)
    with pytest.raises(InputError, match="no variant"):
        record("village", tmp_path / "x", episodes=1, variant="lunar")
    with pytest.raises(InputError, match="5 pixels"):
        record("village", tmp_path / "x", episodes=1, size=5)


def test_the_draws_of_a_seed_are_those_that_rust_recorded(tmp_path: Path) -> None:
    """crates/far-data/tests/golden_draws.rs draws from a dataset of the same lengths and keeps what it drew."""
    golden = json.loads((Path(__file__).parents[2] / "crates/far-data/tests/golden_draws.json").read_text())
    write(tmp_path).finish()
    examples = TrainingExamples(tmp_path, steps=1_000_001, seed=7, batch=8, goals_per_observation=2, horizon=8, pool=5)
    for due in golden:
        item = examples[due["step"] * examples.observations + due["observation"]]
        assert (item["episode"], item["current"]) == (due["episode"], due["current"])
        assert item["pool"].tolist() == due["pool"] and item["goals"].tolist() == due["goals"]


def test_datasets_without_poses_are_read_without_them(tmp_path: Path) -> None:
    """Examples leave poses out, and asking for them says so."""
    write(tmp_path).finish()
    description = json.loads((tmp_path / "dataset.json").read_text()) | {"version": 2, "poses": False}
    (tmp_path / "dataset.json").write_text(json.dumps(description))
    dataset = Dataset(tmp_path)
    assert not dataset.has_poses and len(dataset.episode(0).times()) == 40
    with pytest.raises(DatasetError, match="no poses"):
        dataset.episode(0).poses()
    item = TrainingExamples(tmp_path, steps=1, seed=7, batch=8, goals_per_observation=2, horizon=8, pool=5)[0]
    assert "pose" not in item and "goal_poses" not in item and item["futures"].shape == (2, 8, 8, 3)

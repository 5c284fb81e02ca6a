"""Appending, reading and recalling."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest

import far_memory
from far_memory import Convention, Key, Memory, Policy, Queries, rules

from .conftest import Walk, make_walk


@pytest.mark.parametrize("module", ["far_memory", "far_memory.convention", "far_memory.policy"])
def test_examples_in_docstrings_run(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_what_goes_in_comes_out(walk: Walk) -> None:
    memory = Memory(cues={"meta": None, "vision": 8, "sound": Key(4, half=True)})
    assert walk.append_to(memory) == range(200)
    assert walk.append_to(memory) == range(200, 400)
    assert len(memory) == 400 and memory.cues == {"meta": None, "vision": 8, "sound": 4}
    (vision,) = memory.keys("vision")
    unit = walk.vision / np.linalg.norm(walk.vision, axis=1, keepdims=True)
    np.testing.assert_allclose(vision[:200], unit, atol=1e-6)
    (sound,) = memory.keys("sound")
    assert sound.dtype == np.float16
    snapshot = memory.snapshot()
    assert (snapshot.present("sound")[:200] == walk.heard).all() and snapshot.present("vision").all()
    assert (snapshot.times()[0][:200] == walk.times).all()
    np.testing.assert_allclose(snapshot.poses()[:200, :3], walk.poses[:, :3, 3], rtol=1e-6)
    assert memory.payload(7) == "frame 7"


def test_keys_are_read_where_they_lie() -> None:
    memory = Memory(cues={"vision": 16})
    rows = 65_536 + 100
    memory.append(
        time=np.arange(rows),
        pose=np.tile(np.eye(4), (rows, 1, 1)),
        convention=Convention.native(),
        keys={"vision": np.ones((rows, 16), np.float32)},
    )
    snapshot = memory.snapshot()
    first, again = snapshot.keys("vision"), snapshot.keys("vision")
    assert [len(block) for block in first] == [65_536, 100]
    for one, other in zip(first, again):
        assert one.ctypes.data == other.ctypes.data and not one.flags.owndata and not one.flags.writeable
        with pytest.raises(ValueError):
            one[0] = 0
    del memory, snapshot, again
    assert np.allclose(first[1], 0.25), "arrays keep the records alive"


def test_every_rule_recalls_by_its_id(walk: Walk) -> None:
    memory = walk.memory()
    for rule in rules():
        if rule == "far":
            continue
        policy: object = {"id": "oracle", "utilities": list(range(200)), "chunk_size": 1} if rule == "oracle" else rule
        recall = memory.recall(policy, walk.queries(4), k=5)
        assert recall.ids.shape == recall.mask.shape == (4, 5) and recall.raw.shape[:2] == (4, 5)
        assert rule == "none" or recall.mask.any(), rule
        assert (recall.ids < 200).all() and (np.isfinite(recall.scores) == recall.mask).all(), rule
        assert recall.explain(0).startswith("gate: ")


def test_nearest_pose_is_what_numpy_finds() -> None:
    walk = make_walk(300, seed=3)
    memory = walk.memory()
    policy = Policy("nearest-pose")
    settings = policy.settings
    goals = walk.poses[[5, 100, 250]]
    asked = walk.queries(3, goal=goals)
    recall = memory.recall(policy, asked, k=1)
    assert recall.ids[:, 0].tolist() == [5, 100, 250], settings


def test_pools_bound_what_is_recalled(walk: Walk) -> None:
    memory = walk.memory()
    ids = memory.recall("random", walk.queries(5, pool=[3, 9, 27]), k=8).ids
    assert set(ids.ravel().tolist()) == {-1, 3, 9, 27}
    ranges = np.array([[0, 10], [50, 60], [190, 200]])
    ids = memory.recall("temporal", walk.queries(3, pool=ranges), k=4).ids
    assert ids.max(axis=1).tolist() == [9, 59, 199] and (ids >= ranges[:, :1]).all()
    capped = memory.recall("random", walk.queries(1, pool_cap=4), k=9)
    assert capped.mask.sum() == 4


def test_batches_recall_what_single_queries_recall(walk: Walk) -> None:
    memory = walk.memory()
    asked = walk.queries(6, seed=np.arange(6))
    whole = memory.recall("random", asked, k=4)
    for number in range(6):
        one = memory.recall("random", asked.select(slice(number, number + 1)), k=4)
        assert (one.ids[0] == whole.ids[number]).all()


def test_the_memory_s_chunk_is_the_rule_s(walk: Walk) -> None:
    memory = walk.memory(chunk=50)
    ids = memory.recall("fov-topk", walk.queries(1), k=8).ids
    assert (ids >= 0).sum() <= 4, "one of each 50"
    chunks = {int(id) // 50 for id in ids[ids >= 0]}
    assert len(chunks) == (ids >= 0).sum()


def test_arrays_of_any_library_are_the_same_records(walk: Walk) -> None:
    class Lender:
        """Only what DLPack asks for."""

        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **options: object) -> object:
            return self.array.__dlpack__()

        def __dlpack_device__(self) -> object:
            return self.array.__dlpack_device__()

    quaternions = walk.memory().poses()[:, 3:]
    native = Convention.native()
    forms = [
        (walk.poses, walk.vision, native),
        (Lender(walk.poses), Lender(walk.vision), native),
        (walk.poses.tolist(), walk.vision.astype(np.float64), native),
        ((walk.poses[:, :3, 3], quaternions), np.asfortranarray(walk.vision), native),
    ]
    expected = walk.memory().snapshot()
    for pose, keys, convention in forms:
        memory = Memory(cues={"meta": None, "vision": 8})
        memory.append(time=walk.times, pose=pose, convention=convention, keys={"vision": keys})
        np.testing.assert_allclose(memory.poses(), expected.poses(), atol=1e-5)
        assert (memory.keys("vision")[0] == expected.keys("vision")[0]).all()


def test_torch_tensors_are_taken(walk: Walk) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    memory = Memory(cues={"vision": 8})
    keys = torch.from_numpy(walk.vision).requires_grad_()
    memory.append(time=torch.arange(200), pose=torch.from_numpy(walk.poses), convention=walk.convention, keys={"vision": keys})
    coarse = Memory(cues={"vision": 8})
    coarse.append(
        time=torch.arange(200), pose=torch.from_numpy(walk.poses), convention=walk.convention, keys={"vision": keys.bfloat16()}
    )
    np.testing.assert_allclose(memory.keys("vision")[0], coarse.keys("vision")[0], atol=1e-2)


def test_forks_share_the_past_and_restore_goes_back(walk: Walk, tmp_path: object) -> None:
    memory = walk.memory(chunk=5)
    before = memory.snapshot()
    fork = memory.fork()
    walk.append_to(fork)
    assert (len(memory), len(fork), fork.chunk) == (200, 400, 5)
    walk.append_to(memory)
    memory.restore(before)
    assert len(memory) == 200 and walk.append_to(memory) == range(200, 400)
    path = f"{tmp_path}/saved"
    before.save(path)
    memory.restore(path)
    assert len(memory) == 200
    assert (Memory.load(path).keys("vision")[0] == before.keys("vision")[0]).all()


def test_a_store_survives_and_is_read_beside_its_writer(walk: Walk, tmp_path: object) -> None:
    path = f"{tmp_path}/robot.memory"
    cues = {"meta": None, "vision": 8, "sound": 4}
    with Memory.open(path, cues=cues) as writer:
        walk.append_to(writer)
        assert writer.sync() == 200
        reader = Memory.open(path, read_only=True)
        walk.append_to(writer)
        writer.sync()
        assert len(reader) == 200
        reader.refresh()
        assert len(reader) == 400
        snapshot = writer.snapshot()
        with pytest.raises(far_memory.StoreError, match="only grows"):
            writer.restore(snapshot)
        with pytest.raises(far_memory.StoreError, match="open for writing"):
            Memory.open(path)
    assert len(snapshot) == 400 and len(Memory.open(path)) == 400


def test_explanations_say_gate_and_scores(walk: Walk) -> None:
    recall = walk.memory().recall("nearest-pose", walk.queries(1), k=2)
    text = recall.explain()
    assert len(text.splitlines()) == 3 and f"memory {recall.ids[0, 0]}" in text
    assert recall.cues == () or recall.weights.shape == (1, len(recall.cues))


def test_queries_hold_no_place_for_the_future() -> None:
    assert not {"future", "next", "target"} & set(Queries.__slots__)

"""Pickle, copies, threads, and workers that are forked and spawned."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from far_memory import Memory, Policy, ProcessError, Snapshot

from .conftest import Walk, make_walk


def same(one: Memory | Snapshot, other: Memory | Snapshot) -> bool:
    pairs = zip(one.keys("vision") + one.keys("sound"), other.keys("vision") + other.keys("sound"))
    return len(one) == len(other) and all((a == b).all() for a, b in pairs) and (one.poses() == other.poses()).all()


def test_a_memory_pickles_whole_and_copies_are_its_own(walk: Walk) -> None:
    memory = walk.memory(chunk=7)
    for other in [pickle.loads(pickle.dumps(memory)), copy.deepcopy(memory), copy.copy(memory)]:
        assert isinstance(other, Memory) and same(memory, other) and other.chunk == 7
        assert other.payload(3) == "frame 3"
        walk.append_to(other)
        assert (len(memory), len(other)) == (200, 400)
    snapshot = memory.snapshot()
    assert same(pickle.loads(pickle.dumps(snapshot)), snapshot) and copy.deepcopy(snapshot) is snapshot
    assert len(pickle.loads(pickle.dumps(Memory(cues={"meta": None})))) == 0


def test_a_store_pickles_as_its_path(walk: Walk, tmp_path: Path) -> None:
    with Memory.open(tmp_path / "store", cues={"meta": None, "vision": 8, "sound": 4}, chunk=3) as memory:
        walk.append_to(memory)
        data = pickle.dumps(memory)
        assert len(data) < 500
        other = pickle.loads(data)
        assert same(memory, other) and other.path == memory.path and other.chunk == 3
        assert same(pickle.loads(pickle.dumps(other)), memory), "readers pickle too"
        assert copy.deepcopy(memory).path is None


def test_policies_and_queries_pickle(walk: Walk) -> None:
    memory = walk.memory()
    policy = pickle.loads(pickle.dumps(Policy("worldmem", view={"radius": 6.0})))
    assert policy.settings["view"]["radius"] == 6.0
    queries = walk.queries(3)
    other = pickle.loads(pickle.dumps(queries))
    assert (memory.recall(policy, queries, 3).ids == memory.recall(policy, other, 3).ids).all()


def test_threads_append_and_recall_at_once(walk: Walk) -> None:
    memory = walk.memory()
    queries = walk.queries(2)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(20):
                if number % 2:
                    walk.append_to(memory)
                else:
                    before = len(memory)
                    ids = memory.recall("nearest-pose", queries, 4).ids
                    assert (ids >= 0).all() and len(memory) >= before
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures and len(memory) == 200 + 3 * 20 * 200
    assert (memory.keys("vision")[0][200:400] == memory.keys("vision")[0][:200]).all()


def in_worker(memory: Memory, queries: Any, pipe: Any) -> None:
    """Recalls, then tries to append, in another process."""
    found = memory.recall("nearest-pose", queries, 4).ids
    fork = memory.fork()
    make_walk().append_to(fork)
    try:
        make_walk().append_to(memory)
        outcome = "appended"
    except ProcessError as error:
        outcome = f"refused: {error.hint}"
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}"
    pipe.send((found, len(fork), outcome))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("kind", ["ram", "disk"])
def test_workers_recall_and_cannot_write_into_their_parent(walk: Walk, tmp_path: Path, method: str, kind: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method}")
    cues = {"meta": None, "vision": 8, "sound": 4}
    memory = Memory(cues=cues) if kind == "ram" else Memory.open(tmp_path / "store", cues=cues)
    walk.append_to(memory)  # on disk, not synced: only the parent may write it
    context = multiprocessing.get_context(method)
    receive, send = context.Pipe()
    queries = walk.queries(2)
    worker = context.Process(target=in_worker, args=(memory, queries, send))
    worker.start()
    assert receive.poll(60), "the worker answers"
    found, forked, outcome = receive.recv()
    worker.join(60)
    assert worker.exitcode == 0
    assert (found == memory.recall("nearest-pose", queries, 4).ids).all() and forked == 400
    if method == "fork":
        assert outcome.startswith("refused: ") and "fork()" in outcome
    else:
        assert outcome == "appended" if kind == "ram" else "reading only" in outcome
    walk.append_to(memory)
    memory.close()
    if kind == "disk":
        assert len(Memory.open(tmp_path / "store")) == 400, "the worker's end wrote nothing"


def test_forked_and_spawned_data_loaders_read_a_memory(walk: Walk) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    loader_of = torch.utils.data.DataLoader
    for method in ["fork", "spawn"]:
        loader = loader_of(Recalls(walk.memory(), walk), batch_size=4, num_workers=2, multiprocessing_context=method)
        ids = torch.cat(list(loader))
        assert ids.tolist() == [[number] for number in range(12)]


class Recalls:
    """A dataset that recalls: number n is nearest to its own pose."""

    def __init__(self, memory: Memory, walk: Walk) -> None:
        self.memory, self.walk = memory, walk

    def __len__(self) -> int:
        return 12

    def __getitem__(self, number: int) -> np.ndarray:
        pose = self.walk.poses[number : number + 1]
        return self.memory.recall("nearest-pose", self.walk.queries(1, pose=pose, goal=pose), 1).ids[0]

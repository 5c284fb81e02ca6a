"""What Python adds to a recall, appends per second, and what a gigabyte of keys costs in memory.

    python python/benches/overhead.py

A batch of n queries costs one call and n recalls. So Rust's own time for a recall is what a further query of a batch costs,
and what a call of one query costs beyond that is Python's. Both are measured in turns, by the thread's own processor time, which
other programs on the machine do not add to.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from far_memory import Convention, Memory, Queries

MEMORIES, KEY, K, ROUNDS, TURN, BATCH = 1_000, 256, 8, 100, 20, 11
OPENCV = Convention(axes="RDF", up="+z", handedness="right", transform="camera-to-world")


def walk(count: int) -> np.ndarray:
    """Poses along a circle."""
    angle = np.linspace(0, 2 * np.pi, count)
    poses = np.tile(np.eye(4), (count, 1, 1))
    poses[:, :3, :3] = [[0, 0, 1], [-1, 0, 0], [0, -1, 0]]
    poses[:, 0, 3], poses[:, 1, 3] = 8 * np.cos(angle), 8 * np.sin(angle)
    return poses


def seconds(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def overhead(memory: Memory, policy: object) -> str:
    key, pose = np.random.default_rng(0).normal(size=(1, KEY)).astype(np.float32), walk(3)[1:2]

    def ask(count: int = 1) -> Queries:
        """The same question so many times."""
        poses, keys = np.repeat(pose, count, 0), np.repeat(key, count, 0)
        return Queries(time=np.full(count, 2e3), pose=poses, goal=poses, convention=OPENCV, keys={"vision": keys})

    one, many, snapshot = ask(), ask(BATCH), memory.snapshot()
    singles, batches, asks = [], [], []
    for _ in range(ROUNDS):
        singles += [seconds(lambda: snapshot.recall(policy, one, K)) for _ in range(TURN)]
        batches += [seconds(lambda: snapshot.recall(policy, many, K)) for _ in range(TURN)]
        asks += [seconds(ask) for _ in range(TURN)]
    call, batch, made = (statistics.median(column) * 1e6 for column in (singles, batches, asks))
    rust = (batch - call) / (BATCH - 1)
    return f"call {call:.1f} µs, Rust {rust:.1f} µs, Python adds {call - rust:.1f} µs; making the query {made:.1f} µs"


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def main() -> None:
    random = np.random.default_rng(1)
    memory = Memory(cues={"meta": None, "vision": KEY})
    keys = random.normal(size=(MEMORIES, KEY)).astype(np.float32)
    memory.append(time=np.arange(MEMORIES), pose=walk(MEMORIES), convention=OPENCV, keys={"vision": keys})
    for rule in ("nearest-pose", "longlive-rag"):
        print(f"recall of {K} from {MEMORIES:,} by {rule}: {overhead(memory, rule)}")
    tiny = Memory(cues={"meta": None, "vision": KEY})
    tiny.append(time=np.arange(4), pose=walk(4), convention=OPENCV, keys={"vision": keys[:4]})
    print(f"the same from 4, so hardly more than the call itself: {overhead(tiny, 'nearest-pose')}")
    try:
        from far_memory.torch import Retriever
    except ImportError:
        print("a trained retriever: skipped, torch cannot be imported")
    else:
        print(f"recall of {K} from {MEMORIES:,} by a retriever: {overhead(memory, Retriever(cues={'meta': None, 'vision': KEY}).policy())}")

    count = 10_000
    batch = {"time": np.arange(count), "pose": walk(count), "convention": OPENCV}
    keys = random.normal(size=(count, KEY)).astype(np.float32)
    rates = []
    for _ in range(9):
        fresh = Memory(cues={"meta": None, "vision": KEY})
        rates.append(count / seconds(lambda: fresh.append(**batch, keys={"vision": keys})))
    print(f"appends in batches of {count:,} with keys of {KEY}: {statistics.median(rates):,.0f} per second")

    count, width = 262_144, 1024
    keys = np.ones((count, width), np.float32)
    large = Memory(cues={"meta": None, "vision": width})
    poses = walk(count)
    before = resident()
    large.append(time=np.arange(count), pose=poses, convention=OPENCV, keys={"vision": keys})
    grown = resident() - before
    print(f"{keys.nbytes / 1e9:.3f} GB of keys grow memory by {grown / 1e9:.3f} GB ({grown / keys.nbytes:.3f} ×)")
    before = resident()
    blocks = large.keys("vision")
    sums = sum(float(block[:, 0].sum()) for block in blocks)
    copied = resident() - before
    print(f"reading all {sum(map(len, blocks)):,} of them grows it by {copied / 1e6:.1f} MB (checksum {sums:.0f})")


if __name__ == "__main__":
    main()

"""What Python adds to a recall, appends per second, and what a gigabyte of keys costs in memory.

    python benches/overhead.py

A batch of n queries costs one call and n recalls. So Rust's own time for a recall is what a further query of a batch costs,
and what a call of one query costs beyond that is Python's. Both are measured in turns, so that a busy machine slows both alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from far_memory import Convention, Memory, Queries

MEMORIES, KEY, K, ROUNDS, BATCH = 1_000, 256, 8, 2_000, 21
OPENCV = Convention(axes="RDF", up="+z", handedness="right", transform="camera-to-world")


def walk(count: int) -> np.ndarray:
    """Poses along a circle."""
    angle = np.linspace(0, 2 * np.pi, count)
    poses = np.tile(np.eye(4), (count, 1, 1))
    poses[:, :3, :3] = [[0, 0, 1], [-1, 0, 0], [0, -1, 0]]
    poses[:, 0, 3], poses[:, 1, 3] = 8 * np.cos(angle), 8 * np.sin(angle)
    return poses


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def overhead(memory: Memory, policy: object) -> str:
    random, poses = np.random.default_rng(0), walk(BATCH)

    def queries(count: int) -> Queries:
        keys = random.normal(size=(count, KEY)).astype(np.float32)
        return Queries(time=np.full(count, 2e3), pose=poses[:count], goal=poses[:count], convention=OPENCV, keys={"vision": keys})

    one, many, snapshot = queries(1), queries(BATCH), memory.snapshot()
    key, pose = random.normal(size=(1, KEY)).astype(np.float32), poses[:1]
    ask = lambda: Queries(time=2e3, pose=pose, goal=pose, convention=OPENCV, keys={"vision": key})  # noqa: E731
    rows = []
    for _ in range(ROUNDS):
        batch = seconds(lambda: snapshot.recall(policy, many, K))
        single = seconds(lambda: snapshot.recall(policy, one, K))
        rows.append((single, (batch - single) / (BATCH - 1), seconds(ask)))
    call, rust, made = (statistics.median(column) * 1e6 for column in zip(*rows))
    added = statistics.median((single - rust) * 1e6 for single, rust, _ in rows)
    return f"call {call:.1f} µs, Rust {rust:.1f} µs, Python adds {added:.1f} µs; making the query {made:.1f} µs"


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def main() -> None:
    random = np.random.default_rng(1)
    memory = Memory(cues={"meta": None, "vision": KEY})
    keys = random.normal(size=(MEMORIES, KEY)).astype(np.float32)
    memory.append(time=np.arange(MEMORIES), pose=walk(MEMORIES), convention=OPENCV, keys={"vision": keys})
    for rule in ("nearest-pose", "longlive-rag"):
        print(f"recall of {K} from {MEMORIES:,} by {rule}: {overhead(memory, rule)}")
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

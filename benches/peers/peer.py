"""What every peer of `far bench recall --peer` shares: its arguments, its data and its turns.

A peer makes a function from the number of a query to the chosen records, best first, and calls `serve`.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np


def arguments():
    """The arguments that `far bench recall --peer` appends to the peer's command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    return parser.parse_args()


class Data:
    """The memory and the queries that `far bench recall` wrote."""

    def __init__(self, folder):
        shape = json.loads((folder / "shape.json").read_text())
        self.memories, self.dimension = shape["memories"], shape["dimension"]
        self.chunk_size, self.queries = shape["chunk_size"], shape["queries"]
        self.retriever = folder / "retriever.safetensors"
        self.keys = self.query_keys = None
        if self.dimension:
            self.keys = np.fromfile(folder / "keys.f32", "<f4").reshape(-1, self.dimension)
            self.query_keys = np.fromfile(folder / "query_keys.f32", "<f4").reshape(-1, self.dimension)
        self.times = np.fromfile(folder / "times.f64", "<f8")
        self.poses = np.fromfile(folder / "poses.f32", "<f4").reshape(-1, 7)
        self.query_times = np.fromfile(folder / "query_times.f64", "<f8")
        self.query_strides = np.fromfile(folder / "query_strides.f32", "<f4")
        self.query_poses = np.fromfile(folder / "query_poses.f32", "<f4").reshape(-1, 7)
        self.query_goals = np.fromfile(folder / "query_goals.f32", "<f4").reshape(-1, 7)


def serve(recall):
    """Answers queries until the input ends."""
    print("ready", flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        ids = recall(int(line))
        elapsed = (time.perf_counter() - start) * 1e6
        print(json.dumps({"us": elapsed, "ids": [int(i) for i in ids]}), flush=True)

"""What the tests share: a walk with poses and keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from far_memory import Convention, Memory, Queries


@dataclass
class Walk:
    """A random walk of n records with two key cues."""

    times: NDArray[np.float64]
    poses: NDArray[np.float64]
    vision: NDArray[np.float32]
    sound: NDArray[np.float32]
    heard: NDArray[np.bool_]
    convention: Convention

    def memory(self, chunk: int | None = None) -> Memory:
        memory = Memory(cues={"meta": None, "vision": 8, "sound": 4}, chunk=chunk)
        self.append_to(memory)
        return memory

    def append_to(self, memory: Memory) -> range:
        keys = {"vision": self.vision, "sound": (self.sound, self.heard)}
        payload = [f"frame {number}" for number in range(len(self.times))]
        return memory.append(time=self.times, pose=self.poses, convention=self.convention, keys=keys, payload=payload)

    def queries(self, count: int = 3, **changes: object) -> Queries:
        generator = np.random.default_rng(count)
        rows = generator.integers(0, len(self.times), count)
        given: dict[str, object] = {
            "time": self.times[-1] + 1 + np.arange(count),
            "pose": self.poses[rows],
            "goal": self.poses[rows[::-1]],
            "convention": self.convention,
            "keys": {"vision": self.vision[rows], "sound": self.sound[rows]},
            "stride": 0.5,
        }
        return Queries(**(given | changes))  # type: ignore[arg-type]


def rotations(generator: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Random rotation matrices with determinant 1."""
    matrices, _ = np.linalg.qr(generator.normal(size=(count, 3, 3)))
    matrices[:, :, 0] *= np.linalg.det(matrices)[:, None]
    return matrices


def make_walk(count: int = 200, seed: int = 0) -> Walk:
    generator = np.random.default_rng(seed)
    poses = np.tile(np.eye(4), (count, 1, 1))
    poses[:, :3, :3] = rotations(generator, count)
    poses[:, :3, 3] = np.cumsum(generator.normal(size=(count, 3)), axis=0)
    return Walk(
        times=0.2 * np.arange(count),
        poses=poses,
        vision=generator.normal(size=(count, 8)).astype(np.float32),
        sound=generator.normal(size=(count, 4)).astype(np.float32),
        heard=generator.random(count) < 0.7,
        convention=Convention(axes="RDF", up="+z", handedness="right", transform="camera-to-world"),
    )


@pytest.fixture
def walk() -> Walk:
    return make_walk()

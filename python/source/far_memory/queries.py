"""A batch of questions: the present, the intended goal and where to search. Nothing holds the future."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from .arrays import Keys, key_rows, pose_rows, row, wholes
from .convention import Convention, check_convention
from .errors import InputError


class Queries:
    """n questions for a memory.

    ``time`` [n] is the present in seconds, ``pose`` where the camera is, ``goal`` the pose to be predicted: [n, 4, 4],
    or [n, horizon, 4, 4] with all coming frames, or pairs of positions and quaternions. ``keys`` maps a cue to query
    embeddings [n, dimension], or to a pair of them and a mask. ``stride`` is the time to the goal in seconds.
    ``pool`` is None (everything), ids that may be recalled, or one pair of first id and end for each query [n, 2].
    """

    __slots__ = ("convention", "goals", "keys", "pool", "pool_cap", "poses", "seeds", "strides", "times")

    times: NDArray[np.float64]
    poses: NDArray[np.float64]
    goals: NDArray[np.float64]
    convention: Convention
    keys: Keys
    strides: NDArray[np.float64]
    seeds: NDArray[np.uint64]
    pool: NDArray[np.uint64] | None
    pool_cap: int | None

    def __init__(
        self,
        *,
        time: Any,
        pose: Any,
        goal: Any,
        convention: Convention,
        keys: Any = None,
        stride: Any = 0.0,
        seed: Any = 0,
        pool: Any = None,
        pool_cap: int | None = None,
    ) -> None:
        self.convention = check_convention(convention, pose)
        check_convention(convention, goal)
        self.times = row(time, "time")
        count = len(self.times)
        self.poses = pose_rows(pose, "pose")
        self.goals = pose_rows(goal, "goal")
        self.keys = key_rows(keys, count)
        self.strides = _spread(row(stride, "stride"), count)
        plain = type(seed) is int and 0 <= seed < 2**64
        self.seeds = _spread(np.array([seed], np.uint64) if plain else wholes(seed, "seed").reshape(-1), count)
        self.pool = None if pool is None else wholes(pool, "pool")
        if self.pool is not None and self.pool.ndim not in (1, 2):
            raise InputError(f"the pool has the shape {self.pool.shape}", "give ids [m], or first and end [n, 2]")
        if pool_cap is not None and not (isinstance(pool_cap, (int, np.integer)) and 0 < pool_cap < 2**63):
            raise InputError(f"the pool's cap is {pool_cap!r}", "give a whole number above 0")
        self.pool_cap = pool_cap

    def __len__(self) -> int:
        return len(self.times)

    def actions(self) -> NDArray[np.float32]:
        """What each query is about to do, [n, 8], for encoders of queries such as ``far_memory.torch.QueryViT``.

        The way to the goal as the camera at ``pose`` has it: meters ahead, left and up, sine and cosine of the turn (to the left
        is positive) and of the tilt (upward), and the seconds of ``stride``.
        """
        return _native.query_actions(self)

    def select(self, rows: slice) -> Queries:
        """Some of the questions, as views."""
        chosen: Queries = object.__new__(Queries)
        horizon = len(self.goals) // max(len(self), 1)
        goals = self.goals.reshape(len(self), horizon, -1)[rows]
        chosen.convention, chosen.pool_cap = self.convention, self.pool_cap
        chosen.times, chosen.poses = self.times[rows], self.poses[rows]
        chosen.goals = np.ascontiguousarray(goals.reshape(-1, self.goals.shape[1]))
        chosen.keys = [(cue, keys[rows], None if mask is None else mask[rows]) for cue, keys, mask in self.keys]
        chosen.strides, chosen.seeds = self.strides[rows], self.seeds[rows]
        chosen.pool = self.pool[rows] if self.pool is not None and self.pool.ndim == 2 else self.pool
        return chosen


def _spread(values: NDArray[Any], count: int) -> NDArray[Any]:
    """One value for each query; a single one serves for all."""
    return np.full(count, values[0], values.dtype) if len(values) == 1 and count != 1 else values



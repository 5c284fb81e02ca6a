"""Noise that is drawn once and shared: memories can only be compared under the same draw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


class Draw:
    """The noise of one sample, for every example its own and for every memory the same.

    An example's noise depends on its number alone, so it is the same on one process and on many.
    """

    def __init__(self, seed: int, step: int, sample: int, samples: int, examples: Sequence[int]) -> None:
        self.sample = sample
        """Which sample this is, from 0."""
        self.samples = samples
        """How many there are."""
        self._seeds = [(seed, step, sample, example) for example in examples]
        self._kept: dict[tuple[object, ...], Tensor] = {}

    def _stream(self, kind: int) -> list[np.random.Generator]:
        return [np.random.default_rng([kind, *seed]) for seed in self._seeds]

    def _keep(self, name: tuple[object, ...], rows: list[np.ndarray], device: torch.device | str | None) -> Tensor:
        self._kept[name] = torch.from_numpy(np.stack(rows)).to(device)
        return self._kept[name]

    def normal(self, *shape: int, device: torch.device | str | None = None) -> Tensor:
        """Standard normal noise [B, *shape]; asking again gives the same."""
        name = ("normal", shape, str(device))
        if name in self._kept:
            return self._kept[name]
        return self._keep(name, [stream.standard_normal(shape, np.float32) for stream in self._stream(0)], device)

    def level(self, *, device: torch.device | str | None = None) -> Tensor:
        """One number in [0, 1) for each example, [B]: of S samples, number s lies in the s-th of S equal parts."""
        name = ("level", str(device))
        if name in self._kept:
            return self._kept[name]
        rows = [np.asarray((self.sample + stream.random()) / self.samples, np.float32) for stream in self._stream(1)]
        return self._keep(name, rows, device)

"""Recall of sets: a memory's score less what it repeats of those recalled before it, and the empty memory.

In each slot a memory scores s_i − β·max_j exp(−w·φ(i, j)) over the memories j already recalled. The empty memory scores
w·[1, whether any is recalled, largest, mean and deviation of every cue's raw scores]; where it is best, recall stops.
Rust says what φ is (``far-memory/src/overlap.rs``) and computes it here too; this module has what is learned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .. import _native

# As Rust begins: memories tell different things from a quarter of the length scale or half a radian on.
FIRST_OVERLAP = (2.7725888, 2.7725888, 1.3862944, -2.3, -2.3, -2.3)
# Logarithms stay within ± this, so that no file makes a weight infinite.
LARGEST_EXPONENT = 30.0


class SetScores(NamedTuple):
    """The set term's part of a batch's scores."""

    weights: Tensor
    """w of the overlap's features, [F]."""
    strength: Tensor
    """β, a scalar."""
    empty: Tensor | None
    """The empty memory's score before and after anything is recalled, [B, 2]."""

    def repeated(self, features: Tensor, pairs: Tensor) -> Tensor:
        """What candidates repeat, [B, A]: from features [B, A, J, F] of pairs with taken memories, mask [B, A, J]."""
        if features.shape[2] == 0:
            return features.new_zeros(features.shape[:2])
        logarithms = torch.where(pairs, -(features @ self.weights), -torch.inf)
        # The largest is finite only where there is a pair; elsewhere nothing is repeated.
        nearest = torch.where(pairs.any(-1), logarithms.amax(-1), 0.0)
        return torch.where(pairs.any(-1), self.strength * nearest.exp(), 0.0)

    def detached(self) -> SetScores:
        """The same numbers, for looking at them."""
        return SetScores(self.weights.detach(), self.strength.detach(), None if self.empty is None else self.empty.detach())


class SetTerm(nn.Module):
    """The parameters of the set term, under the names of the file."""

    def __init__(self, cues: int, abstains: bool) -> None:
        super().__init__()
        self.overlap = nn.Parameter(torch.tensor(FIRST_OVERLAP))
        self.strength = nn.Parameter(torch.zeros(1))
        self.empty = nn.Parameter(torch.zeros(2 + 3 * cues)) if abstains else None
        if len(FIRST_OVERLAP) != _native.OVERLAP_FEATURES:
            raise ValueError(f"Rust has {_native.OVERLAP_FEATURES} features of an overlap, this module {len(FIRST_OVERLAP)}")

    def forward(self, statistics: Tensor, available: Tensor) -> SetScores:
        """From largest, mean and deviation [B, M, 3] of each cue's raw scores, and which cues have any [B, M]."""
        weights = self.overlap.clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT).exp()
        strength = self.strength.clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT).exp()[0]
        if self.empty is None:
            return SetScores(weights, strength, None)
        # The statistics are data: the empty memory's credit teaches no score.
        known = torch.where(available[..., None], statistics, 0.0).detach().flatten(1)
        first = self.empty[0] + known @ self.empty[2:]
        return SetScores(weights, strength, torch.stack([first, first + self.empty[1]], -1))


def fill(
    scores: NDArray[np.float32],
    term: SetScores,
    row: int,
    slots: int,
    features: Callable[[int], NDArray[np.float32]],
) -> tuple[list[int], list[float], int]:
    """Fills slots from the scores [N] of one example: positions, their scores in the set, and where recall would stop.

    ``features(position)`` says how far every memory is from one that was taken, [N, F]. Of equals the later wins. Slots are
    filled past the point where the empty memory is best, because memories compete there too.
    """
    weights, strength = term.weights.cpu().numpy(), float(term.strength)
    empty = None if term.empty is None else term.empty[row].tolist()
    own = np.where(np.isnan(scores), -np.inf, scores)
    nearest = np.full(len(own), -np.inf, np.float32)
    taken: list[int] = []
    values: list[float] = []
    kept: int | None = None
    while len(taken) < min(slots, int((scores > -np.inf).sum())):
        given = own - np.float32(strength) * np.exp(nearest)
        best = len(given) - 1 - int(given[::-1].argmax())
        if kept is None and empty is not None and empty[bool(taken)] > given[best]:
            kept = len(taken)
        taken.append(best)
        values.append(float(given[best]))
        own[best] = -np.inf
        nearest = np.maximum(nearest, -(features(best) @ weights))
    return taken, values, len(taken) if kept is None else kept

"""Recall of sets: a memory's score less what it repeats of those recalled before it.

In each slot a memory scores s_i − β·max_j exp(−w·φ(i, j)) over the memories j already recalled. Where slots may stay empty,
the best is recalled only if it is worth that (``worth.py``).
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
from .worth import Worth

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
    worth: Tensor | None
    """What each memory is worth, [B, N], where slots may stay empty."""

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
        return SetScores(self.weights.detach(), self.strength.detach(), None if self.worth is None else self.worth.detach())


class SetTerm(nn.Module):
    """The parameters of the set term, under the names of the file."""

    def __init__(self, key_cues: int, abstains: bool) -> None:
        super().__init__()
        self.overlap = nn.Parameter(torch.tensor(FIRST_OVERLAP))
        self.strength = nn.Parameter(torch.zeros(1))
        self.worth = Worth(key_cues) if abstains else None
        if len(FIRST_OVERLAP) != _native.OVERLAP_FEATURES:
            raise ValueError(f"Rust has {_native.OVERLAP_FEATURES} features of an overlap, this module {len(FIRST_OVERLAP)}")

    def forward(self, relations: Tensor | None, cosines: Tensor) -> SetScores:
        """From what memories are to the query [B, N, F], and their raw scores by key cues [B, N, M]."""
        weights = self.overlap.clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT).exp()
        strength = self.strength.clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT).exp()[0]
        worth = None if self.worth is None or relations is None else self.worth(relations, cosines)
        return SetScores(weights, strength, worth)


def fill(
    scores: NDArray[np.float32],
    term: SetScores,
    slots: int,
    features: Callable[[int], NDArray[np.float32]],
    worths: NDArray[np.float32] | None = None,
) -> tuple[list[int], list[float]]:
    """Fills slots from the scores [N] of one example: positions, and their scores in the set.

    ``features(position)`` says how far every memory is from one that was taken, [N, F]. Of equals the later wins. With ``worths``
    [N] a memory of worth below 0 is passed over, and after as many as Rust passes over nothing more is recalled.
    """
    weights, strength = term.weights.cpu().numpy(), float(term.strength)
    own = np.where(np.isnan(scores), -np.inf, scores)
    nearest = np.full(len(own), -np.inf, np.float32)
    taken: list[int] = []
    values: list[float] = []
    passed = 0
    while len(taken) < slots and passed <= _native.MOST_PASSED_OVER and (own > -np.inf).any():
        given = own - np.float32(strength) * np.exp(nearest)
        best = len(given) - 1 - int(given[::-1].argmax())
        own[best] = -np.inf
        if worths is not None and worths[best] < 0:
            passed += 1
            continue
        taken.append(best)
        values.append(float(given[best]))
        nearest = np.maximum(nearest, -(features(best) @ weights))
    return taken, values

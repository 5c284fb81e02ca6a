"""What was recalled, and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Recall:
    """n recalls of at most k memories, best first, explained by c cues.

    Shapes never depend on what was found: slots without a memory have id −1, score NaN and mask False.
    """

    ids: NDArray[np.int64]
    """Recalled ids, [n, k]."""
    scores: NDArray[np.float32]
    """The scores they were chosen by, [n, k]; larger is better."""
    chunks: NDArray[np.int64]
    """The chunk each stands for, counted over the pool, [n, k]; −1 where the rule has no chunks."""
    cues: tuple[str, ...]
    """The names of the cues; empty for rules without cues."""
    weights: NDArray[np.float32]
    """The gate: how much each cue counts, [n, c]."""
    raw: NDArray[np.float32]
    """Each cue's own score, [n, k, c]; NaN where a memory has no key for the cue."""
    standardized: NDArray[np.float32]
    """The same over what was searched, in deviations from the mean, [n, k, c]."""
    not_a_number: NDArray[np.int64]
    """How many searched memories had a score that was not a number, [n]."""

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Where there is a memory, [n, k]."""
        return self.ids >= 0

    def __len__(self) -> int:
        return len(self.ids)

    def explain(self, query: int = 0) -> str:
        """Why these memories, as a table: score, and for each cue its share and its own score."""
        weights = "  ".join(f"{cue} {weight:.2f}" for cue, weight in zip(self.cues, self.weights[query]))
        lines = [f"gate: {weights}" if weights else "gate: none (the rule has no cues)"]
        for rank, id in enumerate(self.ids[query]):
            if id < 0:
                continue
            parts = [
                f"{cue} {weight * standardized:+.3f} (score {raw:.3f})"
                for cue, weight, standardized, raw in zip(
                    self.cues, self.weights[query], self.standardized[query, rank], self.raw[query, rank]
                )
            ]
            lines.append(f"{rank + 1:3d}. memory {id}  {self.scores[query, rank]:+.3f}  " + "  ".join(parts))
        return "\n".join(line.rstrip() for line in lines)

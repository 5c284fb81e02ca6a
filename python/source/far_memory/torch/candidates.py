"""The memories that get credit in a step: those recalled (the global pool) and the chunk of one of them (the local pool).

With marginal credit they compete for one slot, drawn for each example, given the memories recalled before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._native import OVERLAP_FEATURES
from .batch import RetrieverBatch
from .retriever import Retriever, Scores


class Ranked(NamedTuple):
    """What one example would recall."""

    slots: list[int]
    """Positions in the batch, best first, as if every slot were filled."""
    recalled: list[int]
    """Those that are recalled."""


@dataclass(frozen=True)
class CandidateDraw:
    """How candidates are drawn."""

    k: int
    extra: int
    marginal: bool
    seed: int
    step: int


@dataclass(frozen=True)
class Candidates:
    """The candidates of B examples, at most A each, given at most J memories."""

    slots: Tensor
    """Positions in the batch, [B, A]; −1 for none."""
    members: tuple[Tensor, Tensor]
    """Which belong to the global and to the local pool, [B, A]."""
    taken: Tensor
    """Positions of the memories recalled before, [B, J]; −1 for none."""
    features: Tensor | None
    """How far candidates are from those, [B, A, J, F], where scores know it."""
    alone: Tensor
    """Which would be recalled first, so that their worth is learned, [B, A]."""
    empty: bool
    """Whether the empty memory is measured too, behind all others, so that the worth of candidates is learned."""

    @classmethod
    def draw(
        cls, retriever: Retriever, batch: RetrieverBatch, ranked: Sequence[Ranked], draw: CandidateDraw, examples: Sequence[int]
    ) -> Candidates:
        """Draws them; ``examples`` are the numbers of the examples among those of all processes."""
        chunk, lengths = retriever.chunk, batch.mask.sum(1).tolist()
        empty = retriever.set is not None and retriever.set.worth is not None
        count, width = len(ranked), draw.k + draw.extra + chunk
        slots, before = np.full((count, width), -1, np.int64), np.full((count, draw.k if draw.marginal else 0), -1, np.int64)
        members, alone = np.zeros((2, count, width), bool), np.zeros((count, width), bool)
        for row, (example, one) in enumerate(zip(examples, ranked)):
            if not one.slots:
                continue
            random = np.random.default_rng([2, draw.seed, draw.step, example])
            # The slot after the last that was filled competes too: that is where recall stopped.
            open = min(len(one.recalled) + 1, draw.k, len(one.slots))
            number = int(random.integers(open)) if draw.marginal else 0
            taken = one.recalled[:number]
            competing = [slot for slot in one.slots if slot not in taken][: draw.k]
            first = competing[random.integers(len(competing))] // chunk * chunk
            others = np.setdiff1d(np.arange(lengths[row]), taken + competing)
            drawn = random.permutation(others)[: draw.extra].tolist()
            local = [slot for slot in range(first, min(first + chunk, lengths[row])) if slot not in taken]
            candidates = competing + drawn + [slot for slot in local if slot not in competing and slot not in drawn]
            slots[row, : len(candidates)], before[row, :number] = candidates, taken
            members[0, row, : len(competing) + len(drawn)] = True
            alone[row, : len(competing)] = not taken
            members[1, row, : len(candidates)] = [slot in local for slot in candidates]
        device = batch.ids.device
        pools = torch.from_numpy(members).to(device)
        features = cls._features(retriever, batch, slots, before) if retriever.recalls_sets else None
        tensors = [torch.from_numpy(array).to(device) for array in (slots, before, alone)]
        features = None if features is None else features.to(device)
        return cls(tensors[0], (pools[0], pools[1]), tensors[1], features, tensors[2], empty)

    @staticmethod
    def _features(retriever: Retriever, batch: RetrieverBatch, slots: np.ndarray, taken: np.ndarray) -> Tensor:
        features = np.zeros((*slots.shape, taken.shape[1], OVERLAP_FEATURES), np.float32)
        for row, (own, others) in enumerate(zip(slots, taken)):
            own, others = own[own >= 0], others[others >= 0]
            if len(own) and len(others):
                features[row, : len(own), : len(others)] = batch.overlaps(retriever.config, row, own, others)
        return torch.from_numpy(features)

    def contexts(self, batch: RetrieverBatch, place: int) -> Tensor:
        """Ids [B, 1 + J] that the model reads for a candidate: it, behind those recalled before; the empty memory is no more.

        Memories come first, −1 fills up.
        """
        width = self.slots.shape[1]
        own = self.slots[:, place : place + 1] if place < width else torch.full_like(self.slots[:, :1], -1)
        ids = gathered(batch.ids, torch.cat([self.taken, own], 1))
        order = (ids < 0).to(torch.int8).argsort(dim=1, stable=True)
        longest = 1 + int((self.taken >= 0).sum(1).max()) if self.taken.shape[1] and len(ids) else 1
        return ids.gather(1, order)[:, :longest]

    def scores(self, scores: Scores) -> Tensor:
        """The scores by which they compete, [B, A]."""
        found = gathered(scores.fused, self.slots)
        if scores.set is not None and self.features is not None:
            pairs = (self.slots >= 0)[:, :, None] & (self.taken >= 0)[:, None]
            found = found - scores.set.repeated(self.features, pairs)
        return found


def gathered(values: Tensor, slots: Tensor) -> Tensor:
    """The values [B, N] at slots [B, A]; −1 where a slot is."""
    found = values.gather(1, slots.clamp(min=0))
    return torch.where(slots >= 0, found, torch.full_like(found, -1))

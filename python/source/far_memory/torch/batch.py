"""Queries and the memories they may recall, as tensors for one retriever step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._native import FEATURES
from ..errors import InputError
from ..memory import Memory
from ..queries import Queries
from ..snapshot import Snapshot


@dataclass(frozen=True)
class RetrieverBatch:
    """B examples, N slots (the longest pool, at least 1), M cues. Slots past the end of a pool are masked."""

    ids: Tensor
    """The memory of each slot, [B, N]; −1 past the end."""
    inputs: tuple[tuple[Tensor, ...], ...]
    """For each cue features [B, N, F], or keys [B, N, D] and query embeddings [B, D]."""
    present: Tensor
    """Where a slot has a score for a cue, [B, N, M]."""
    strides: Tensor
    """Seconds to the goal, [B]."""
    asked: tuple[tuple[Snapshot, Queries], ...] = ()
    """The memory and the query of each example."""
    relations: Tensor | None = None
    """What the worth of each memory reads of its time and pose, [B, N, F], where slots may stay empty."""

    @property
    def mask(self) -> Tensor:
        """Where there is a memory, [B, N]."""
        return self.ids >= 0

    def to(self, device: torch.device | str) -> RetrieverBatch:
        """The batch on another device."""
        return replace(
            self,
            ids=self.ids.to(device),
            inputs=tuple(tuple(part.to(device) for part in parts) for parts in self.inputs),
            present=self.present.to(device),
            strides=self.strides.to(device),
            relations=None if self.relations is None else self.relations.to(device),
        )

    @classmethod
    def read(
        cls, config: dict[str, Any], memories: Memory | Snapshot | Sequence[Memory | Snapshot], queries: Queries
    ) -> RetrieverBatch:
        """Reads the pools of the queries: from one memory for all, or from one for each."""
        count = len(queries)
        snapshots = _snapshots(memories, count)
        asked = [queries.select(slice(row, row + 1)) for row in range(count)]
        searched = [one._native.searched(query)[0] for one, query in zip(snapshots, asked)]
        slots = max([1, *map(len, searched)])
        ids = np.full((count, slots), -1, np.int64)
        for row, found in enumerate(searched):
            ids[row, : len(found)] = found
        inputs: list[tuple[Tensor, ...]] = []
        present = np.zeros((count, slots, len(config["cues"])), bool)
        for place, cue in enumerate(config["cues"]):
            scorer = cue["scorer"]
            if scorer["kind"] == "metadata":
                present[:, :, place] = ids >= 0
                inputs.append((_relations(snapshots, asked, slots, scorer),))
                continue
            keys = np.zeros((count, slots, scorer["dimension"]), np.float32)
            embeddings = np.zeros((count, scorer["dimension"]), np.float32)
            given = {name: (rows, mask) for name, rows, mask in queries.keys}
            for row, (one, found) in enumerate(zip(snapshots, searched)):
                stored, there = one._native.gather(cue["name"], found)
                if stored.shape[1] != scorer["dimension"]:
                    raise InputError(
                        f"cue {cue['name']!r} has keys of {stored.shape[1]} numbers, the retriever wants {scorer['dimension']}",
                        "make the retriever with the dimensions of the memory",
                    )
                asked_rows, mask = given.get(cue["name"], (None, None))
                if asked_rows is None or (mask is not None and not mask[row]):
                    continue  # nothing is asked by this cue, so nobody has a score for it
                keys[row, : len(found)], present[row, : len(found), place] = stored, there
                embeddings[row] = asked_rows[row]
            inputs.append((torch.from_numpy(keys), torch.from_numpy(embeddings)))
        strides = torch.from_numpy(queries.strides.astype(np.float32))
        pairs = tuple(zip(snapshots, asked))
        term = config.get("set")
        relations = _relations(snapshots, asked, slots, term) if term and term["abstains"] else None
        return cls(torch.from_numpy(ids), tuple(inputs), torch.from_numpy(present), strides, pairs, relations)

    def overlaps(self, config: dict[str, Any], row: int, slots: Sequence[int], others: Sequence[int]) -> NDArray[np.float32]:
        """How far the memories of some slots of an example are from those of others, [slots, others, F]."""
        snapshot, query = self.asked[row]
        term, ids = config["set"], self.ids[row].cpu().numpy()
        return snapshot._native.overlaps(
            query, ids[list(slots)], ids[list(others)], term.get("key"), term["length_scale"], term["time_scale"]
        )


def _relations(snapshots: Sequence[Snapshot], asked: Sequence[Queries], slots: int, scales: dict[str, Any]) -> Tensor:
    """Features [B, N, F] of time and pose, in these units of length and time."""
    rows = np.zeros((len(snapshots), slots, FEATURES), np.float32)
    for row, (one, query) in enumerate(zip(snapshots, asked)):
        found = one._native.features(query, scales["length_scale"], scales["time_scale"])[0]
        rows[row, : len(found)] = found
    return torch.from_numpy(rows)


def _snapshots(memories: Memory | Snapshot | Sequence[Memory | Snapshot], count: int) -> list[Snapshot]:
    if isinstance(memories, (Memory, Snapshot)):
        memories = [memories]
    taken = [one.snapshot() if isinstance(one, Memory) else one for one in memories]
    if len(taken) == 1:
        return taken * count
    if len(taken) != count or not all(isinstance(one, Snapshot) for one in taken):
        raise InputError(f"there are {len(taken)} memories for {count} queries", "give one memory, or one for each query")
    return taken

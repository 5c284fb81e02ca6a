"""A memory at one moment."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from .errors import InputError
from .policy import policy_of
from .queries import Queries
from .recall import Recall

if TYPE_CHECKING:
    from .memory import Memory


class Snapshot:
    """The records that existed when it was taken. It never changes and never waits for the writer.

    Any thread and any forked process may read it.
    """

    __slots__ = ("_chunk", "_native")

    def __init__(self, native: _native.Snapshot, chunk: int | None) -> None:
        self._native = native
        self._chunk = chunk

    def __len__(self) -> int:
        return len(self._native)

    @property
    def cues(self) -> dict[str, int | None]:
        """The dimension of each cue's keys; None for time and pose."""
        return {name: dimension for name, dimension, _ in self._native.cues()}

    def recall(self, policy: object, queries: Queries, k: int) -> Recall:
        """The at most ``k`` memories that a rule chooses for each query.

        ``policy`` is an id of ``rules()``, a dict of id and settings, or a ``Policy``.
        """
        if not isinstance(queries, Queries):
            raise InputError(f"the queries are a {type(queries).__name__}", "give far_memory.Queries(time=…, pose=…, …)")
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or not 0 <= k < 2**31:
            raise InputError(f"k is {k!r}", "give a whole number of memories")
        found = self._native.recall(policy_of(policy, self._chunk), queries, int(k))
        ids, scores, chunks, cues, weights, raw, standardized, not_a_number = found
        return Recall(ids, scores, chunks, tuple(cues), weights, raw, standardized, not_a_number)

    def keys(self, cue: str) -> list[NDArray[Any]]:
        """The stored keys of a cue (unit length, zeros where missing), read-only and without a copy.

        There is one array for each block of 65,536 records. The arrays keep the records alive.
        """
        return self._native.keys(cue)

    def present(self, cue: str) -> NDArray[np.bool_]:
        """Which records have a key of the cue."""
        return self._native.present(cue)

    def times(self) -> list[NDArray[np.float64]]:
        """Times in seconds, read-only and without a copy: one array for each block."""
        return self._native.times()

    def poses(self) -> NDArray[np.float32]:
        """Positions and quaternions wxyz in ``Convention.native()``, [records, 7]."""
        return self._native.poses()

    def payload(self, id: int) -> bytes | str | None:
        """What is kept with a record."""
        if not isinstance(id, (int, np.integer)) or not 0 <= id < 2**63:
            raise InputError(f"there is no memory {id!r}", "ids count from 0; −1 marks an empty slot of a recall")
        return self._native.payload(int(id))

    def fork(self) -> Memory:
        """A memory of its own in RAM that begins with these records, which stay shared."""
        from .memory import Memory

        return Memory._wrap(self._native.fork(), chunk=self._chunk)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the records to a new store in the folder ``path``."""
        self._native.save(os.fspath(path))

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_files, (files_of(self), self._chunk)

    def __copy__(self) -> Snapshot:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Snapshot:
        return self  # nothing about it can change

    def __repr__(self) -> str:
        return f"<far_memory.Snapshot of {len(self)} records, cues {', '.join(self.cues)}>"


def files_of(snapshot: Snapshot) -> dict[str, bytes]:
    """The files of a store with these records: how a memory travels to another process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory"
        snapshot.save(path)
        return {file.name: file.read_bytes() for file in path.iterdir()}


def _from_files(files: dict[str, bytes], chunk: int | None) -> Snapshot:
    # The files stay mapped for as long as the snapshot lives, also after their names are gone.
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            (Path(folder) / name).write_bytes(data)
        return Snapshot(_native.Memory.open_read_only(folder).snapshot(), chunk)

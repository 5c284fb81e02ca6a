"""The memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from .arrays import key_rows, pose_rows, row
from .convention import Convention, check_convention
from .errors import InputError, StoreError
from .queries import Queries
from .recall import Recall
from .snapshot import Snapshot, _from_files, files_of


@dataclass(frozen=True)
class Key:
    """A cue of embeddings. ``half`` keeps 16-bit numbers: half the bytes, cosines within about 1e-3."""

    dimension: int
    half: bool = False


class Memory:
    """An append-only episodic memory in RAM; ``Memory.open`` has one on disk.

    ``cues`` maps names to what is compared: ``None`` for time and pose, the dimension of embeddings, or a ``Key``.
    ``chunk`` is the number of consecutive records of which rules given by id recall at most one, where they have chunks.

    Any thread may use it: one appends at a time, and reading never waits. A forked process may read it.
    It pickles whole; on disk, by its path, opened for reading.
    """

    __slots__ = ("_chunk", "_native", "_path")

    def __init__(self, cues: Mapping[str, int | Key | None], *, chunk: int | None = None) -> None:
        self._native = _native.Memory(_cue_list(cues))
        self._chunk = _check_chunk(chunk)
        self._path: str | None = None

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        cues: Mapping[str, int | Key | None] | None = None,
        chunk: int | None = None,
        read_only: bool = False,
    ) -> Memory:
        """Opens the store in the folder ``path``; with ``cues`` it is made if there is none.

        One writer at a time. ``read_only`` reads beside a writer; ``refresh()`` looks for what it has added.
        """
        name = os.fspath(path)
        if read_only:
            native = _native.Memory.open_read_only(name)
        else:
            native = _native.Memory.open(name, None if cues is None else _cue_list(cues))
        return cls._wrap(native, chunk=chunk, path=name)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, chunk: int | None = None) -> Memory:
        """A memory in RAM that begins with the records of a store, which stays as it is."""
        return cls.open(path, chunk=chunk, read_only=True).fork()

    @classmethod
    def _wrap(cls, native: _native.Memory, *, chunk: int | None, path: str | None = None) -> Memory:
        memory = cls.__new__(cls)
        memory._native, memory._chunk, memory._path = native, _check_chunk(chunk), path
        return memory

    def __len__(self) -> int:
        return len(self._native.snapshot())

    @property
    def cues(self) -> dict[str, int | None]:
        """The dimension of each cue's keys; None for time and pose."""
        return self.snapshot().cues

    @property
    def chunk(self) -> int | None:
        """Consecutive records of which rules given by id recall at most one."""
        return self._chunk

    @property
    def path(self) -> str | None:
        """The folder of the store; None in RAM."""
        return self._path

    def append(
        self,
        *,
        time: Any,
        pose: Any,
        convention: Convention,
        keys: Any = None,
        payload: Sequence[bytes | str | None] | bytes | str | None = None,
    ) -> range:
        """Appends n records and returns their ids. If any row is refused, nothing is stored.

        ``time`` [n] is in seconds; ``pose`` is [n, 4, 4] or a pair of positions [n, 3] and quaternions [n, 4], meant as
        ``convention`` says; ``keys`` maps a cue to embeddings [n, dimension], or to a pair of them and a mask [n] of the
        rows that have one. Arrays may be numpy, torch or anything with DLPack. Keys are kept at unit length.
        """
        times = row(time, "time")
        poses = pose_rows(pose, "pose")
        rows = key_rows(keys, len(times))
        first = self._native.append(times, poses, check_convention(convention, pose), rows, _payload_list(payload))
        return range(first, first + len(times))

    def recall(self, policy: object, queries: Queries, k: int) -> Recall:
        """The at most ``k`` memories that a rule chooses for each query; see ``Snapshot.recall``."""
        return self.snapshot().recall(policy, queries, k)

    def snapshot(self) -> Snapshot:
        """The records so far, which no later append changes."""
        return Snapshot(self._native.snapshot(), self._chunk)

    def fork(self) -> Memory:
        """A memory of its own in RAM with the same past. It costs nothing until it appends."""
        return self.snapshot().fork()

    def restore(self, snapshot: Snapshot | str | os.PathLike[str]) -> None:
        """Goes back to a snapshot, or to what ``save`` wrote. A memory on disk only grows: fork it instead."""
        if not isinstance(snapshot, Snapshot):
            if not isinstance(snapshot, (str, os.PathLike)):
                raise InputError(f"the snapshot is a {type(snapshot).__name__}", "give a Snapshot or a path")
            snapshot = Memory.open(snapshot, read_only=True).snapshot()
        self._native.restore(snapshot._native)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the records to a new store in the folder ``path``; ``Memory.load`` and ``Memory.open`` read it."""
        self.snapshot().save(path)

    def sync(self) -> int:
        """Makes every record safe from a kill and a power cut; returns how many there are. On disk only."""
        return self._native.sync()

    def refresh(self) -> None:
        """Looks for records that another process has written since. For a store opened for reading."""
        self._native.refresh()

    def close(self) -> None:
        """Syncs and closes. Snapshots taken before stay readable."""
        self._native.close()

    def keys(self, cue: str) -> list[NDArray[Any]]:
        """The stored keys of a cue, without a copy; see ``Snapshot.keys``."""
        return self.snapshot().keys(cue)

    def poses(self) -> NDArray[np.float32]:
        """Positions and quaternions; see ``Snapshot.poses``."""
        return self.snapshot().poses()

    def payload(self, id: int) -> bytes | str | None:
        """What is kept with a record."""
        return self.snapshot().payload(id)

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._path is not None:
            try:
                self.sync()  # so that the other process finds what was appended
            except StoreError:
                pass  # opened for reading: there is nothing to write
            return _reopened, (self._path, self._chunk)
        return _unpickled, (files_of(self.snapshot()), self._chunk)

    def __copy__(self) -> Memory:
        return self.fork()

    def __deepcopy__(self, memo: dict[int, Any]) -> Memory:
        return self.fork()

    def __repr__(self) -> str:
        place = f" in {self._path}" if self._path is not None else ""
        return f"<far_memory.Memory of {len(self)} records{place}, cues {', '.join(self.cues)}>"


def _reopened(path: str, chunk: int | None) -> Memory:
    return Memory.open(path, chunk=chunk, read_only=True)


def _unpickled(files: dict[str, bytes], chunk: int | None) -> Memory:
    return _from_files(files, chunk).fork()


def _payload_list(payload: object) -> list[bytes | str | None] | None:
    if payload is None:
        return None
    payloads = [payload] if isinstance(payload, (bytes, str)) else payload
    if not isinstance(payloads, Sequence) or not all(isinstance(one, (bytes, str, type(None))) for one in payloads):
        raise InputError("a payload is not bytes, str or None", "encode what you keep with a record")
    for number, text in enumerate(payloads):
        if isinstance(text, str) and not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise InputError(f"payload {number} cannot be written as UTF-8", "give bytes instead")
    return list(payloads)


def _check_chunk(chunk: int | None) -> int | None:
    if chunk is not None and (not isinstance(chunk, int) or isinstance(chunk, bool) or not 0 < chunk < 2**31):
        raise InputError(f"the chunk is {chunk!r}", "give how many consecutive records make a chunk")
    return chunk


def _cue_list(cues: object) -> list[tuple[str, int | None, bool]]:
    if not isinstance(cues, Mapping):
        raise InputError(f"cues are a {type(cues).__name__}", "give a mapping like {'meta': None, 'vision': 256}")
    found: list[tuple[str, int | None, bool]] = []
    for name, kind in cues.items():
        key = Key(int(kind)) if isinstance(kind, (int, np.integer)) and not isinstance(kind, bool) else kind
        if not isinstance(name, str) or not isinstance(key, (Key, type(None))):
            raise InputError(f"cue {name!r} is {kind!r}", "give None for time and pose, a dimension, or a Key")
        if key is None:
            found.append((name, None, False))
        elif isinstance(key.dimension, (int, np.integer)) and 0 < key.dimension <= 65_536:
            found.append((name, int(key.dimension), bool(key.half)))
        else:
            raise InputError(f"cue {name!r} has keys of dimension {key.dimension!r}", "a key has 1 to 65,536 numbers")
    return found

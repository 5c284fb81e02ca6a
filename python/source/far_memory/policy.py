"""Rules by id and trained retrievers from files."""

from __future__ import annotations

import json
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

from . import _native
from ._native import Policy as NativePolicy
from .errors import PolicyError, RetrieverError


def rules() -> list[str]:
    """The ids of all rules; ``"far"`` stands for a trained retriever."""
    return _native.rules()


@lru_cache(maxsize=64)
def _built(text: str) -> NativePolicy:
    return NativePolicy(text)


class Policy:
    """A rule with its settings, or a trained retriever. It can be shared by threads and pickled.

    >>> Policy("nearest-pose").id
    'nearest-pose'
    >>> Policy("worldmem", view={"radius": 6.0}).settings["view"]["radius"]
    6.0
    """

    __slots__ = ("_native",)
    _native: NativePolicy

    def __init__(self, id: str, /, **settings: Any) -> None:
        if not isinstance(id, str):
            raise PolicyError(f"the id of a rule is a {type(id).__name__}", "far_memory.rules() lists the ids")
        if id == "far" and "retriever" not in settings:
            raise PolicyError('"far" stands for a trained retriever, and none is named', "Policy.load(path) reads one from its file")
        try:
            text = json.dumps({"id": id, **settings}, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise PolicyError(f"these settings are not plain data: {error}", "give numbers, strings, lists and dicts") from error
        self._native = _built(text)

    @classmethod
    def load(cls, path: str | PathLike[str], *, threads: int = 1) -> Policy:
        """A trained retriever from its file. ``threads`` search large pools; the answer does not depend on it."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise RetrieverError(f"cannot read {path}: {error}", "give the path of a retriever's file") from error
        return cls.from_bytes(data, threads=threads)

    @classmethod
    def from_bytes(cls, data: bytes, *, threads: int = 1) -> Policy:
        """A trained retriever from the bytes of its file."""
        if not isinstance(data, bytes) or not isinstance(threads, int) or not 0 < threads <= 1024:
            raise RetrieverError("a retriever is made from bytes and 1 to 1,024 threads", "give the bytes of its file")
        return cls._wrap(NativePolicy.from_bytes(data, threads))

    @classmethod
    def _wrap(cls, native: NativePolicy) -> Policy:
        policy = cls.__new__(cls)
        policy._native = native
        return policy

    @property
    def id(self) -> str:
        """The id of the rule; ``"far"`` for a retriever."""
        return self._native.id

    @property
    def settings(self) -> dict[str, Any]:
        """All settings of a rule, or the configuration of a retriever."""
        settings: dict[str, Any] = json.loads(self._native.settings)
        return settings

    def to_bytes(self) -> bytes | None:
        """The bytes of the retriever's file; None for a rule."""
        return self._native.to_bytes()

    def __reduce__(self) -> tuple[Any, ...]:
        return Policy._wrap, (self._native,)

    def __repr__(self) -> str:
        return repr(self._native)


def policy_of(value: object, chunk: int | None) -> NativePolicy:
    """The policy that an id, settings or a policy stand for. Rules given by id alone take the memory's chunks."""
    if isinstance(value, Policy):
        return value._native
    if isinstance(value, dict) and isinstance(value.get("id"), str):
        settings = {name: setting for name, setting in value.items() if name != "id"}
        return Policy(value["id"], **settings)._native
    if isinstance(value, str):
        return _by_id(value, chunk)
    raise PolicyError(f"the policy is a {type(value).__name__}", "give an id, {'id': …, settings} or a Policy")


@lru_cache(maxsize=256)
def _by_id(id: str, chunk: int | None) -> NativePolicy:
    policy = Policy(id)
    if chunk is not None and "chunk_size" in policy.settings:
        policy = Policy(id, chunk_size=chunk)
    return policy._native

"""The built-in worlds: villages, apartments, kitchens and corridors, recorded as datasets."""

from __future__ import annotations

import os

from . import _native
from .data import Dataset
from .errors import InputError


def variants() -> dict[str, list[str]]:
    """The worlds and their variants; the first is the default."""
    return {name: list(found) for name, found in _native.world_variants()}


def record(
    world: str,
    path: str | os.PathLike[str],
    *,
    episodes: int,
    variant: str | None = None,
    seed: int = 0,
    size: int = 64,
    threads: int | None = None,
) -> Dataset:
    """Records episodes into a folder and opens it. One that was interrupted goes on; the bytes do not depend on ``threads``."""
    numbers = {"episodes": episodes, "seed": seed, "size": size, "threads": threads or os.cpu_count() or 1}
    for name, value in numbers.items():
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**32:
            raise InputError(f"{name} is {value!r}", "give a whole number")
    if episodes < 1 or not isinstance(world, str) or not isinstance(variant, (str, type(None))):
        raise InputError(f"{episodes} episodes of {world!r}, variant {variant!r}", "ask for at least one episode of a named world")
    _native.record_world(world, os.fspath(path), episodes, variant, seed, size, numbers["threads"])
    return Dataset(path)

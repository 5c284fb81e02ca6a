"""Arrays of any library as numpy arrays, without a copy where that can be."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InputError


def numpy_of(value: Any, what: str) -> NDArray[Any]:
    """The array that ``value`` is or holds: numpy, torch, anything with DLPack, or nested lists."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # torch, which need not be installed
        tensor = value.detach().cpu()
        return np.asarray(tensor.float().numpy() if "bfloat16" in str(tensor.dtype) else tensor.numpy())
    try:
        return np.from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise InputError(f"{what} cannot be read as an array: {error}", "move it to the CPU and give plain numbers") from error


def floats(value: Any, what: str, dtype: type[np.floating[Any]] = np.float64, *, real: bool = False) -> NDArray[Any]:
    """Contiguous floats. With ``real``, whole numbers are refused: a key of integers is a mistake."""
    if type(value) is np.ndarray and value.dtype.type is dtype and value.flags.c_contiguous and value.ndim:
        return value  # as most are: nothing to check and nothing to copy
    array = numpy_of(value, what)
    allowed = "fV" if real else "fiu"
    if array.dtype.kind not in allowed:
        raise InputError(
            f"{what} has the type {array.dtype}", "give floating-point numbers" if real else "give real numbers"
        )
    try:
        with np.errstate(over="ignore"):  # what does not fit becomes infinite and is refused as such
            return np.ascontiguousarray(array, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} cannot be read as numbers: {error}", "give floating-point numbers") from error


def wholes(value: Any, what: str) -> NDArray[np.uint64]:
    """Contiguous whole numbers from 0."""
    array = numpy_of(value, what)
    if array.size == 0:
        return np.zeros(array.shape, np.uint64)
    if array.dtype.kind not in "iu" or (array.dtype.kind == "i" and array.min() < 0):
        raise InputError(f"{what} has the type {array.dtype} or numbers below 0", "give whole numbers from 0")
    return np.ascontiguousarray(array, dtype=np.uint64)


def booleans(value: Any, what: str) -> NDArray[np.bool_]:
    """Contiguous truth values."""
    array = numpy_of(value, what)
    if array.dtype.kind != "b":
        raise InputError(f"{what} has the type {array.dtype}", "give True and False")
    return np.ascontiguousarray(array)


def row(value: Any, what: str) -> NDArray[np.float64]:
    """One float for each record or query; a single number stands for one."""
    if type(value) is float:
        return np.array([value])
    array = floats(value, what)
    if array.ndim > 1:
        raise InputError(f"{what} has the shape {array.shape}", "give one number for each record or query")
    return array.reshape(-1)


def pose_rows(value: Any, what: str) -> NDArray[np.float64]:
    """Poses as rows of 16 or 7 numbers, from 4 × 4 matrices or from a pair of positions and quaternions."""
    if isinstance(value, tuple):
        if len(value) != 2:
            raise InputError(f"{what} is a tuple of {len(value)}", "give a pair of positions and quaternions")
        position, quaternion = floats(value[0], what), floats(value[1], what)
        if position.shape[-1:] != (3,) or quaternion.shape != (*position.shape[:-1], 4):
            raise InputError(
                f"{what} has positions of shape {position.shape} and quaternions of shape {quaternion.shape}",
                "give positions [n, 3] and quaternions [n, 4]",
            )
        return np.concatenate([position, quaternion], axis=-1).reshape(-1, 7)
    matrices = floats(value, what)
    if matrices.ndim < 2 or matrices.shape[-2:] != (4, 4):
        raise InputError(
            f"{what} has the shape {matrices.shape}",
            "give matrices [n, 4, 4], or a pair (positions [n, 3], quaternions [n, 4])",
        )
    return matrices.reshape(-1, 16)


Keys = list[tuple[str, NDArray[np.float32], "NDArray[np.bool_] | None"]]


def key_rows(keys: Any, rows: int) -> Keys:
    """Keys by cue as the native half takes them: a value is an array, or an array and its mask."""
    if keys is None:
        return []
    if not hasattr(keys, "items"):
        raise InputError(f"keys are a {type(keys).__name__}", "give a mapping from the name of a cue to its keys")
    found: Keys = []
    for cue, value in keys.items():
        what = f"keys of cue {cue!r}"
        if not isinstance(cue, str):
            raise InputError(f"{what} have no name", "name cues by strings")
        values, mask = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
        array = floats(values, what, np.float32, real=True)
        array = array.reshape(1, -1) if array.ndim == 1 and rows == 1 else array
        if array.ndim != 2:
            raise InputError(f"{what} have the shape {array.shape}", f"give keys [{rows}, dimension]")
        if mask is not None and (mask := booleans(mask, f"mask of {what}")).ndim != 1:
            raise InputError(f"the mask of {what} has the shape {mask.shape}", f"give a mask [{rows}]")
        found.append((cue, array, mask))
    return found

"""Poses are checked, not believed: by the way they lead, by what they call up, and by the pictures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _native
from .arrays import numpy_of, pose_rows, row
from .convention import Convention, check_convention
from .errors import InputError


@dataclass(frozen=True)
class PoseReport:
    """What :func:`check_poses` found."""

    frames: int
    """Poses that were looked at."""
    forward_share: float
    """Share of the way along the camera's forward axis: 1 walking ahead, −1 backward."""
    upright: float
    """Mean cosine between the camera's up and the world's: 1 level, −1 upside down."""
    jumps: list[int]
    """Frames to which the camera jumps."""
    speed: float
    """Median speed in m/s, of the steps that move at all."""
    extent: float
    """Diagonal of the box around all positions, in meters."""
    warped_db: float | None
    """How alike neighboring frames are when turned by the poses; None without pictures or turns."""
    unwarped_db: float | None
    """The same unturned."""
    readings: dict[str, float]
    """Every reading of the poses that was tried, with its likeness in dB; the one that was said comes first."""
    better: str | None
    """The reading that fits better, if one does."""
    contradicted: bool
    """Whether the poses cannot be meant as they were said."""
    warnings: list[str]
    """What is worth a look, in sentences."""


def check_poses(
    pose: Any,
    *,
    convention: Convention,
    time: Any,
    frames: Any = None,
    field_of_view: tuple[float, float] | None = None,
) -> PoseReport:
    """Checks a trajectory: poses [n, 4, 4] or (positions, quaternions), times [n] and, if at hand, frames [n, height, width, 3].

    With frames it needs the camera's full horizontal and vertical angle in degrees: neighboring frames, turned by the poses,
    must look more alike than unturned, and more alike than by other readings of the same poses. This is the check of
    ``far data import`` and ``far data inspect``.
    """
    said = check_convention(convention, pose)
    rows, times = pose_rows(pose, "pose"), row(time, "time")
    if len(rows) != len(times) or len(rows) == 0:
        raise InputError(f"there are {len(rows)} poses and {len(times)} times", "give one time for every pose, at least one")
    if not np.all(np.isfinite(times)) or np.any(np.diff(times) <= 0):
        raise InputError("times do not ascend", "give seconds, strictly increasing")
    pictures = None
    if frames is not None:
        pictures = np.ascontiguousarray(numpy_of(frames, "frames"))
        if pictures.dtype != np.uint8 or pictures.ndim != 4 or pictures.shape[3] != 3 or 0 in pictures.shape:
            raise InputError(f"frames are {pictures.dtype} of shape {pictures.shape}", "give bytes [n, height, width, 3]")
        if len(pictures) != len(rows):
            raise InputError(f"there are {len(pictures)} frames and {len(rows)} poses", "give one frame for every pose")
        if field_of_view is None:
            raise InputError("the camera's angles are not said", "give field_of_view=(horizontal, vertical) in degrees")
    angles = [float(angle) for angle in (field_of_view or (90.0, 90.0))]
    if len(angles) != 2 or not all(0 < angle < 180 for angle in angles):
        raise InputError(f"the field of view is {field_of_view!r}", "give two angles between 0 and 180 degrees")
    text, warnings = _native.pose_report(rows, said, times, pictures, angles)
    found = json.loads(text)
    warp = found.pop("warp") or {}
    found.pop("options")
    return PoseReport(
        **found | {"readings": dict(found["readings"])},
        warped_db=warp.get("warped_db"),
        unwarped_db=warp.get("unwarped_db"),
        warnings=warnings,
    )

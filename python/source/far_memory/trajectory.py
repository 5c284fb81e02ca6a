"""Whether a trajectory can be meant as it is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from . import _native
from .convention import Convention
from .errors import InputError


def check_trajectory(poses: NDArray[np.float64], convention: Convention) -> None:
    """Refuses poses under which the cameras lie on their side or head, if another reading sets them upright.

    People walk and robots drive with the picture's top toward the sky. Poses read in the wrong direction turn it about, and
    a wrong ``up`` or wrong ``axes`` lay it down.
    """
    said = _uprightness(poses, convention)
    if said > 0.3:
        return
    other = "world-to-camera" if convention.transform == "camera-to-world" else "camera-to-world"
    turned = _uprightness(poses, replace(convention, transform=other))
    if turned > max(0.7, said + 0.4):
        raise InputError(
            f"these poses cannot be {convention.transform}: pictures would stand {said:+.2f} upright, read as {other} {turned:+.2f}",
            f"say transform={other!r}, or check=False if cameras really lie so",
        )
    if said < -0.5:
        raise InputError(
            f"with up={convention.up!r} and axes={convention.axes!r} the cameras stand on their heads ({said:+.2f} upright)",
            "look at up and axes, or say check=False if they really do",
        )


def _uprightness(poses: NDArray[np.float64], convention: Convention) -> float:
    """The mean height of the picture's upward direction: 1 for level cameras, −1 for cameras on their heads."""
    if len(poses) == 0:
        return 1.0
    w, x, y, z = _native.canonical_poses(poses, convention)[:, 3:].T.astype(np.float64)
    # The third row of the rotation, for the camera's y, which points down in the picture.
    return -float(np.mean(2 * (y * z + w * x)))

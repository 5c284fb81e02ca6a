"""What the numbers of a pose mean. Nothing is assumed: axes, up, handedness and direction are always said."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .errors import InputError

# Directions in the project's camera axes: x right, y down, z forward.
_DIRECTIONS = {
    "R": (1.0, 0.0, 0.0),
    "L": (-1.0, 0.0, 0.0),
    "D": (0.0, 1.0, 0.0),
    "U": (0.0, -1.0, 0.0),
    "F": (0.0, 0.0, 1.0),
    "B": (0.0, 0.0, -1.0),
}
# The rotation that takes the caller's up axis to Z.
_UPRIGHT = {
    "+z": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "-z": ((1, 0, 0), (0, -1, 0), (0, 0, -1)),
    "+y": ((1, 0, 0), (0, 0, -1), (0, 1, 0)),
    "-y": ((1, 0, 0), (0, 0, 1), (0, -1, 0)),
    "+x": ((0, 1, 0), (0, 0, 1), (1, 0, 0)),
    "-x": ((0, 1, 0), (0, 0, -1), (-1, 0, 0)),
}


@dataclass(frozen=True)
class Convention:
    """What poses mean.

    ``axes`` says where the camera's x, y and z point, by three letters of Right, Left, Up, Down, Forward and
    Backward: ``"RDF"`` is OpenCV, ``"RUB"`` OpenGL, ``"RUF"`` Unity, ``"FLU"`` a robot's body. ``up`` is the axis of
    the world that points up, ``handedness`` the world's, ``transform`` the direction of the poses. ``quaternion``
    must be said where poses are positions and quaternions. ``unit`` is the meters of one unit of length.

    >>> Convention(axes="RUB", up="+y", handedness="right", transform="camera-to-world")  # a nerfstudio capture
    Convention(axes='RUB', up='+y', handedness='right', transform='camera-to-world', quaternion=None, unit=1.0)
    """

    axes: str
    up: str
    handedness: str
    transform: str
    quaternion: str | None = None
    unit: float = 1.0
    matrices: NDArray[np.float64] = field(init=False, repr=False, compare=False)
    """The world's axes in the project's, and the project's camera axes in these, [2, 3, 3]."""
    inverse: bool = field(init=False, repr=False, compare=False)
    real_first: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        letters = "".join(sorted(str(self.axes)))
        pairs = ("RL", "UD", "FB")
        if len(letters) != 3 or not all(sum(letter in pair for letter in letters) == 1 for pair in pairs):
            raise InputError(f"axes are {self.axes!r}", "give three letters, one each of R/L, U/D and F/B, like 'RDF'")
        choices = {
            "up": (self.up, tuple(_UPRIGHT)),
            "handedness": (self.handedness, ("right", "left")),
            "transform": (self.transform, ("camera-to-world", "world-to-camera")),
            "quaternion": (self.quaternion, (None, "wxyz", "xyzw")),
        }
        for name, (value, allowed) in choices.items():
            if value not in allowed:
                raise InputError(f"{name} is {value!r}", f"give one of {', '.join(map(repr, allowed))}")
        if not (isinstance(self.unit, (int, float)) and np.isfinite(self.unit) and self.unit > 0):
            raise InputError(f"the unit is {self.unit!r}", "give the meters of one unit of length")
        world = np.array(_UPRIGHT[self.up], float)
        if self.handedness == "left":
            world[1] = -world[1]
        derived = {
            "matrices": np.array([world, [_DIRECTIONS[letter] for letter in self.axes]]),
            "inverse": self.transform == "world-to-camera",
            "real_first": self.quaternion != "xyzw",
        }
        for name, found in derived.items():
            object.__setattr__(self, name, found)

    @classmethod
    def native(cls) -> Convention:
        """The project's own: world right-handed with Z up, OpenCV camera, camera to world, quaternions wxyz."""
        return cls(axes="RDF", up="+z", handedness="right", transform="camera-to-world", quaternion="wxyz")


def check_convention(convention: object, pose: object) -> Convention:
    """The convention, if it says what this pose needs."""
    if not isinstance(convention, Convention):
        raise InputError(f"the convention is a {type(convention).__name__}", "give far_memory.Convention(axes=…, up=…, …)")
    if isinstance(pose, tuple) and convention.quaternion is None:
        raise InputError("the convention does not say the order of quaternions", "give quaternion='wxyz' or 'xyzw'")
    return convention

"""Poses in any convention are the poses that plain geometry finds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from far_memory import Convention, InputError, Memory

from .conftest import rotations

# Where right, down and forward lie among the letters of a camera's axes.
LETTERS = {"R": (0, 1), "L": (0, -1), "D": (1, 1), "U": (1, -1), "F": (2, 1), "B": (2, -1)}


def points_seen(poses: np.ndarray, camera_points: np.ndarray) -> np.ndarray:
    """World points of camera points (x right, y down, z forward) by stored positions and quaternions."""
    w, x, y, z = poses[:, 3:].T.astype(np.float64)
    matrix = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    ).transpose(2, 0, 1)
    return np.einsum("nij,pj->npi", matrix, camera_points) + poses[:, None, :3]


@pytest.mark.parametrize("axes", ["".join(a) for a in itertools.product("RL", "UD", "FB")] + ["FLU", "BRD", "UFR", "DRF"])
@pytest.mark.parametrize("up", ["+x", "-x", "+y", "-y", "+z", "-z"])
@pytest.mark.parametrize("handedness", ["right", "left"])
def test_points_in_front_stay_where_they_are(axes: str, up: str, handedness: str) -> None:
    """Build a scene in the caller's axes, store it, and look at the same points through the stored poses."""
    generator = np.random.default_rng(1)
    count, unit = 7, 0.01
    convention = Convention(axes=axes, up=up, handedness=handedness, transform="camera-to-world", unit=unit)
    to_caller = np.zeros((3, 3))
    for row, letter in enumerate(axes):
        place, sign = LETTERS[letter]
        to_caller[row, place] = sign
    matrices = np.tile(np.eye(4), (count, 1, 1))
    matrices[:, :3, :3] = rotations(generator, count)
    mirrored = np.linalg.det(to_caller) * (1 if handedness == "right" else -1) < 0
    if mirrored:  # such a camera in such a world needs rotations that mirror the numbers
        matrices[:, :3, 0] *= -1
    matrices[:, :3, 3] = 100 * generator.normal(size=(count, 3))
    memory = Memory(cues={"meta": None})
    memory.append(time=np.arange(count), pose=matrices, convention=convention)

    camera_points = np.vstack([np.zeros(3), np.eye(3)])
    stored = points_seen(memory.poses(), camera_points)
    caller = np.einsum("nij,pj->npi", matrices[:, :3, :3], camera_points @ to_caller.T / unit) + matrices[:, None, :3, 3]
    # The same shape: all distances agree, and heights agree along the axis that is up.
    flat = lambda cloud: cloud.reshape(-1, 3)  # noqa: E731
    distances = lambda cloud: np.linalg.norm(flat(cloud)[:, None] - flat(cloud)[None], axis=-1)  # noqa: E731
    np.testing.assert_allclose(distances(stored), unit * distances(caller), atol=1e-4)
    axis, sign = "xyz".index(up[1]), 1 if up[0] == "+" else -1
    np.testing.assert_allclose(flat(stored)[:, 2], unit * sign * flat(caller)[:, axis], atol=1e-4)
    # And not mirrored, unless the caller's world is left-handed.
    volume = lambda cloud: np.linalg.det(flat(cloud)[1:4] - flat(cloud)[0])  # noqa: E731
    expected = volume(unit * caller) * (1 if handedness == "right" else -1)
    np.testing.assert_allclose(volume(stored), expected, atol=1e-3)

    inverse = Convention(axes=axes, up=up, handedness=handedness, transform="world-to-camera", unit=unit)
    again = Memory(cues={"meta": None})
    again.append(time=np.arange(count), pose=np.linalg.inv(matrices), convention=inverse)
    np.testing.assert_allclose(points_seen(again.poses(), camera_points), stored, atol=1e-4)


def test_the_order_of_quaternions_must_be_said() -> None:
    memory = Memory(cues={"meta": None})
    pose = (np.zeros((1, 3)), np.array([[1.0, 0, 0, 0]]))
    unsaid = Convention(axes="RDF", up="+z", handedness="right", transform="camera-to-world")
    with pytest.raises(InputError, match="order of quaternions"):
        memory.append(time=0.0, pose=pose, convention=unsaid)
    for order, roll in [("wxyz", 0), ("xyzw", -1)]:
        said = Convention(axes="RDF", up="+z", handedness="right", transform="camera-to-world", quaternion=order)
        memory.append(time=0.0, pose=(pose[0], np.roll(pose[1], roll, axis=1)), convention=said)
    assert np.allclose(memory.poses(), [0, 0, 0, 1, 0, 0, 0])


@pytest.mark.parametrize(
    "changes",
    [{"axes": "RDX"}, {"axes": "RLF"}, {"axes": ""}, {"up": "z"}, {"handedness": "both"}, {"transform": "c2w"}, {"unit": 0}],
)
def test_what_is_not_a_convention_is_refused(changes: dict[str, object]) -> None:
    given: dict[str, object] = {"axes": "RDF", "up": "+z", "handedness": "right", "transform": "camera-to-world"}
    with pytest.raises(InputError):
        Convention(**(given | changes))  # type: ignore[arg-type]

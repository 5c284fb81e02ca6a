#!/usr/bin/env python3
"""What a look from beside is worth where a container is opened again, in squared errors of pixels.

For each counterfactual pair of a kitchen dataset: the first open look in which the two histories differ,
what differs, and the last look at the deed from beside that place, if there is one. Prints how far the
outdated look, the deed's look and the same seen from the goal are from the truth, on the tokens of 16
pixels that changed and on the whole frame; and in how many pairs the last six frames before the return
differ. Docs: decision 115, docs/results/kitchen.md.

    pip install numpy pillow pyarrow scipy
    python3 scripts/measure_reveals.py data/kitchen-1001
"""
import io
import json
import pathlib
import sys

import numpy as np
import pyarrow.ipc as ipc
from PIL import Image
from scipy.ndimage import map_coordinates

TOKEN = 16


def load(folder, number):
    return ipc.open_file(folder / "episodes" / f"{number:06d}.arrow").read_all().to_pydict()


def picture(episode, frame):
    return np.array(Image.open(io.BytesIO(episode["image"][frame])).convert("RGB")).astype(float)


def axes(rotation):
    """Camera axes (right, down, forward) as columns, from a quaternion (w, x, y, z)."""
    w, x, y, z = rotation
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ])


def meeting(goal, other):
    """How far ahead of the goal's camera the axis of the other one passes."""
    (eye, rotation), (other_eye, other_rotation) = goal, other
    way, own, its = other_eye - eye, axes(rotation)[:, 2], axes(other_rotation)[:, 2]
    return np.linalg.solve([[1, -own @ its], [own @ its, -1]], [own @ way, its @ way])[0]


def seen_from(goal, other, look, distance, focus):
    """The other camera's picture as the goal's has it if all stands so far ahead."""
    size = look.shape[0]
    u, v = np.meshgrid(np.arange(size) + 0.5, np.arange(size) + 0.5)
    rays = np.stack([(u - size / 2) / focus, (v - size / 2) / focus, np.ones_like(u)], -1)
    points = distance * rays @ axes(goal[1]).T + goal[0]
    there = (points - other[0]) @ axes(other[1])
    place = [size / 2 + focus * there[..., axis] / there[..., 2] - 0.5 for axis in (1, 0)]
    planes = [map_coordinates(look[..., c], place, order=1, mode="nearest") for c in range(3)]
    return np.stack(planes, -1)


def by_token(errors):
    side = errors.shape[0] // TOKEN
    return (errors**2).mean(2).reshape(side, TOKEN, side, TOKEN).mean((1, 3))


def main():
    folder = pathlib.Path(sys.argv[1])
    description = json.loads((folder / "dataset.json").read_text())
    angle = np.radians(description["field_of_view"]["horizontal_degrees"] / 2)
    focus = description["resolution"][0] / 2 / np.tan(angle)
    table = ipc.open_file(folder / "episodes.arrow").read_all().to_pydict()
    pairs = [(a, b) for a, b in zip(table["id"], table["pair"]) if b is not None and a < b]
    rows, last = {}, 0
    for first, second in pairs:
        one, other = load(folder, first), load(folder, second)
        differ = [f for f in range(len(one["time"])) if one["image"][f] != other["image"][f]]
        boundary = one["phase"].index("return")
        last += any(boundary - 6 <= f < boundary for f in differ)
        differ = [f for f in differ if one["door_fraction"][f] == 1]
        back = [f for f in differ if f >= boundary]
        deeds = [f for f in differ if f < boundary and one["pose_key"][f] < 0]
        if not back or not deeds:
            continue
        goal, deed = back[0], deeds[-1]
        truth, outdated, look = picture(one, goal), picture(other, goal), picture(one, deed)
        poses = [(np.array(one["position"][f]), one["rotation"][f]) for f in (goal, deed)]
        changed = by_token(truth - outdated) > 0
        shown = {"outdated look": outdated, "deed's look": look}
        aligned = {d: seen_from(*poses, look, d, focus) for d in np.arange(0.6, 2.6, 0.1).round(1)}
        shown["seen from the goal, 1.5 m"] = aligned[1.5]
        shown["seen from the goal, axes"] = seen_from(*poses, look, meeting(*poses), focus)
        cost = lambda view: by_token(truth - view)[changed].sum()
        shown["seen from the goal, best"] = min(aligned.values(), key=cost)
        for name, view in shown.items():
            better = cost(view) < cost(outdated)
            rows.setdefault(name, []).append((cost(view), better, by_token(truth - view).mean()))
    for name, values in rows.items():
        tokens, better, whole = np.mean(values, 0)
        print(f"{name:28} {tokens:8.0f}  better {100 * better:3.0f} %  whole frame {whole:6.0f}  of {len(values)}")
    print(f"the last six frames before the return differ in {last} of {len(pairs)} pairs")


if __name__ == "__main__":
    main()

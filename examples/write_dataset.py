"""Writes a small dataset with pyarrow: a walk out and back in a room painted by direction.

    python examples/write_dataset.py data/own && far data verify data/own
"""
import json, math, os, sys
import pyarrow as pa

folder, side, fps = sys.argv[1], 32, 10
os.makedirs(f"{folder}/episodes", exist_ok=True)
with open(f"{folder}/dataset.json", "w") as file:
    json.dump({"format": "far-dataset", "version": 1, "corpus": "own", "fps": fps, "resolution": [side, side],
               "field_of_view": {"horizontal_degrees": 90, "vertical_degrees": 90}, "images": "raw",
               "cues": ["metadata", "vision"], "splits": ["episode"],
               "generator": {"name": "write_dataset.py", "version": 1, "seed": 0}}, file)

def write(name, columns):
    table = pa.table(columns)
    with pa.ipc.new_file(f"{folder}/{name}", table.schema) as writer:
        writer.write_table(table)

def picture(x, yaw, episode):
    # A column of pixels looks along one direction, which has a color; red says how far east one stands.
    directions = [yaw - math.atan((column + 0.5) / (side / 2) - 1) for column in range(side)]
    row = [[int(60 * x), 40 * episode, int(128 + 100 * math.sin(3 * direction))] for direction in directions]
    return bytes(sum(row, [])) * side

steps = [0.1 * i for i in range(30)] + [3.0] * 10 + [3.0 - 0.075 * i for i in range(40)]  # meters east of the start
yaws = [math.pi * min(max(i - 29, 0), 10) / 10 for i in range(80)]  # counter-clockwise from east; the turn takes a second
for episode in range(4):
    # The rotation turns camera axes (x right, y down, z forward) into the world: q = Rz(yaw) * (1, -1, 1, -1) / 2.
    turns = [(math.cos(yaw / 2), math.sin(yaw / 2)) for yaw in yaws]
    quaternions = [[(c + s) / 2, (-c - s) / 2, (c - s) / 2, (s - c) / 2] for c, s in turns]
    pictures = [picture(x, yaw, episode) for x, yaw in zip(steps, yaws)]
    write(f"episodes/{episode:06}.arrow", {
        "time": pa.array([i / fps for i in range(80)], pa.float64()),
        "position": pa.array([[x, 0.0, 1.6] for x in steps], pa.list_(pa.float32(), 3)),
        "rotation": pa.array(quaternions, pa.list_(pa.float32(), 4)),
        "phase": ["explore"] * 40 + ["return"] * 40, "image": pa.array(pictures, pa.binary())})
write("episodes.arrow", {
    "id": pa.array(range(4), pa.uint32()), "scene": ["room"] * 4, "split": ["train"] * 3 + ["test"],
    "frames": pa.array([80] * 4, pa.uint32()), "boundary": pa.array([40] * 4, pa.uint32())})

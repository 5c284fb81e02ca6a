"""The whole FAR recall written the straightforward way in NumPy, straight from the equations.

    far bench recall --memories 1000 --peer "python benches/peers/numpy_recall.py"

Needs `pip install numpy safetensors`.
"""

import json

import numpy as np
from safetensors import safe_open

from peer import Data, arguments, serve

options = arguments()
data = Data(options.folder)
with safe_open(data.retriever, "np") as file:
    config = json.loads(file.metadata()["far_retriever"])["config"]
    weights = {name: file.get_tensor(name) for name in file.keys()}


def angles(poses):
    """Yaw and pitch of the viewing directions of [..., 7] poses (position, quaternion w x y z)."""
    w, x, y, z = np.moveaxis(poses[..., 3:], -1, 0)
    forward = 2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)
    return np.arctan2(forward[1], forward[0]), np.arcsin(np.clip(forward[2], -1, 1))


yaw, pitch = angles(data.poses)


def slog(x):
    return np.sign(x) * np.log1p(np.abs(x))


def seen_from(frame, positions, yaw, pitch, length):
    """Positions and angles in the level frame of a pose, as seven features."""
    frame_yaw, frame_pitch = angles(frame)
    d = (positions - frame[:3]) / length
    sin, cos = np.sin(frame_yaw), np.cos(frame_yaw)
    turn, tilt = yaw - frame_yaw, pitch - frame_pitch
    columns = [d[..., 0] * cos + d[..., 1] * sin, d[..., 1] * cos - d[..., 0] * sin, d[..., 2]]
    return columns + [np.sin(turn), np.cos(turn), np.sin(tilt), np.cos(tilt)]


def metadata_scores(name, scorer, query):
    length, unit = scorer["length_scale"], scorer["time_scale"]
    now, goal, stride = data.query_poses[query], data.query_goals[query], data.query_strides[query]
    gap = (data.query_times[query] - data.times).astype(np.float32)
    columns = seen_from(now, data.poses[:, :3], yaw, pitch, length)
    columns += seen_from(goal, data.poses[:, :3], yaw, pitch, length)
    columns += [np.linalg.norm(data.poses[:, :3] - now[:3], axis=1) / length]
    columns += [np.linalg.norm(data.poses[:, :3] - goal[:3], axis=1) / length]
    columns += [slog(gap / unit), slog((gap + stride) / unit)]
    goal_yaw, goal_pitch = angles(goal)
    columns += seen_from(now, goal[:3], goal_yaw, goal_pitch, length) + [slog(stride / unit)]
    values = np.stack([np.broadcast_to(column, len(gap)) for column in columns], 1).astype(np.float32)
    for layer in range(scorer["layers"]):
        if layer:
            cube = values * values * values  # faster than a power
            values = 0.5 * values * (1 + np.tanh(np.float32(np.sqrt(2 / np.pi)) * (values + np.float32(0.044715) * cube)))
        prefix = f"cue.{name}.layer.{layer}"
        values = values @ weights[f"{prefix}.weight"].T + weights[f"{prefix}.bias"]
    return np.tanh(values[:, 0])


def cosine_scores(query):
    embedding = data.query_keys[query]
    return data.keys @ (embedding / np.linalg.norm(embedding))


def recall(query):
    cues = config["cues"]
    standardized, logits = [], []
    gate = weights.get("gate.weight")
    stride = data.query_strides[query] / config["gate"]["stride_scale"]
    for number, cue in enumerate(cues):
        metadata = cue["scorer"]["kind"] == "metadata"
        scores = metadata_scores(cue["name"], cue["scorer"], query) if metadata else cosine_scores(query)
        mean, deviation = scores.mean(), np.sqrt(scores.var() + 1e-12)
        standardized.append((scores - mean) / (deviation + 1e-4))
        if gate is not None:
            onehot = np.eye(len(cues))[number]
            products = stride * onehot if config["gate"]["stride_products"] else []
            logits.append(gate @ np.concatenate([[scores.max(), mean, deviation], onehot, [stride], products]))
    mixture = np.exp(logits - np.max(logits)) if gate is not None else np.ones(1)
    fused = sum(weight * scores for weight, scores in zip(mixture / mixture.sum(), standardized))
    chunk = config["chunk_size"]
    padded = np.full(-(-len(fused) // chunk) * chunk, -np.inf, np.float32)
    padded[: len(fused)] = fused
    best = padded.reshape(-1, chunk).argmax(1) + np.arange(0, len(padded), chunk)
    slots = min(options.slots, len(best))
    top = best[np.argpartition(-padded[best], slots - 1)[:slots]]
    return top[np.argsort(-padded[top])]


serve(recall)

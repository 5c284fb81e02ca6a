#!/usr/bin/env python3
"""Golden values for the retriever, made once with PyTorch in double precision.

Writes one small safetensors: a memory of poses and keys, two queries, the parameters of a retriever
with two cues, its scores, cue weights and recalled memories (one per chunk), and the loss over global
and local candidate pools with the gradients of all parameters. Everything is written from the
formulas, from poses on, and shares no code with the library.

    pip install torch safetensors numpy
    python3 scripts/make_retriever_fixtures.py
"""
import torch
from make_dit_fixtures import write
from make_encoder_fixtures import fixture_folder
from torch.nn import functional as F

MEMORIES, WIDTH, KEY, ADAPTER, CHUNK, RECALLED = 13, 6, 4, 5, 4, 3
LENGTH_SCALE, TIME_SCALE, STRIDE_SCALE = 4.0, 1.0, 6.4


def single(tensor):
    """The values that the file holds, computed with in double precision."""
    return tensor.float().double()


def signed_log(x):
    return x.sign() * x.abs().log1p()


def displacement(position, angle, frame_position, frame_angle):
    """Forward, left, up, sines and cosines of turn and tilt, in the level frame of another pose."""
    offset = (position - frame_position) / LENGTH_SCALE
    sin, cos = frame_angle[..., 0].sin(), frame_angle[..., 0].cos()
    turn, tilt = (angle - frame_angle).unbind(-1)
    forward = offset[..., 0] * cos + offset[..., 1] * sin
    left = offset[..., 1] * cos - offset[..., 0] * sin
    return torch.stack([forward, left, offset[..., 2], turn.sin(), turn.cos(), tilt.sin(), tilt.cos()], -1)


def features(memory, query):
    """The 26 features of every memory for one query."""
    expand = lambda row: row.expand(MEMORIES, -1)
    distance = lambda to: ((memory["position"] - to) / LENGTH_SCALE).norm(dim=1, keepdim=True)
    gap = (query["time"] - memory["time"])[:, None] / TIME_SCALE
    stride = query["stride"] / TIME_SCALE
    action = displacement(query["goal"], query["goal_angle"], query["position"], query["angle"])
    return torch.cat([
        displacement(memory["position"], memory["angle"], query["position"], query["angle"]),
        displacement(memory["position"], memory["angle"], query["goal"], query["goal_angle"]),
        distance(query["position"]), distance(query["goal"]),
        signed_log(gap), signed_log(gap + stride),
        expand(action), expand(signed_log(stride)[None]),
    ], dim=1)


def linear(parameters, name, x):
    return F.linear(x, parameters[f"{name}.weight"], parameters[f"{name}.bias"])


def scores(parameters, memory, query):
    """Raw and standardized scores of both cues, cue weights and fused scores."""
    hidden = features(memory, query)
    for layer in range(2):
        hidden = F.gelu(linear(parameters, f"cue.meta.layer.{layer}", hidden), approximate="tanh")
    meta = linear(parameters, "cue.meta.layer.2", hidden)[:, 0].tanh()
    embedding = query["embedding"]
    hidden = F.gelu(linear(parameters, "cue.vision.adapter.0", embedding), approximate="tanh")
    adapted = F.normalize(embedding + linear(parameters, "cue.vision.adapter.1", hidden), dim=0)
    vision = F.normalize(memory["key"], dim=1) @ adapted
    present = memory["present"] == 1
    logits, standardized = [], []
    stride = query["stride"] / STRIDE_SCALE
    for cue, (raw, there) in enumerate([(meta, torch.ones_like(present)), (vision, present)]):
        known = raw[there]
        mean = known.mean()
        deviation = ((known - mean).square().mean() + 1e-12).sqrt()
        one_hot = F.one_hot(torch.tensor(cue), 2).double()
        gate = torch.cat([torch.stack([known.max(), mean, deviation]), one_hot, stride[None], stride * one_hot])
        logits.append(gate @ parameters["gate.weight"])
        standardized.append(torch.where(there, (raw - mean) / (deviation + 1e-4), 0.0))
    weights = torch.stack(logits).softmax(0)
    return meta, vision, weights, weights @ torch.stack(standardized)


def recalled(fused):
    """The best of each chunk, and of those the best K."""
    padded = F.pad(fused, (0, -MEMORIES % CHUNK), value=-torch.inf)
    best, place = padded.reshape(-1, CHUNK).max(1)
    chunk = best.topk(RECALLED).indices
    return chunk * CHUNK + place[chunk]


def retriever_fixture():
    torch.manual_seed(8)
    uniform = lambda *shape: single(torch.rand(*shape) * 2 - 1)
    memory = {
        "position": single(uniform(MEMORIES, 3) * 6),
        "angle": single(uniform(MEMORIES, 2) * torch.tensor([3.0, 1.0])),
        "time": torch.arange(MEMORIES) * 0.5,
        "key": uniform(MEMORIES, KEY), "present": torch.ones(MEMORIES),
    }
    memory["present"][[2, 9]] = 0
    shapes = {"gate.weight": [8]}
    for place, (inputs, outputs) in enumerate([(26, WIDTH), (WIDTH, WIDTH), (WIDTH, 1)]):
        shapes |= {f"cue.meta.layer.{place}.weight": [outputs, inputs], f"cue.meta.layer.{place}.bias": [outputs]}
    for place, (inputs, outputs) in enumerate([(KEY, ADAPTER), (ADAPTER, KEY)]):
        shapes |= {f"cue.vision.adapter.{place}.weight": [outputs, inputs], f"cue.vision.adapter.{place}.bias": [outputs]}
    parameters = {name: single(uniform(*shape) * 0.7).requires_grad_() for name, shape in shapes.items()}

    tensors = {f"memory.{name}": value for name, value in memory.items()}
    tensors |= {f"parameter.{name}": value for name, value in parameters.items()}
    losses = []
    for example in range(2):
        query = {
            "position": single(uniform(3) * 4), "angle": single(uniform(2)), "goal": single(uniform(3) * 4),
            "goal_angle": single(uniform(2)), "embedding": uniform(KEY),
            "time": torch.tensor(7.0), "stride": single(torch.rand(()) * 4),
        }
        meta, vision, weights, fused = scores(parameters, memory, query)
        chosen = recalled(fused.detach())
        chunk = chosen[1] // CHUNK * CHUNK
        local = torch.arange(int(chunk), min(int(chunk) + CHUNK, MEMORIES))
        rest = [int(position) for position in local if position not in chosen]
        candidates = torch.tensor(chosen.tolist() + rest)
        utilities = single(uniform(len(candidates)) * 2 - 40)
        credit = torch.zeros(MEMORIES).index_copy(0, candidates, utilities)
        for pool in [chosen, local]:
            target = (fused[pool] + credit[pool]).detach().softmax(0)
            losses.append(F.kl_div(fused[pool].log_softmax(0), target, reduction="sum"))
        tensors |= {f"query.{example}.{name}": value for name, value in query.items()}
        tensors |= {
            f"output.{example}.meta": meta, f"output.{example}.vision": vision, f"output.{example}.weights": weights,
            f"output.{example}.fused": fused, f"output.{example}.recalled": chosen,
            f"candidate.{example}.positions": candidates, f"candidate.{example}.local": local,
            f"candidate.{example}.utilities": utilities,
        }
    # Two examples, each with both pools: the mean over examples, summed over kinds.
    loss = sum(losses) / 2
    slopes = torch.autograd.grad(loss, list(parameters.values()))
    tensors |= {f"gradient.{name}": slope for name, slope in zip(parameters, slopes)}
    return tensors | {"output.loss": loss}


def main():
    write(fixture_folder(__doc__) / "retriever.safetensors", retriever_fixture())


if __name__ == "__main__":
    main()

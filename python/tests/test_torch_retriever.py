"""The torch module and Rust are one retriever: scores, gate and choices agree on saved files."""

from __future__ import annotations

import copy
import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed")

from far_memory import Convention, Key, Memory, Policy, Queries, RetrieverError, _native  # noqa: E402
from far_memory.torch import QueryViT, Retriever, RetrieverBatch  # noqa: E402
from far_memory.torch.future_aware import chunk_top, distillation, gathered  # noqa: E402

from .conftest import make_walk, rotations  # noqa: E402

FIXTURES = Path(__file__).resolve().parents[2] / "crates/far-model/tests/fixtures"


def fixture(name: str) -> dict[str, Any]:
    """The tensors of a golden file, made by independent code in double precision."""
    path = FIXTURES / name
    if not path.exists():
        pytest.skip(f"{path} comes with the project's sources")
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    found = {}
    for key, entry in header.items():
        if key != "__metadata__":
            start, end = entry["data_offsets"]
            found[key] = torch.from_numpy(np.frombuffer(body[start:end], np.float32).reshape(entry["shape"]).copy())
    return found


def randomized(retriever: Retriever, seed: int) -> Retriever:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in retriever.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
    return retriever


@st.composite
def retrievers(draw: st.DrawFn) -> tuple[Retriever, Memory, Queries]:
    kinds = draw(st.lists(st.sampled_from(["meta", "vision", "sound"]), min_size=1, max_size=3, unique=True))
    sizes = {"meta": None, "vision": draw(st.integers(1, 9)), "sound": draw(st.integers(1, 33))}
    adapter = draw(st.sampled_from(["identity", "residual", "network"]))
    retriever = Retriever(
        {kind: sizes[kind] for kind in kinds},
        chunk=draw(st.integers(1, 6)),
        layers=draw(st.integers(2, 3)),
        width=draw(st.integers(1, 20)),
        length_scale=draw(st.floats(0.5, 9.0)),
        time_scale=draw(st.floats(0.1, 5.0)),
        adapter=adapter,
        adapter_width=draw(st.integers(1, 9)),
        stride_products=draw(st.booleans()),
        stride_scale=draw(st.floats(0.5, 9.0)),
    )
    seed = draw(st.integers(0, 2**20))
    randomized(retriever, seed)
    random = np.random.default_rng(seed)
    count = draw(st.integers(0, 40))
    half = draw(st.booleans())
    memory = Memory({"meta": None, "vision": Key(sizes["vision"], half), "sound": sizes["sound"]})
    poses = np.tile(np.eye(4), (count + 4, 1, 1))
    poses[:, :3, :3] = rotations(random, count + 4)
    poses[:, :3, 3] = 3 * random.normal(size=(count + 4, 3))
    share = draw(st.sampled_from([0.0, 0.6, 1.0]))
    keys = {
        name: (random.normal(size=(count, sizes[name])).astype(np.float32), random.random(count) < share)
        for name in ("vision", "sound")
    }
    memory.append(time=np.sort(random.random(count)), pose=poses[:count], convention=Convention.native(), keys=keys)
    asked = draw(st.lists(st.sampled_from(["vision", "sound"]), unique=True))
    first = draw(st.integers(0, count))
    queries = Queries(
        time=[1.5, 2.5],
        pose=poses[count : count + 2],
        goal=poses[count + 2 :],
        convention=Convention.native(),
        keys={name: random.normal(size=(2, sizes[name])).astype(np.float32) for name in asked},
        stride=draw(st.floats(0.0, 4.0)),
        pool=draw(st.sampled_from([None, [[first, count], [0, first]]])),
    )
    return retriever, memory, queries


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=retrievers())
def test_scores_gate_and_choices_are_those_of_rust(case: tuple[Retriever, Memory, Queries]) -> None:
    retriever, memory, queries = case
    policy = retriever.policy()
    with torch.no_grad():
        batch = RetrieverBatch.read(retriever.config, memory, queries)
        scores = retriever(batch)
    slots = batch.ids.shape[1]
    recall = memory.recall(policy, queries, k=slots)
    for row in range(2):
        if not batch.mask[row].any():
            assert not recall.mask[row].any()
            continue
        np.testing.assert_allclose(scores.weights[row], recall.weights[row], atol=1e-5)
        place = {int(id): slot for slot, id in enumerate(batch.ids[row]) if id >= 0}
        found = [place[int(id)] for id in recall.ids[row][recall.mask[row]]]
        known = batch.present[row][found].numpy()
        raw = np.where(known, scores.raw[row][found], np.nan)
        count = len(found)
        np.testing.assert_allclose(raw, recall.raw[row, :count], atol=1e-5, equal_nan=True)
        # What standardization divides by also divides the error.
        spread = [float(scores.raw[row, batch.present[row, :, cue], cue].std(correction=0)) if batch.present[row, :, cue].any() else 1.0 for cue in range(known.shape[1])]
        loose = 2e-5 * (1 + sum(1 / (deviation + 1e-4) for deviation in spread))
        np.testing.assert_allclose(scores.fused[row][found], recall.scores[row, :count], atol=loose)
        chosen = chunk_top(scores.fused[row : row + 1], batch.mask[row : row + 1], retriever.chunk, slots)[0]
        mine = [slot for slot in chosen.tolist() if slot >= 0]
        assert len(mine) == count
        for own, other in zip(mine, found):
            tie = abs(float(scores.fused[row, own] - scores.fused[row, other])) <= 2 * loose
            assert own == other or tie


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=retrievers())
def test_files_are_the_same_bytes_both_ways(case: tuple[Retriever, Memory, Queries]) -> None:
    retriever = case[0]
    data = retriever.to_bytes()
    assert Policy.from_bytes(data).to_bytes() == data, "what Rust writes of it"
    again = Retriever.from_bytes(data)
    assert again.to_bytes() == data and again.config == Policy.from_bytes(data).settings


def test_the_golden_scores_loss_and_gradients_are_found() -> None:
    golden = fixture("retriever.safetensors")
    parameters = {name.removeprefix("parameter."): value for name, value in golden.items() if name.startswith("parameter.")}
    retriever = Retriever({"meta": None, "vision": 4}, chunk=4, layers=3, width=6, adapter="residual", adapter_width=5)
    own = retriever._tensors()
    assert {name: value.shape for name, value in own.items()} == {name: value.shape for name, value in parameters.items()}
    with torch.no_grad():
        for name, value in parameters.items():
            own[name].copy_(value)

    def pose(position: Any, angle: Any) -> np.ndarray:
        (yaw, pitch), matrix = angle.double().tolist(), np.eye(4)
        forward = np.array([np.cos(pitch) * np.cos(yaw), np.cos(pitch) * np.sin(yaw), np.sin(pitch)])
        right = np.array([np.sin(yaw), -np.cos(yaw), 0.0])
        matrix[:3, :3] = np.stack([right, np.cross(forward, right), forward], axis=1)
        matrix[:3, 3] = position.double()
        return matrix

    count = len(golden["memory.time"])
    memory = Memory({"meta": None, "vision": 4})
    memory.append(
        time=golden["memory.time"],
        pose=np.stack([pose(golden["memory.position"][row], golden["memory.angle"][row]) for row in range(count)]),
        convention=Convention.native(),
        keys={"vision": (golden["memory.key"], golden["memory.present"].numpy() == 1)},
    )
    asked = lambda name: [golden[f"query.{example}.{name}"] for example in range(2)]  # noqa: E731
    queries = Queries(
        time=[float(time) for time in asked("time")],
        pose=np.stack([pose(p, a) for p, a in zip(asked("position"), asked("angle"))]),
        goal=np.stack([pose(p, a) for p, a in zip(asked("goal"), asked("goal_angle"))]),
        convention=Convention.native(),
        keys={"vision": torch.stack(asked("embedding"))},
        stride=[float(stride) for stride in asked("stride")],
    )
    batch = RetrieverBatch.read(retriever.config, memory, queries)
    scores = retriever(batch)
    slots = torch.full((2, 16), -1)
    members = torch.zeros(2, 2, 16, dtype=torch.bool)
    utilities = torch.zeros(2, 16)
    for example in range(2):
        output = lambda name: golden[f"output.{example}.{name}"]  # noqa: B023, E731
        np.testing.assert_allclose(scores.raw[example, :, 0].detach(), output("meta"), atol=1e-5)
        there = golden["memory.present"] == 1
        np.testing.assert_allclose(scores.raw[example, there, 1].detach(), output("vision")[there], atol=1e-5)
        np.testing.assert_allclose(scores.weights[example].detach(), output("weights"), atol=1e-5)
        np.testing.assert_allclose(scores.fused[example].detach(), output("fused"), atol=2e-4)
        chosen = chunk_top(scores.fused[example : example + 1].detach(), batch.mask[:1], 4, 3)[0]
        assert chosen.tolist() == output("recalled").long().tolist()
        candidates = golden[f"candidate.{example}.positions"].long()
        local = set(golden[f"candidate.{example}.local"].long().tolist())
        slots[example, : len(candidates)] = candidates
        utilities[example, : len(candidates)] = golden[f"candidate.{example}.utilities"]
        members[0, example, :3] = True
        members[1, example, : len(candidates)] = torch.tensor([slot in local for slot in candidates.tolist()])
    loss = sum(distillation(gathered(scores.fused, slots), utilities, kind) for kind in members)
    np.testing.assert_allclose(loss.item(), float(golden["output.loss"]), rtol=1e-4)
    loss.backward()
    for name, tensor in own.items():
        np.testing.assert_allclose(tensor.grad, golden[f"gradient.{name}"], atol=2e-4, rtol=1e-3, err_msg=name)


def test_the_golden_keys_and_queries_of_query_vit_are_found() -> None:
    golden = fixture("query_vit.safetensors")
    network = QueryViT((2, 3), 12, depth=2, width=16, heads=2, key=8)
    network.load_state_dict({name: golden[name] for name in network.state_dict()})
    with torch.no_grad():
        np.testing.assert_allclose(network(golden["frames"]), golden["keys"], atol=1e-5)
        np.testing.assert_allclose(network(golden["frames"], golden["actions"]), golden["queries"], atol=1e-5)


def test_fresh_keys_of_query_vit_differ_between_frames() -> None:
    torch.manual_seed(0)
    keys = QueryViT((2, 2), 3, depth=2, width=16, heads=2, key=8)(torch.randn(5, 4, 3)).detach()
    cosines = keys @ keys.T - 2 * torch.eye(5)
    assert torch.allclose(keys.norm(dim=1), torch.ones(5), atol=1e-5) and float(cosines.max()) < 0.99


def test_what_one_side_does_not_know_is_refused() -> None:
    assert (_native.FEATURE_SET, _native.FEATURES) == ("relative-pose-time-1", 26), "teach far_memory.torch the new features"
    config = Retriever({"meta": None, "vision": 4}).config
    for change in [("kind", "smell"), ("activation", "relu"), ("features", "relative-pose-time-2"), ("extra", 1)]:
        other = copy.deepcopy(config)
        other["cues"][0]["scorer"][change[0]] = change[1]
        with pytest.raises(RetrieverError, match="no configuration"):
            _native.retriever_shapes(json.dumps(other))
    short = {name: tensor.detach().numpy() for name, tensor in Retriever({"meta": None})._tensors().items()}
    short.pop("cue.meta.layer.0.bias")
    with pytest.raises(RetrieverError, match="is missing"):
        _native.retriever_bytes(json.dumps(Retriever({"meta": None}).config), short)
    broken = Retriever({"meta": None})
    with torch.no_grad():
        next(broken.parameters()).fill_(torch.nan)
    with pytest.raises(RetrieverError, match="has NaN at 0"):
        broken.to_bytes()


def test_a_retriever_is_a_module_like_any_other(tmp_path: Path) -> None:
    retriever = randomized(Retriever({"meta": None, "vision": 8}, adapter="residual"), 3)
    other = Retriever({"meta": None, "vision": 8}, adapter="residual")
    other.load_state_dict(retriever.state_dict())
    assert other.to_bytes() == retriever.to_bytes() == copy.deepcopy(retriever).to_bytes()
    averaged = torch.optim.swa_utils.AveragedModel(retriever, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    averaged.update_parameters(retriever)
    assert averaged.module.to_bytes() == retriever.to_bytes()
    groups = retriever.parameter_groups(1e-3)
    assert [group["lr"] for group in groups] == [1e-3, 2e-2] and sum(len(group["params"]) for group in groups) == len(list(retriever.parameters()))
    retriever.save(tmp_path / "r.safetensors")
    assert Retriever.load(tmp_path / "r.safetensors").to_bytes() == Policy.load(tmp_path / "r.safetensors").to_bytes()
    with pytest.raises(RetrieverError, match="cannot read"):
        Retriever.load(tmp_path / "nothing")


def test_scores_are_captured_as_one_graph() -> None:
    walk = make_walk(30)
    retriever = randomized(Retriever({"meta": None, "vision": 8}), 1)
    batch = RetrieverBatch.read(retriever.config, walk.memory(), walk.queries(2))
    compiled = torch.compile(retriever, backend="eager", fullgraph=True)
    assert torch.equal(compiled(batch).fused, retriever(batch).fused)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_retriever_s_threads_do_not_follow_into_a_fork() -> None:
    walk = make_walk()
    policy = randomized(Retriever({"meta": None, "vision": 8}), 0).policy(threads=2)
    memory = Memory(cues={"meta": None, "vision": 8, "sound": 4})
    for _ in range(100):
        walk.append_to(memory)
    queries = walk.queries(1)
    here = memory.recall(policy, queries, 4).ids
    process = os.fork()
    if process == 0:
        os._exit(0 if (memory.recall(policy, queries, 4).ids == here).all() else 1)
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 0

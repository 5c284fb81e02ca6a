"""Bad input is an exception with its cause and a hint, and leaves the memory as it was."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

from far_memory import ClosedError, Convention, FarError, InputError, Memory, Policy, PolicyError, RetrieverError, StoreError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .conftest import Walk, make_walk

NATIVE = Convention.native()
POSE = np.eye(4)[None]


def append(**changes: object) -> Callable[[Memory], object]:
    given: dict[str, object] = {"time": 0.0, "pose": POSE, "convention": NATIVE, "keys": {"vision": np.ones((1, 8), np.float32)}}
    return lambda memory: memory.append(**(given | changes))  # type: ignore[arg-type]


def scaled(factor: float) -> np.ndarray:
    pose = POSE.copy()
    pose[:, :3, :3] *= factor
    return pose


APPENDS = {
    "times of another number": (append(time=[0.0, 1.0]), "1 poses for 2 times"),
    "a time that is not a number": (append(time=np.nan), "time 0 is NaN"),
    "a pose that is not finite": (append(pose=np.full((1, 4, 4), np.inf)), "number 0 is inf"),
    "a pose of another shape": (append(pose=np.eye(3)[None]), "shape"),
    "a pose with scale": (append(pose=scaled(2.0)), "product 4.0000"),
    "a transposed pose": (append(pose=np.array([np.eye(4) + np.eye(4, k=-3)])), "last row"),
    "a mirrored pose": (append(pose=np.diag([1.0, 1, -1, 1])[None]), "mirrors space"),
    "quaternions without length": (append(pose=(np.zeros((1, 3)), np.zeros((1, 4)))), "length 0.0000"),
    "positions without quaternions": (append(pose=(np.zeros((1, 3)), np.zeros((2, 4)))), "quaternions of shape"),
    "no convention": (append(convention=None), "convention is a NoneType"),
    "keys of another dimension": (append(keys={"vision": np.ones((1, 9), np.float32)}), "shape"),
    "keys of another number": (append(keys={"vision": np.ones((2, 8), np.float32)}), "shape"),
    "keys that are whole numbers": (append(keys={"vision": np.ones((1, 8), int)}), "type int64"),
    "keys that are words": (append(keys={"vision": np.array([["a"] * 8])}), "type"),
    "keys with NaN": (append(keys={"vision": np.full((1, 8), np.nan, np.float32)}), "has NaN at 0"),
    "keys too large": (append(keys={"vision": np.full((1, 8), 1e300)}), "has inf at 0"),
    "an unknown cue": (append(keys={"smell": np.ones((1, 8), np.float32)}), "no cue named"),
    "keys for time and pose": (append(keys={"meta": np.ones((1, 8), np.float32)}), "takes no key"),
    "a mask of another length": (append(keys={"vision": (np.ones((1, 8), np.float32), np.ones(3, bool))}), "mask"),
    "a mask of numbers": (append(keys={"vision": (np.ones((1, 8), np.float32), np.ones(1))}), "mask"),
    "payloads of another number": (append(payload=[b"", b""]), "2 payloads"),
    "a payload that is a number": (append(payload=[3]), "payload"),
    "a payload that is no text": (append(payload=["\ud800"]), "UTF-8"),
    "ragged lists": (append(time=[[0.0], [1.0, 2.0]]), "array"),
}


@pytest.mark.parametrize("name", APPENDS)
def test_a_refused_append_stores_nothing(walk: Walk, name: str) -> None:
    call, cause = APPENDS[name]
    memory = walk.memory()
    with pytest.raises(InputError) as caught:
        call(memory)
    assert cause in caught.value.cause and caught.value.hint, str(caught.value)
    assert len(memory) == 200
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_the_second_bad_row_stores_nothing_either(walk: Walk) -> None:
    memory = walk.memory()
    walk.vision[199, 3] = np.nan
    with pytest.raises(InputError, match="key 199"):
        walk.append_to(memory)
    assert len(memory) == 200


def test_bad_queries_rules_and_files_are_named(walk: Walk, tmp_path: object) -> None:
    memory = walk.memory()
    refused: list[tuple[type[FarError], str, Callable[[], object]]] = [
        (PolicyError, "no recall policy named", lambda: memory.recall("nearest", walk.queries(), 3)),
        (PolicyError, "unknown field", lambda: memory.recall({"id": "worldmem", "raduis": 1}, walk.queries(), 3)),
        (PolicyError, "horizontal_degrees", lambda: Policy("worldmem", view={"horizontal_degrees": 190})),
        (PolicyError, "view.points", lambda: Policy("worldmem", view={"points": 10**15})),
        (PolicyError, "plain data", lambda: Policy("worldmem", view=object())),
        (PolicyError, "policy is a int", lambda: memory.recall(3, walk.queries(), 3)),
        (PolicyError, "stands for a trained retriever", lambda: memory.recall("far", walk.queries(), 3)),
        (InputError, "k is -1", lambda: memory.recall("random", walk.queries(), -1)),
        (InputError, "too many at once", lambda: memory.recall("random", walk.queries(), 2**30)),
        (InputError, "queries are a list", lambda: memory.recall("random", [], 1)),  # type: ignore[arg-type]
        (InputError, "ends at 200", lambda: memory.recall("random", walk.queries(pool=[500]), 1)),
        (InputError, "runs backward", lambda: memory.recall("random", walk.queries(1, pool=[[9, 3]]), 1)),
        (InputError, "below 0", lambda: walk.queries(pool=[-1])),
        (InputError, "cap is 0", lambda: walk.queries(pool_cap=0)),
        (InputError, "2 goals for 3", lambda: memory.recall("random", walk.queries(goal=walk.poses[:2]), 1)),
        (InputError, "not finite", lambda: memory.recall("random", walk.queries(time=[np.nan] * 3), 1)),
        (InputError, "needs a query embedding", lambda: memory.recall("longlive-rag", walk.queries(keys=None), 1)),
        (InputError, "no memory 200", lambda: memory.payload(200)),
        (InputError, "no memory -1", lambda: memory.payload(-1)),
        (InputError, "no keys", lambda: memory.keys("meta")),
        (InputError, "no cue named", lambda: memory.keys("smell")),
        (InputError, "taken by an earlier|cues are", lambda: Memory(cues=[("a", 3)])),  # type: ignore[arg-type]
        (InputError, "dimension", lambda: Memory(cues={"a": 0})),
        (InputError, "name is empty", lambda: Memory(cues={"": 4})),
        (InputError, "chunk is 0", lambda: Memory(cues={"a": 4}, chunk=0)),
        (InputError, "the cues", lambda: Memory(cues={"a": 4}).restore(memory.snapshot())),
        (StoreError, "no memory store", lambda: Memory.open(f"{tmp_path}/nothing")),
        (RetrieverError, "cannot read", lambda: Policy.load(f"{tmp_path}/nothing")),
        (RetrieverError, "not a safetensors file", lambda: Policy.from_bytes(b"nonsense")),
        (StoreError, "no store to sync", memory.sync),
    ]
    for kind, cause, call in refused:
        with pytest.raises(kind, match=cause) as caught:
            call()
        assert caught.value.hint, cause


def test_a_closed_memory_says_so(walk: Walk, tmp_path: object) -> None:
    memory = Memory.open(f"{tmp_path}/store", cues={"meta": None, "vision": 8, "sound": 4})
    walk.append_to(memory)
    memory.close()
    memory.close()
    for call in [lambda: len(memory), memory.snapshot, memory.sync, memory.fork, lambda: walk.append_to(memory)]:
        with pytest.raises(ClosedError, match="closed"):
            call()


# Values that a program may hand over by mistake, among some that fit.
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.sampled_from(["meta", "vision", "sound", "random", "temporal", "far", "worldmem", "oracle", NATIVE, POSE, 1, 3]),
    st.lists(st.floats(), max_size=4),
    st.builds(
        lambda shape, kind, fill: np.full(shape, fill).astype(kind),
        st.lists(st.integers(0, 9), max_size=4).filter(lambda shape: np.prod(shape) < 2000),
        st.sampled_from(["f2", "f4", "f8", "i4", "u8", "?", "c8", "O", "U2"]),
        st.sampled_from([0, 1]),
    ),
    st.dictionaries(st.sampled_from(["id", "meta", "vision", "view", "k", "chunk_size"]), st.integers(-2, 9), max_size=3),
    st.tuples(st.just(np.zeros((1, 3))), st.just(np.array([[1.0, 0, 0, 0]]))),
)
CALLS = st.sampled_from(["append", "recall", "queries", "keys", "present", "payload", "restore", "memory", "policy", "convention", "bytes"])


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_ten_thousand_random_calls_end_in_answers_or_errors(data: st.DataObject) -> None:
    """500 times 20 calls with anything: each returns or raises an error of ours, and the memory still works."""
    walk = make_walk(20)
    memory = walk.memory()
    queries = walk.queries(1)
    odd = lambda: data.draw(ODD)  # noqa: E731
    for _ in range(20):
        call = data.draw(CALLS)
        length = len(memory)
        try:
            match call:
                case "append":
                    fit = {"time": 0.0, "pose": POSE, "convention": NATIVE, "keys": None, "payload": None}
                    name = data.draw(st.sampled_from(list(fit)))
                    value = {"vision": odd()} if name == "keys" and data.draw(st.booleans()) else odd()
                    memory.append(**(fit | {name: value}))  # type: ignore[arg-type]
                    length = len(memory)
                case "recall":
                    memory.recall(odd(), queries, data.draw(st.integers(-2, 40)) if data.draw(st.booleans()) else odd())
                case "queries":
                    name = data.draw(st.sampled_from(["time", "pose", "goal", "keys", "stride", "seed", "pool", "pool_cap"]))
                    memory.recall("random", walk.queries(1, **{name: odd()}), 3)
                case "keys" | "present":
                    getattr(memory.snapshot(), call)(odd())
                case "payload":
                    memory.payload(odd())
                case "restore":
                    memory.restore(odd() if data.draw(st.booleans()) else memory.snapshot())
                case "memory":
                    Memory(cues=odd(), chunk=odd())
                case "policy":
                    Policy(data.draw(st.sampled_from(["worldmem", "random", "spmem", "x"])), **{data.draw(st.sampled_from(["view", "pool_cap", "chunk_size"])): odd()})
                case "convention":
                    Convention(axes=odd(), up=odd(), handedness=odd(), transform=odd())
                case "bytes":
                    Policy.from_bytes(odd(), threads=odd())
        except (FarError, TypeError, OverflowError):
            pass  # TypeError: what is not even of the right kind for the signature
        assert len(memory) == length
    assert (memory.recall("random", queries, 3).ids >= 0).all()

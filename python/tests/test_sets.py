"""Recall of sets in torch: choices and scores are Rust's, credit is what a memory adds, and gradients are right."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed")

from far_memory import Convention, InputError, Memory, Policy, Queries  # noqa: E402
from far_memory.torch import Draw, FutureAware, Retriever, RetrieverBatch  # noqa: E402
from far_memory.torch.candidates import CandidateDraw, Candidates, Ranked  # noqa: E402
from far_memory.torch.set_term import fill  # noqa: E402

from .conftest import Walk, make_walk, rotations  # noqa: E402


def scattered(seed: int, count: int, share: float = 1.0) -> tuple[Memory, Queries]:
    """Memories at random places, some without a key, and two queries."""
    random = np.random.default_rng(seed)
    poses = np.tile(np.eye(4), (count + 4, 1, 1))
    poses[:, :3, :3] = rotations(random, count + 4)
    poses[:, :3, 3] = 2 * random.normal(size=(count + 4, 3))
    memory = Memory({"meta": None, "vision": 6})
    keys = random.normal(size=(count, 6)).astype(np.float32), random.random(count) < share
    memory.append(time=np.sort(4 * random.random(count)), pose=poses[:count], convention=Convention.native(), keys={"vision": keys})
    asked = random.normal(size=(2, 6)).astype(np.float32)
    return memory, Queries(
        time=[5.0, 6.0], pose=poses[-4:-2], goal=poses[-2:], convention=Convention.native(), keys={"vision": asked}, stride=1.0
    )


def randomized(seed: int, selection: str, cues: dict[str, int | None] | None = None) -> Retriever:
    torch.manual_seed(seed)
    retriever = Retriever(cues or {"meta": None, "vision": 6}, chunk=3, width=8, length_scale=2.5, time_scale=1.5, selection=selection)
    with torch.no_grad():
        for parameter in retriever.parameters():
            parameter.copy_(0.7 * torch.randn(parameter.shape))
    return retriever


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**20),
    count=st.integers(0, 40),
    k=st.integers(1, 6),
    selection=st.sampled_from(["learned", "abstaining"]),
    share=st.sampled_from([0.0, 0.6, 1.0]),
    cues=st.sampled_from([{"meta": None, "vision": 6}, {"meta": None}, {"vision": 6}]),
)
def test_sets_are_those_of_rust(seed: int, count: int, k: int, selection: str, share: float, cues: dict[str, int | None]) -> None:
    memory, queries = scattered(seed, count, share)
    retriever = randomized(seed, selection, cues)
    recall = memory.recall(retriever.policy(), queries, k)
    batch = RetrieverBatch.read(retriever.config, memory, queries)
    with torch.no_grad():
        scores = retriever(batch)
    assert scores.set is not None
    for row in range(2):
        if not count:
            assert not recall.mask[row].any()
            continue
        features = lambda slot: batch.overlaps(retriever.config, row, range(count), [slot])[:, 0]  # noqa: B023, E731
        worths = None if scores.set.worth is None else scores.set.worth[row].numpy()
        slots, values = fill(scores.fused[row].numpy(), scores.set, k, features, worths)
        spread = [float(scores.raw[row, batch.present[row, :, cue], cue].std(correction=0)) if batch.present[row, :, cue].any() else 1.0 for cue in range(len(cues))]
        loose = 2e-5 * (1 + sum(1 / (deviation + 1e-4) for deviation in spread))
        found = recall.ids[row][recall.mask[row]]
        margins = np.diff(np.sort(scores.fused[row].numpy()))
        doubtful = worths is not None and np.abs(worths).min() < 1e-3
        if doubtful or loose > 1e-2 or (len(margins) and margins.min() < 4 * loose):
            continue  # too close to call by rounding
        assert found.tolist() == slots, "the same memories in the same order"
        np.testing.assert_allclose(recall.scores[row, : len(found)], values, atol=loose)


def test_files_of_sets_are_the_same_bytes_both_ways_and_begin_as_rust_begins() -> None:
    for selection in ("learned", "abstaining"):
        retriever = Retriever({"meta": None, "vision": 6}, selection=selection)
        data = retriever.to_bytes()
        assert Policy.from_bytes(data).to_bytes() == data == Retriever.from_bytes(data).to_bytes()
        assert retriever.config["set"] == {"length_scale": 4.0, "time_scale": 1.0, "key": "vision", "abstains": selection == "abstaining"}
        assert retriever.set is not None and retriever.set.strength.tolist() == [0.0]
        assert np.allclose(retriever.set.overlap[:3].detach().exp(), [16, 16, 4], rtol=1e-5)
        assert (retriever.set.worth is not None) == (selection == "abstaining")
    groups = retriever.parameter_groups(1e-3)
    assert sum(len(group["params"]) for group in groups) == len(list(retriever.parameters()))
    with pytest.raises(InputError, match="the selection is 'greedy'"):
        Retriever({"meta": None}, selection="greedy")
    with pytest.raises(InputError, match="the credit is 'double'"):
        FutureAware(Retriever({"meta": None}), k=1, credit="double")


def plain_loss(retriever: Retriever, batch: RetrieverBatch, drawn: Candidates, utilities: np.ndarray, foreign: list[bool]) -> torch.Tensor:
    """The loss in plain loops: for each example and pool, scores one by one, then KL(q ‖ r); then what each is worth alone."""
    scores = retriever(batch)
    assert scores.set is not None
    total = torch.zeros(())
    for members in drawn.members:
        pools = []
        for row in range(len(batch.ids)):
            taken = [slot for slot in drawn.taken[row].tolist() if slot >= 0]
            own = []
            for place in [place for place, member in enumerate(members[row].tolist()) if member and not foreign[row]]:
                slot = int(drawn.slots[row, place])
                score = scores.fused[row, slot]
                if taken:
                    apart = torch.from_numpy(batch.overlaps(retriever.config, row, [slot], taken)[0])
                    score = score - scores.set.strength * max(torch.exp(-(pair * scores.set.weights).sum()) for pair in apart)
                own.append((score, utilities[row, place]))
            if len(own) > 1:
                prior = torch.stack([score for score, _ in own]).log_softmax(0)
                posterior = torch.stack([score.detach() + float(utility) for score, utility in own]).log_softmax(0)
                pools.append((posterior.exp() * (posterior - prior)).sum())
        total = total + (torch.stack(pools).mean() if pools else 0.0)
    if scores.set.worth is None:
        return total
    kinds: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
    for row in range(len(batch.ids)):
        for place, slot in enumerate(drawn.slots[row].tolist()):
            if drawn.alone[row, place]:
                logits = torch.stack([scores.set.worth[row, slot], torch.zeros(())])
                informed = logits.detach() + torch.tensor([(utilities[row, place] - utilities[row, -1] + (-2.0 if foreign[row] else 2.0)) / 4.0, 0.0], dtype=torch.float32)
                prior, posterior = logits.log_softmax(0), informed.log_softmax(0)
                kinds[foreign[row]].append((posterior.exp() * (posterior - prior)).sum())
    means = [torch.stack(kind).mean() for kind in kinds if kind]
    return total + (torch.stack(means).mean() if means else 0.0)


@pytest.mark.parametrize("selection", ["learned", "abstaining"])
@pytest.mark.parametrize("foreign", [[False, False], [False, True]])
def test_the_loss_and_all_gradients_are_those_of_plain_loops(selection: str, foreign: list[bool]) -> None:
    memory, queries = scattered(3, 14, 0.8)
    retriever = randomized(8, selection)
    far = FutureAware(retriever, k=3, samples=2, extra=2, nats=3.0, temperature=2.0, seed=5)
    assert far.credit == "marginal"
    for step in range(8):
        far.recall(memory, queries, foreign=foreign)
        batch, ranked = far._batch, far._ranked
        assert batch is not None
        drawn = Candidates.draw(retriever, batch, ranked, CandidateDraw(3, 2, True, 5, far.step + 1), [0, 1])

        def utility(memories: torch.Tensor, draw: Draw) -> torch.Tensor:
            """Each memory of a context lowers the loss, less so behind others; noise is shared."""
            worth = torch.where(memories >= 0, 1 / (2.0 + memories % 5), 0.0)
            return -worth.cumsum(1)[:, -1] ** 0.5 + 0.1 * draw.normal(1)[:, 0]

        retriever.zero_grad()
        loss = far.loss(utility)
        loss.backward()
        gradients = {name: parameter.grad.clone() for name, parameter in retriever.named_parameters()}
        draws = [Draw(5, step + 1, sample, 2, [0, 1]) for sample in range(2)]
        width = drawn.slots.shape[1] + drawn.empty
        utilities = np.zeros((2, width))
        for place, draw in itertools.product(range(width), draws):
            utilities[:, place] -= utility(drawn.contexts(batch, place), draw).numpy() * 3.0 / (2.0 * 2)
        retriever.zero_grad()
        expected = plain_loss(retriever, batch, drawn, utilities, foreign)
        expected.backward()
        assert torch.isclose(loss, expected, atol=1e-5)
        for name, parameter in retriever.named_parameters():
            wanted = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            assert torch.allclose(gradients[name], wanted, atol=1e-5), name


def test_candidates_compete_for_one_slot_given_those_before_it() -> None:
    memory, queries = scattered(1, 20)
    retriever = randomized(2, "abstaining")
    batch = RetrieverBatch.read(retriever.config, memory, queries)
    # The first passes over memory 4; the second recalls nothing.
    ranked = [Ranked([9, 4, 17, 1, 2], [9, 17]), Ranked([3, 8, 0, 5, 6], [])]
    slots_seen = set()
    for step in range(60):
        drawn = Candidates.draw(retriever, batch, ranked, CandidateDraw(3, 2, True, 0, step), [0, 1])
        for row, one in enumerate(ranked):
            taken = [slot for slot in drawn.taken[row].tolist() if slot >= 0]
            candidates = [slot for slot in drawn.slots[row].tolist() if slot >= 0]
            assert taken == one.recalled[: len(taken)] and not set(taken) & set(candidates) and len(set(candidates)) == len(candidates)
            assert candidates[:3] == [slot for slot in one.slots if slot not in taken][:3]
            members = drawn.members[0][row].tolist()
            assert sum(members) == min(3, 5 - len(taken)) + 2, "those that compete and two extras"
            assert drawn.alone[row].tolist() == [place < 3 and not taken for place in range(drawn.slots.shape[1])]
            slots_seen.add((row, len(taken)))
            contexts = drawn.contexts(batch, 0)[row].tolist()
            assert contexts[: len(taken) + 1] == [*taken, candidates[0]] and set(contexts[len(taken) + 1 :]) <= {-1}
            alone = drawn.contexts(batch, drawn.slots.shape[1])[row].tolist()
            assert [id for id in alone if id >= 0] == taken, "the empty memory adds nothing"
    # Recall ends before slot 3 of the first and slot 1 of the second: that slot competes too, none behind it.
    assert slots_seen == {(0, 0), (0, 1), (0, 2), (1, 0)}


def test_a_set_learns_not_to_repeat_itself(walk: Walk) -> None:
    """Two halves of a view, each shown by many memories: the second memory should show the other half."""
    retriever = Retriever({"meta": None, "vision": 8}, chunk=1, width=16, selection="learned")
    memory = walk.memory()
    half = torch.from_numpy(walk.poses[:, 0, 3] > np.median(walk.poses[:, 0, 3]))
    far = FutureAware(retriever, k=2, samples=1, nats=6.0, extra=6)
    optimizer = torch.optim.Adam(retriever.parameter_groups(1e-2, gate_rate=5))
    both = []
    for step in range(80):
        rows = np.random.default_rng(step).integers(0, len(half), 8)
        recalled = far.recall(memory, walk.queries(8, goal=walk.poses[rows]))
        shown = half[recalled.ids.clamp(min=0)]
        both.append(float((shown[:, 0] != shown[:, 1]).float().mean()))

        def utility(memories: torch.Tensor, draw: Draw) -> torch.Tensor:
            there, seen = memories >= 0, half[memories.clamp(min=0)]
            return -((there & seen).any(1).float() + (there & ~seen).any(1).float())

        optimizer.zero_grad()
        far.loss(utility).backward()
        optimizer.step()
    assert np.mean(both[-15:]) > np.mean(both[:10]) + 0.15 and np.mean(both[-15:]) > 0.6, both


def test_foreign_memories_teach_to_be_silent_and_no_score(walk: Walk) -> None:
    """Half of the examples have memories that only do harm, in another part of the world: those stay unrecalled."""
    retriever = Retriever({"meta": None, "vision": 8}, chunk=1, width=16, selection="abstaining")
    memory, queries = walk.memory(), walk.queries(8)
    far_away = walk.poses.copy()
    far_away[:, :3, 3] += 40.0
    elsewhere = Memory({"meta": None, "vision": 8, "sound": 4})
    elsewhere.append(time=walk.times, pose=far_away, convention=walk.convention, keys={"vision": walk.vision})
    far = FutureAware(retriever, k=2, samples=1, nats=6.0)
    optimizer = torch.optim.Adam(retriever.parameter_groups(1e-2, gate_rate=5))
    foreign = [row % 2 == 1 for row in range(8)]
    memories = [elsewhere if one else memory for one in foreign]
    assert all((far.recall(memories, queries, foreign=foreign).ids >= 0).all(1)), "at first all slots are filled"
    for _ in range(60):
        far.recall(memories, queries, foreign=foreign)
        sign = torch.tensor([1.0 if one else -1.0 for one in foreign])
        optimizer.zero_grad()
        far.loss(lambda memories, draw: sign * (memories >= 0).any(1)).backward()  # noqa: B023
        optimizer.step()
    filled = (far.recall(memories, queries, foreign=foreign).ids >= 0).any(1).tolist()
    assert filled == [not one for one in foreign]
    with pytest.raises(InputError, match="foreign is said of 1 examples"):
        far.recall(memory, queries, foreign=[True])


def test_an_empty_pool_of_sets_is_a_zero_loss_that_touches_every_parameter() -> None:
    retriever = randomized(0, "abstaining", {"meta": None, "vision": 8})
    far = FutureAware(retriever, k=3)
    recalled = far.recall(Memory({"meta": None, "vision": 8, "sound": 4}), make_walk().queries(2))
    assert recalled.ids.tolist() == [[-1] * 3] * 2
    loss = far.loss(lambda memories, draw: torch.zeros(2))
    loss.backward()
    assert loss == 0
    for name, parameter in retriever.named_parameters():
        assert parameter.grad is not None and (parameter.grad == 0).all(), name


def test_what_is_trained_here_recalls_the_same_in_rust(walk: Walk) -> None:
    retriever = randomized(4, "abstaining", {"meta": None, "vision": 8})
    far = FutureAware(retriever, k=4)
    queries = walk.queries(6)
    recalled = far.recall(walk.memory(), queries)
    assert (walk.memory().recall(retriever.policy(), queries, 4).ids == recalled.ids.numpy()).all()

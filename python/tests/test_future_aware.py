"""Learned recall: what is credited, what is learned, and that every process does the same."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from far_memory import InputError, Memory  # noqa: E402
from far_memory.torch import Draw, FutureAware, Retriever  # noqa: E402
from far_memory.torch.future_aware import chunk_top, distillation  # noqa: E402

from .conftest import Walk, make_walk  # noqa: E402


def fresh(**changes: object) -> Retriever:
    torch.manual_seed(0)
    return Retriever({"meta": None, "vision": 8}, **({"chunk": 4, "width": 16} | changes))  # type: ignore[arg-type]


def test_the_gradient_is_the_prior_minus_the_posterior() -> None:
    scores = torch.tensor([[0.5, -0.2, 0.1, 7.0]], requires_grad=True)
    utilities = torch.tensor([[0.0, 2.0, 0.0, 9.0]])
    members = torch.tensor([[True, True, True, False]])
    distillation(scores, utilities, members).backward()
    prior, posterior = scores[0, :3].softmax(0), (scores + utilities)[0, :3].softmax(0)
    assert torch.allclose(scores.grad[0, :3], (prior - posterior).detach(), atol=1e-6) and scores.grad[0, 3] == 0


def test_a_pool_without_a_choice_teaches_nothing() -> None:
    scores = torch.randn(2, 3, requires_grad=True)
    members = torch.tensor([[True, False, False], [False, False, False]])
    loss = distillation(scores, torch.randn(2, 3), members)
    loss.backward()
    assert loss == 0 and (scores.grad == 0).all()


def test_large_utilities_lose_no_digits() -> None:
    scores, members = torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool)
    utilities = torch.tensor([[-4096.0, -4095.0]])
    posterior = torch.tensor([0.0, 1.0]).softmax(0)
    expected = (posterior * (posterior.log() + math.log(2))).sum()
    assert torch.isclose(distillation(scores, utilities, members), expected, atol=1e-6)


def test_of_equal_scores_the_later_wins_and_chunks_give_one_each() -> None:
    scores, mask = torch.tensor([[1.0, 3.0, 3.0, 3.0, 0.0, 0.0, 9.0]]), torch.ones(1, 7, dtype=torch.bool)
    mask[0, 6] = False
    assert chunk_top(scores, mask, 2, 9).tolist() == [[3, 1, 5, -1, -1, -1, -1, -1, -1]]


def test_draws_are_the_same_for_every_memory_and_any_number_of_processes() -> None:
    whole = Draw(7, 3, 1, 4, [0, 1, 2, 3])
    assert torch.equal(whole.normal(2, 3), whole.normal(2, 3))
    part = Draw(7, 3, 1, 4, [2, 3])
    assert torch.equal(part.normal(5), whole.normal(5)[2:]) and torch.equal(part.level(), whole.level()[2:])
    assert ((whole.level() >= 0.25) & (whole.level() < 0.5)).all()
    assert not torch.equal(Draw(7, 4, 1, 4, [0]).normal(5), Draw(7, 3, 1, 4, [0]).normal(5))


def test_recall_learns_what_helps(walk: Walk) -> None:
    """The model predicts well with memories from near the goal: the scorer of time and pose finds that out."""
    memory, retriever = walk.memory(), fresh(chunk=1)
    far = FutureAware(retriever, k=4, samples=2, nats=10.0, extra=8)
    optimizer = torch.optim.Adam(retriever.parameter_groups(1e-2))
    places = torch.from_numpy(walk.poses[:, :3, 3]).float()
    calls: list[int] = []
    found = []
    for step in range(60):
        rows = np.random.default_rng(step).integers(0, 200, 8)
        queries = walk.queries(8, goal=walk.poses[rows])
        goal = places[rows]
        recalled = far.recall(memory, queries)
        distance = lambda ids, goal=goal: (places[ids] - goal[:, None]).norm(dim=-1)  # noqa: E731

        def utility(memories: torch.Tensor, draw: Draw) -> torch.Tensor:
            calls.append(draw.sample)
            assert not torch.is_grad_enabled() and memories.shape == (8, 1)
            return distance(memories.clamp(min=0))[:, 0] + 0.01 * draw.normal(1)[:, 0]  # noqa: B023

        optimizer.zero_grad()
        far.loss(utility).backward()
        optimizer.step()
        found.append(float(distance(recalled.ids).mean()))
    assert len(calls) == 60 * 2 * (4 + 8 + 1)
    assert np.mean(found[-10:]) < 0.6 * np.mean(found[:3]), found
    assert (memory.recall(retriever.policy(), queries, 4).ids == far.recall(memory, queries).ids.numpy()).all()


def test_an_empty_memory_is_a_zero_loss_that_touches_every_parameter() -> None:
    walk, retriever = make_walk(), fresh(adapter="residual")
    far = FutureAware(retriever, k=3)
    recalled = far.recall(Memory({"meta": None, "vision": 8, "sound": 4}), walk.queries(2))
    assert recalled.ids.tolist() == [[-1] * 3] * 2 and not recalled.mask.any()
    loss = far.loss(lambda memories, draw: torch.zeros(2))
    loss.backward()
    assert loss == 0
    for name, parameter in retriever.named_parameters():
        assert parameter.grad is not None and (parameter.grad == 0).all(), name


def test_each_example_may_have_a_memory_of_its_own() -> None:
    walks = [make_walk(20, seed=1), make_walk(33, seed=2)]
    far = FutureAware(fresh(chunk=1), k=40)
    recalled = far.recall([walk.memory() for walk in walks], walks[0].queries(2))
    assert recalled.mask.sum(1).tolist() == [20, 33] and int(recalled.ids.max()) == 32


def test_the_retriever_learns_in_every_nth_step(walk: Walk) -> None:
    far = FutureAware(fresh(), k=2, samples=1, every=3)
    learned = []
    for _ in range(6):
        far.recall(walk.memory(), walk.queries(2))
        loss = far.loss(lambda memories, draw: memories[:, 0].float())
        learned.append(loss.requires_grad)
    assert learned == [True, False, False] * 2


def test_mistakes_are_named(walk: Walk) -> None:
    far = FutureAware(fresh(), k=2)
    with pytest.raises(InputError, match="nothing was recalled"):
        far.loss(lambda memories, draw: torch.zeros(2))
    far.recall(walk.memory(), walk.queries(2))
    with pytest.raises(InputError, match="shape \\(3,\\)"):
        far.loss(lambda memories, draw: torch.zeros(3))
    far.recall(walk.memory(), walk.queries(2))
    with pytest.raises(InputError, match="not finite"):
        far.loss(lambda memories, draw: torch.full((2,), torch.nan))
    with pytest.raises(InputError, match="2 memories for 3"):
        far.recall([walk.memory()] * 2, walk.queries(3))
    with pytest.raises(InputError, match="numbers, the retriever wants 9"):
        FutureAware(Retriever({"vision": 9}), k=2).recall(walk.memory(), walk.queries(1, keys=None))
    for changes in [{"k": 0}, {"samples": 0}, {"every": 0}, {"temperature": 0.0}]:
        with pytest.raises(InputError):
            FutureAware(fresh(), **({"k": 1} | changes))  # type: ignore[arg-type]

"""Learning what to recall: candidates, their utilities with the future known, and the loss.

With scores s of the candidates of a pool and utilities û, r = softmax(s) is what the retriever would recall and
q = softmax(s + û) what it should have recalled once the future is known. The loss is KL(q ‖ r), q held fixed, over the K
recalled (the global pool) plus the chunk of one of them (the local pool), each the mean over pools with a choice. Where slots
may stay empty, the choice between each candidate and none adds its own KL (``worth.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.distributed
from torch import Tensor, nn

from ..errors import InputError
from ..memory import Memory
from ..queries import Queries
from ..snapshot import Snapshot
from .batch import RetrieverBatch
from .candidates import CandidateDraw, Candidates, Ranked, gathered
from .draw import Draw
from .retriever import Retriever, Scores
from .set_term import fill
from .worth import worth_divergence

Utility = Callable[[Tensor, Draw], Tensor]


class Recalled(NamedTuple):
    """What was recalled for B examples, best first; shapes never depend on what was found."""

    ids: Tensor
    """[B, K]; −1 where there is no memory."""
    mask: Tensor
    """[B, K]."""
    scores: Scores
    """The scores of all memories that were searched, without gradients."""


class FutureAware:
    """Recall that learns from what its memories were worth.

    ``retriever`` is a ``Retriever``, perhaps wrapped by DDP or compiled. In each step of the user's loop ``recall`` chooses
    ``k`` memories for each example, and ``loss`` is added to the model's own. ``samples`` draws of noise are averaged;
    the retriever learns in every ``every``-th step. ``nats`` is what a unit of the utility's loss is worth (the number of
    elements, for a mean squared error) and ``temperature`` divides it. ``extra`` memories drawn at random are credited too.
    ``credit`` is "single", what a memory is worth alone, or "marginal", what it adds to those recalled before it in a slot
    that is drawn for each example; a retriever of sets has marginal credit unless it is told otherwise.
    """

    def __init__(
        self,
        retriever: nn.Module,
        k: int,
        samples: int = 4,
        every: int = 1,
        *,
        extra: int = 0,
        nats: float = 1.0,
        temperature: float = 1.0,
        seed: int = 0,
        credit: str | None = None,
    ) -> None:
        for name, value, least in [("k", k, 1), ("samples", samples, 1), ("every", every, 1), ("extra", extra, 0), ("seed", seed, 0)]:
            if not isinstance(value, int) or value < least:
                raise InputError(f"{name} is {value!r}", f"give a whole number of at least {least}")
        if not (nats > 0 and temperature > 0 and math.isfinite(nats / temperature)):
            raise InputError(f"nats are {nats} and the temperature is {temperature}", "give numbers above 0")
        self.retriever, self.k, self.samples, self.every = retriever, k, samples, every
        self.extra, self.nats, self.temperature, self.seed = extra, nats, temperature, seed
        if credit not in (None, "single", "marginal"):
            raise InputError(f"the credit is {credit!r}", "give 'single' or 'marginal'")
        self.credit = credit or ("marginal" if self.plain.recalls_sets else "single")
        self.step = 0
        self._batch: RetrieverBatch | None = None
        self._ranked: list[Ranked] = []
        self._foreign = torch.zeros(0, dtype=torch.bool)

    @property
    def plain(self) -> Retriever:
        """The retriever without what wraps it."""
        module = self.retriever
        while not isinstance(module, Retriever):
            inner = getattr(module, "module", None) or getattr(module, "_orig_mod", None)
            if not isinstance(inner, nn.Module):
                raise InputError(f"the retriever is a {type(module).__name__}", "give a far_memory.torch.Retriever")
            module = inner
        return module

    def recall(
        self,
        memories: Memory | Snapshot | Sequence[Memory | Snapshot],
        queries: Queries,
        *,
        foreign: Sequence[bool] | None = None,
    ) -> Recalled:
        """The best ``k`` memories for each query, at most one of a chunk; from one memory, or from one for each query.

        A retriever of sets fills slot by slot, and may leave some empty. To learn when, it has to meet memories of other places:
        give some examples such, and say so by ``foreign``. They teach what memories are worth, and no score.
        """
        plain = self.plain
        device = next((parameter.device for parameter in plain.parameters()), torch.device("cpu"))
        self._batch = RetrieverBatch.read(plain.config, memories, queries).to(device)
        with torch.no_grad():
            scores = plain(self._batch)
        # What competes for the last slot are the k memories behind those recalled before.
        self._ranked = self._rank(self._batch, scores, 2 * self.k - 1 if self.credit == "marginal" else self.k)
        places = [False] * len(queries) if foreign is None else [bool(one) for one in foreign]
        if len(places) != len(queries):
            raise InputError(f"foreign is said of {len(places)} examples", f"say it of each of the {len(queries)} queries")
        self._foreign = torch.tensor(places, dtype=torch.bool, device=device)
        chosen = [one.recalled for one in self._ranked]
        slots = torch.tensor([[*own, *[-1] * (self.k - len(own))] for own in chosen], device=device).view(-1, self.k)
        ids = gathered(self._batch.ids, slots)
        return Recalled(ids, ids >= 0, scores)

    def _rank(self, batch: RetrieverBatch, scores: Scores, count: int) -> list[Ranked]:
        plain = self.plain
        if scores.set is None:
            found = chunk_top(scores.fused, batch.mask, plain.chunk, count).tolist()
            filled = [[slot for slot in row if slot >= 0] for row in found]
            return [Ranked(row, row[: self.k]) for row in filled]
        ranked = []
        lengths, fused = batch.mask.sum(1).tolist(), scores.fused.float().cpu().numpy()
        for row, length in enumerate(lengths):
            features = lambda slot: batch.overlaps(plain.config, row, range(length), [slot])[:, 0]  # noqa: B023, E731
            slots, _ = fill(fused[row, :length], scores.set, count, features)
            recalled = slots[: self.k]
            if scores.set.worth is not None:
                worths = scores.set.worth[row, :length].float().cpu().numpy()
                recalled, _ = fill(fused[row, :length], scores.set, self.k, features, worths)
            ranked.append(Ranked(slots, recalled))
        return ranked

    def loss(self, utility: Utility) -> Tensor:
        """The retriever's loss for the examples of the last ``recall``, a scalar.

        ``utility(memories, draw)`` is called without gradients, for every candidate and draw: ``memories`` [B, n] are the only
        context of each example (−1 for none), ``draw`` is the noise. It returns the model's loss for each example, [B].
        With single credit n is 1; with marginal credit the candidate stands behind the memories recalled before it.
        Every process makes the same calls and, under DDP, takes the same retriever steps.
        """
        batch = self._batch
        if batch is None:
            raise InputError("nothing was recalled", "call recall(…) before loss(…)")
        self._batch = None
        self.step += 1
        if (self.step - 1) % self.every:
            return torch.zeros((), device=batch.ids.device)
        drawn = CandidateDraw(self.k, self.extra, self.credit == "marginal", self.seed, self.step)
        candidates = Candidates.draw(self.plain, batch, self._ranked, drawn, self._examples(len(batch.ids)))
        utilities = self._utilities(batch, candidates, utility)
        # Through what wraps the retriever, so that its gradients are shared.
        scores: Scores = self.retriever(batch)
        total = scores.fused.sum() * 0.0  # an empty pool still takes part in the step
        if scores.set is not None:
            total = total + 0.0 * sum(part.sum() for part in scores.set if part is not None)
        competing = candidates.scores(scores)
        width = competing.shape[1]
        for members in candidates.members:
            total = total + distillation(competing, utilities[:, :width], members & ~self._foreign[:, None])
        if candidates.empty and scores.set is not None and scores.set.worth is not None:
            worths = gathered(scores.set.worth, candidates.slots)
            divergences = worth_divergence(worths, utilities[:, :width] - utilities[:, width:], self._foreign[:, None])
            total = total + (divergences * self._shares(candidates.alone)).sum()
        return total

    def _shares(self, counted: Tensor) -> Tensor:
        """What each candidate counts for, [B, A]: foreign ones as much as all others together, 1 over all processes."""
        kinds = torch.stack([counted & ~self._foreign[:, None], counted & self._foreign[:, None]])
        numbers = kinds.sum((1, 2)).to(torch.float32)
        if _distributed():
            torch.distributed.all_reduce(numbers)
            numbers = numbers / torch.distributed.get_world_size()  # DDP takes the mean over processes
        shares = kinds / numbers.clamp(min=1e-12)[:, None, None]
        return shares.sum(0) / (numbers > 0).sum().clamp(min=1)

    def _examples(self, count: int) -> list[int]:
        """The number of each example among those of all processes."""
        rank = torch.distributed.get_rank() if _distributed() else 0
        return list(range(rank * count, (rank + 1) * count))

    @torch.no_grad()
    def _utilities(self, batch: RetrieverBatch, candidates: Candidates, utility: Utility) -> Tensor:
        """û in nats, [B, A], or [B, A + 1] with the empty memory."""
        counted = candidates.slots >= 0
        if candidates.empty:
            counted = torch.cat([counted, counted.any(1, keepdim=True)], 1)
        total = torch.zeros(counted.shape, device=batch.ids.device)
        for sample in range(self.samples):
            draw = Draw(self.seed, self.step, sample, self.samples, self._examples(len(total)))
            for place in range(total.shape[1]):
                losses = utility(candidates.contexts(batch, place), draw)
                if losses.shape != total.shape[:1]:
                    raise InputError(f"the utility returned losses of shape {tuple(losses.shape)}", f"return [{len(total)}], one for each example")
                total[:, place] -= losses.to(total)
        total = total * (self.nats / (self.temperature * self.samples))
        if not torch.isfinite(total[counted]).all():
            raise InputError("the utility returned a loss that is not finite", "look at the model's loss with these memories")
        return torch.where(counted, total, 0.0)


def _distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def chunk_top(scores: Tensor, mask: Tensor, chunk: int, k: int) -> Tensor:
    """Slots [B, k] of the best of each chunk, best first, −1 where there are no more. Of equals the later wins."""
    count, slots = scores.shape
    chunks = -(-slots // chunk)
    padded = scores.new_full((count, chunks * chunk), -torch.inf)
    padded[:, :slots] = torch.where(mask & ~scores.isnan(), scores, -torch.inf)
    # Turned around, a stable order puts the later of equals first.
    best, place = padded.view(count, chunks, chunk).flip(-1).sort(dim=-1, descending=True, stable=True)
    best, place = best[..., 0], chunk - 1 - place[..., 0]
    ranked, order = best.flip(-1).sort(dim=-1, descending=True, stable=True)
    order = chunks - 1 - order
    found = torch.where(ranked > -torch.inf, order * chunk + place.gather(1, order), -1)[:, :k]
    return nn.functional.pad(found, (0, k - found.shape[1]), value=-1)


def distillation(scores: Tensor, utilities: Tensor, members: Tensor) -> Tensor:
    """KL(q ‖ r) of pools [B, A], the mean over those with two candidates or more, of all processes together."""
    choice = members & (members.sum(1, keepdim=True) > 1)
    hidden = torch.where(choice, scores, -1e30)
    utilities = utilities - torch.where(choice, utilities, -torch.inf).amax(1, keepdim=True).clamp(min=-1e30)
    prior = hidden.log_softmax(-1)
    posterior = torch.where(choice, scores.detach() + utilities, -1e30).log_softmax(-1)
    divergence = torch.where(choice, posterior.exp() * (posterior - prior), 0.0).sum()
    pools = choice.any(1).sum().to(scores.dtype)
    if _distributed():
        torch.distributed.all_reduce(pools)
        pools = pools / torch.distributed.get_world_size()  # DDP takes the mean over processes
    return divergence / pools.clamp(min=1e-12)

"""Whether a memory is worth recalling: the log odds that the model predicts better with it than without any.

Scores are standardized within a pool, so they cannot tell. Worth is a small network over the memory's relation to the query,
the products of the query's embedding and the memory's key by each key cue, and its raw score by each (``far-memory/src/worth.rs``).
A memory of worth below 0 is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import _native

# As Rust: nats of utility that move the log odds by one, nats for a memory of the place, nats against a foreign one, and what
# all foreign ones of a step count for, of 1.
NATS = 4.0
PLACE = 2.0
FOREIGN = 16.0
FOREIGN_SHARE = 2 / 3


class Worth(nn.ModuleList):
    """The network, under the names of the file; at first every memory is worth 0, and recalled."""

    def __init__(self, dimensions: Sequence[int]) -> None:
        """For key cues with keys of so many numbers each."""
        hidden = nn.Linear(_native.FEATURES + sum(dimensions) + len(dimensions), _native.WORTH_WIDTH)
        output = nn.Linear(_native.WORTH_WIDTH, 1)
        nn.init.zeros_(output.weight)
        nn.init.zeros_(output.bias)
        super().__init__([hidden, output])

    def forward(self, relations: Tensor, cues: Sequence[tuple[Tensor, ...]], cosines: Tensor) -> Tensor:
        """Worth [B, N] from data that learns nothing.

        Relations [B, N, F], for each key cue keys [B, N, D] and query embeddings [B, D], and raw scores by key cues [B, N, M].
        """
        hidden, output = self
        products = [keys * (F.normalize(queries, dim=-1, eps=1e-12) * queries.shape[-1] ** 0.5)[:, None] for keys, queries in cues]
        inputs = torch.cat([relations, *products, cosines.detach()], -1)
        worths: Tensor = output(F.gelu(hidden(inputs), approximate="tanh"))
        return worths.squeeze(-1)


def worth_divergence(worths: Tensor, added: Tensor, foreign: Tensor) -> Tensor:
    """KL(q ‖ r) of each choice between a memory, with what it adds to none in nats, and the empty memory."""
    posterior = worths.detach() + (added + torch.where(foreign, -FOREIGN, PLACE)) / NATS
    filled, empty = torch.sigmoid(posterior), torch.sigmoid(-posterior)
    return filled * (F.logsigmoid(posterior) - F.logsigmoid(worths)) + empty * (F.logsigmoid(-posterior) - F.logsigmoid(-worths))

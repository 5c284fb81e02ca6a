"""Whether a memory is worth recalling: the log odds that the model predicts better with it than without any.

Scores are standardized within a pool, so they cannot tell. Worth is a small network over the memory's relation to the query
and its raw score by each key cue (``far-memory/src/worth.rs``). A memory of worth below 0 is passed over.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import _native

# As Rust: nats of utility that move the log odds by one, and nats for a memory of the place and against a foreign one.
NATS = 4.0
PLACE = 2.0


class Worth(nn.ModuleList):
    """The network, under the names of the file; at first every memory is worth 0, and recalled."""

    def __init__(self, key_cues: int) -> None:
        hidden = nn.Linear(_native.FEATURES + key_cues, _native.WORTH_WIDTH)
        output = nn.Linear(_native.WORTH_WIDTH, 1)
        nn.init.zeros_(output.weight)
        nn.init.zeros_(output.bias)
        super().__init__([hidden, output])

    def forward(self, relations: Tensor, cosines: Tensor) -> Tensor:
        """Relations [B, N, F] and raw scores by key cues [B, N, M] to worth [B, N]; both are data and learn nothing."""
        hidden, output = self
        inputs = torch.cat([relations, cosines.detach()], -1)
        worths: Tensor = output(F.gelu(hidden(inputs), approximate="tanh"))
        return worths.squeeze(-1)


def worth_divergence(worths: Tensor, added: Tensor, foreign: Tensor) -> Tensor:
    """KL(q ‖ r) of each choice between a memory, with what it adds to none in nats, and the empty memory."""
    posterior = worths.detach() + (added + torch.where(foreign, -PLACE, PLACE)) / NATS
    filled, empty = torch.sigmoid(posterior), torch.sigmoid(-posterior)
    return filled * (F.logsigmoid(posterior) - F.logsigmoid(worths)) + empty * (F.logsigmoid(-posterior) - F.logsigmoid(-worths))

"""The retriever as a module: what each cue says, how far each is trusted, and the file that Rust recalls by."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import _native
from ..errors import InputError, RetrieverError
from ..policy import Policy
from .batch import RetrieverBatch
from .set_term import SetScores, SetTerm

VARIANCE_FLOOR = 1e-12


class Scores(NamedTuple):
    """The scores of a batch: B examples, N slots, M cues."""

    fused: Tensor
    """s = Σ λ·s̃, [B, N]; 0 where there is no memory."""
    weights: Tensor
    """λ, the gate, [B, M]; 0 for cues that have nothing to say."""
    raw: Tensor
    """What each cue says, [B, N, M]; 0 where it has no score."""
    standardized: Tensor
    """The same in deviations from its mean over the pool, [B, N, M]."""
    set: SetScores | None = None
    """What makes them scores that know the set, where the retriever recalls sets."""


class MetadataScorer(nn.Module):
    """tanh(MLP(features of time and pose))."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        sizes = [_native.FEATURES, *[width] * (layers - 1), 1]
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in zip(sizes, sizes[1:]))

    def forward(self, features: Tensor) -> Tensor:
        """Features [B, N, F] to raw scores [B, N]."""
        *hidden, output = self.layers
        for layer in hidden:
            features = F.gelu(layer(features), approximate="tanh")
        return torch.tanh(output(features)).squeeze(-1)


class KeyScorer(nn.Module):
    """The cosine of a stored key and the adapted query embedding."""

    def __init__(self, dimension: int, adapter: str, width: int) -> None:
        super().__init__()
        self.residual = adapter == "residual"
        self.adapter = nn.ModuleList()
        if adapter != "identity":
            self.adapter.extend([nn.Linear(dimension, width), nn.Linear(width, dimension)])
        if self.residual:  # begins as the identity
            nn.init.zeros_(self.adapter[1].weight)  # type: ignore[arg-type]
            nn.init.zeros_(self.adapter[1].bias)  # type: ignore[arg-type]

    def forward(self, keys: Tensor, queries: Tensor) -> Tensor:
        """Keys [B, N, D] and query embeddings [B, D] to raw scores [B, N]."""
        adapted = queries
        if len(self.adapter):
            adapted = self.adapter[1](F.gelu(self.adapter[0](queries), approximate="tanh"))
        if self.residual:
            adapted = adapted + queries
        return torch.einsum("bnd,bd->bn", keys, F.normalize(adapted, dim=-1, eps=1e-12))


class Retriever(nn.Module):
    """Scores memories by several cues and weighs the cues by a gate.

    ``cues`` maps names to None (time and pose) or to the dimension of the keys. ``adapter`` is "identity",
    "residual" (begins as the identity) or "network". ``selection`` says how slots are filled: "chunks" recalls the best of each
    of ``chunk`` consecutive memories, "learned" slot by slot with a learned term for what a memory repeats (by pose, time and the
    keys of the first key cue), "abstaining" lets slots stay empty too. What ``save`` writes is the file that
    ``far_memory.Policy.load`` and Rust recall by.

    >>> retriever = Retriever(cues={"meta": None, "vision": 256}, chunk=10)
    >>> sum(parameter.numel() for parameter in retriever.parameters())
    3593
    """

    def __init__(
        self,
        cues: Mapping[str, int | None],
        *,
        chunk: int = 10,
        layers: int = 2,
        width: int = 128,
        length_scale: float = 4.0,
        time_scale: float = 1.0,
        adapter: str = "identity",
        adapter_width: int = 64,
        stride_products: bool = True,
        stride_scale: float = 6.4,
        selection: str = "chunks",
    ) -> None:
        if selection not in ("chunks", "learned", "abstaining"):
            raise InputError(f"the selection is {selection!r}", "give 'chunks', 'learned' or 'abstaining'")
        metadata = {
            "kind": "metadata",
            "features": _native.FEATURE_SET,
            "activation": "gelu-tanh",
            "layers": layers,
            "width": width,
            "length_scale": length_scale,
            "time_scale": time_scale,
        }
        key = {"kind": "cosine", "adapter": adapter, "adapter_width": 0 if adapter == "identity" else adapter_width}
        scorers = [(name, metadata if size is None else key | {"dimension": size}) for name, size in cues.items()]
        config = {
            "cues": [{"name": name, "scorer": scorer} for name, scorer in scorers],
            "chunk_size": chunk,
            "gate": {"stride_products": stride_products, "stride_scale": stride_scale},
        }
        if selection != "chunks":
            compared = [name for name, size in cues.items() if size is not None][:1]
            scales = {"length_scale": length_scale, "time_scale": time_scale}
            config["set"] = scales | ({"key": compared[0]} if compared else {}) | {"abstains": selection == "abstaining"}
        self._build(config)

    def _build(self, config: dict[str, Any]) -> None:
        super().__init__()
        try:
            shapes = _native.retriever_shapes(json.dumps(config))
        except TypeError as error:
            raise InputError(f"this configuration is not plain data: {error}", "give numbers and strings") from error
        self.config: dict[str, Any] = config
        self.scorers = nn.ModuleList(_scorer(cue["scorer"]) for cue in config["cues"])
        features = dict(shapes).get("gate.weight", [0])[0]
        self.gate = nn.Parameter(torch.zeros(features)) if len(config["cues"]) > 1 else None
        keyed = [place for place, cue in enumerate(config["cues"]) if cue["scorer"]["kind"] == "cosine"]
        self.key_cues: list[int] = keyed
        self.set = SetTerm(len(keyed), config["set"]["abstains"]) if config.get("set") else None
        found = {name: list(tensor.shape) for name, tensor in self._tensors().items()}
        if found != {name: list(shape) for name, shape in shapes}:
            raise RetrieverError(f"this module has the tensors {found}, the file {shapes}", "use far and far_memory of one version")

    @property
    def recalls_sets(self) -> bool:
        """Whether memories are recalled slot by slot, each given those before it."""
        return self.set is not None

    @property
    def chunk(self) -> int:
        """Consecutive memories of which at most one is recalled."""
        return int(self.config["chunk_size"])

    def forward(self, batch: RetrieverBatch) -> Scores:
        """The scores of a batch that was read with this retriever's configuration."""
        present = batch.present
        raw = torch.stack([scorer(*inputs) for scorer, inputs in zip(self.scorers, batch.inputs)], dim=-1)
        raw = torch.where(present, raw, 0.0)
        count = present.sum(1).clamp(min=1)
        mean = raw.sum(1) / count
        offset = torch.where(present, raw - mean[:, None], 0.0)
        available = present.any(1)
        deviation = (offset.square().sum(1) / count + VARIANCE_FLOOR).sqrt()
        standardized = offset / (deviation + _native.DEVIATION_FLOOR)[:, None]
        largest = torch.where(present, raw, -torch.inf).amax(1)
        largest = torch.where(available, largest, 0.0)
        statistics = torch.stack([largest, mean, deviation], dim=-1)
        weights = self._weights(statistics, available, batch.strides)
        term = None if self.set is None else self.set(batch.relations, raw[..., self.key_cues])
        return Scores((weights[:, None] * standardized).sum(-1), weights, raw, standardized, term)

    def _weights(self, statistics: Tensor, available: Tensor, strides: Tensor) -> Tensor:
        """λ [B, M] from max, mean and deviation [B, M, 3] of each cue's raw scores."""
        if self.gate is None:
            return available.to(statistics.dtype)
        cues = available.shape[1]
        stride = (strides / self.config["gate"]["stride_scale"])[:, None]
        logits = statistics @ self.gate[:3] + self.gate[3 : 3 + cues] + stride * self.gate[3 + cues]
        if self.config["gate"]["stride_products"]:
            logits = logits + stride * self.gate[4 + cues :]
        # Where no cue is available all would be −∞ and the softmax not a number.
        weights = logits.masked_fill(~available, -1e30).softmax(-1)
        return torch.where(available, weights, 0.0)

    def parameter_groups(self, rate: float, gate_rate: float = 20.0) -> list[dict[str, Any]]:
        """Groups for an optimizer: at the scorers' own rate gate and set term would hardly move, so they learn faster."""
        gate = [] if self.gate is None else [self.gate]
        gate += [] if self.set is None else list(self.set.parameters())
        groups = [{"params": list(self.scorers.parameters()), "lr": rate}, {"params": gate, "lr": gate_rate * rate}]
        return [group for group in groups if group["params"]]

    def _tensors(self) -> dict[str, Tensor]:
        """The parameters under the names of the file."""
        tensors: dict[str, Tensor] = {}
        for cue, scorer in zip(self.config["cues"], self.scorers):
            kind = "layer" if isinstance(scorer, MetadataScorer) else "adapter"
            layers = scorer.layers if isinstance(scorer, MetadataScorer) else scorer.adapter
            for place, layer in enumerate(layers):  # type: ignore[arg-type]
                for part in ("weight", "bias"):
                    tensors[f"cue.{cue['name']}.{kind}.{place}.{part}"] = getattr(layer, part)
        tensors |= {} if self.gate is None else {"gate.weight": self.gate}
        learned = [] if self.set is None else self.set.named_parameters()
        return tensors | {f"set.{name}": values for name, values in learned}

    def to_bytes(self) -> bytes:
        """The bytes of the retriever's file."""
        tensors = {name: tensor.detach().float().cpu().numpy() for name, tensor in self._tensors().items()}
        return _native.retriever_bytes(json.dumps(self.config), {n: np.ascontiguousarray(t) for n, t in tensors.items()})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the retriever's file, replacing an older one only when the new one is complete."""
        partial = Path(f"{os.fspath(path)}.partial")
        partial.write_bytes(self.to_bytes())
        partial.replace(path)

    @classmethod
    def from_bytes(cls, data: bytes) -> Retriever:
        """The retriever of a file's bytes, also of one that Rust trained."""
        text, tensors = _native.retriever_parts(data)
        retriever = cls.__new__(cls)
        retriever._build(json.loads(text))
        own = retriever._tensors()
        with torch.no_grad():
            for name, values in tensors:
                own[name].copy_(torch.from_numpy(values))
        return retriever

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Retriever:
        """The retriever of a file, also of one that Rust trained."""
        try:
            return cls.from_bytes(Path(path).read_bytes())
        except OSError as error:
            raise RetrieverError(f"cannot read {path}: {error}", "give the path of a retriever's file") from error

    def policy(self, threads: int = 1) -> Policy:
        """The retriever as it is now, as a policy that recalls without torch."""
        return Policy.from_bytes(self.to_bytes(), threads=threads)


def _scorer(scorer: dict[str, Any]) -> nn.Module:
    if scorer["kind"] == "metadata":
        return MetadataScorer(scorer["layers"], scorer["width"])
    return KeyScorer(scorer["dimension"], scorer["adapter"], scorer["adapter_width"])

"""What a forward needs to know about a step, and where keys and values live.

Shape letters: R rows (positions of all spans, concatenated), S spans in a group, Q rows of one span, K keys,
H query heads, G key/value heads, E head size, D hidden size, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from unmask.models.linear import AdaptedRows, Linear
from unmask.models.spec import ModelSpec


@dataclass(slots=True)
class AttentionGroup:
    """Spans of equal row count, attended together.

    ``rows`` is their slice of the R rows, span after span. ``keys`` [S, K] int64 are the cache slots each span sees,
    padded with slots of its own; or, for one span whose slots lie next to each other, a slice of the cache. ``mask``
    [S, 1, Q, K] bool is True where a row may look; ``None`` if every row sees every key. ``sliding_mask`` is the same
    for layers with a sliding window; ``None`` where ``mask`` serves them too.
    """

    rows: slice
    keys: Tensor | slice
    mask: Tensor | None
    sliding_mask: Tensor | None = None


@dataclass(slots=True)
class StepContext:
    """One step's rows: ``token_ids``, ``positions``, ``write_slots`` (where their keys and values go), [R] int64.

    For models that encode a prompt and denoise a canvas in different ways, ``canvas`` [R] bool is True for canvas
    rows, and ``conditioned`` [R] bool for those of them whose last prediction ``remember`` has seen.
    ``adapted``: the rows that go through unmerged adapters.
    """

    token_ids: Tensor
    positions: Tensor
    write_slots: Tensor
    groups: list[AttentionGroup]
    canvas: Tensor | None = None
    conditioned: Tensor | None = None
    adapted: list[AdaptedRows] = field(default_factory=list)


class KeyValueCache:
    """Keys and values of every layer, ``layers[l]`` [slots, 2 * G, E]: keys in the first G heads, values in the rest.

    Every row writes its own slot before attention reads, so a span always sees itself fresh. Whether what a slot
    holds may be read by *later* steps is the denoiser's knowledge, not the cache's. ``predicted`` [slots, D] holds
    what models that are conditioned on their own last prediction remember of it.
    """

    def __init__(self, layers: list[Tensor], predicted: Tensor | None = None) -> None:
        self.layers = layers
        self.predicted = predicted

    def copy(self, source: Tensor, target: Tensor) -> None:
        """What the slots ``source`` [n] int64 hold of keys and values, the slots ``target`` [n] hold as well."""
        for layer in self.layers:
            layer[target] = layer[source]


class Model(ABC):
    """A loaded model: ``forward`` gives hidden rows, ``head`` the logits of those rows that need them.

    ``adapters``: what each unmerged adapter makes of the model, by name; ``AdaptedRows`` counts them in this order.
    ``precision`` says, for people, in which number types it is computed, and why.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.adapters: dict[str, ModelSpec] = {}
        self.precision = ""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where the weights live."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """The type of activations, keys and values."""

    @property
    @abstractmethod
    def parameters(self) -> int:
        """Number of weights."""

    @abstractmethod
    def linears(self) -> Iterator[Linear]:
        """The matrix products inside the layers, which adapters may change."""

    def quantize(self) -> None:
        """Compute matrix products in int8 from now on."""
        for linear in self.linears():
            linear.quantize()

    @abstractmethod
    def new_cache(self, slots: int) -> KeyValueCache:
        """A cache of ``slots`` positions for this model."""

    @abstractmethod
    def forward(self, step: StepContext, cache: KeyValueCache) -> Tensor:
        """Hidden rows [R, D] after the final norm; writes every row's keys and values into ``cache``."""

    @abstractmethod
    def head(self, hidden: Tensor) -> Tensor:
        """Logits [M, V] in float32 of ``hidden`` [M, D]."""


class SelfConditionedModel(Model):
    """A model whose forward builds on its own last prediction."""

    @abstractmethod
    def remember(self, cache: KeyValueCache, slots: Tensor, logits: Tensor) -> None:
        """Keep in ``cache.predicted`` what ``logits`` [M, V] predict for ``slots`` [M], for the next forward."""

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
from unmask.models.logits_worker.call import CanvasCall
from unmask.models.spec import ModelSpec


@dataclass(slots=True)
class AttentionGroup:
    """Spans of equal row count, attended together.

    ``rows`` is their slice of the R rows, span after span. ``keys`` [S, K] int64 are the cache slots each span sees,
    padded with slots of its own; or, for one span whose slots lie next to each other, a slice of the cache. ``mask``
    [S, 1, Q, K] bool is True where a row may look; ``None`` if every row sees every key. ``sliding_mask`` is the same
    for layers with a sliding window; ``None`` where ``mask`` serves them too.

    With a ``tile``, the rows, of one span, are filled up to tiles of that many, which are attended like spans: the
    masks are [tiles, 1, tile, K] then.
    """

    rows: slice
    keys: Tensor | slice
    mask: Tensor | None
    sliding_mask: Tensor | None = None
    tile: int = 0


@dataclass(slots=True)
class StepContext:
    """One step's rows: ``token_ids``, ``positions``, ``write_slots`` (where their keys and values go), [R] int64.

    For models that encode a prompt and denoise a canvas in different ways, ``canvas`` [R] bool is True for canvas
    rows, and ``conditioned`` [R] bool for those of them whose last prediction ``remember`` has seen.
    ``adapted``: the rows that go through unmerged adapters. ``canvases``: what there is to compute of a model that is
    ``elsewhere``, whose rows none of this is about.
    """

    token_ids: Tensor
    positions: Tensor
    write_slots: Tensor
    groups: list[AttentionGroup]
    canvas: Tensor | None = None
    conditioned: Tensor | None = None
    adapted: list[AdaptedRows] = field(default_factory=list)
    canvases: list[CanvasCall] = field(default_factory=list)


class KeyValueCache:
    """Keys and values of every layer, ``layers[l]`` [slots, 2 * G, E]: keys in the first G heads, values in the rest.

    Every row writes its own slot before attention reads, so a span always sees itself fresh. Whether what a slot
    holds may be read by *later* steps is the denoiser's knowledge, not the cache's. ``predicted`` [slots, D] holds
    what models that are conditioned on their own last prediction remember of it.
    """

    def __init__(self, layers: list[Tensor], predicted: Tensor | None = None) -> None:
        self.layers = layers
        self.predicted = predicted

    def copy(self, sources: Tensor, targets: Tensor) -> None:
        """What the slots ``sources`` [n] hold is in ``targets`` [n] too; all are read before any is written."""
        for layer in self.layers:
            layer[targets] = layer[sources]


class Model(ABC):
    """A loaded model: ``forward`` gives hidden rows, ``head`` the logits of those rows that need them.

    ``adapters``: what each unmerged adapter makes of the model, by name; ``AdaptedRows`` counts them in this order.
    ``precision`` says, for people, in which number types it is computed, and why. ``tiled``: what a row gives does not
    depend on the rows around it, if the attention groups have tiles too. ``elsewhere``: its weights are in other
    processes, which are asked for whole canvases; ``most_running``: requests that may share them.
    """

    elsewhere = False
    most_running = 2**31

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.adapters: dict[str, ModelSpec] = {}
        self.precision = ""
        self.tiled = False

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

    @property
    def token_bytes(self) -> int:
        """What one position takes of the cache."""
        return self.spec.shape.cache_width * self.dtype.itemsize

    @abstractmethod
    def linears(self) -> Iterator[Linear]:
        """The matrix products inside the layers, which adapters may change."""

    def tile(self) -> None:
        """Compute row by row the same, whatever rows share the step, from now on (``models/tiles.py``)."""
        self.tiled = True
        for linear in self.linears():
            linear.tile()

    @abstractmethod
    def new_cache(self, slots: int) -> KeyValueCache:
        """A cache of ``slots`` positions for this model."""

    @abstractmethod
    def forward(self, step: StepContext, cache: KeyValueCache) -> Tensor:
        """Hidden rows [R, D] after the final norm; writes every row's keys and values into ``cache``."""

    @abstractmethod
    def head(self, hidden: Tensor) -> Tensor:
        """Logits [M, V] in float32 of ``hidden`` [M, D]."""

    def close(self) -> None:  # noqa: B027
        """Let go of what is more than memory."""


class SelfConditionedModel(Model):
    """A model whose forward builds on its own last prediction."""

    @abstractmethod
    def remember(self, cache: KeyValueCache, slots: Tensor, logits: Tensor) -> None:
        """Keep in ``cache.predicted`` what ``logits`` [M, V] predict for ``slots`` [M], for the next forward."""

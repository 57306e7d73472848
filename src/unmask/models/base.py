"""What a forward needs to know about a step, and where keys and values live.

Shape letters: R rows (positions of all spans, concatenated), S spans in a group, Q rows of one span, K keys,
H query heads, G key/value heads, E head size, D hidden size, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.params import Attention


@dataclass(slots=True)
class AttentionGroup:
    """Spans of equal row count, attended together.

    ``rows`` is their slice of the R rows, span after span. ``keys`` [S, K] int64 are the cache slots each span sees,
    padded with slots of its own; or, for one span whose slots lie next to each other, a slice of the cache. ``mask``
    [S, 1, Q, K] bool is True where a row may look; ``None`` if every row sees every key.
    """

    rows: slice
    keys: Tensor | slice
    mask: Tensor | None


@dataclass(slots=True)
class StepContext:
    """One step's rows: ``token_ids``, ``positions``, ``write_slots`` (where their keys and values go), [R] int64."""

    token_ids: Tensor
    positions: Tensor
    write_slots: Tensor
    groups: list[AttentionGroup]


class KeyValueCache:
    """Keys and values of every layer, ``layers[l]`` [slots, 2 * G, E]: keys in the first G heads, values in the rest.

    Every row writes its own slot before attention reads, so a span always sees itself fresh. Whether what a slot
    holds may be read by *later* steps is the denoiser's knowledge, not the cache's.
    """

    def __init__(
        self, layers: int, slots: int, heads: int, size: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.layers = [torch.zeros(slots, 2 * heads, size, dtype=dtype, device=device) for _ in range(layers)]


@dataclass(frozen=True, slots=True)
class TransformerShape:
    """Sizes of a Llama-like transformer."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int
    vocab: int
    norm_eps: float
    rope_theta: float
    context_length: int
    qkv_bias: bool = False
    tied: bool = False


@dataclass(frozen=True, slots=True)
class TensorNames:
    """Where a family keeps its tensors; layer tensors are given without ``.weight`` and with ``{n}`` for the layer."""

    embedding: str
    final_norm: str
    head: str
    attention_norm: str
    query: str
    key: str
    value: str
    output: str
    mlp_norm: str
    gate: str
    up: str
    down: str


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Everything the engine must know of a model besides its weights.

    ``shifted``: the logits of row i predict position i + 1. ``block_length`` is the default for requests.
    """

    family: str
    shape: TransformerShape
    names: TensorNames
    attention: Attention
    block_length: int
    shifted: bool
    mask_id: int
    end_ids: tuple[int, ...]

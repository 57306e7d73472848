"""What a model is, besides its weights: sizes, where its tensors are, and how it is decoded. No tensors here.

Families differ by the values in these tables, not by code paths.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from unmask.params import Anchor, Attention, DenoiserKind


class Shape(Protocol):
    """The sizes that the engine needs of any model."""

    @property
    def vocab(self) -> int:
        """Number of tokens V."""

    @property
    def hidden(self) -> int:
        """Hidden size D."""

    @property
    def context_length(self) -> int:
        """Most positions of one sequence."""

    @property
    def cache_width(self) -> int:
        """Numbers that one position keeps in the key/value cache, all layers together."""

    @property
    def sliding_window(self) -> int:
        """Positions that a row sees in some layers, itself and those before it; 0 if all layers see everything."""

    def faults(self) -> list[str]:
        """In what the sizes contradict each other; empty for a model that can be."""


@dataclass(frozen=True, slots=True)
class ExpertShape:
    """A mixture-of-experts layer: ``used`` of ``experts`` SwiGLUs per row, and how the router weighs them.

    ``score``: what turns router logits into scores. ``bias``: whether a learned bias is added for the ``selection``
    only, or is part of the ``weights`` too. ``normalized``: the weights of the chosen sum to one, times ``scale``.
    ``groups``: experts stand in so many groups, of which only the best ``groups_used`` are looked at.
    ``shared_intermediate``: size of the expert that every row goes through; 0 if there is none.
    """

    experts: int
    used: int
    intermediate: int
    shared_intermediate: int = 0
    score: Literal["softmax", "sigmoid"] = "softmax"
    bias: Literal["none", "selection", "weights"] = "none"
    normalized: bool = False
    scale: float = 1.0
    groups: int = 1
    groups_used: int = 1

    def faults(self) -> list[str]:
        """In what the numbers contradict each other."""
        size, rest = divmod(self.experts, self.groups)
        if rest or (self.groups > 1 and size < 2) or self.groups_used > self.groups:
            return [f"{self.experts} experts cannot stand in {self.groups} groups"]
        if self.used > size * self.groups_used:
            return [f"{self.used} of {size * self.groups_used} experts cannot be chosen"]
        return []


@dataclass(frozen=True, slots=True)
class TransformerShape:
    """Sizes of a Llama-like transformer.

    ``rotary_size``: leading dimensions of a head that rotate. ``experts`` describes the layers in ``expert_layers``;
    the others have a plain SwiGLU of ``intermediate``.
    """

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
    rotary_size: int
    qkv_bias: bool = False
    qk_norm: bool = False
    tied: bool = False
    experts: ExpertShape | None = None
    expert_layers: frozenset[int] = frozenset()

    @property
    def cache_width(self) -> int:
        """Numbers that one position keeps in the key/value cache, all layers together."""
        return 2 * self.layers * self.kv_heads * self.head_size

    @property
    def sliding_window(self) -> int:
        """None: all layers see everything."""
        return 0

    def faults(self) -> list[str]:
        """In what the sizes contradict each other."""
        faults = [] if self.experts is None else self.experts.faults()
        if self.heads % self.kv_heads:
            faults.append(f"{self.heads} heads do not share {self.kv_heads} key/value heads evenly")
        if self.rotary_size % 2 or not 0 < self.rotary_size <= self.head_size:
            faults.append(f"{self.rotary_size} of {self.head_size} dimensions of a head cannot rotate")
        return faults


@dataclass(frozen=True, slots=True)
class TensorNames:
    """Where a family keeps its tensors: names without ``.weight``, ``{n}`` for the layer, ``{e}`` for the expert.

    ``qkv`` stands for ``query``, ``key``, ``value`` in families that store them as one matrix.
    """

    embedding: str
    final_norm: str
    head: str
    attention_norm: str
    output: str
    mlp_norm: str
    gate: str
    up: str
    down: str
    query: str = ""
    key: str = ""
    value: str = ""
    qkv: str = ""
    query_norm: str = ""
    key_norm: str = ""
    router: str = ""
    router_bias: str = ""
    expert_gate: str = ""
    expert_up: str = ""
    expert_down: str = ""
    shared_gate: str = ""
    shared_up: str = ""
    shared_down: str = ""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Everything the engine must know of a model besides its weights.

    ``shifted``: the logits of row i predict position i + 1. ``block_length`` is the default for requests, ``defaults``
    holds those of other parameters where they are not the common ones. ``rules`` and ``caches`` are what requests may
    choose from, the default first. ``remembers_raw``: it is conditioned on its last logits as they were before
    anything was added to them.
    """

    family: str
    shape: Shape
    names: TensorNames | None
    attention: Attention
    denoiser: DenoiserKind
    anchor: Anchor
    block_length: int
    max_tokens: int
    shifted: bool
    mask_id: int | None
    end_ids: tuple[int, ...]
    rules: tuple[str, ...]
    caches: tuple[str, ...]
    defaults: dict[str, float | int | str | bool] = field(default_factory=dict)
    remembers_raw: bool = False

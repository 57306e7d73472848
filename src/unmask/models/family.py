"""What distinguishes one family of models from its relatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from unmask.models.config import Config
from unmask.models.samplers import Sampler
from unmask.models.spec import Shape, TensorNames


@dataclass(frozen=True, slots=True)
class Family:
    """A family is known by the ``architectures`` that its configs name; ``shape`` reads the sizes out of a config.

    ``tensors`` is ``None`` for a model that is no ``Transformer``. ``shifted``: the logits of row i predict position
    i + 1. ``mask_id`` holds for checkpoints that nowhere say theirs, and is ``None`` for models without a mask;
    ``mask_tokens`` and ``end_tokens`` are texts to look for among the tokenizer's added tokens. ``defaults_of`` gives
    the parameters of requests for which a ``generation_config.json`` has values.
    """

    name: str
    architectures: tuple[str, ...]
    shape: Callable[[Config], Shape]
    tensors: TensorNames | None
    sampler: Sampler
    shifted: bool = False
    mask_id: int | None = None
    mask_tokens: tuple[str, ...] = ()
    end_tokens: tuple[str, ...] = ()
    defaults_of: Callable[[Config], dict[str, float | int | str | bool]] = lambda generation: {}

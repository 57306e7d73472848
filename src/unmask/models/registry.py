"""The table of families, and from a checkpoint's ``config.json`` to its ``ModelSpec``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unmask.checkpoints.directory import Checkpoint, read_json
from unmask.errors import InvalidCheckpointError, InvalidValueError, UnknownArchitectureError
from unmask.models import dream, llada
from unmask.models.base import ModelSpec, TensorNames, TransformerShape
from unmask.models.config import integer, refuse_other_values, token_ids
from unmask.params import Attention

DEFAULT_BLOCK_LENGTH = 32


@dataclass(frozen=True, slots=True)
class Family:
    """One row of the table: what distinguishes a family from its relatives."""

    name: str
    shape: Callable[[dict[str, Any]], TransformerShape]
    tensors: TensorNames
    shifted: bool
    mask_id: int
    end_tokens: tuple[str, ...]


FAMILIES = {
    llada.ARCHITECTURE: Family("llada", llada.shape, llada.NAMES, False, llada.MASK_ID, llada.END_TOKENS),
    dream.ARCHITECTURE: Family("dream", dream.shape, dream.NAMES, True, dream.MASK_ID, dream.END_TOKENS),
}


def describe(checkpoint: Checkpoint, *, attention: str | None = None, adapted: bool = False) -> ModelSpec:
    """The spec of ``checkpoint``.

    Attention is ``attention`` if given, else what the config's own ``attention`` says, else block-causal for an
    ``adapted`` model (D2F adapters) or one whose config has a ``block_size``, else full. Raises
    ``UnknownArchitectureError`` or ``InvalidCheckpointError``.
    """
    config = checkpoint.config
    family = _family(config)
    refuse_other_values(config, {"grid_anchor": "prompt_end"})
    shape = family.shape(config)
    _check_heads(shape)
    block_length = integer(config, "block_size", min(DEFAULT_BLOCK_LENGTH, shape.context_length))
    if block_length > shape.context_length:
        raise InvalidCheckpointError(
            f"config.json: block_size {block_length} exceeds the context of {shape.context_length}."
        )
    mask_id = config.get("mask_token_id")
    mask_id = family.mask_id if mask_id is None else mask_id
    end_ids = token_ids(
        config.get("eos_token_id"),
        checkpoint.generation.get("eos_token_id"),
        [token.get("id") for token in _added_tokens(checkpoint) if token.get("content") in family.end_tokens],
    )
    for index in (mask_id, *end_ids):
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < shape.vocab:
            raise InvalidCheckpointError(
                f"The checkpoint names the token id {index!r} (mask_token_id, eos_token_id), but the model has "
                f"{shape.vocab} tokens.",
                hint="Repair config.json or generation_config.json.",
            )
    return ModelSpec(
        family=family.name,
        shape=shape,
        names=family.tensors,
        attention=_attention(attention or config.get("attention"), adapted or "block_size" in config),
        block_length=block_length,
        shifted=family.shifted,
        mask_id=mask_id,
        end_ids=end_ids,
    )


def _family(config: dict[str, Any]) -> Family:
    named = config.get("architectures")
    architecture = named[0] if isinstance(named, list) and named else None
    if not isinstance(architecture, str) or architecture not in FAMILIES:
        raise UnknownArchitectureError(
            f"Unmask does not serve the architecture {architecture!r} (model_type {config.get('model_type')!r}).",
            hint=f"It serves {', '.join(FAMILIES)}.",
        )
    return FAMILIES[architecture]


def _check_heads(shape: TransformerShape) -> None:
    if shape.hidden % shape.heads or shape.heads % shape.kv_heads or shape.head_size % 2:
        raise InvalidCheckpointError(
            f"config.json: {shape.heads} heads and {shape.kv_heads} key/value heads do not divide a hidden size of "
            f"{shape.hidden} into even heads."
        )


def _attention(asked: str | None, block_causal: bool) -> Attention:
    if asked is None:
        return "block_causal" if block_causal else "full"
    if asked == "full":
        return "full"
    if asked == "block_causal":
        return "block_causal"
    raise InvalidValueError(f"Unknown attention {asked!r}.", hint="Use 'full' or 'block_causal'.", param="attention")


def _added_tokens(checkpoint: Checkpoint) -> list[dict[str, Any]]:
    tokens = read_json(checkpoint.path / "tokenizer.json", optional=True).get("added_tokens")
    return [token for token in tokens if isinstance(token, dict)] if isinstance(tokens, list) else []

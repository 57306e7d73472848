"""The table of families, and from a checkpoint's ``config.json`` to its ``ModelSpec``. No tensors here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from unmask.checkpoints.directory import Checkpoint
from unmask.checkpoints.gguf_specials import special_tokens
from unmask.errors import InvalidCheckpointError, InvalidValueError, UnknownArchitectureError
from unmask.models import dream, fast_dllm_v2, gemma_spec, llada, llada2, llada_moe, rnd1, sdar
from unmask.models.config import flag, integer, refuse_other_values, token_ids
from unmask.models.family import Family
from unmask.models.gemma_spec import GemmaShape
from unmask.models.gguf_config import config_of_gguf
from unmask.models.samplers import D2F, DIFFUSION_GEMMA, FULL, Sampler, renoise_defaults
from unmask.models.spec import ModelSpec, Shape, TransformerShape

_GEMMA = Family("diffusion_gemma", (gemma_spec.ARCHITECTURE,), gemma_spec.shape, tensors=None, sampler=DIFFUSION_GEMMA)

FAMILIES: dict[str, Family] = {
    architecture: family
    for family in (
        llada.FAMILY,
        llada_moe.FAMILY,
        llada2.FAMILY,
        dream.FAMILY,
        sdar.FAMILY,
        sdar.MOE_FAMILY,
        fast_dllm_v2.FAMILY,
        rnd1.FAMILY,
        _GEMMA,
    )
    for architecture in family.architectures
}


def describe(checkpoint: Checkpoint, *, attention: str | None = None, adapted: bool = False) -> ModelSpec:
    """The spec of ``checkpoint``.

    Models with full attention may be adapted to attend block by block: they do if ``attention`` says so, or else the
    config's own ``attention``, or else for an ``adapted`` model (D2F adapters) or one whose config has a
    ``block_size``. Raises ``UnknownArchitectureError``, ``InvalidCheckpointError``, or ``InvalidValueError`` for an
    ``attention`` that the model has not.
    """
    checkpoint = _in_hugging_face_words(checkpoint)
    config = checkpoint.config
    family = _family(config)
    shape = family.shape(config)
    if isinstance(shape, TransformerShape):
        _check_shape(shape)
    sampler = _sampler(family, config, attention, adapted)
    refuse_other_values(config, {"grid_anchor": sampler.anchor})
    tokens = checkpoint.added_tokens() if checkpoint.header is None else special_tokens(checkpoint.header)
    mask_id = _mask_id(family, checkpoint, tokens, shape.vocab)
    end_ids = _end_ids(family, checkpoint, tokens)
    _check_ids(end_ids if mask_id is None else (mask_id, *end_ids), shape.vocab)
    return ModelSpec(
        family=family.name,
        shape=shape,
        names=family.tensors,
        attention=sampler.attention,
        denoiser=sampler.denoiser,
        anchor=sampler.anchor,
        block_length=_block_length(sampler, config, shape),
        max_tokens=sampler.max_tokens,
        shifted=flag(config, "shift_logits", family.shifted),
        mask_id=mask_id,
        end_ids=end_ids,
        rules=sampler.rules,
        caches=sampler.caches,
        defaults=renoise_defaults(checkpoint.generation) if sampler is DIFFUSION_GEMMA else dict(sampler.defaults),
        sliding_window=shape.window if isinstance(shape, GemmaShape) else 0,
    )


def _in_hugging_face_words(checkpoint: Checkpoint) -> Checkpoint:
    if checkpoint.header is None:
        return checkpoint
    config, generation = config_of_gguf(checkpoint.header)
    return replace(checkpoint, config=config, generation=generation)


def _family(config: dict[str, Any]) -> Family:
    named = config.get("architectures")
    architecture = named[0] if isinstance(named, list) and named else None
    if not isinstance(architecture, str) or architecture not in FAMILIES:
        raise UnknownArchitectureError(
            f"Unmask does not serve the architecture {architecture!r} (model_type {config.get('model_type')!r}).",
            hint=f"It serves {', '.join(FAMILIES)}.",
        )
    return FAMILIES[architecture]


def _check_shape(shape: TransformerShape) -> None:
    """Raise ``InvalidCheckpointError`` for sizes that contradict each other."""
    faults = []
    if shape.heads % shape.kv_heads:
        faults.append(f"{shape.heads} heads do not share {shape.kv_heads} key/value heads evenly")
    if shape.rotary_size % 2 or not 0 < shape.rotary_size <= shape.head_size:
        faults.append(f"{shape.rotary_size} of {shape.head_size} dimensions of a head cannot rotate")
    if (experts := shape.experts) is not None:
        size, rest = divmod(experts.experts, experts.groups)
        if rest or (experts.groups > 1 and size < 2) or experts.groups_used > experts.groups:
            faults.append(f"{experts.experts} experts cannot stand in {experts.groups} groups")
        elif experts.used > size * experts.groups_used:
            faults.append(f"{experts.used} of {size * experts.groups_used} experts cannot be chosen")
    if faults:
        raise InvalidCheckpointError(f"config.json: {faults[0]}.", hint="Is it the one that came with the weights?")


def _sampler(family: Family, config: dict[str, Any], asked: str | None, adapted: bool) -> Sampler:
    wanted = asked or config.get("attention")
    if wanted is None:
        return D2F if family.sampler is FULL and (adapted or "block_size" in config) else family.sampler
    offered = (FULL, D2F) if family.sampler is FULL else (family.sampler,)
    for sampler in offered:
        if sampler.attention == wanted:
            return sampler
    raise InvalidValueError(
        f"Unknown attention {wanted!r} for a model of the {family.name} family.",
        hint=f"Use {' or '.join(repr(sampler.attention) for sampler in offered)}.",
        param="attention",
    )


def _block_length(sampler: Sampler, config: dict[str, Any], shape: Shape) -> int:
    block_length = integer(config, sampler.block_key, min(sampler.block_length, shape.context_length))
    if block_length > shape.context_length:
        raise InvalidCheckpointError(
            f"config.json: {sampler.block_key} {block_length} exceeds the context of {shape.context_length}."
        )
    return block_length


def _mask_id(family: Family, checkpoint: Checkpoint, tokens: dict[str, int], vocab: int) -> Any:
    """What the config says (it may be no id at all), else the tokenizer, else the family."""
    if family.mask_id is None:
        return None
    said = checkpoint.config.get("mask_token_id")
    if said is not None:
        return said
    for text in (checkpoint.mask_token(), *family.mask_tokens):
        if text in tokens:
            return tokens[text]
    if family.mask_id >= vocab:
        raise InvalidCheckpointError(
            f"Neither config.json nor the tokenizer says which token is the mask, and {family.mask_id}, which it is in "
            f"published {family.name} models, is none of this model's {vocab} tokens.",
            hint='Add "mask_token_id" to config.json.',
        )
    return family.mask_id


def _end_ids(family: Family, checkpoint: Checkpoint, tokens: dict[str, int]) -> tuple[int, ...]:
    text_config = checkpoint.config.get("text_config")
    return token_ids(
        checkpoint.config.get("eos_token_id"),
        text_config.get("eos_token_id") if isinstance(text_config, dict) else None,
        checkpoint.generation.get("eos_token_id"),
        [tokens[text] for text in family.end_tokens if text in tokens],
    )


def _check_ids(ids: tuple[Any, ...], vocab: int) -> None:
    for index in ids:
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < vocab:
            raise InvalidCheckpointError(
                f"The checkpoint names the token id {index!r} (mask_token_id, eos_token_id), but the model has "
                f"{vocab} tokens.",
                hint="Repair config.json or generation_config.json.",
            )

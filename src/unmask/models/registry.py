"""The table of families, and from a checkpoint's ``config.json`` to its ``ModelSpec``. No tensors here."""

from __future__ import annotations

from unmask.checkpoints.directory import Checkpoint
from unmask.checkpoints.gguf_specials import special_tokens
from unmask.checkpoints.tokenizer_files import TokenizerFiles
from unmask.errors import InvalidCheckpointError, InvalidValueError, UnknownArchitectureError
from unmask.models import dream, fast_dllm_v2, gemma_spec, llada, llada2, llada_moe, rnd1, sdar
from unmask.models.config import Config
from unmask.models.family import Family
from unmask.models.gguf_config import config_of_gguf
from unmask.models.samplers import Sampler
from unmask.models.spec import ModelSpec, Shape
from unmask.params import RULE_TRAITS
from unmask.shown import shown

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
        gemma_spec.FAMILY,
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
    config, generation = _configs(checkpoint)
    family = _family(config)
    shape = family.shape(config)
    if faults := shape.faults():
        raise config.fault(faults[0])
    sampler = _sampler(family, config, attention, adapted)
    config.refuse_other_than({"grid_anchor": sampler.anchor})
    shifted = config.flag("shift_logits", family.shifted)
    tokens, mask_token = _tokens(checkpoint)
    mask_id = _mask_id(family, config, mask_token, tokens, shape.vocab)
    end_ids = _end_ids(family, config, generation, tokens)
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
        shifted=shifted,
        mask_id=mask_id,
        end_ids=end_ids,
        # A shadow's row would have to stand at the position that it is about.
        rules=tuple(rule for rule in sampler.rules if not (shifted and RULE_TRAITS[rule].shadows)),
        caches=sampler.caches,
        defaults={**sampler.defaults, **family.defaults_of(generation)},
    )


def _configs(checkpoint: Checkpoint) -> tuple[Config, Config]:
    """``config.json`` and ``generation_config.json``, or what a GGUF file has in their place."""
    if checkpoint.header is not None:
        return config_of_gguf(checkpoint.header)
    return Config(checkpoint.config, "config.json"), Config(checkpoint.generation, "generation_config.json")


def _tokens(checkpoint: Checkpoint) -> tuple[dict[str, int], str]:
    """Ids of the tokenizer's special tokens by their text, and the text of its mask token if it names one, else ''."""
    if checkpoint.header is not None:
        return special_tokens(checkpoint.header), ""
    files = TokenizerFiles(checkpoint.path)
    return files.added_tokens(), files.mask_token


def _family(config: Config) -> Family:
    named = config.get("architectures")
    architecture = named[0] if isinstance(named, list) and named else None
    if not isinstance(architecture, str) or architecture not in FAMILIES:
        raise UnknownArchitectureError(
            f"Unmask does not serve the architecture {shown(architecture)} "
            f"(model_type {shown(config.get('model_type'))}).",
            hint=f"Unmask serves {', '.join(FAMILIES)}.",
        )
    return FAMILIES[architecture]


def _sampler(family: Family, config: Config, asked: str | None, adapted: bool) -> Sampler:
    own, other = family.sampler, family.sampler.adapted
    wanted = asked or config.get("attention")
    if wanted is None:
        return other if other is not None and (adapted or "block_size" in config.values) else own
    offered = [own] if other is None else [own, other]
    for sampler in offered:
        if sampler.attention == wanted:
            return sampler
    raise InvalidValueError(
        f"Unknown attention {shown(wanted)} for a model of the {family.name} family.",
        hint=f"Use {' or '.join(repr(sampler.attention) for sampler in offered)}.",
        param="attention",
    )


def _block_length(sampler: Sampler, config: Config, shape: Shape) -> int:
    block_length = config.integer(sampler.block_key, min(sampler.block_length, shape.context_length))
    if block_length > shape.context_length:
        raise config.fault(f"'{sampler.block_key}' {block_length} exceeds the context of {shape.context_length}")
    return block_length


def _mask_id(family: Family, config: Config, mask_token: str, tokens: dict[str, int], vocab: int) -> int | None:
    """What the config says, else the tokenizer (its own ``mask_token``, then the family's), else the family."""
    if family.mask_id is None:
        return None
    if config.get("mask_token_id") is not None:
        return config.integer("mask_token_id", least=0)
    for text in (mask_token, *family.mask_tokens):
        if text in tokens:
            return tokens[text]
    if family.mask_id >= vocab:
        raise InvalidCheckpointError(
            f"Neither {config.file} nor the tokenizer says which token is the mask, and {family.mask_id}, which it is "
            f"in published {family.name} models, is none of this model's {vocab} tokens.",
            hint=f'Add "mask_token_id" to {config.file}.',
        )
    return family.mask_id


def _end_ids(family: Family, config: Config, generation: Config, tokens: dict[str, int]) -> tuple[int, ...]:
    """All that are named anywhere, without repetition, in order."""
    ids = config.token_ids("eos_token_id")
    if config.get("text_config") is not None:
        ids += config.object("text_config").token_ids("eos_token_id")
    ids += generation.token_ids("eos_token_id")
    ids += [tokens[text] for text in family.end_tokens if text in tokens]
    return tuple(dict.fromkeys(ids))


def _check_ids(ids: tuple[int, ...], vocab: int) -> None:
    for index in ids:
        if not 0 <= index < vocab:
            raise InvalidCheckpointError(
                f"The checkpoint names the token id {shown(index)} (mask_token_id, eos_token_id), but the model has "
                f"{vocab} tokens.",
                hint="Do configuration and tokenizer belong to these weights?",
            )

"""What a request may ask for, what a model offers, and how the two become one fixed set of parameters.

``GenerationParams`` is what a user wrote (``None`` means "not said"). ``resolve`` checks it against the model
and returns ``DecodingParams``: every value concrete, fixed for the life of the request, and echoed to the
user as ``applied``. An option that would have no effect under the chosen rule is an error naming both.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from unmask.errors import ContextLengthError, InvalidValueError, UnsupportedValueError

END_TOKENS = ("free", "last", "never")
CACHES = ("exact", "none", "prefix", "dual")

Attention = Literal["full", "block_causal"]

MAX_SEED = 2**63
_MAX_COUNT = 2**31 - 1


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine tells its clients about the model it has loaded.

    ``block_length`` and ``max_tokens`` are defaults; ``context_length`` counts prompt and canvas tokens.
    """

    name: str
    family: str
    attention: Attention
    block_length: int
    max_tokens: int
    context_length: int
    vocab_size: int
    mask_id: int
    end_ids: tuple[int, ...]
    parameters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationParams:
    """What the user asked for. ``None`` is "not said": ``resolve`` fills in the default it documents.

    ``early_exit`` ends a request as soon as all up to its end token is decided, instead of with that token's block.
    ``end_tokens``: "last" gives end tokens a confidence of 0, "never" does not propose them (LLaDA's
    ``confidence_eos_eot_inf`` and ``logits_eos_inf``); ``min_tokens`` forbids them at the first positions.
    ``cfg_scale`` is LLaDA's classifier-free guidance: each forward also runs the canvas with its prompt masked.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    rule: str | None = None
    steps: int | None = None
    block_length: int | None = None
    threshold: float | None = None
    factor: float | None = None
    add_threshold: float | None = None
    activate_threshold: float | None = None
    max_live_blocks: int | None = None
    cache: str | None = None
    early_exit: bool = False
    min_tokens: int | None = None
    end_tokens: str | None = None
    cfg_scale: float | None = None
    frames: bool = False


class DecodingParams(msgspec.Struct, frozen=True, kw_only=True):
    """Every decoding parameter of one request, concrete. Units: tokens, probabilities, forwards per block.

    The D2F fields govern block creation for every block-causal request; for rules other than ``d2f`` they are
    set so that one block is denoised at a time.
    """

    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    seed: int
    ignore_eos: bool
    rule: str
    steps: int
    block_length: int
    threshold: float
    factor: float
    add_threshold: float
    activate_threshold: float
    max_live_blocks: int
    cache: str
    early_exit: bool
    min_tokens: int
    end_tokens: str
    cfg_scale: float
    frames: bool

    def applied(self) -> dict[str, Any]:
        """What is really in force, as told to the user: all but the options that the rule does not read."""
        unread = {name for name in _ALL_RULE_OPTIONS if name not in RULE_OPTIONS[self.rule]} | {"frames"}
        return {name: value for name, value in msgspec.structs.asdict(self).items() if name not in unread}


_D2F_ONLY = ("add_threshold", "activate_threshold", "max_live_blocks")

# The options that each rule reads. Any other one given with it would be silently ignored, so it is refused.
RULE_OPTIONS: dict[str, tuple[str, ...]] = {
    "low_confidence": ("steps",),
    "threshold": ("threshold",),
    "factor": ("factor",),
    "d2f": ("threshold", *_D2F_ONLY),
}
_ALL_RULE_OPTIONS = tuple(dict.fromkeys(option for options in RULE_OPTIONS.values() for option in options))


def resolve(params: GenerationParams, model: ModelInfo, prompt_length: int) -> DecodingParams:
    """Check ``params`` against ``model`` for a prompt of ``prompt_length`` tokens and fill every default.

    Raises ``InvalidValueError`` / ``UnsupportedValueError`` naming the field, or ``ContextLengthError``.
    """
    _check_stop(params.stop)
    rule = _rule(params, model)
    pipelined = rule == "d2f"
    block_length = _integer("block_length", params.block_length, model.block_length, 1, model.context_length)
    max_tokens = _max_tokens(params, model, prompt_length)
    return DecodingParams(
        max_tokens=max_tokens,
        temperature=_number("temperature", params.temperature, 0.0, 0.0, 100.0),
        top_p=_top_p(params.top_p),
        # 0 and -1 both mean "off", as clients of other engines write it.
        top_k=max(0, _integer("top_k", params.top_k, 0, -1, _MAX_COUNT)),
        seed=_seed(params.seed),
        ignore_eos=_flag("ignore_eos", params.ignore_eos),
        rule=rule,
        steps=_integer("steps", params.steps, block_length, 1, block_length, "It counts the forwards per block."),
        block_length=block_length,
        threshold=_number("threshold", params.threshold, 0.9, 0.0, 1.0),
        factor=_number("factor", params.factor, 1.0, 0.0, 1e6),
        add_threshold=_number("add_threshold", params.add_threshold, 0.1 if pipelined else 1.0, 0.0, 1.0),
        activate_threshold=_number(
            "activate_threshold", params.activate_threshold, 0.95 if pipelined else 1.0, 0.0, 1.0
        ),
        max_live_blocks=_integer("max_live_blocks", params.max_live_blocks, 4 if pipelined else 1, 1, 1024),
        cache=_cache(params.cache, model),
        early_exit=_flag("early_exit", params.early_exit),
        min_tokens=_integer("min_tokens", params.min_tokens, 0, 0, max_tokens),
        end_tokens=_choice("end_tokens", params.end_tokens, END_TOKENS),
        cfg_scale=_number("cfg_scale", params.cfg_scale, 0.0, 0.0, 100.0),
        frames=params.frames,
    )


def _rule(params: GenerationParams, model: ModelInfo) -> str:
    given = [name for name in _ALL_RULE_OPTIONS if getattr(params, name) is not None]
    rule = params.rule if params.rule is not None else _implied_rule(given)
    _choice("rule", rule, tuple(RULE_OPTIONS))
    unread = [name for name in given if name not in RULE_OPTIONS[rule]]
    if unread:
        raise InvalidValueError(
            f"'{unread[0]}' has no effect under rule '{rule}'.",
            hint=f"Leave it out, or choose a rule that reads it: {', '.join(_readers(unread[0]))}.",
            param=unread[0],
        )
    if rule == "d2f" and model.attention == "full":
        raise UnsupportedValueError(
            f"Rule 'd2f' needs block-causal attention; {model.name} attends to its whole canvas.",
            hint="Use 'low_confidence', 'threshold' or 'factor'.",
            param="rule",
        )
    return rule


def _implied_rule(given: list[str]) -> str:
    """The rule a user means who gave only its options: the D2F knobs, else steps, else factor, else threshold."""
    if any(name in _D2F_ONLY for name in given):
        return "d2f"
    if "threshold" not in given and "steps" in given:
        return "low_confidence"
    if "threshold" not in given and "factor" in given:
        return "factor"
    return "threshold"


def _readers(option: str) -> list[str]:
    return [rule for rule, options in RULE_OPTIONS.items() if option in options]


def _max_tokens(params: GenerationParams, model: ModelInfo, prompt_length: int) -> int:
    room = model.context_length - prompt_length
    if room < 1:
        raise ContextLengthError(
            f"The prompt has {prompt_length} tokens; {model.name} has room for {model.context_length} in all.",
            hint="Shorten the prompt.",
            param="prompt",
        )
    if params.max_tokens is None:
        return min(model.max_tokens, room)
    max_tokens = _integer("max_tokens", params.max_tokens, 1, 1, _MAX_COUNT)
    if max_tokens > room:
        raise ContextLengthError(
            f"{prompt_length} prompt tokens and max_tokens {max_tokens} exceed the context of {model.context_length}.",
            hint=f"Ask for at most {room} tokens, or shorten the prompt.",
            param="max_tokens",
        )
    return max_tokens


def _cache(cache: str | None, model: ModelInfo) -> str:
    allowed = ("exact", "none") if model.attention == "block_causal" else ("none", "prefix", "dual")
    if cache is None:
        return allowed[0]
    if _choice("cache", cache, CACHES) not in allowed:
        raise UnsupportedValueError(
            f"Cache '{cache}' does not fit the {model.attention.replace('_', '-')} attention of {model.name}.",
            hint=f"Use one of {', '.join(allowed)}.",
            param="cache",
        )
    return cache


def _top_p(value: float | None) -> float:
    top_p = _number("top_p", value, 1.0, 0.0, 1.0)
    if top_p == 0.0:
        raise InvalidValueError("'top_p' must be above 0.", hint="Use 1 to keep every token.", param="top_p")
    return top_p


def _seed(value: int | None) -> int:
    """An unseeded request draws its own seed, so that it differs from every other; ``applied`` shows it."""
    return secrets.randbelow(MAX_SEED) if value is None else _integer("seed", value, 0, -MAX_SEED, MAX_SEED - 1)


def _check_stop(stop: Any) -> None:
    if isinstance(stop, str) or not all(isinstance(string, str) and string for string in stop):
        raise InvalidValueError(
            "'stop' must hold strings of at least one character.", hint='For example ("\\n",).', param="stop"
        )


def _choice(name: str, value: str | None, allowed: tuple[str, ...]) -> str:
    """``value``, which must be ``allowed``; the first of them if it was not said."""
    if value is None:
        return allowed[0]
    if value not in allowed:
        raise InvalidValueError(f"'{name}' is {value!r}.", hint=f"Use one of {', '.join(allowed)}.", param=name)
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidValueError(f"'{name}' is {value!r}; it must be true or false.", param=name)
    return value


def _number(name: str, value: float | None, default: float, low: float, high: float) -> float:
    """``value`` as a float within ``low`` .. ``high``; ``default`` if it was not said."""
    if value is None:
        return default
    known = isinstance(value, int | float) and not isinstance(value, bool)
    if not known or not math.isfinite(value) or not low <= value <= high:
        raise InvalidValueError(f"'{name}' is {value!r}; it must be a number from {low:g} to {high:g}.", param=name)
    return float(value)


def _integer(name: str, value: int | None, default: int, low: int, high: int, why: str = "") -> int:
    """``value``, an integer within ``low`` .. ``high``; ``default`` if it was not said."""
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidValueError(
            f"'{name}' is {value!r}; it must be an integer from {low} to {high}.", hint=why, param=name
        )
    return value

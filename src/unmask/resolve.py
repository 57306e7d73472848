"""From what a user asked for and what a model offers to one fixed set of parameters.

An option that would have no effect under the chosen rule, or on the model, is an error that names it.
"""

from __future__ import annotations

import math
import secrets
from typing import Any

from unmask.errors import ContextLengthError, InvalidValueError, UnsupportedValueError
from unmask.params import (
    ALL_RULE_OPTIONS,
    CACHES,
    END_TOKENS,
    MAX_SEED,
    RULE_TRAITS,
    DecodingParams,
    GenerationParams,
    ModelInfo,
)

_MAX_COUNT = 2**31 - 1


def resolve(params: GenerationParams, model: ModelInfo, prompt_length: int) -> DecodingParams:
    """Check ``params`` against ``model`` for a prompt of ``prompt_length`` tokens and fill every default.

    Raises ``InvalidValueError`` / ``UnsupportedValueError`` naming the field, or ``ContextLengthError``.
    """
    _check_stop(params.stop)
    rule = _rule(params, model)
    said = _Said(params, model.defaults)
    block_length = said.integer("block_length", model.block_length, 1, model.context_length)
    max_tokens = _max_tokens(said, model, prompt_length)
    temperature = said.number("temperature", 0.0, 0.0, 100.0)
    return DecodingParams(
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=_top_p(said),
        # 0 and -1 both mean "off", as clients of other engines write it.
        top_k=max(0, said.integer("top_k", 0, -1, _MAX_COUNT)),
        seed=_seed(said, temperature),
        ignore_eos=said.flag("ignore_eos"),
        rule=rule,
        steps=_steps(said, rule, block_length),
        block_length=block_length,
        sub_block_length=_sub_block_length(said, model, block_length),
        threshold=said.number("threshold", 0.9, 0.0, 1.0),
        factor=said.number("factor", 1.0, 0.0, 1e6),
        alg_temp=said.number("alg_temp", 0.0, 0.0, 100.0),
        **_pipeline(said, rule),
        edit_threshold=said.number("edit_threshold", 0.9, 0.0, 1.0),
        max_edit_steps=said.integer("max_edit_steps", 16, 0, 1024),
        min_commits=said.integer("min_commits", 1, 1, block_length),
        entropy_bound=said.number("entropy_bound", 0.1, 0.0, 1e6),
        **_schedule(said),
        stability_threshold=said.integer("stability_threshold", 1, 0, 1024),
        confidence_threshold=said.number("confidence_threshold", 0.005, 0.0, 1e6),
        cache=_cache(params.cache, model),
        early_exit=said.flag("early_exit"),
        min_tokens=said.integer("min_tokens", 0, 0, max_tokens),
        end_tokens=_end_tokens(params.end_tokens, rule),
        cfg_scale=_cfg_scale(said, model),
        lookahead=_lookahead(said, rule),
        frames=params.frames,
        adapter=model.adapter,
    )


class _Said:
    """What the user said, checked; else what the model's family takes; else the common default."""

    def __init__(self, params: GenerationParams, defaults: dict[str, float | int | str | bool]) -> None:
        self._params = params
        self._defaults = defaults

    def given(self, name: str) -> Any:
        """The user's own word on ``name``; None if there is none."""
        return getattr(self._params, name)

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """A float within ``low`` .. ``high``."""
        value = self.given(name)
        if value is None:
            return float(self._defaults.get(name, default))
        known = isinstance(value, int | float) and not isinstance(value, bool)
        if not known or not math.isfinite(value) or not low <= value <= high:
            raise InvalidValueError(f"'{name}' is {value!r}; it must be a number from {low:g} to {high:g}.", param=name)
        return float(value)

    def integer(self, name: str, default: int, low: int, high: int, why: str = "") -> int:
        """An integer within ``low`` .. ``high``; a default beyond is brought into the range."""
        value = self.given(name)
        if value is None:
            return max(low, min(int(self._defaults.get(name, default)), high))
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise InvalidValueError(
                f"'{name}' is {value!r}; it must be an integer from {low} to {high}.", hint=why, param=name
            )
        return value

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self.given(name)
        if value is None:
            return bool(self._defaults.get(name, False))
        if not isinstance(value, bool):
            raise InvalidValueError(f"'{name}' is {value!r}; it must be true or false.", param=name)
        return value


def _rule(params: GenerationParams, model: ModelInfo) -> str:
    given = [name for name in ALL_RULE_OPTIONS if getattr(params, name) is not None]
    rule = params.rule if params.rule is not None else _implied_rule(given, model)
    if rule not in RULE_TRAITS:
        raise InvalidValueError(f"'rule' is {rule!r}.", hint=f"Use one of {', '.join(model.rules)}.", param="rule")
    if rule not in model.rules:
        raise UnsupportedValueError(
            f"Rule '{rule}' does not fit {model.name} ({model.family}, {model.attention.replace('_', '-')} attention).",
            hint=f"Use one of {', '.join(model.rules)}.",
            param="rule",
        )
    unread = [name for name in given if name not in RULE_TRAITS[rule].options]
    if unread:
        why = f"under rule '{rule}'" if params.rule is not None or len(given) == 1 else f"beside '{_read(given, rule)}'"
        raise InvalidValueError(
            f"'{unread[0]}' has no effect {why}.",
            hint=f"Leave it out{_readers(unread[0], model)}.",
            param=unread[0],
        )
    return rule


def _implied_rule(given: list[str], model: ModelInfo) -> str:
    """The rule a user means who gave only options: the first of the model's that reads them all."""
    fitting = (rule for rule in model.rules if all(name in RULE_TRAITS[rule].options for name in given))
    return next(fitting, model.rules[0])


def _read(given: list[str], rule: str) -> str:
    """The option among ``given`` that ``rule`` does read."""
    return next((name for name in given if name in RULE_TRAITS[rule].options), given[0])


def _readers(option: str, model: ModelInfo) -> str:
    rules = [rule for rule in model.rules if option in RULE_TRAITS[rule].options]
    return f", or choose a rule that reads it: {', '.join(rules)}" if rules else f"; no rule of {model.name} reads it"


def _steps(said: _Said, rule: str, block_length: int) -> int:
    """Forwards per block; a rule that never commits bit by bit may take more of them than there are positions."""
    if RULE_TRAITS[rule].renoises:
        return said.integer("steps", 48, 1, 1024, "It counts the forwards per canvas.")
    return said.integer("steps", block_length, 1, block_length, "It counts the forwards per block.")


def _sub_block_length(said: _Said, model: ModelInfo, block_length: int) -> int:
    if model.denoiser != "sub_block":
        if said.given("sub_block_length") is not None:
            raise UnsupportedValueError(
                f"{model.name} has no sub-blocks.", hint="Leave it out; see 'block_length'.", param="sub_block_length"
            )
        return 0
    length = said.integer("sub_block_length", math.gcd(8, block_length), 1, block_length)
    if block_length % length:
        raise InvalidValueError(
            f"'sub_block_length' {length} does not divide the block length {block_length}.",
            hint="Choose a divisor of it.",
            param="sub_block_length",
        )
    return length


def _pipeline(said: _Said, rule: str) -> dict[str, Any]:
    """The block pipeline's parameters (D2F's published defaults); other rules denoise one block at a time."""
    pipelined = RULE_TRAITS[rule].pipelined
    return {
        "add_threshold": said.number("add_threshold", 0.1 if pipelined else 1.0, 0.0, 1.0),
        "activate_threshold": said.number("activate_threshold", 0.95 if pipelined else 1.0, 0.0, 1.0),
        "max_live_blocks": said.integer("max_live_blocks", 4 if pipelined else 1, 1, 1024),
    }


def _schedule(said: _Said) -> dict[str, Any]:
    """The temperatures between which a renoised canvas is annealed."""
    t_min, t_max = said.number("t_min", 0.4, 1e-3, 100.0), said.number("t_max", 0.8, 1e-3, 100.0)
    if t_min > t_max:
        raise InvalidValueError(
            f"'t_min' {t_min:g} is above 't_max' {t_max:g}.",
            hint="The temperature falls from t_max.",
            param="t_min" if said.given("t_max") is None else "t_max",
        )
    return {"t_min": t_min, "t_max": t_max}


def _max_tokens(said: _Said, model: ModelInfo, prompt_length: int) -> int:
    room = model.context_length - prompt_length
    if room < 1:
        raise ContextLengthError(
            f"The prompt has {prompt_length} tokens; {model.name} has room for {model.context_length} in all.",
            hint="Shorten the prompt.",
            param="prompt",
        )
    max_tokens = said.integer("max_tokens", min(model.max_tokens, room), 1, _MAX_COUNT)
    if max_tokens > room:
        raise ContextLengthError(
            f"{prompt_length} prompt tokens and max_tokens {max_tokens} exceed the context of {model.context_length}.",
            hint=f"Ask for at most {room} tokens, or shorten the prompt.",
            param="max_tokens",
        )
    return max_tokens


def _cache(cache: str | None, model: ModelInfo) -> str:
    if cache is None:
        return model.caches[0]
    if cache not in CACHES:
        raise InvalidValueError(f"'cache' is {cache!r}.", hint=f"Use one of {', '.join(model.caches)}.", param="cache")
    if cache not in model.caches:
        raise UnsupportedValueError(
            f"Cache '{cache}' does not fit the {model.attention.replace('_', '-')} attention of {model.name}.",
            hint=f"Use one of {', '.join(model.caches)}.",
            param="cache",
        )
    return cache


def _end_tokens(value: str | None, rule: str) -> str:
    chosen = _choice("end_tokens", value, END_TOKENS)
    if chosen == "last" and not RULE_TRAITS[rule].ranked:
        raise InvalidValueError(
            f"'end_tokens' \"last\" has no effect under rule '{rule}', which does not go by confidence.",
            hint='Use "free" or "never", or another rule.',
            param="end_tokens",
        )
    return chosen


def _cfg_scale(said: _Said, model: ModelInfo) -> float:
    scale = said.number("cfg_scale", 0.0, 0.0, 100.0)
    if scale and model.mask_id is None:
        raise UnsupportedValueError(
            f"{model.name} has no mask token to hide the prompt behind.", hint="Leave it out.", param="cfg_scale"
        )
    return scale


def _lookahead(said: _Said, rule: str) -> int:
    drafts = said.integer("lookahead", 0, 0, 16, "It counts the steps that a forward may compute ahead.")
    chance = "its 'alg_temp'" if said.number("alg_temp", 0.0, 0.0, 100.0) else ""
    if drafts and (chance or not RULE_TRAITS[rule].foreseeable):
        raise UnsupportedValueError(
            f"What rule '{rule}' commits next cannot be foreseen{chance and ' under ' + chance}.",
            hint="Leave it out, or choose another rule.",
            param="lookahead",
        )
    return drafts


def _top_p(said: _Said) -> float:
    top_p = said.number("top_p", 1.0, 0.0, 1.0)
    if top_p == 0.0:
        raise InvalidValueError("'top_p' must be above 0.", hint="Use 1 to keep every token.", param="top_p")
    return top_p


def _seed(said: _Said, temperature: float) -> int:
    """An unseeded request draws its own seed, so that it differs from every other; ``applied`` shows it.

    At temperature 0 nothing may differ, and some rules draw all the same: there the seed is 0.
    """
    return said.integer("seed", secrets.randbelow(MAX_SEED) if temperature else 0, -MAX_SEED, MAX_SEED - 1)


def _check_stop(stop: Any) -> None:
    if isinstance(stop, str):
        raise InvalidValueError(
            "'stop' is a text; it must be a tuple of texts.", hint=f"Say ({stop!r},).", param="stop"
        )
    if not all(isinstance(string, str) and string for string in stop):
        raise InvalidValueError(
            "'stop' must hold texts of at least one character.", hint='For example ("\\n",).', param="stop"
        )


def _choice(name: str, value: str | None, allowed: tuple[str, ...]) -> str:
    """``value``, which must be ``allowed``; the first of them if it was not said."""
    if value is None:
        return allowed[0]
    if value not in allowed:
        raise InvalidValueError(f"'{name}' is {value!r}.", hint=f"Use one of {', '.join(allowed)}.", param=name)
    return value

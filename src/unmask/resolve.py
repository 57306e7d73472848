"""From what a user asked for and what a model offers to one fixed set of parameters.

An option that would have no effect under the chosen rule, or on the model, is an error that names it.
"""

from __future__ import annotations

import math
import secrets
from typing import Any

from unmask.constraints.check import check_constraint
from unmask.errors import ContextLengthError, InvalidValueError, UnsupportedValueError
from unmask.params import (
    ALL_RULE_OPTIONS,
    CACHES,
    END_TOKENS,
    MAX_BIASES,
    MAX_LOGPROBS,
    MAX_SEED,
    RULE_TRAITS,
    SCORES,
    Constraint,
    DecodingParams,
    GenerationParams,
    ModelInfo,
)
from unmask.sampling import refuse_sampling
from unmask.shown import shown

_MAX_COUNT = 2**31 - 1


def resolve(
    params: GenerationParams, model: ModelInfo, prompt_length: int, constraint: Constraint | None = None
) -> DecodingParams:
    """Check ``params`` against ``model`` for a prompt of ``prompt_length`` tokens and fill every default.

    ``constraint`` is what a ``ConstraintCompiler`` made of ``params``.

    Raises ``InvalidValueError`` / ``UnsupportedValueError`` naming the field, or ``ContextLengthError``.
    """
    _check_stop(params.stop)
    refuse_sampling(params, model.name)
    rule = _rule(params, model)
    said = _Said(params, {**model.defaults, **RULE_TRAITS[rule].defaults})
    block_length = said.integer("block_length", model.block_length, 1, model.context_length)
    max_tokens = _max_tokens(said, model, prompt_length)
    temperature = said.number("temperature", 0.0, 0.0, 100.0)
    min_tokens = said.integer("min_tokens", 0, 0, max_tokens)
    check_constraint(params, constraint, model, max_tokens, min_tokens)
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
        score=_choice("score", said.text("score", SCORES[0]), SCORES),
        **_constants(said, block_length),
        **_schedule(said),
        **_cache(said, model, rule),
        early_exit=_early_exit(said, model),
        min_tokens=min_tokens,
        end_tokens=_end_tokens(params.end_tokens, rule),
        cfg_scale=_cfg_scale(said, model, rule),
        lookahead=_lookahead(said, rule),
        frames=said.flag("frames"),
        logprobs=None if params.logprobs is None else said.integer("logprobs", 0, 0, MAX_LOGPROBS),
        logit_bias=_logit_bias(params.logit_bias or {}, model),
        adapter=model.adapter,
        constraint=constraint,
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
        if not known or not low <= value <= high:  # neither holds for NaN
            message = f"'{name}' is {shown(value)}; it must be a number from {low:g} to {high:g}."
            raise InvalidValueError(message, param=name)
        return float(value)

    def integer(self, name: str, default: int, low: int, high: int, why: str = "") -> int:
        """An integer within ``low`` .. ``high``; a default beyond is brought into the range."""
        value = self.given(name)
        if value is None:
            return max(low, min(int(self._defaults.get(name, default)), high))
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise InvalidValueError(
                f"'{name}' is {shown(value)}; it must be an integer from {low} to {high}.", hint=why, param=name
            )
        return value

    def text(self, name: str, default: str) -> str:
        """A word; which ones are known is for the caller to check."""
        value = self.given(name)
        return str(self._defaults.get(name, default)) if value is None else value

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self.given(name)
        if value is None:
            return bool(self._defaults.get(name, False))
        if not isinstance(value, bool):
            raise InvalidValueError(f"'{name}' is {shown(value)}; it must be true or false.", param=name)
        return value


def _rule(params: GenerationParams, model: ModelInfo) -> str:
    given = [name for name in ALL_RULE_OPTIONS if getattr(params, name) is not None]
    rule = params.rule if params.rule is not None else _implied_rule(given, model)
    if not isinstance(rule, str) or rule not in RULE_TRAITS:
        raise InvalidValueError(f"'rule' is {shown(rule)}.", hint=f"Use one of {', '.join(model.rules)}.", param="rule")
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


def _constants(said: _Said, block_length: int) -> dict[str, Any]:
    """The constants of single rules, as their papers or their authors' code have them."""
    return {
        "edit_threshold": said.number("edit_threshold", 0.9, 0.0, 1.0),
        "max_edit_steps": said.integer("max_edit_steps", 16, 0, 1024),
        "min_commits": said.integer("min_commits", 1, 1, block_length),
        "anchor_threshold": said.number("anchor_threshold", 0.9, 0.0, 1.0),
        "radius": said.integer("radius", 4, 0, block_length),
        "low_threshold": said.number("low_threshold", 0.4, 0.0, 1.0),
        "credit_weight": said.number("credit_weight", 0.7, 0.0, 100.0),
        "credit_power": said.number("credit_power", 0.2, 0.0, 100.0),
        "credit_decay": said.number("credit_decay", 0.8, 0.0, 1.0),
        "kl_threshold": said.number("kl_threshold", 0.01, 0.0, 1e6),
        "gap_threshold": said.number("gap_threshold", 7.5, 0.0, 1e6),
        "verify_threshold": said.number("verify_threshold", 0.9, 0.0, 1.0),
        "entropy_bound": said.number("entropy_bound", 0.1, 0.0, 1e6),
    }


def _schedule(said: _Said) -> dict[str, Any]:
    """The temperatures between which a renoised canvas is annealed, and when it is done."""
    t_min, t_max = said.number("t_min", 0.4, 1e-3, 100.0), said.number("t_max", 0.8, 1e-3, 100.0)
    if t_min > t_max:
        raise InvalidValueError(
            f"'t_min' {t_min:g} is above 't_max' {t_max:g}.",
            hint="The temperature falls from t_max.",
            param="t_min" if said.given("t_max") is None else "t_max",
        )
    return {
        "t_min": t_min,
        "t_max": t_max,
        "stability_threshold": said.integer("stability_threshold", 1, 0, 1024),
        "confidence_threshold": said.number("confidence_threshold", 0.005, 0.0, 1e6),
    }


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
            f"{prompt_length} prompt tokens and 'max_tokens' {max_tokens} exceed the context: {model.context_length}.",
            hint=f"Ask for at most {room} tokens, or shorten the prompt.",
            param="max_tokens",
        )
    return max_tokens


def _cache(said: _Said, model: ModelInfo, rule: str) -> dict[str, Any]:
    """The cache, and how often it is computed anew if that is counted."""
    cache = _known_cache(said.given("cache"), model)
    if cache == "delayed":
        if RULE_TRAITS[rule].revises:
            raise UnsupportedValueError(
                f"Cache 'delayed' does not compute decided tokens again, which rule '{rule}' looks at.",
                hint=f"Use another rule, or one of {', '.join(name for name in model.caches if name != cache)}.",
                param="cache",
            )
        return {"cache": cache, "refresh_interval": said.integer("refresh_interval", 8, 1, _MAX_COUNT)}
    if said.given("refresh_interval") is not None:
        other = " or choose cache 'delayed'" if "delayed" in model.caches else ""
        raise InvalidValueError(
            f"'refresh_interval' has no effect with cache '{cache}'.",
            hint=f"Leave it out{other}.",
            param="refresh_interval",
        )
    return {"cache": cache, "refresh_interval": 0}


def _known_cache(cache: str | None, model: ModelInfo) -> str:
    if cache is None:
        return model.caches[0]
    if cache not in CACHES:
        hint = f"Use one of {', '.join(model.caches)}."
        raise InvalidValueError(f"'cache' is {shown(cache)}.", hint=hint, param="cache")
    if cache not in model.caches:
        raise UnsupportedValueError(
            f"Cache '{cache}' does not fit the {model.attention.replace('_', '-')} attention of {model.name}.",
            hint=f"Use one of {', '.join(model.caches)}.",
            param="cache",
        )
    return cache


def _early_exit(said: _Said, model: ModelInfo) -> bool:
    if model.denoiser == "renoise" and said.given("early_exit") is not None:
        raise InvalidValueError(
            f"'early_exit' has no effect on {model.name}: all tokens of a canvas become final at once.",
            hint="Leave it out.",
            param="early_exit",
        )
    return said.flag("early_exit")


def _end_tokens(value: str | None, rule: str) -> str:
    chosen = _choice("end_tokens", value, END_TOKENS)
    if chosen == "last" and not RULE_TRAITS[rule].ranked:
        raise InvalidValueError(
            f"'end_tokens' \"last\" has no effect under rule '{rule}', which does not go by confidence.",
            hint='Use "free" or "never", or another rule.',
            param="end_tokens",
        )
    return chosen


def _cfg_scale(said: _Said, model: ModelInfo, rule: str) -> float:
    scale = said.number("cfg_scale", 0.0, 0.0, 100.0)
    if scale and model.mask_id is None:
        raise UnsupportedValueError(
            f"{model.name} has no mask token to hide the prompt behind.", hint="Leave it out.", param="cfg_scale"
        )
    if scale and RULE_TRAITS[rule].shadows:
        raise UnsupportedValueError(
            f"Rule '{rule}' does not verify tokens without the prompt.", hint="Leave it out.", param="cfg_scale"
        )
    return scale


def _logit_bias(bias: dict[int, float], model: ModelInfo) -> dict[int, float]:
    if len(bias) > MAX_BIASES:
        raise InvalidValueError(
            f"'logit_bias' has {len(bias)} entries; it may have {MAX_BIASES}.", hint="Send fewer.", param="logit_bias"
        )
    for token, value in bias.items():
        if not isinstance(token, int) or not 0 <= token < model.vocab_size or token == model.mask_id:
            raise InvalidValueError(
                f"'logit_bias' names {token!r}, which is no token that {model.name} can propose.",
                hint=f"Give token ids from 0 to {model.vocab_size - 1}, other than the mask's.",
                param="logit_bias",
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or not -100 <= value <= 100:
            raise InvalidValueError(
                f"'logit_bias' of token {token} is {value!r}; it must be a number from -100 to 100.", param="logit_bias"
            )
    return {token: float(value) for token, value in bias.items()}


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
    if stop is None:
        return
    if isinstance(stop, str):
        raise InvalidValueError(
            "'stop' is a text; it must be a tuple of texts.", hint=f"Say ({shown(stop)},).", param="stop"
        )
    if not isinstance(stop, list | tuple) or not all(isinstance(string, str) and string for string in stop):
        raise InvalidValueError(
            "'stop' must hold texts of at least one character.", hint='For example ("\\n",).', param="stop"
        )


def _choice(name: str, value: str | None, allowed: tuple[str, ...]) -> str:
    """``value``, which must be ``allowed``; the first of them if it was not said."""
    if value is None:
        return allowed[0]
    if value not in allowed:
        raise InvalidValueError(f"'{name}' is {shown(value)}.", hint=f"Use one of {', '.join(allowed)}.", param=name)
    return value

"""What each kind of lane understands of a request. All else is refused: nothing is dropped without a word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import get_args

from unmask.errors import InvalidValueError, UnsupportedValueError
from unmask.gateway.upstream.endpoint import Endpoint, UpstreamKind
from unmask.params import ALL_RULE_OPTIONS, CONSTRAINTS, MAX_BIASES, MAX_LOGPROBS, MAX_SEED, GenerationParams
from unmask.sampling import PENALTIES, SAMPLING
from unmask.shown import shown

KINDS: tuple[UpstreamKind, ...] = get_args(UpstreamKind)
HERE = "kept here"  # the lane is not told of it

_LOCAL: tuple[UpstreamKind, ...] = ("llama.cpp", "vllm", "sglang")
_USUAL: tuple[UpstreamKind, ...] = (*_LOCAL, "remote")


def _by(field: str, kinds: Iterable[UpstreamKind] = _USUAL) -> dict[UpstreamKind, str]:
    return dict.fromkeys(kinds, field)


# By our name, what of a lane's own fields says it. ``frames`` is for endpoints with snapshots.
TAKEN: Mapping[str, Mapping[UpstreamKind, str]] = {
    "max_tokens": _by("max_tokens", KINDS),
    "temperature": _by("temperature", KINDS),
    "top_p": _by("top_p"),
    "top_k": _by("top_k", (*_LOCAL, "diffusion")),
    "min_p": _by("min_p", _LOCAL),
    "presence_penalty": _by("presence_penalty"),
    "frequency_penalty": _by("frequency_penalty"),
    "repetition_penalty": _by("repetition_penalty", _LOCAL) | {"llama.cpp": "repeat_penalty"},
    "repeat_last_n": _by("repeat_last_n", ("llama.cpp",)),
    "seed": _by("seed", KINDS),
    "stop": _by("stop") | {"llama.cpp": HERE, "diffusion": HERE},
    "min_tokens": _by("min_tokens", ("vllm", "sglang")),
    "ignore_eos": _by("ignore_eos", (*_LOCAL, "diffusion")),
    "logit_bias": _by("logit_bias"),
    "logprobs": _by("logprobs"),
    "timeout_ms": _by(HERE, KINDS),
    "json_schema": _by("response_format"),
    "regex": {"vllm": "structured_outputs", "sglang": "regex"},
    "choices": {"llama.cpp": "grammar", "vllm": "structured_outputs", "sglang": "regex"},
    "tools": _by("tools") | {"diffusion": "messages"},
    "tool_choice": _by("tool_choice") | {"llama.cpp": "response_format"},
    "parallel_tool_calls": _by("parallel_tool_calls") | {"diffusion": HERE},
    "thinking": _by("chat_template_kwargs", _LOCAL) | {"remote": "reasoning_effort"},
    "effort": _by("chat_template_kwargs", _LOCAL) | {"remote": "reasoning_effort"},
    "chat_template_kwargs": _by("chat_template_kwargs", _LOCAL),
    "prefill": _by("continue_final_message", _LOCAL),
    "token ids": _by("prompt", _LOCAL),
}

_CANVAS = "says how our own engine denoises a canvas"
_TURNS = "orders the requests in our own engine"
_REASONS = {
    **dict.fromkeys(ALL_RULE_OPTIONS, _CANVAS),
    **dict.fromkeys(("rule", "block_length", "sub_block_length", "cache", "refresh_interval"), _CANVAS),
    **dict.fromkeys(("early_exit", "end_tokens", "cfg_scale", "lookahead", "template", "holes"), _CANVAS),
    **dict.fromkeys(("priority", "deadline_ms", "service_class"), _TURNS),
    "echo": "begins answers with their prompt, which our own engine alone does",
    "frames": "asks for canvas frames, and there is no canvas",
}
# Values that ask for nothing.
_SILENT: dict[str, tuple[object, ...]] = {"stop": ((),), "priority": ("interactive",), "logit_bias": ({},)}

_RANGES: dict[str, tuple[float, float, bool]] = {  # the lowest, the highest, and whether it must be an integer
    "max_tokens": (1, 2**31 - 1, True),
    "min_tokens": (0, 2**31 - 1, True),
    "temperature": (0, 100, False),
    "top_p": (0, 1, False),
    "top_k": (-1, 2**31 - 1, True),
    "min_p": (0, 1, False),
    "presence_penalty": (-2, 2, False),
    "frequency_penalty": (-2, 2, False),
    "repetition_penalty": (0.01, 100, False),
    "repeat_last_n": (-1, 2**31 - 1, True),
    "seed": (-MAX_SEED, MAX_SEED - 1, True),
    "logprobs": (0, MAX_LOGPROBS, True),
    "timeout_ms": (1, 86_400_000, True),
}


def check_params(params: GenerationParams, endpoint: Endpoint) -> None:
    """Raises ``UnsupportedValueError`` naming what ``endpoint`` does not understand of ``params``, and
    ``InvalidValueError`` for what is out of range.
    """
    for field in fields(GenerationParams):
        if is_said(params, field.name, endpoint):
            check_taken(field.name, endpoint)
    for name, (low, high, integer) in _RANGES.items():
        _check_range(name, getattr(params, name), low, high, integer)
    given = [name for name in CONSTRAINTS if getattr(params, name) is not None]
    if len(given) > 1:
        raise InvalidValueError(
            f"'{given[0]}' and '{given[1]}' both say what the answer looks like.",
            hint="Give one of them.",
            param=given[1],
        )
    _check_biases(params.logit_bias or {})


def is_said(params: GenerationParams, name: str, endpoint: Endpoint) -> bool:
    """Whether ``params`` ask ``endpoint`` for anything by ``name``."""
    value = getattr(params, name)
    if value is None or value is False or value in _SILENT.get(name, ()):
        return False
    if name in SAMPLING and value == SAMPLING[name]:  # a known engine's own default may be another one
        return endpoint.kind != "remote" and endpoint.kind in TAKEN[name]
    if name == "repeat_last_n":  # -1 is what engines do that know no such limit
        limits = endpoint.kind in TAKEN[name] or value != -1
        return limits and any(getattr(params, one) not in (None, SAMPLING[one]) for one in PENALTIES)
    return True


def check_taken(name: str, endpoint: Endpoint, param: str | None = None) -> None:
    """Raises ``UnsupportedValueError``, naming ``param``, unless ``endpoint`` understands what we call ``name``."""
    if endpoint.kind in TAKEN.get(name, ()) or (name == "frames" and endpoint.snapshots):
        return
    shown_as = param or name
    why = _REASONS.get(name, f"means nothing to an engine of its kind ({endpoint.kind})")
    raise UnsupportedValueError(
        f"'{shown_as}' {why}; lane '{endpoint.lane}' answers this model.", hint="Leave it out.", param=shown_as
    )


def _check_range(name: str, value: object, low: float, high: float, integer: bool) -> None:
    if value is None:
        return
    known = isinstance(value, int) or (isinstance(value, float) and not integer)
    if isinstance(value, bool) or not known or not low <= value <= high:  # type: ignore[operator]
        kind = "an integer" if integer else "a number"
        raise InvalidValueError(f"'{name}' is {shown(value)}; it must be {kind} from {low:g} to {high:g}.", param=name)


def _check_biases(biases: dict[int, float]) -> None:
    if len(biases) > MAX_BIASES:
        raise InvalidValueError(
            f"'logit_bias' has {len(biases)} entries; it may have {MAX_BIASES}.",
            hint="Send fewer.",
            param="logit_bias",
        )
    for token, value in biases.items():
        if not -100 <= value <= 100:  # neither holds for NaN
            raise InvalidValueError(
                f"'logit_bias' of token {token} is {shown(value)}; it must be a number from -100 to 100.",
                param="logit_bias",
            )

"""Options of a model that say nothing to the engine that it goes to: refused, not ignored."""

from __future__ import annotations

from collections.abc import Mapping

from unmask.errors import InvalidConfigError
from unmask.gateway.config.defaults import DECODING, SAMPLED
from unmask.gateway.config.wanted import WantedModel
from unmask.gateway.lane import LaneKind
from unmask.refusal import Refusal
from unmask.sampling import SAMPLING

_LOCAL = frozenset({"context", "threads"})
_PENALTIES = frozenset({"defaults.presence_penalty", "defaults.frequency_penalty"})
_SAMPLING = frozenset(f"defaults.{name}" for name in SAMPLING)
_PLAIN = ("context", "threads", "slots", "gpu_layers", "stall_timeout")
_TAKEN: Mapping[LaneKind, frozenset[str]] = {
    "unmask": _LOCAL | {"lora", "engine", "defaults.unmask"},
    "llama.cpp": _LOCAL | _SAMPLING | {"slots", "gpu_layers", "stall_timeout", "engine_args", "defaults.repeat_last_n"},
    "logits_worker": _LOCAL | {"slots", "gpu_layers", "stall_timeout", "defaults.unmask"},
    "sglang": _SAMPLING | {"context", "stall_timeout", "engine_args"},
    "vllm": _SAMPLING | {"context", "stall_timeout", "engine_args"},
    "remote": _PENALTIES | {"context", "defaults.unmask", "stall_timeout"},
}
_WORDS: Mapping[LaneKind, str] = {
    "unmask": "Unmask's own engine",
    "logits_worker": "a program that gives logits",
    "sglang": "SGLang",
    "vllm": "vLLM",
    "remote": "a server elsewhere",
}


def without_effect(entry: WantedModel, kind: LaneKind) -> Refusal | None:
    """Why ``entry`` is not served by a lane of this ``kind`` as it stands; None if all that it says has an effect."""
    taken = _TAKEN[kind]
    idle = [name for name in _said(entry) if name.partition(" ")[0] not in taken]
    if not idle:
        return None
    name = idle[0].partition(" ")[2] or idle[0]
    by = ", ".join(_WORDS.get(other, other) for other, its in _TAKEN.items() if idle[0].partition(" ")[0] in its)
    return Refusal(
        InvalidConfigError.code,
        f"'{name}' of the model '{entry.name}' has no effect on the engine that it goes to, {_WORDS.get(kind, kind)} "
        f"({entry.origin}).",
        f"Leave it out; it is for a model that goes to one of: {by}.",
    )


def _said(entry: WantedModel) -> list[str]:
    """What the entry says, as the groups of ``_TAKEN``; after a space the very option."""
    found = [name for name in _PLAIN if getattr(entry, name) is not None]
    found += [name for name in ("lora", "engine_args") if getattr(entry, name)]
    found += [f"engine {name}" for name in entry.engine]
    found += [f"defaults.{name}" for name in SAMPLED if getattr(entry.defaults, name) is not None]
    decoding = [name for name in DECODING if getattr(entry.defaults, name) is not None]
    return found + [f"defaults.unmask defaults.unmask.{name}" for name in decoding]

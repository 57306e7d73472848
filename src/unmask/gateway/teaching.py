"""Refusals that teach: what the model is, why the engine at hand only looks as if it served it, and what does.

What llama.cpp does with diffusion models was measured with llama-server of build 11434.
"""

from __future__ import annotations

from collections.abc import Sequence

from unmask.errors import LaneMissingError, NoLaneError, ParadigmMismatchError, UnknownLaneError, UnmaskError
from unmask.gateway.lane import Lane
from unmask.gateway.mainline import LOADED_NOT_SERVED, MAINLINE
from unmask.gateway.tracked import UPSTREAM
from unmask.models.card import ModelCard
from unmask.refusal import Refusal
from unmask.shown import cut, shown

_INSTALL_LLAMA_CPP = 'pip install --upgrade "unmask[llamacpp]"'
_MOST_LANES = 8  # that a message names


def none_fits(card: ModelCard, lanes: Sequence[Lane]) -> Refusal:
    """The model is one that none of ``lanes`` serves."""
    reasons = "; ".join(_reason(lane, card) for lane in _by_name(lanes)) or "there is none"
    message = f"{_subject(card)}, and no engine here serves it: {reasons}. {_why(card)}"
    return _refusal(NoLaneError, message, _what_to_do(card))


def all_missing(card: ModelCard, fitting: Sequence[Lane]) -> Refusal:
    """The lanes ``fitting`` would serve the model, and all of them are missing."""
    named = _by_name(fitting)
    reasons = "; ".join(f"{lane.name} would serve it, but cannot be used here: {lane.missing}" for lane in named)
    steps = "; ".join(f"{lane.name}: {lane.remedy or 'see why it cannot be used'}" for lane in named)
    remedy = f"Make an engine usable that serves the {card.paradigm} architecture {_architecture(card)}. {steps}"
    return _refusal(LaneMissingError, f"{_subject(card)}. {reasons}.", remedy)


def misfit(card: ModelCard, lane: Lane, other: Lane | None) -> Refusal:
    """The ``lane`` that was asked for does not serve the model; ``other`` is the one that would."""
    if lane.kind == "unmask" and card.paradigm == "diffusion" and card.refusal is not None:
        return card.refusal  # our own engine knows best
    message = f"{_subject(card)}. The engine asked for does not serve it: {_reason(lane, card)}."
    remedy = _what_to_do(card)
    if other is not None:
        remedy = (
            f"Take 'lane' out of the configuration, or --lane out of the command: {other.name} serves the "
            f"{card.paradigm} architecture {_architecture(card)}."
        )
    if lane.architectures.get(card.paradigm) and _known_as(lane, card) is None:
        return _refusal(NoLaneError, message, remedy)
    return _refusal(ParadigmMismatchError, f"{message} {_why(card)}", remedy)


def unknown_lane(card: ModelCard, lanes: Sequence[Lane], wanted: str) -> Refusal:
    """There is no lane of the name ``wanted``."""
    message = f"No engine here is called {shown(wanted)}. {_subject(card)}."
    names = ", ".join(lane.name for lane in _by_name(lanes)) or "none"
    remedy = (
        f"Engines known here: {names}. Take 'lane' out of the configuration, or --lane out of the command, and one is "
        f"chosen that serves the {card.paradigm} architecture {_architecture(card)}."
    )
    return _refusal(UnknownLaneError, message, remedy)


def _refusal(kind: type[UnmaskError], message: str, remedy: str) -> Refusal:
    return Refusal(kind.code, message, remedy)


def _by_name(lanes: Sequence[Lane]) -> list[Lane]:
    return sorted(lanes, key=lambda lane: lane.name)[:_MOST_LANES]


def _architecture(card: ModelCard) -> str:
    return "that it does not name" if card.architecture is None else shown(card.architecture)


def _subject(card: ModelCard) -> str:
    """What the model is, and how that was told."""
    article = "an" if card.paradigm == "autoregressive" else "a"
    told = f" (told by: {cut(', '.join(card.evidence))})" if card.evidence else ""
    kind = f"{article} {card.paradigm} model of the architecture {_architecture(card)}{told}"
    return f"{shown(card.name or card.model)} is {kind}"


def _known_as(lane: Lane, card: ModelCard) -> str | None:
    """The other paradigm as which ``lane`` serves the architecture; ``None`` if there is none."""
    others = sorted(paradigm for paradigm in lane.architectures if paradigm != card.paradigm)
    if lane.advertises(card.paradigm, card.architecture):
        return None
    return next((paradigm for paradigm in others if lane.advertises(paradigm, card.architecture)), None)


def _reason(lane: Lane, card: ModelCard) -> str:
    """Why ``lane`` does not serve the model."""
    known_as = _known_as(lane, card)
    if known_as is not None:
        return f"{lane.name} knows the architecture as {known_as} only"
    if lane.kind == "unmask" and card.paradigm == "diffusion" and card.refusal is not None:
        return f"{lane.name}: {card.refusal.message.removesuffix('.')}"
    if lane.kind == "unmask" or not lane.architectures.get(card.paradigm):
        return f"{lane.name} serves no {card.paradigm} models"
    if card.format not in lane.formats:
        return f"{lane.name} reads {' and '.join(sorted(lane.formats))}, not {card.format}"
    if not lane.advertises(card.paradigm, card.architecture):
        return f"{lane.name} does not know the architecture"
    if lane.kind == "logits_worker":
        why = "" if card.refusal is None else f": {card.refusal.message.removesuffix('.')}"
        return f"{lane.name} gives logits only, and Unmask cannot decode the model{why}"
    return f"{lane.name} cannot compute with weights packed by {card.quantization}"


def _why(card: ModelCard) -> str:
    """What an engine of the other paradigm would do."""
    architecture = card.architecture or ""
    if card.paradigm == "autoregressive":
        return (
            "It writes one token after another; Unmask's own engine fills masked tokens in any order, and would look "
            "healthy and answer with garbage."
        )
    if card.format == "safetensors":
        return (
            "An engine that writes one token after another does not know its class, or takes it for a relative's, "
            "looks healthy and answers with garbage."
        )
    if architecture in LOADED_NOT_SERVED:
        return (
            "llama-server loads it and says that it is healthy, and then fails every request with HTTP 500 (the "
            "current context does not support logits computation); with -np 1 it aborts as it starts."
        )
    if architecture in MAINLINE:
        return "llama-server loads it, says that it is healthy, and answers with garbage and HTTP 200."
    return f"llama-server ends as it starts: unknown model architecture: {_architecture(card)}."


def _what_to_do(card: ModelCard) -> str:
    kind = f"{card.paradigm} architecture {_architecture(card)}"
    if card.format == "safetensors" and card.quantization == "mlx":
        return (
            "Weights packed by MLX are for MLX alone, which is none of Unmask's engines: take the checkpoint that they "
            f"were made of, or a GGUF file, of this {kind}."
        )
    upstream = UPSTREAM.get(card.architecture or "") if card.format == "gguf" else None
    steps = [
        _where_it_is_served(card),
        "" if upstream is None else f"Work on it in llama.cpp: {upstream}.",
        f"An engine of your own that serves the {kind} is made known with 'unmask engine add'.",
    ]
    return " ".join(step for step in steps if step)


def _where_it_is_served(card: ModelCard) -> str:
    if card.format == "safetensors" and card.quantization is not None:
        return (
            f"Weights packed by {card.quantization} are for SGLang and vLLM alone; for others take the checkpoint that "
            "they were made of, or a GGUF file."
        )
    if card.paradigm == "diffusion":
        return "" if card.refusal is None else card.refusal.remedy
    if card.format == "safetensors":
        return "SGLang and vLLM serve such directories; of the same model as a GGUF file, llama.cpp is enough."
    known = "llama.cpp serves it" if card.architecture in MAINLINE else "A newer llama.cpp may know it"
    return f"{known}: {_INSTALL_LLAMA_CPP}."

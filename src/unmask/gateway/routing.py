"""From a model's card to the lane that serves it: one decision, made before any engine is started.

It is a function of its arguments alone. There is no trying of one engine after another: an engine of the other paradigm
may load a model, call itself healthy, and answer with garbage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unmask.errors import InvalidCheckpointError
from unmask.gateway import teaching
from unmask.gateway.lane import Lane
from unmask.models.card import ModelCard
from unmask.refusal import Refusal

_WRITERS = ("diffusion", "autoregressive")
_KINDS_FOR_PACKED = frozenset({"sglang", "vllm"})


@dataclass(frozen=True, slots=True)
class Route:
    """The lane that a model goes to; ``warnings`` are for whoever chose the model."""

    lane: Lane
    warnings: tuple[str, ...] = ()


def route(card: ModelCard, lanes: Sequence[Lane], wanted: str | None = None) -> Route | Refusal:
    """The lane for the model of ``card`` among ``lanes``, given in order of preference, or why there is none.

    ``wanted`` names the one lane that may be taken. What is no whole model of text is refused as its card says. A
    diffusion model goes to our own engine where that serves it, whatever the order, else to a lane that advertises its
    architecture as diffusion; an autoregressive model to a lane that advertises it as that.
    """
    if card.refusal is not None and not (card.intact and card.paradigm in _WRITERS):
        return card.refusal
    if wanted is not None:
        return _forced(card, lanes, wanted)
    fitting = [lane for lane in lanes if _fits(lane, card)]
    usable = [lane for lane in fitting if not lane.missing]
    if usable:
        return _to(next((lane for lane in usable if lane.kind == "unmask"), usable[0]), card)
    if fitting:
        return teaching.all_missing(card, fitting)
    if card.refusal is not None and card.refusal.code == InvalidCheckpointError.code:
        return card.refusal  # a fault of the files, to be mended
    return teaching.none_fits(card, lanes)


def _forced(card: ModelCard, lanes: Sequence[Lane], wanted: str) -> Route | Refusal:
    lane = next((lane for lane in lanes if lane.name == wanted), None)
    if lane is None:
        return teaching.unknown_lane(card, lanes, wanted)
    if not _fits(lane, card):
        without = route(card, lanes)
        return teaching.misfit(card, lane, other=without.lane if isinstance(without, Route) else None)
    return teaching.all_missing(card, [lane]) if lane.missing else _to(lane, card)


def _fits(lane: Lane, card: ModelCard) -> bool:
    """Whether ``lane`` serves the model, once it is not missing."""
    if card.format not in lane.formats or not lane.advertises(card.paradigm, card.architecture):
        return False
    if lane.kind == "unmask":
        return card.served and card.paradigm == "diffusion"
    if lane.kind == "logits_worker":
        return card.family is not None and card.tokenizer  # our own engine decodes it, whatever holds its weights
    if card.format == "safetensors" and card.quantization is not None:
        return card.quantization != "mlx" and lane.kind in _KINDS_FOR_PACKED
    return True


def _to(lane: Lane, card: ModelCard) -> Route:
    return Route(lane, () if card.suspect is None else (card.suspect,))

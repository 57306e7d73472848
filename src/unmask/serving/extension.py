"""The ``unmask`` extension, the same in every dialect: decoding options in, the cost of a request out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import Field

from unmask import __version__
from unmask.answers.answer import Answer, LaneCompletion
from unmask.engine.completion import Completion
from unmask.events import FinishReason, RequestStats
from unmask.params import GenerationParams
from unmask.serving.wire import WireModel

ENGINE = f"unmask/{__version__}"
OWN_LANE = "unmask"


Choices = Annotated[list[str], Field(max_length=4096, fail_fast=True)]


class UnmaskOptions(WireModel):
    """The request's ``unmask`` object. ``steps`` counts forwards per block; ``canvas`` asks for frames."""

    # LLaDA's and Dream's samplers, and vLLM
    foreign_names: ClassVar[dict[str, str]] = {
        "remasking": "rule",
        "alg": "rule",
        "block_size": "block_length",
        "schema": "json_schema",
        "guided_json": "json_schema",
        "guided_regex": "regex",
        "guided_choice": "choices",
    }

    rule: str | None = None
    steps: int | None = None
    block_length: int | None = None
    sub_block_length: int | None = None
    threshold: float | None = None
    factor: float | None = None
    alg_temp: float | None = None
    add_threshold: float | None = None
    activate_threshold: float | None = None
    max_live_blocks: int | None = None
    edit_threshold: float | None = None
    max_edit_steps: int | None = None
    min_commits: int | None = None
    score: str | None = None
    anchor_threshold: float | None = None
    radius: int | None = None
    low_threshold: float | None = None
    credit_weight: float | None = None
    credit_power: float | None = None
    credit_decay: float | None = None
    kl_threshold: float | None = None
    gap_threshold: float | None = None
    verify_threshold: float | None = None
    entropy_bound: float | None = None
    t_min: float | None = None
    t_max: float | None = None
    stability_threshold: int | None = None
    confidence_threshold: float | None = None
    cache: str | None = None
    refresh_interval: int | None = None
    early_exit: bool | None = None
    end_tokens: str | None = None
    cfg_scale: float | None = None
    lookahead: int | None = None
    canvas: Literal["frames"] | None = None
    ignore_eos: bool | None = None
    regex: Annotated[str, Field(max_length=2**16)] | None = None
    choices: Choices | None = None
    json_schema: Any = None
    template: Annotated[str, Field(max_length=2**16)] | None = None
    holes: dict[str, Any] | None = None
    priority: str | None = None
    deadline_ms: int | None = None
    timeout_ms: int | None = None
    service_class: str | None = None

    def decoding(self) -> dict[str, Any]:
        """The options as ``GenerationParams`` take them."""
        as_they_are = {name: getattr(self, name) for name in _DECODING}
        return as_they_are | {"ignore_eos": bool(self.ignore_eos), "frames": self.canvas == "frames"}


_DECODING = tuple({field.name for field in fields(GenerationParams)} & {*UnmaskOptions.model_fields})


class ScoringReport(msgspec.Struct, frozen=True):
    """What it cost to score the prompt, beside the answer."""

    forwards: int
    canvas_tokens: int
    drafts: int
    drafts_accepted: int
    total_ms: float

    @classmethod
    def of(cls, stats: RequestStats) -> ScoringReport:
        """The report of a score that cost ``stats``."""
        total = _milliseconds(stats.total)
        return cls(stats.forwards, stats.canvas_tokens, stats.drafts, stats.drafts_accepted, total)


class GenerationReport(msgspec.Struct, frozen=True, kw_only=True):
    """The response's ``unmask`` object: how it ended, what it cost, and the parameters that were really used.

    ``lane``: the engine that answered; what another engine than ours does not tell is left out.
    ``cached_tokens``: prompt tokens whose keys and values were known. ``evictions``: how often others needed its pages.
    ``load_ms``: milliseconds until its model was there: the load, and what had to go first. The other times are those
    since the engine received the request; ``ttfb_ms`` is the time to the first block, null if
    a stop string ended the text before that block was complete; for an autoregressive model, to the first token.
    ``deadline_met`` is null for a request without one, ``estimated_forwards`` (on arrival) where it was too early to
    tell. ``scoring`` is there if the prompt was scored, ``usage_estimated`` if another engine told no token counts,
    ``warnings`` if something seems wrong with the answer, and ``cached_response`` if it was kept from an earlier
    request, whose cost this is.
    """

    finish: FinishReason
    forwards: int | UnsetType = UNSET
    blocks: int | UnsetType = UNSET
    tokens_per_forward: float | UnsetType = UNSET
    canvas_tokens: int | UnsetType = UNSET
    discarded_tokens: int | UnsetType = UNSET
    cached_tokens: int
    evictions: int | UnsetType = UNSET
    load_ms: float
    queue_ms: float
    ttfb_ms: float | None
    total_ms: float
    deadline_met: bool | UnsetType | None = UNSET
    estimated_forwards: float | UnsetType | None = UNSET
    drafts: int | UnsetType = UNSET
    drafts_accepted: int | UnsetType = UNSET
    applied: dict[str, Any]
    lane: str
    engine: str = ENGINE
    scoring: ScoringReport | UnsetType = UNSET
    usage_estimated: bool | UnsetType = UNSET
    warnings: tuple[str, ...] | UnsetType = UNSET
    cached_response: bool | UnsetType = UNSET

    @classmethod
    def of(cls, completion: Completion | LaneCompletion) -> GenerationReport:
        """The report of a finished request."""
        stats = completion.stats
        times = {
            "load_ms": _milliseconds(completion.waited),
            "queue_ms": _milliseconds(stats.queued),
            "ttfb_ms": None if stats.first_block is None else _milliseconds(stats.first_block),
            "total_ms": _milliseconds(stats.total),
        }
        told: dict[str, Any] = {"finish": completion.finish_reason, "cached_tokens": stats.cached, **times}
        told |= {"warnings": completion.warnings or UNSET, "cached_response": completion.replayed or UNSET}
        if isinstance(completion, LaneCompletion):
            estimated = completion.estimated or UNSET
            return cls(**told, applied=completion.applied, lane=completion.lane, usage_estimated=estimated)
        estimate = stats.estimates[0]
        return cls(
            **told,
            forwards=stats.forwards,
            blocks=stats.blocks,
            tokens_per_forward=round(completion.tokens_per_forward, 3),
            canvas_tokens=stats.canvas_tokens,
            discarded_tokens=completion.discarded_tokens,
            evictions=stats.evictions,
            deadline_met=completion.deadline_met,
            estimated_forwards=None if estimate is None else round(estimate, 1),
            drafts=stats.drafts,
            drafts_accepted=stats.drafts_accepted,
            applied=completion.applied.applied() | completion.terms.applied(),
            lane=OWN_LANE,
            scoring=UNSET if completion.scoring is None else ScoringReport.of(completion.scoring),
        )


def report_headers(answers: Sequence[Answer]) -> dict[str, str]:
    """The cost of ``answers``, which make one response, as its headers: sums, and the longest times."""
    reports = [GenerationReport.of(answer.completion) for answer in answers]
    tokens = sum(answer.completion.completion_tokens for answer in answers)
    told: dict[str, Any] = {"lane": reports[0].lane}
    for name in ("forwards", "blocks", "canvas_tokens", "discarded_tokens"):
        values = [getattr(report, name) for report in reports]
        if UNSET not in values:
            told[name] = sum(values)
    if "forwards" in told:
        told["tokens_per_forward"] = round(tokens / max(told["forwards"], 1), 3)
    for name in ("load_ms", "queue_ms", "total_ms", "ttfb_ms"):
        times = [time for report in reports if (time := getattr(report, name)) is not None]
        if times:
            told[name] = max(times)
    return {f"x-unmask-{name.replace('_', '-')}": str(value) for name, value in told.items()}


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)

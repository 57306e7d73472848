"""What models take in memory, told from their cards before anything is started, and what they may take together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unmask.checkpoints.directory import find_checkpoint
from unmask.engine.footprint import model_bytes
from unmask.engine.options import EngineOptions
from unmask.errors import InvalidValueError, UnmaskError
from unmask.gateway.config.appraisal import Appraisal
from unmask.gateway.config.budget import MemoryBudget
from unmask.gateway.config.config import Config
from unmask.gateway.config.wanted import LocalSource, WantedModel
from unmask.gateway.llama_cpp import LlamaCppOptions
from unmask.gateway.model_state import ModelRecord
from unmask.gateway.room import Room
from unmask.logits_workers import LogitsWorkers
from unmask.models.card import ModelCard
from unmask.models.info import context_length
from unmask.models.registry import describe
from unmask.refusal import Refusal

USUAL_SHARE = MemoryBudget(share=0.9)  # of the memory that is free when the server starts
_CHILD_BYTES = 100 * 2**20  # what llama.cpp has without a model
_USUAL_CONTEXT = 4096  # tokens: other programs reserve what whole contexts may take


def memory_for_models(config: Config, available: int | None, *, alone: bool) -> int | None:
    """The bytes that models may take together where ``available`` may be taken, None if that cannot be told.

    One that is ``alone`` takes what it takes, unless the file says a budget; several share that, or what there is.
    """
    budget = config.memory_budget or (None if alone else USUAL_SHARE)
    if budget is None or (available is None and budget.amount is None):
        return None
    return budget.of(available or 0)


def usual_context(card: ModelCard) -> int:
    """The tokens of a request on another program than ours, where nobody says how many."""
    return min(card.context_length or _USUAL_CONTEXT, _USUAL_CONTEXT)


def child_options(wanted: WantedModel, card: ModelCard, engine: EngineOptions) -> LlamaCppOptions:
    """The options of ``wanted`` as a child, with a modest context where neither it nor ``engine`` says one.

    Raises ``InvalidValueError`` for a context beyond the model's own, which llama.cpp would cut to that, unless flags
    of the model's own may widen it.
    """
    asked, most = wanted.context or engine.max_context, card.context_length
    field = "context" if wanted.context else "max_context"
    if most is not None and asked > most and not wanted.engine_args:
        raise InvalidValueError(
            f"A context of {asked} was asked for; the model's own limit is {most}.",
            hint=f"Give '{field}' at most that, or leave it out.",
            param=field,
        )
    base = LlamaCppOptions(context=engine.max_context or usual_context(card), threads=engine.threads)
    return wanted.llama_cpp(base)


def elsewhere(base: EngineOptions, workers: LogitsWorkers, card: ModelCard) -> EngineOptions:
    """``base`` for a model that ``workers`` compute: what it says of weights is meant for those that our engine reads.
    As with other engines, a context is no larger than usual unless that is said.
    """
    return replace(
        base.computed_by(workers),
        step_log=None,
        max_running=workers.count,
        max_context=base.max_context or usual_context(card),
    )


def child_bytes(card: ModelCard, options: LlamaCppOptions) -> int:
    """What a child takes: its weights, keys and values of all its slots, and the process."""
    tokens = options.slots * options.context
    return _CHILD_BYTES + (card.weight_bytes or 0) + tokens * (card.kv_bytes_per_token or 0)


def with_memory(appraisals: Sequence[Appraisal], config: Config, total: int | None) -> list[Appraisal]:
    """``appraisals``, those refused that not even a machine whose ``total`` bytes are all free could ever load.

    Of engines that are started as ``unmask serve`` starts them without options of its own.
    """
    served = [one for one in appraisals if one.lane is not None]
    room = Room(memory_for_models(config, total, alone=len(served) == 1), config.max_models)
    refused: dict[str, Refusal] = {}
    records = []
    for one in served:
        try:
            size = _needed_bytes(one)
        except UnmaskError as error:  # a server would not start with it either
            refused[one.entry.name] = Refusal.of(error)
            continue
        records.append(ModelRecord(name=one.entry.name, size_bytes=size, idle_seconds=None, pinned=one.entry.pinned))
    refused |= {name: Refusal.of(error) for name, error in room.never_fitting(records).items()}
    return [replace(one, found=refused.get(one.entry.name, one.found)) for one in appraisals]


def _needed_bytes(appraisal: Appraisal) -> int:
    """What the model takes on its lane; nothing if it runs elsewhere. Raises what our own engine has against it."""
    wanted, card, lane = appraisal.entry, appraisal.card, appraisal.lane
    if not isinstance(wanted.source, LocalSource) or lane is None:
        return 0
    engine = EngineOptions(model=wanted.source.model)
    if lane.kind not in ("unmask", "logits_worker"):
        return child_bytes(card, child_options(wanted, card, engine))
    if lane.kind == "logits_worker":
        engine = elsewhere(engine, LogitsWorkers(program=lane.name, count=wanted.slots or 1), card)
    options = wanted.own_engine(engine)
    checkpoint = find_checkpoint(wanted.source.model, download=False)
    spec = describe(checkpoint, attention=options.attention, adapted=options.adapter is not None)
    return model_bytes(
        options,
        spec,
        parameters=card.parameters or 0,
        weight_bytes=card.weight_bytes or 0,
        context_length=context_length(spec, options.max_context),
    )

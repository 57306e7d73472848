"""How a model is started on the engine of a lane."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unmask.errors import NotServedError, UnknownLaneError
from unmask.gateway.config.wanted import WantedModel
from unmask.gateway.engine import Engine
from unmask.gateway.engine_registry import Registry
from unmask.gateway.lane import PACKAGE, Lane
from unmask.gateway.llama_cpp import DEFAULTS, LlamaCppOptions, diffusion_server_plan, llama_server_plan, xllamacpp_plan
from unmask.gateway.plan import ChildPlan
from unmask.gateway.sglang import sglang_plan
from unmask.gateway.vllm import vllm_plan
from unmask.logits_workers import LogitsWorkers
from unmask.models.card import ModelCard


def plan_for(
    lane: Lane,
    registry: Registry,
    card: ModelCard,
    name: str,
    options: LlamaCppOptions = DEFAULTS,
    *,
    context: int | None = None,
) -> ChildPlan:
    """Serve the model of ``card``, which was found, under ``name`` as a child of ``lane``'s kind. ``options`` are
    llama.cpp's, but for ``more``, which is for all; ``context`` is for the others.

    Raises ``UnknownLaneError`` if the engine was removed meanwhile, ``NotServedError`` for lanes that are no children.
    """
    assert card.path is not None, "it was found"
    model, paradigm = Path(card.path), card.paradigm
    if lane.name == PACKAGE:
        return xllamacpp_plan(model, name, options)
    engine = _engine(lane, registry)
    program = Path(engine.program)
    if engine.kind == "sglang":
        return sglang_plan(program, model, name, paradigm, card.architecture, context=context, more=options.more)
    if engine.kind == "vllm":
        return vllm_plan(program, model, name, context=context, more=options.more)
    if engine.kind == "logits_worker":
        raise NotServedError(f"The engine '{lane.name}' gives logits, and is no server that could be a child.")
    if paradigm == "diffusion":
        return diffusion_server_plan(program, model, name, options.start_seconds, options.more)
    return llama_server_plan(program, model, name, options)


def logits_workers(lane: Lane, registry: Registry, wanted: WantedModel) -> LogitsWorkers:
    """The processes that give the logits of ``wanted`` on ``lane``; one if nothing else is said.

    Raises ``UnknownLaneError`` if the engine was removed meanwhile.
    """
    said = {
        "count": wanted.slots,
        "gpu_layers": wanted.gpu_layers,
        "start_seconds": wanted.load_timeout,
        "step_seconds": wanted.stall_timeout,
    }
    given: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    return LogitsWorkers(program=_engine(lane, registry).program, lane=lane.name, **given)


def _engine(lane: Lane, registry: Registry) -> Engine:
    engine = registry.engine(lane.name)
    if engine is None:
        raise UnknownLaneError(f"There is no engine '{lane.name}' any more.", hint="'unmask engine list' names them.")
    return engine

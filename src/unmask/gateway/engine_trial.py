"""A model loaded on an engine once, and asked for a token: the proof that the two work here."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from unmask.engine.options import EngineOptions
from unmask.engine.process import ProcessEngine
from unmask.gateway.child import Child
from unmask.gateway.config.need import usual_context
from unmask.gateway.config.wanted import LocalSource, WantedModel
from unmask.gateway.engine import Engine
from unmask.gateway.engine_lanes import engine_lane
from unmask.gateway.engine_plan import logits_workers, plan_for
from unmask.gateway.engine_registry import Registry
from unmask.gateway.plan import ChildPlan
from unmask.gateway.routing import route
from unmask.gateway.run_directory import RunDirectory
from unmask.models.card import inspect_model
from unmask.params import GenerationParams
from unmask.refusal import Refusal
from unmask.resolve import resolve
from unmask.terms import PLAIN


def try_model(engine: Engine, model: str) -> float:
    """Load ``model`` on ``engine``, and have it write a token; gives the seconds that took.

    Raises the error of its refusal, or of its load.
    """
    card, lane = inspect_model(model), engine_lane(engine)
    found = route(card, [lane], lane.name)
    if isinstance(found, Refusal):
        raise found.error()
    registry, name = Registry(engines=[engine]), card.name or engine.name
    if lane.kind == "logits_worker":
        workers = logits_workers(lane, registry, WantedModel(name=engine.name, source=LocalSource(model)))
        options = EngineOptions(model=model, max_context=usual_context(card), logits_workers=workers)
        return asyncio.run(_decoding_seconds(options))
    plan = plan_for(lane, registry, card, name)
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_load_seconds(plan, RunDirectory(Path(folder))))


async def _decoding_seconds(options: EngineOptions) -> float:
    """Until our own engine, which it gives logits to, has decided a token."""
    begun = time.monotonic()
    engine = await ProcessEngine.launch(options)
    try:
        params = resolve(GenerationParams(max_tokens=1, steps=1), engine.model, 1)
        with engine.submit([([0], params, PLAIN)]) as mailbox:
            while not (await mailbox.get())[1].last:
                pass
        return time.monotonic() - begun
    finally:
        await engine.close()


async def _load_seconds(plan: ChildPlan, directory: RunDirectory) -> float:
    child = await Child.start(plan, directory)
    await child.close()
    assert child.load_seconds is not None
    return child.load_seconds

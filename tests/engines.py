"""Driving an engine loop by hand, one step at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

from unmask.engine import wire
from unmask.engine.loop import EngineLoop
from unmask.engine.options import EngineOptions
from unmask.events import RequestStats, StepReport
from unmask.params import GenerationParams
from unmask.resolve import resolve


def make_loop(model, **options) -> EngineLoop:
    return EngineLoop(EngineOptions(model=str(model), threads=1, device="cpu", **options))


@dataclass
class Result:
    """What came of one request."""

    ids: list[int] = field(default_factory=list)
    finish: str | None = None
    ended_by_token: bool = False
    stats: RequestStats | None = None
    error: tuple[str, str] | None = None
    finished_in_step: int = -1


def submit(loop: EngineLoop, name: str, prompt_ids: list[int], constraint=None, **params) -> None:
    resolved = resolve(GenerationParams(**params), loop.model, len(prompt_ids), constraint)
    loop.send(wire.Submit(name, prompt_ids, resolved))


def absorb(report: StepReport, results: dict[str, Result], step: int = -1) -> None:
    """Add one step's events to ``results``."""
    for event in report.events:
        result = results.setdefault(event.request_id, Result())
        result.ids += event.token_ids
        if event.last:
            result.finish, result.ended_by_token = event.finish, event.ended_by_token
            result.stats, result.error, result.finished_in_step = event.stats, event.error, step


def drain(loop: EngineLoop, results: dict[str, Result] | None = None) -> dict[str, Result]:
    """Step until idle; everything reported, by request."""
    results = {} if results is None else results
    step = 0
    while not loop.idle:
        absorb(loop.step(), results, step)
        step += 1
        assert step < 100_000
    assert loop.step().stats.pages_in_use == 0
    return results


def generate(loop: EngineLoop, prompt_ids: list[int], **params) -> Result:
    """One request, alone."""
    submit(loop, "only", prompt_ids, **params)
    return drain(loop)["only"]


@dataclass
class Forward:
    """One forward of a request that runs alone."""

    start: int
    end: int
    rows: list[int]
    canvas: list[int]
    committed: list[int]


def trace(loop: EngineLoop, prompt_ids: list[int], **params) -> list[Forward]:
    """Run one request alone and record, for every forward, its rows, the canvas before it, and what it committed."""
    forwards: list[Forward] = []
    execute = loop._runner.execute

    def recording(spans):
        (span,) = spans
        canvas = span.sequence.canvas.tokens.tolist()
        commits = execute(spans)
        window = span.window
        committed = sorted(commits[0].decision.positions)
        forwards.append(Forward(window.start, window.end, window.positions.tolist(), canvas, committed))
        return commits

    loop._runner.execute = recording
    try:
        generate(loop, prompt_ids, **params)
    finally:
        loop._runner.execute = execute
    return forwards

"""The record of the request that is being served, filled in by those that it passes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from unmask.answers.answer import AnswerDelta
from unmask.gateway.model_state import ModelState
from unmask.serving.extension import GenerationReport
from unmask.serving.journal import RequestError, RequestRecord
from unmask.serving.ledger import Ledger
from unmask.serving.listing import Listing
from unmask.shown import cut, printable

_LEFT = 499  # the client was gone before it had an answer


class Trace:
    """Writes ``record`` while its request is served; that began with the trace."""

    def __init__(self, record: RequestRecord) -> None:
        self.record = record
        self._begun = time.perf_counter()

    def asked(self, name: str | None) -> None:
        """The request names a model."""
        self.record.asked = printable(cut(name or ""))

    def wants(self, listing: Listing, state: ModelState) -> None:
        """It will get this model, which is in this state now."""
        self.record.served = listing.name
        self.record.lane = listing.lane
        kind = "" if listing.paradigm == "unknown" else f" is {listing.paradigm}"
        self.record.route = f"{listing.family}{kind}: {listing.lane}"
        self.record.found = state.state

    def waited(self, since: float, before: ModelState, now: ModelState) -> None:
        """The wait for the model is over, which began at ``since``, seconds since 1970, with the state ``before``."""
        waited = max(0.0, time.time() - since)
        load = 0.0
        there = now.state in ("ready", "unreachable")
        if there and now.since is not None and now.since > since:
            load = min(now.load_seconds, now.since - since)
        elif not there and (now.loads > before.loads or before.state == "loading"):
            load = waited
        self.record.phases.model_wait = _rounded(waited - load)
        self.record.phases.model_load = _rounded(load)

    @property
    def model_seconds(self) -> float:
        """What the wait for the model has taken, its load and all."""
        return (self.record.phases.model_wait or 0.0) + (self.record.phases.model_load or 0.0)

    def heard(self, delta: AnswerDelta) -> None:
        """News of an answer, on its way into the response."""
        if delta.parts and self.record.phases.first is None:
            self.record.phases.first = _rounded(time.perf_counter() - self._begun)
        if delta.answer is not None:
            self._answered(GenerationReport.of(delta.answer.completion))

    def _answered(self, report: GenerationReport) -> None:
        record, phases = self.record, self.record.phases
        record.lane = report.lane
        record.applied = record.applied or {name: value for name, value in report.applied.items() if _is_plain(value)}
        record.warnings = list(dict.fromkeys([*record.warnings, *(report.warnings or ())]))
        if report.cached_response is True:  # what it cost was the first one's
            return
        phases.engine_queue = max(phases.engine_queue or 0.0, _rounded(report.queue_ms / 1000))
        if isinstance(report.forwards, int):
            record.forwards = (record.forwards or 0) + report.forwards
        if isinstance(report.blocks, int):
            record.blocks = (record.blocks or 0) + report.blocks

    def failed(self, code: str, message: str) -> None:
        """The request failed; the first reason counts."""
        self.record.error = self.record.error or RequestError(code, cut(message))

    def left(self) -> None:
        """The client has gone."""
        self.record.outcome = "left"

    def ended(self, ledger: Ledger) -> None:
        """The response has been sent, or nobody takes it any more."""
        record = self.record
        record.phases.total = _rounded(time.perf_counter() - self._begun)
        record.finish = [*ledger.ends]
        record.prompt_tokens, record.completion_tokens = ledger.prompt_tokens, ledger.completion_tokens
        if record.error is not None:
            record.outcome = "failed"
        elif record.outcome == "running":
            gone = record.status in (0, _LEFT) or "cancelled" in ledger.ends
            record.outcome = "left" if gone else "answered"


_current: ContextVar[Trace] = ContextVar("trace")


@contextmanager
def tracing(record: RequestRecord) -> Iterator[Trace]:
    """The trace of the request that is served in this context, and in tasks that begin in it."""
    trace = Trace(record)
    token = _current.set(trace)
    try:
        yield trace
    finally:
        _current.reset(token)


def current_trace() -> Trace:
    """The present request's trace; outside of those that are recorded one that nobody reads."""
    return _current.get(None) or Trace(RequestRecord(id="", at=0.0, path="", key=""))


def _is_plain(value: Any) -> bool:
    """Whether ``value`` is a setting, and no part of what was asked: stop strings, or tokens with a bias."""
    return isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= 64)


def _rounded(seconds: float) -> float:
    return round(seconds, 6)

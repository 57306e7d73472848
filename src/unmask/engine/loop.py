"""The engine loop: receive, plan, execute, commit, report. This is the only place where a request advances."""

from __future__ import annotations

import queue
import time
import traceback
from collections.abc import Callable
from copy import copy
from functools import partial

import torch

from unmask.checkpoints.directory import open_checkpoint
from unmask.checkpoints.weights import Progress
from unmask.engine import wire
from unmask.engine.cache_size import cache_pages
from unmask.engine.estimate import LevelEstimator
from unmask.engine.fit import check_fit
from unmask.engine.lookahead import Lookahead, by_request
from unmask.engine.memory import KeyValueMemory
from unmask.engine.options import EngineOptions
from unmask.engine.pages import PAGE_TOKENS, PageLedger
from unmask.engine.prefix_sessions import PrefixSessions, file_marks, prefixes_key
from unmask.engine.runner import Commit, Runner
from unmask.engine.scheduler import Scheduler, Span
from unmask.engine.sequence import Sequence
from unmask.engine.session_place import SessionPlace
from unmask.engine.step_log import StepLog, check_step_log
from unmask.engine.step_meter import StepWatch
from unmask.engine.step_records import Origin
from unmask.engine.timeouts import end_overdue
from unmask.errors import EngineFaultError, InvalidValueError, NotFiniteError
from unmask.events import CanvasEvent, EngineStats, StepReport
from unmask.models.base import Model
from unmask.models.info import model_info
from unmask.models.load import load_model
from unmask.params import ModelInfo

_NOT_FINITE_HINT = "Its weights may be damaged; in float16 numbers may grow too large, so try another dtype."


class EngineLoop:
    """One model and the requests it is working on. ``send`` may be called from any thread, the rest from one.

    ``sessions`` keep its prefixes at ``place``, if there is one, unless the model's files have changed as it was read.
    """

    def __init__(
        self, options: EngineOptions, progress: Progress = lambda share: None, place: SessionPlace | None = None
    ) -> None:
        if options.threads:
            torch.set_num_threads(options.threads)
        if options.step_log is not None:
            check_step_log(options.step_log)
        checkpoint = open_checkpoint(options.model)
        marks = None if place is None else file_marks(checkpoint, options)
        model = load_model(
            checkpoint,
            adapter=options.adapter,
            adapters=options.adapters,
            attention=options.attention,
            device=options.device,
            dtype=options.dtype,
            quantize=options.quantize,
            progress=progress,
            check=partial(check_fit, options, checkpoint),
        )
        if options.batch_invariant:
            model.tile()
        name = checkpoint.name
        info = partial(
            model_info,
            max_context=options.max_context,
            parameters=model.parameters,
            precision=model.precision,
            service_classes=options.service_classes,
        )
        self.models = {"": info(model.spec, name)}
        for adapter, spec in model.adapters.items():
            self.models[adapter] = info(spec, f"{name}:{adapter}", adapter=adapter)
        self._numbers = {adapter: number for number, adapter in enumerate(model.adapters)}
        self.stats = EngineStats()
        self._pages = PageLedger(cache_pages(options, model, self.model.context_length))
        self._runner = _new_runner(model, self._pages.total)
        self._shares = options.prefix_cache
        self._memory = KeyValueMemory(self._pages)
        self._scheduler = Scheduler(options.max_running, options.max_rows, self._memory, options.service_classes)
        self._estimates = LevelEstimator()
        self._lookahead = Lookahead(self._runner, self._memory, options.draft_rows)
        self.sessions: PrefixSessions | None = None
        if place and marks and options.prefix_cache and file_marks(checkpoint, options) == marks:
            key = prefixes_key(marks, options, model)
            self.sessions = PrefixSessions(place, key, self._memory.prefixes, self._runner.cache)
        self._inbox: queue.SimpleQueue[wire.Command] = queue.SimpleQueue()
        self._stopping = False
        self._watch = StepWatch() if options.step_log is None else StepLog(options.step_log, self.origin)

    def send(self, command: wire.Command) -> None:
        """Hand over a command; it is obeyed at the top of the next step."""
        self._inbox.put(command)

    def run(self, publish: Callable[[StepReport], None]) -> None:
        """Step until told to shut down; sleep while there is nothing to do."""
        try:
            while not self._stopping:
                if self._scheduler.idle:
                    self._check_integrity()
                    command = self._inbox.get()
                    self._watch.begin()
                    self._obey(command)
                self.step(publish)
        finally:
            self._watch.close()

    def step(self, publish: Callable[[StepReport], object] = lambda report: None) -> StepReport:
        """One denoising step of every running request that has its turn, and what came of it, handed to ``publish``."""
        self._watch.begin()
        self._receive()
        started = time.monotonic()
        events = self._end_overdue(started)
        if spans := self._scheduler.plan(started):
            events += self._execute(spans)
        report = StepReport(events, self._gauges(), time.monotonic() - started)
        publish(report)
        self._watch.end(idle=self._scheduler.idle)
        return report

    @property
    def origin(self) -> Origin:
        """What its measurements are true of."""
        device = self._runner.model.device
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
        return Origin.here(self.model, torch.get_num_threads(), name)

    @property
    def model(self) -> ModelInfo:
        """The loaded model itself."""
        return self.models[""]

    @property
    def idle(self) -> bool:
        """Whether every request that was sent has ended."""
        return self._scheduler.idle and self._inbox.empty()

    def _receive(self) -> None:
        while not self._inbox.empty():
            self._obey(self._inbox.get())

    def _obey(self, command: wire.Command) -> None:
        match command:
            case wire.Submit(request_id, prompt_ids, params, terms):
                model, adapter = self.models[params.adapter], self._numbers.get(params.adapter)
                now = time.monotonic()
                sequence = Sequence(
                    request_id, prompt_ids, params, model, now, adapter, terms=terms, shares=self._shares
                )
                self._estimates.expect(sequence)
                self._scheduler.submit(sequence)
            case wire.Cancel(request_id):
                self._scheduler.remove(request_id)
            case wire.Shutdown():
                self._stopping = True

    def _end_overdue(self, now: float) -> list[CanvasEvent]:
        ended = end_overdue(self._scheduler, now)
        for sequence, _ in ended:
            self._estimates.learn(sequence, cut=True)
        return [event for _, event in ended]

    def _execute(self, spans: list[Span]) -> list[CanvasEvent]:
        try:
            with self._lookahead.drafts(spans, self._scheduler.room) as drafts:
                computed = [*spans, *drafts]
                commits = self._runner.execute(computed)
                self._watch.computed(computed)
                self.stats.steps += 1
                now = time.monotonic()
                events = [self._advance(own, drafted, now) for own, *drafted in by_request(commits)]
        except Exception as error:
            return self._fail(spans, error)
        return [event for event in events if event is not None]

    def _advance(self, commit: Commit, drafted: list[Commit], now: float) -> CanvasEvent | None:
        """Apply one request's commits; its event, if there is news. NaN, or a broken invariant, ends that one only."""
        sequence = commit.span.sequence
        self.stats.rows += sum(each.span.rows for each in (commit, *drafted)) * sequence.streams
        try:
            if not commit.finite:
                raise NotFiniteError("The model gave NaN or infinite logits.", hint=_NOT_FINITE_HINT)
            self.stats.tokens_committed += sequence.apply(commit.span.window, commit.decision, now)
            self.stats.tokens_committed += self._lookahead.follow(sequence, drafted, now)
        except (EngineFaultError, NotFiniteError) as error:
            self._scheduler.remove(sequence.request_id)
            return CanvasEvent.failure(sequence.request_id, error.code, str(error))
        self._estimates.follow(sequence)
        event = sequence.event()
        if event is not None and event.last:
            self._scheduler.remove(sequence.request_id)
        return event

    def _fail(self, spans: list[Span], error: Exception) -> list[CanvasEvent]:
        """End the requests of a step that broke (out of memory, most likely); the engine goes on."""
        traceback.print_exception(error)
        message = f"The step failed: {type(error).__name__}: {error}"
        for span in spans:
            self._scheduler.remove(span.sequence.request_id)
        return [CanvasEvent.failure(span.sequence.request_id, EngineFaultError.code, message) for span in spans]

    def _gauges(self) -> EngineStats:
        stats, scheduler = self.stats, self._scheduler
        stats.running, stats.waiting = len(scheduler.running), len(scheduler.waiting)
        stats.pages_in_use, stats.pages_total = self._pages.in_use, self._pages.total
        stats.pages_idle, stats.evictions = self._pages.idle, scheduler.evictions
        stats.prompt_tokens, stats.prompt_tokens_cached = scheduler.prompt_tokens, scheduler.prompt_tokens_cached
        return copy(stats)

    def _check_integrity(self) -> None:
        """Idle means that nothing is held."""
        assert self._pages.in_use == 0, f"{self._pages.in_use} pages in use while idle"


def _new_runner(model: Model, pages: int) -> Runner:
    try:
        return Runner(model, pages)
    except RuntimeError as error:  # torch's out of memory
        raise InvalidValueError(
            f"There is no memory for {pages * PAGE_TOKENS} tokens of keys and values: {error}",
            hint="Ask for fewer kv_tokens, or a smaller context (max_context).",
            param="kv_tokens",
        ) from None

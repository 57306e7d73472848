"""The engine loop: receive, plan, execute, commit, report. This is the only place where a request advances."""

from __future__ import annotations

import queue
import time
import traceback
from collections.abc import Callable
from copy import copy

import torch

from unmask.checkpoints.directory import open_checkpoint
from unmask.checkpoints.weights import Progress
from unmask.engine import wire
from unmask.engine.options import EngineOptions
from unmask.engine.pages import PageLedger, pages_for
from unmask.engine.runner import Commit, Runner
from unmask.engine.scheduler import Scheduler, Span
from unmask.engine.sequence import Sequence
from unmask.errors import ContextLengthError, EngineFaultError
from unmask.events import CanvasEvent, EngineStats, StepReport
from unmask.models.load import load_model
from unmask.models.transformer import Transformer
from unmask.params import ModelInfo

_DEFAULT_MAX_TOKENS = {"block_causal": 512, "full": 128}
_CACHE_BYTES = 2 * 2**30


class EngineLoop:
    """One model and the requests it is working on. ``send`` may be called from any thread, the rest from one."""

    def __init__(self, options: EngineOptions, progress: Progress = lambda share: None) -> None:
        if options.threads:
            torch.set_num_threads(options.threads)
        model = load_model(
            options.model,
            adapter=options.adapter,
            attention=options.attention,
            device=options.device,
            dtype=options.dtype,
            progress=progress,
        )
        self.model = _model_info(open_checkpoint(options.model).name, model)
        self.stats = EngineStats()
        self._pages = PageLedger(pages_for(options.kv_tokens or _cache_tokens(model, options.max_running)))
        self._runner = Runner(model, self._pages.total)
        self._scheduler = Scheduler(options.max_running, options.max_rows, self._pages)
        self._inbox: queue.SimpleQueue[wire.Command] = queue.SimpleQueue()
        self._refused: list[CanvasEvent] = []
        self._stopping = False

    def send(self, command: wire.Command) -> None:
        """Hand over a command; it is obeyed at the top of the next step."""
        self._inbox.put(command)

    def run(self, publish: Callable[[StepReport], None]) -> None:
        """Step until told to shut down; sleep while there is nothing to do."""
        while True:
            if self._scheduler.idle:
                self._check_integrity()
                self._obey(self._inbox.get())
            self._receive()
            if self._stopping:
                return
            publish(self.step())

    def step(self) -> StepReport:
        """One denoising step of every running request, and what came of it."""
        self._receive()
        started = time.monotonic()
        spans = self._scheduler.plan(started)
        events, self._refused = self._refused, []
        if spans:
            try:
                commits = self._runner.execute(spans)
            except Exception as error:
                events += self._fail(spans, error)
                commits = []
            now = time.monotonic()
            for commit in commits:
                self.stats.rows += commit.span.rows * commit.span.sequence.streams
                self.stats.tokens_committed += len(commit.positions)
                event = self._advance(commit, now)
                if event is not None:
                    events.append(event)
            self.stats.steps += 1
        return StepReport(events, self._gauges(), time.monotonic() - started)

    @property
    def idle(self) -> bool:
        """Whether every request that was sent has ended."""
        return self._scheduler.idle and self._inbox.empty() and not self._refused

    def _receive(self) -> None:
        while not self._inbox.empty():
            self._obey(self._inbox.get())

    def _obey(self, command: wire.Command) -> None:
        match command:
            case wire.Submit():
                self._submit(command)
            case wire.Cancel(request_id):
                self._remove(request_id)
            case wire.Shutdown():
                self._stopping = True

    def _submit(self, command: wire.Submit) -> None:
        sequence = Sequence(command.request_id, command.prompt_ids, command.params, self.model, time.monotonic())
        if sequence.pages_needed > self._pages.total:
            message = f"The request needs {sequence.pages_needed} key/value pages; the engine has {self._pages.total}."
            self._refused.append(CanvasEvent.failure(command.request_id, ContextLengthError.code, message))
        else:
            self._scheduler.submit(sequence)

    def _remove(self, request_id: str) -> None:
        sequence = self._scheduler.remove(request_id)
        if sequence is not None:
            self._runner.forget(sequence)

    def _advance(self, commit: Commit, now: float) -> CanvasEvent | None:
        """Apply one request's commits; its event, if there is news. A broken invariant ends that request only."""
        sequence = commit.span.sequence
        try:
            sequence.apply(commit.span.window, commit.positions, commit.tokens, now)
        except EngineFaultError as error:
            self._remove(sequence.request_id)
            return CanvasEvent.failure(sequence.request_id, error.code, error.message)
        event = sequence.event()
        if event is not None and event.finish is not None:
            self._remove(sequence.request_id)
        return event

    def _fail(self, spans: list[Span], error: Exception) -> list[CanvasEvent]:
        """End the requests of a step that broke (out of memory, most likely); the engine goes on."""
        traceback.print_exception(error)
        message = f"The step failed: {type(error).__name__}: {error}"
        for span in spans:
            self._remove(span.sequence.request_id)
        return [CanvasEvent.failure(span.sequence.request_id, EngineFaultError.code, message) for span in spans]

    def _gauges(self) -> EngineStats:
        stats, scheduler = self.stats, self._scheduler
        stats.running, stats.waiting = len(scheduler.running), len(scheduler.waiting)
        stats.pages_in_use, stats.pages_total = self._pages.in_use, self._pages.total
        return copy(stats)

    def _check_integrity(self) -> None:
        """Idle means that nothing is held."""
        assert self._pages.in_use == 0, f"{self._pages.in_use} pages in use while idle"


def _model_info(name: str, model: Transformer) -> ModelInfo:
    spec = model.spec
    return ModelInfo(
        name=name,
        family=spec.family,
        attention=spec.attention,
        block_length=spec.block_length,
        max_tokens=_DEFAULT_MAX_TOKENS[spec.attention],
        context_length=spec.shape.context_length,
        vocab_size=spec.shape.vocab,
        mask_id=spec.mask_id,
        end_ids=spec.end_ids,
        parameters=model.parameters,
    )


def _cache_tokens(model: Transformer, max_running: int) -> int:
    """Room for ``max_running`` whole contexts, or for what ``_CACHE_BYTES`` hold, but for one context at least."""
    shape = model.spec.shape
    per_token = 2 * shape.layers * shape.kv_heads * shape.head_size * model.dtype.itemsize
    return max(shape.context_length, min(max_running * shape.context_length, _CACHE_BYTES // per_token))

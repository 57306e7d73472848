"""Prometheus instruments of one model. Rates are honest: tokens are committed tokens, steps are forwards.

Per-token latencies are left out on purpose: tokens of a block arrive together, so a time between tokens would
be a false zero. Time to first block, block latency and tokens per forward take their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, Metric

from unmask.events import EngineStats, FinishReason, RequestStats, StepReport

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_STEP_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_ERRORS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0)
_COUNTS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256)

_GAUGES: dict[str, tuple[str, Callable[[EngineStats], int]]] = {
    "unmask_requests_running": ("Requests that share the current step.", lambda stats: stats.running),
    "unmask_requests_waiting": ("Requests waiting to be admitted.", lambda stats: stats.waiting),
    "unmask_kv_pages_in_use": ("Key/value pages held by running requests.", lambda stats: stats.pages_in_use),
    "unmask_kv_pages_idle": ("Key/value pages kept for prompts that begin alike.", lambda stats: stats.pages_idle),
    "unmask_kv_pages_total": ("Key/value pages there are.", lambda stats: stats.pages_total),
}
_OF_ALL = ("unmask_requests_running", "unmask_requests_waiting")

_COUNTERS: dict[str, tuple[str, Callable[[EngineStats], int]]] = {
    "unmask_engine_steps": (
        "Steps of the engine: forwards shared by all requests.",
        lambda stats: stats.steps,
    ),
    "unmask_canvas_tokens_computed": ("Positions sent through the model.", lambda stats: stats.rows),
    "unmask_tokens_committed": ("Tokens committed.", lambda stats: stats.tokens_committed),
    "unmask_evictions": ("Requests that had to wait again because others needed their pages.", lambda s: s.evictions),
    "unmask_prompt_tokens": ("Prompt tokens of admitted requests.", lambda stats: stats.prompt_tokens),
    "unmask_prompt_tokens_cached": (
        "Those whose keys and values were known.",
        lambda stats: stats.prompt_tokens_cached,
    ),
}


class Metrics:
    """All instruments of one model, served as ``name``, in registries of their own. They outlive its engine.

    ``stats`` gives the engine's latest numbers. Unless it is ``ours``, what is counted on canvases is not shown: a 0
    would be a number.
    """

    def __init__(
        self, name: str, family: str, paradigm: str, stats: Callable[[], EngineStats], *, ours: bool = True
    ) -> None:
        self._registry = CollectorRegistry()
        self._canvases = CollectorRegistry()
        self._ours = ours
        self._last = EngineStats()
        self._stats = stats
        self._declare_engine({"name": name, "family": family, "paradigm": paradigm})
        self._declare_requests()
        with_frames = self._registry if paradigm == "diffusion" else self._canvases
        self._frames = Counter("unmask_canvas_frames_sent", "Canvas frames handed to clients.", registry=with_frames)

    def _declare_engine(self, about: dict[str, str]) -> None:
        Info("unmask_model", "The model being served.", registry=self._registry).info(about)
        for gauge_name, (text, read) in _GAUGES.items():
            registry = self._registry if gauge_name in _OF_ALL else self._canvases
            gauge = Gauge(gauge_name, text, registry=registry)
            gauge.set_function(lambda read=read: read(self._stats()))  # type: ignore[misc]
        self._counters = {key: self._canvas_counter(key, text) for key, (text, _) in _COUNTERS.items()}
        self._step = self._canvas_histogram(
            "unmask_denoise_step_seconds", "Wall time of one engine step.", _STEP_SECONDS
        )
        self._load = Gauge("unmask_load_seconds", "Time it took to load the model.", registry=self._registry)

    def _declare_requests(self) -> None:
        self._ends = Counter("unmask_requests", "Requests ended.", ["finish"], registry=self._registry)
        self._usage = Counter("unmask_usage_tokens", "Tokens of answers.", ["kind"], registry=self._registry)
        self._forwards = self._canvas_counter("unmask_forwards", "Forwards that ended requests took part in.")
        self._blocks = self._canvas_counter("unmask_blocks_committed", "Blocks of finished requests.")
        self._discarded = self._canvas_counter(
            "unmask_tokens_discarded", "Committed tokens that are in no finished answer."
        )
        self._disconnects = Counter(
            "unmask_disconnects", "Requests whose client left before the end.", registry=self._registry
        )
        self._rejections = Counter(
            "unmask_requests_rejected", "Requests that found no place.", ["reason"], registry=self._registry
        )
        self._sessions = Counter(
            "unmask_session_tokens", "Tokens kept on disk, and given back.", ["action"], registry=self._registry
        )
        self._timeouts = Counter("unmask_timeouts", "Requests that time ended.", ["phase"], registry=self._registry)
        self._deadlines = Counter("unmask_deadlines", "Answers with a deadline.", ["met"], registry=self._registry)
        self._estimates = Histogram(
            "unmask_estimate_relative_error",
            "|estimated - taken| / taken, of a request's forwards.",
            ["when"],
            buckets=_ERRORS,
            registry=self._registry,
        )
        self._queue = self._histogram("unmask_queue_seconds", "Arrival to first step.", _SECONDS)
        self._total = self._histogram("unmask_request_seconds", "Arrival to last token.", _SECONDS)
        self._first = self._histogram(
            "unmask_time_to_first_block_seconds", "Arrival to first committed block.", _SECONDS
        )
        self._block = self._canvas_histogram(
            "unmask_block_latency_seconds", "Mean time between a request's blocks, if it has two.", _SECONDS
        )
        self._per_forward = self._canvas_histogram(
            "unmask_tokens_per_forward", "A request's tokens / forwards.", _COUNTS
        )
        self._per_block = self._canvas_histogram("unmask_tokens_per_block", "A request's tokens / blocks.", _COUNTS)
        self._steps = self._canvas_histogram("unmask_steps_per_block", "A request's forwards / blocks.", _COUNTS)

    def _canvas_counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, registry=self._canvases)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, buckets=buckets, registry=self._registry)

    def _canvas_histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, buckets=buckets, registry=self._canvases)

    def loaded(self, seconds: float, stats: Callable[[], EngineStats]) -> None:
        """The model took ``seconds`` to load; ``stats`` are those of its engine, which begins to count anew."""
        self._load.set(seconds)
        self._stats, self._last = stats, EngineStats()

    def step(self, report: StepReport) -> None:
        """One engine step; hang this on ``EngineClient.on_step``."""
        if report.stats.steps > self._last.steps:  # else the engine only refused or dropped requests
            self._step.observe(report.seconds)
        for name, (_, read) in _COUNTERS.items():
            self._counters[name].inc(read(report.stats) - read(self._last))
        self._last = report.stats

    def finished(self, finish: FinishReason, stats: RequestStats, prompt: int, tokens: int) -> None:
        """A request came to its end with ``prompt`` tokens and ``tokens`` completion tokens."""
        self._ends.labels(finish).inc()
        self._usage.labels("prompt").inc(prompt)
        self._usage.labels("completion").inc(tokens)
        self._queue.observe(stats.queued)
        self._total.observe(stats.total)
        if stats.first_block is not None:
            self._first.observe(stats.first_block)
        if stats.forwards:  # else it is another engine's, or there was nothing to answer
            self._discarded.inc(stats.committed - tokens)
            self._forwards.inc(stats.forwards)
            self._per_forward.observe(tokens / stats.forwards)
        if stats.blocks:
            self._blocks.inc(stats.blocks)
            self._per_block.observe(tokens / stats.blocks)
            self._steps.observe(stats.forwards / stats.blocks)
        if stats.blocks > 1 and stats.first_block is not None:
            self._block.observe((stats.total - stats.first_block) / (stats.blocks - 1))

        if finish == "timeout":
            self._timeouts.labels("running").inc()
        else:
            self._observe_estimates(stats)

    def _observe_estimates(self, stats: RequestStats) -> None:
        for when, estimate in zip(("arrival", "first_block"), stats.estimates, strict=True):
            if estimate is not None:
                self._estimates.labels(when).observe(abs(estimate - stats.forwards) / stats.forwards)

    def deadline(self, met: bool | None) -> None:
        """An answer with a deadline is there, in time or not; None for one without."""
        if met is not None:
            self._deadlines.labels("true" if met else "false").inc()

    def kept(self, action: str, tokens: int) -> None:
        """So many tokens of conversations were "saved" to the session store, or "restored" from it."""
        self._sessions.labels(action).inc(tokens)

    def rejected(self, reason: str) -> None:
        """A request was turned away before it could wait, for the ``reason`` of the error's code."""
        self._rejections.labels(reason).inc()

    def expired(self) -> None:
        """A request has waited as long as it may."""
        self._ends.labels("expired").inc()
        self._timeouts.labels("waiting").inc()

    def cancelled(self, stats: RequestStats) -> None:
        """A request was dropped because nobody waits for it any more; ``stats`` is its last known cost."""
        self._ends.labels("cancelled").inc()
        self._forwards.inc(stats.forwards)
        self._discarded.inc(stats.committed)
        self._disconnects.inc()

    def failed(self) -> None:
        """A request ended with an error: the engine's, or a bug of ours."""
        self._ends.labels("error").inc()

    def frame(self) -> None:
        """A canvas frame went out to a client."""
        self._frames.inc()

    def collect(self) -> Iterable[Metric]:
        """Every metric with its samples."""
        yield from self._registry.collect()
        if self._ours:
            yield from self._canvases.collect()

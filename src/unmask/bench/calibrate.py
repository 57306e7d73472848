"""Measuring what steps cost: the live engine at many sizes of batch, with requests of many lengths in every phase."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from unmask import __version__
from unmask.bench.costs import FEATURES, Calibration, fit_costs
from unmask.bench.distributions import Floats
from unmask.bench.request_seconds import measure_request_seconds
from unmask.bench.trajectory import Shape, span_features
from unmask.checkpoints.weights import Progress
from unmask.engine import wire
from unmask.engine.loop import EngineLoop
from unmask.engine.options import EngineOptions
from unmask.engine.scheduler import Span
from unmask.engine.worker import default_threads
from unmask.events import CanvasEvent
from unmask.params import GenerationParams, ModelInfo
from unmask.resolve import resolve

_LEAST_STEPS = 8  # at each level, however long they take
_WARM_UP = 20  # steps that are not counted: the first ones of a process take longer


def calibrate(
    engine: EngineOptions,
    options: GenerationParams,
    shapes: Callable[[int], list[Shape]],
    seconds: float,
    seed: int,
    progress: Progress = lambda share: None,
) -> Calibration:
    """Measure ``engine`` for about ``seconds``, with requests that ask for ``options``; ``shapes`` gives their sizes
    for a context length.

    Raises what loading raises, or ``resolve`` for a shape that the model has no room for.
    """
    random = np.random.default_rng(seed)
    request_seconds = measure_request_seconds(engine)
    loop = MeasuredLoop(replace(engine, threads=engine.threads or default_threads()), progress)
    requests = random_requests(shapes(loop.model.context_length), options, loop.model, random)
    costs, fit = fit_costs(*loop.measure(requests, engine.max_running, seconds))
    return Calibration(
        model=loop.model,
        costs=costs,
        fit=fit,
        request_seconds=request_seconds,
        threads=torch.get_num_threads(),
        device=loop.device,
        host=f"{platform.node()}: {platform.processor() or platform.machine()}, {platform.system()}",
        version=__version__,
    )


class MeasuredLoop(EngineLoop):
    """An engine loop that notes, of each step, what its spans hold and how long it took by ``clock``."""

    def __init__(
        self,
        options: EngineOptions,
        progress: Progress = lambda share: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(options, progress)
        self._clock = clock
        self.features: list[tuple[int, ...]] = []
        self.seconds: list[float] = []
        self._noting = 0.0
        self._submitted = 0

    @property
    def device(self) -> str:
        """Where the model is computed."""
        device = self._runner.model.device
        return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type

    def measure(
        self, requests: Iterator[wire.Submit], max_running: int, seconds: float
    ) -> tuple[NDArray[np.int64], Floats]:
        """Features [steps, 5] and seconds [steps] of steps of 1, 2, 4, ... ``max_running`` requests at once."""
        levels = [2**n for n in range(max_running.bit_length()) if 2**n < max_running]
        self._keep(1, requests, 0.0, _WARM_UP)
        self.features.clear()
        self.seconds.clear()
        for level in (*levels, max_running):
            self._keep(level, requests, seconds / (len(levels) + 1), _LEAST_STEPS)
        return np.array(self.features).reshape(-1, FEATURES), np.array(self.seconds)

    def timed_step(self) -> list[CanvasEvent]:
        """One step and the message that tells of it, as an engine process makes it."""
        self._noting = 0.0
        begun = self._clock()
        report = self.step()
        wire.pack(report)
        self.seconds.append(self._clock() - begun - self._noting)
        return report.events

    def _keep(self, level: int, requests: Iterator[wire.Submit], seconds: float, least_steps: int) -> None:
        """Keep ``level`` requests running for so long, and for so many steps; then let none of them live on."""
        alive = [self._submit(requests) for _ in range(level)]
        begun, until = self._clock(), len(self.seconds) + least_steps
        while self._clock() < begun + seconds or len(self.seconds) < until:
            for event in self.timed_step():
                if event.last:
                    alive.remove(event.request_id)
                    alive.append(self._submit(requests))
        for request_id in alive:
            self.send(wire.Cancel(request_id))
        self.step()

    def _submit(self, requests: Iterator[wire.Submit]) -> str:
        self._submitted += 1
        command = next(requests)
        command.request_id = str(self._submitted)
        self.send(command)
        return command.request_id

    def _execute(self, spans: list[Span]) -> list[CanvasEvent]:
        begun = self._clock()
        self.features.append(_features(spans))
        self._noting = self._clock() - begun
        return super()._execute(spans)


def _features(spans: list[Span]) -> tuple[int, ...]:
    """What the spans of a step hold together."""
    each = [span_features(span.window, span.sequence.canvas) for span in spans]
    return tuple(sum(column) for column in zip(*each, strict=True))


def random_requests(
    shapes: list[Shape], options: GenerationParams, model: ModelInfo, random: np.random.Generator
) -> Iterator[wire.Submit]:
    """Requests of ``shapes``, in random order, of random tokens; they run to their last token."""
    special = {model.mask_id, *model.end_ids}
    words = np.array([token for token in range(model.vocab_size) if token not in special])
    while True:
        shape = shapes[random.integers(len(shapes))]
        asked = replace(options, max_tokens=shape.output_tokens, ignore_eos=True)
        params = resolve(asked, model, shape.prompt_tokens)
        yield wire.Submit("", random.choice(words, shape.prompt_tokens).tolist(), params)

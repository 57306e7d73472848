"""Measuring what steps cost: the live engine at many sizes of batch, with requests of many lengths in every phase."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from unmask.bench.costs import Calibration
from unmask.bench.distributions import Floats
from unmask.bench.request_seconds import measure_request_seconds
from unmask.bench.trajectory import Shape
from unmask.checkpoints.weights import Progress
from unmask.engine import wire
from unmask.engine.loop import EngineLoop
from unmask.engine.options import EngineOptions
from unmask.engine.step_meter import StepMeter
from unmask.engine.step_records import StepRecord
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
    return Calibration.of(loop.origin, *loop.measure(requests, engine.max_running, seconds), request_seconds)


class MeasuredLoop(EngineLoop):
    """An engine loop that keeps ``records`` of its steps, timed by ``clock``."""

    def __init__(
        self,
        options: EngineOptions,
        progress: Progress = lambda share: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(options, progress)
        self.records: list[StepRecord] = []
        self._watch = StepMeter(self.records.append, clock)
        self._clock = clock
        self._submitted = 0

    def measure(
        self, requests: Iterator[wire.Submit], max_running: int, seconds: float
    ) -> tuple[NDArray[np.int64], Floats]:
        """Features [steps, 5] and seconds [steps] of steps of 1, 2, 4, ... ``max_running`` requests at once."""
        levels = [2**n for n in range(max_running.bit_length()) if 2**n < max_running]
        self._keep(1, requests, 0.0, _WARM_UP)
        self.records.clear()
        for level in (*levels, max_running):
            self._keep(level, requests, seconds / (len(levels) + 1), _LEAST_STEPS)
        features = np.array([record.features for record in self.records], dtype=np.int64)
        return features, np.array([record.seconds for record in self.records])

    def timed_step(self) -> list[CanvasEvent]:
        """One step and the message that tells of it, as an engine process makes it."""
        return self.step(wire.pack).events

    def _keep(self, level: int, requests: Iterator[wire.Submit], seconds: float, least_steps: int) -> None:
        """Keep ``level`` requests running for so long, and for so many steps; then let none of them live on."""
        alive = [self._submit(requests) for _ in range(level)]
        begun, until = self._clock(), len(self.records) + least_steps
        while self._clock() < begun + seconds or len(self.records) < until:
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

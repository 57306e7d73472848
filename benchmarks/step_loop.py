"""Wall time of a step over the time inside model forwards: what scheduling, sampling and bookkeeping cost.

    python benchmarks/step_loop.py [--model unmask-tiny] [--threads 1] [--steps 300]

Each concurrency level runs its own mix of prompts for a while; ``forward`` is the time inside ``forward`` and ``head``
of the model, measured in the same steps. Every number is a ratio from one run in one process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch

from unmask.engine import wire
from unmask.engine.loop import EngineLoop
from unmask.engine.options import EngineOptions
from unmask.params import GenerationParams
from unmask.resolve import resolve

LEVELS = (1, 4, 16)


class Stopwatch:
    """Adds up the time inside the functions it wraps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, function):
        """``function``, timed."""

        def timed(*args):
            started = time.perf_counter()
            result = function(*args)
            self.seconds += time.perf_counter() - started
            return result

        return timed


def measure(loop: EngineLoop, watch: Stopwatch, concurrency: int, steps: int) -> dict[str, float]:
    """Keep ``concurrency`` requests running for ``steps`` steps; medians over the steps that had all of them."""
    numbers = iter(range(10**9))

    def submit() -> None:
        number = next(numbers)
        prompt = [1, 2, *range(20, 30 + number % 17), 3]
        params = resolve(GenerationParams(max_tokens=128, threshold=0.9, ignore_eos=True), loop.model, len(prompt))
        loop.send(wire.Submit(f"{concurrency}-{number}", prompt, params))

    for _ in range(concurrency):
        submit()
    walls, ratios = [], []
    while len(walls) < steps:
        watch.seconds = 0.0
        started = time.perf_counter()
        report = loop.step()
        wall = time.perf_counter() - started
        if report.stats.running == concurrency:
            walls.append(wall)
            ratios.append(wall / watch.seconds)
        for event in report.events:
            if event.finish is not None:
                submit()
    for number in range(next(numbers)):
        loop.send(wire.Cancel(f"{concurrency}-{number}"))
    loop.step()
    return {
        "concurrency": concurrency,
        "step_ms": round(statistics.median(walls) * 1e3, 3),
        "wall_over_forward": round(statistics.median(ratios), 3),
    }


def main() -> None:
    """Print one JSON line a level."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="unmask-tiny")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=300)
    arguments = parser.parse_args()
    loop = EngineLoop(EngineOptions(model=arguments.model, threads=arguments.threads))
    watch = Stopwatch()
    model = loop._runner.model
    model.forward, model.head = watch.around(model.forward), watch.around(model.head)
    measure(loop, watch, 4, 50)  # warm up
    for concurrency in LEVELS:
        line = measure(loop, watch, concurrency, arguments.steps)
        print(json.dumps({**line, "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    main()

"""What ``batch_invariant`` costs on this CPU: step times with and without, side by side in one process.

    python -m benchmarks.batch_invariant [--model unmask-tiny] [--threads 1] [--steps 100] [--prompt 40]

Two engines answer the same requests and take their steps in turns, so that both see the same machine. ``times_as_long``
is the median, over the steps in which all requests ran, of the quotient of two steps taken one after the other.
"""

from __future__ import annotations

import argparse
import itertools
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
_WARM_UP = 5


class Side:
    """One engine that always has ``concurrency`` requests of its own."""

    def __init__(self, loop: EngineLoop, concurrency: int, prompt: int) -> None:
        self._loop, self._prompt = loop, prompt
        self._numbers = itertools.count()
        self._running: set[str] = set()
        for _ in range(concurrency):
            self._submit()

    def _submit(self) -> None:
        number = next(self._numbers)
        ids = [1, 2, *(20 + (7 * number + i) % 200 for i in range(self._prompt + number % 17)), 3]
        params = resolve(GenerationParams(max_tokens=128, threshold=0.9, ignore_eos=True), self._loop.model, len(ids))
        self._running.add(str(number))
        self._loop.send(wire.Submit(str(number), ids, params))

    def step(self) -> float:
        """Seconds of one step."""
        started = time.perf_counter()
        report = self._loop.step()
        seconds = time.perf_counter() - started
        for event in report.events:
            if event.last:
                self._running.remove(event.request_id)
                self._submit()
        return seconds

    def close(self) -> None:
        """Take all requests out."""
        for request_id in self._running:
            self._loop.send(wire.Cancel(request_id))
        self._loop.step()


def measure(plain: EngineLoop, invariant: EngineLoop, concurrency: int, steps: int, prompt: int) -> dict[str, float]:
    """Medians over ``steps`` pairs of steps."""
    sides = [Side(loop, concurrency, prompt) for loop in (plain, invariant)]
    pairs = [tuple(side.step() for side in sides) for _ in range(_WARM_UP + steps)][_WARM_UP:]
    for side in sides:
        side.close()
    before, after = zip(*pairs, strict=True)
    return {
        "requests": concurrency,
        "plain_ms": round(statistics.median(before) * 1e3, 2),
        "invariant_ms": round(statistics.median(after) * 1e3, 2),
        "times_as_long": round(statistics.median(b / a for a, b in pairs), 2),
    }


def main() -> None:
    """Print one JSON line a number of requests."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="unmask-tiny")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--prompt", type=int, default=40)
    arguments = parser.parse_args()
    plain, invariant = (
        EngineLoop(EngineOptions(model=arguments.model, device="cpu", threads=arguments.threads, batch_invariant=on))
        for on in (False, True)
    )
    for concurrency in LEVELS:
        line = measure(plain, invariant, concurrency, arguments.steps, arguments.prompt)
        print(json.dumps({**line, "threads": torch.get_num_threads()}), flush=True)


if __name__ == "__main__":
    main()

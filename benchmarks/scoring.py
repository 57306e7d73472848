"""What it costs to score a text: forwards, rows and seconds, with and without drafts.

    python -m benchmarks.scoring [--model unmask-tiny] [--tokens 200] [--repeat 3]

Forwards and rows depend neither on the machine nor on the text. Seconds are the median, on one thread.
"""

from __future__ import annotations

import argparse
import statistics
import time

from unmask.engine import wire
from unmask.engine.loop import EngineLoop
from unmask.engine.options import EngineOptions
from unmask.events import RequestStats
from unmask.scoring import scoring_params


def score(loop: EngineLoop, ids: list[int]) -> RequestStats:
    """Score ``ids``, alone; what it cost."""
    params = scoring_params(ids, loop.model, 1, loop.model.block_length)
    loop.send(wire.Submit("text", ids[:1], params))
    while True:
        for event in loop.step().events:
            assert event.error is None, event.error
            if event.last:
                return event.stats


def main() -> None:
    """Print a line for each attention and number of draft rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="unmask-tiny")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    for attention in ("block_causal", "full"):
        for draft_rows in (0, EngineOptions(model="").draft_rows):
            engine = EngineOptions(model=options.model, attention=attention, draft_rows=draft_rows, threads=1)
            loop = EngineLoop(engine)
            usable = [token for token in range(loop.model.vocab_size) if token != loop.model.mask_id]
            ids = [usable[(7 * n * n + 11 * n) % len(usable)] for n in range(options.tokens)]
            seconds = []
            for _ in range(options.repeat):
                started = time.perf_counter()
                stats = score(loop, ids)
                seconds.append(time.perf_counter() - started)
            cost = f"{stats.forwards} forwards, {stats.canvas_tokens} rows, {statistics.median(seconds):.2f} s"
            print(f"{attention}, draft rows {draft_rows}: {cost}")


if __name__ == "__main__":
    main()

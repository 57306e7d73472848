"""Requests without a model behind them: what scheduling alone looks at, and denoising that always commits one token."""

from __future__ import annotations

from collections.abc import Sequence as Many

from tests.infos import model_info
from unmask.decoding.windows import Decision
from unmask.engine.scheduler import Scheduler, Span
from unmask.engine.sequence import Sequence
from unmask.params import GenerationParams
from unmask.resolve import resolve
from unmask.terms import Terms

INFO = model_info("block_causal")


def sequence(name: str, now: float = 0.0, *, prompt: int = 4, max_tokens: int = 4, **terms) -> Sequence:
    """A request that arrives at ``now``; ``terms`` are fields of ``Terms``."""
    params = resolve(GenerationParams(max_tokens=max_tokens), INFO, prompt)
    return Sequence(name, [1] * prompt, params, INFO, now, terms=Terms(**terms))


def denoise(scheduler: Scheduler, spans: Many[Span], now: float) -> list[str]:
    """A step in which every span commits one token; the requests that it finished, which leave."""
    finished = []
    for span in spans:
        (segment,) = span.window.segments
        masked = [p for p in range(segment.start, segment.end) if span.sequence.canvas.masked[p]]
        span.sequence.apply(span.window, Decision(masked[:1], [1]), now)
        if span.sequence.canvas.finish is not None:
            scheduler.remove(span.sequence.request_id)
            finished.append(span.sequence.request_id)
    return finished

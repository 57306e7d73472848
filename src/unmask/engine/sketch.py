"""What is to be seen of a canvas: its tokens, how sure, decided when, changed again. Kept for requests that ask for
frames, and drawn no more often than eyes can follow.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unmask.decoding.canvas import Canvas
from unmask.decoding.windows import Decision, Outlook
from unmask.events import NO_TOKEN, Frame, RequestStats
from unmask.params import RULE_TRAITS, DecodingParams

_SECONDS_BETWEEN_FRAMES = 1 / 20

# What rules go by that leave no choice and do not go by a probability (``decoding/rules.py``).
_SCORED_BY = {"topk_margin": "margin", "entropy": "entropy", "entropy_bound": "entropy", "origin": "chance"}


class Sketchbook:
    """Notes on the cells of one canvas, taken after each step; positions are counted from the prompt's end."""

    def __init__(self, canvas: Canvas, params: DecodingParams) -> None:
        self._canvas = canvas
        self._prompt = canvas.prompt_length
        self._scored_by = scored_by(params)
        count = canvas.length - self._prompt
        self._decided = np.zeros(count, dtype=np.int64)
        self._confidence = np.full(count, -1.0)
        self._guesses = np.full(count, NO_TOKEN, dtype=np.int64)
        self._edited = np.zeros(count, dtype=np.bool_)
        self._drawn: float | None = None

    def note(self, decision: Decision, forward: int) -> None:
        """Take down what the canvas's last ``decision`` says; it was made in the ``forward``-th forward."""
        if decision.outlook is not None:
            self._look(decision.outlook)
        chosen = np.asarray(decision.positions, dtype=np.int64) - self._prompt
        replaced = chosen[self._decided[chosen] > 0]
        masked = self._canvas.masked[self._prompt :]
        taken_back = masked & (self._decided > 0)
        self._edited |= taken_back
        self._edited[replaced] = True
        self._decided[replaced] = forward
        self._decided[~masked & (self._decided == 0)] = forward
        self._decided[taken_back] = 0

    def _look(self, outlook: Outlook) -> None:
        """What the forward proposed, decided or not."""
        own = outlook.positions >= self._prompt
        cells = outlook.positions[own] - self._prompt
        self._guesses[cells] = outlook.likeliest[own]
        if self._scored_by == "chance":
            return
        score = outlook.score[own]
        self._confidence[cells] = np.clip(np.exp(score) if self._scored_by == "entropy" else score, 0.0, 1.0)

    def frame(self, stats: RequestStats, *, last: bool = False) -> Frame | None:
        """The canvas after what ``stats`` tell of; None so soon after another one, but for ``last``."""
        if self._drawn is not None and not last and stats.total - self._drawn < _SECONDS_BETWEEN_FRAMES:
            return None
        self._drawn = stats.total
        canvas, length = self._canvas, self._canvas.grid.block_length
        first_block = canvas.grid.block_end(self._prompt) - self._prompt
        masked = canvas.masked[self._prompt :]
        seen = max(first_block + (stats.blocks - 1) * length, _last(~masked) + 1)
        end = canvas.limit if canvas.end is None else min(canvas.end, canvas.limit)
        told = slice(0, min(seen, len(masked)))
        return Frame(
            tokens=canvas.tokens[self._prompt :].tolist(),
            tail=len(masked) - told.stop,
            committed=max(int(canvas.decided) - self._prompt, 0),
            end=end - self._prompt,
            block_length=length,
            first_block=first_block,
            decided=self._decided[told].tolist(),
            confidence=self._confidence[told].tolist(),
            guesses=np.where(masked, self._guesses, NO_TOKEN)[told].tolist(),
            edited=np.flatnonzero(self._edited).tolist(),
        )


def scored_by(params: DecodingParams) -> str:
    """What the scores of a request's proposals are: ``SCORES``, or "chance", which says nothing of how sure it is."""
    if params.alg_temp > 0:
        return "chance"
    if "score" in RULE_TRAITS[params.rule].options:
        return params.score
    return _SCORED_BY.get(params.rule, "probability")


def _last(flags: NDArray[np.bool_]) -> int:
    """The last place that is set; -1 if none is."""
    return len(flags) - 1 - int(flags[::-1].argmax()) if flags.any() else -1

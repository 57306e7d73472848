"""Decoding without a mask token: a canvas of noise is sharpened until it no longer changes (DiffusionGemma).

Reference: transformers 5.24, ``DiffusionGemmaGenerationMixin.generate`` and its entropy-bound sampler. The prompt and
every finished canvas are encoded causally; a canvas starts as random tokens. Each forward proposes a token for every
position; those of low entropy stay for the next forward, the others become fresh noise. When the likeliest tokens are
stable and sure, or after ``steps`` forwards, they are the canvas's text.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unmask.decoding.canvas import Canvas
from unmask.decoding.pace import AT_ONCE
from unmask.decoding.random import NOISE, uniform_array
from unmask.decoding.windows import Decision, Segment, Window
from unmask.params import DecodingParams, ModelInfo


class RenoiseDenoiser:
    """The denoiser of one request. ``cached`` is the end of the exact keys and values."""

    unit = 1
    divisible = True

    def __init__(self, canvas: Canvas, params: DecodingParams, model: ModelInfo) -> None:
        self.canvas = canvas
        self.params = params
        self.start = canvas.prompt_length
        self.cached = 0
        self._chunk_end = 0
        self.step = 0
        self.blocks_begun = 1
        self._vocab = model.vocab_size
        self._likeliest: NDArray[np.int64] | None = None
        self._stable_steps = 0
        self._renew()

    @property
    def final(self) -> int:
        """Everything left of the current canvas."""
        return self.start

    @property
    def coming_end(self) -> int:
        """The current canvas's end."""
        return self._end()

    @property
    def interruptible(self) -> bool:
        """A canvas builds on what its last forward predicted."""
        return self.step == 0

    @property
    def prefill_rows(self) -> int:
        """What is final and has not been encoded, or not been kept."""
        return self.start - self.cached

    @property
    def uncut_room(self) -> int:
        """The current canvas stands behind the prefill."""
        return self.prefill_rows + self._end() - self.start

    @property
    def most_rows(self) -> int:
        """One canvas."""
        return self.params.block_length

    @property
    def most_forwards(self) -> int:
        """Canvases take at most ``steps`` forwards each."""
        generated = self.canvas.length - self.canvas.prompt_length
        return -(-generated // self.params.block_length) * self.params.steps

    @property
    def temperature(self) -> float:
        """What divides the logits of the coming forward: falls from ``t_max`` towards ``t_min``."""
        left = (self.params.steps - self.step) / self.params.steps
        return self.params.t_min + (self.params.t_max - self.params.t_min) * left

    def restart(self, cached: int) -> None:
        """What is final will be encoded again."""
        self.cached = cached

    def next_window(self, room: int) -> Window:
        """What is final but not encoded, then the canvas, which sees everything."""
        end = self._end()
        if self.prefill_rows and room < self.uncut_room:
            end = self._chunk_end = min(self.cached + room, self.start)
            return Window(self.cached, end, end, np.arange(self.cached, end) + 1, [], end - 1, canvas_start=end)
        visible = None
        if self.cached < self.start:
            visible = np.concatenate([np.arange(self.cached, self.start) + 1, np.full(end - self.start, end)])
        segment = Segment(self.start, end, AT_ONCE, temperature=self.temperature)
        return Window(
            self.cached, end, end, visible, [segment], self.start - 1,
            canvas_start=self.start, conditioned=self.step > 0,
        )  # fmt: skip

    def apply(self, decision: Decision) -> int:
        """Keep what was accepted and renoise the rest; or fix the likeliest tokens and begin the next canvas."""
        if self._chunk_end:
            self.cached, self._chunk_end = self._chunk_end, 0
            return 0
        assert decision.outlook is not None
        likeliest, entropy = decision.outlook.likeliest, -decision.outlook.score
        self.cached = self.start
        self.step += 1
        same = self._likeliest is not None and bool((likeliest == self._likeliest).all())
        self._stable_steps = self._stable_steps + 1 if same else 0
        self._likeliest = likeliest
        sure = float(entropy.mean()) < self.params.confidence_threshold
        if (sure and self._stable_steps >= self.params.stability_threshold) or self.step == self.params.steps:
            return self._finish(likeliest.tolist())
        self._renew()
        self.canvas.tokens[decision.positions] = decision.tokens
        return 0

    def _finish(self, tokens: list[int]) -> int:
        newly = self.canvas.commit(list(range(self.start, self._end())), tokens)
        self.start, self.step = self._end(), 0
        self._likeliest, self._stable_steps = None, 0
        if self.canvas.finish is None:
            self.blocks_begun += 1
            self._renew()
        return newly

    def _end(self) -> int:
        return self.canvas.grid.block_end(self.start)

    def _renew(self) -> None:
        self.canvas.tokens[self.start : self._end()] = self._noise()

    def _noise(self) -> NDArray[np.int64]:
        """Uniformly random tokens for the canvas, which depend on nothing but seed, position and step."""
        positions = np.arange(self.start, self._end())
        draws = uniform_array(self.params.seed, positions, self.step, NOISE)
        return np.minimum((draws * self._vocab).astype(np.int64), self._vocab - 1)

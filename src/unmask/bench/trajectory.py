"""The windows that a request goes through, found once by the engine's own denoiser and played back ever after.

A request's windows do not depend on its neighbours, nor on which tokens are committed, only on how many in each
forward. So the real ``Sequence`` is driven with decisions that spread its tokens evenly over its forwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unmask.decoding.canvas import Canvas
from unmask.decoding.windows import Decision, Denoiser, Outlook, Segment, Window
from unmask.engine.sequence import Sequence
from unmask.engine.step_features import span_features
from unmask.params import RULE_TRAITS, DecodingParams, GenerationParams, ModelInfo
from unmask.resolve import resolve

_ANY_ROOM = 2**62  # rows, more than any window has
_SURE, _UNSURE = 0.0, 1e9  # entropies by which a canvas that is renoised ends or goes on


@dataclass(frozen=True)
class Shape:
    """The size of a request: its prompt, the tokens it allows and gets, and the forwards it is to take."""

    prompt_tokens: int
    max_tokens: int
    output_tokens: int
    forwards: int


@dataclass(frozen=True, slots=True)
class Moment:
    """What a denoiser says of itself before a forward, and the ``window`` of it, without segments.

    Nothing has been cut or lost before, and nothing is cut.
    """

    window: Window
    cached: int
    final: int
    coming_end: int
    interruptible: bool
    prefill_rows: int
    uncut_room: int
    most_rows: int

    @classmethod
    def of(cls, denoiser: Denoiser) -> Moment:
        """That of ``denoiser``, whose next window is taken."""
        said = (
            denoiser.cached,
            denoiser.final,
            denoiser.coming_end,
            denoiser.interruptible,
            denoiser.prefill_rows,
            denoiser.uncut_room,
            denoiser.most_rows,
        )
        return cls(denoiser.next_window(_ANY_ROOM), *said)


@dataclass(frozen=True)
class Trajectory:
    """What a request of ``shape`` asks of each of its forwards.

    ``moments``: one before each forward. ``features`` int64 [forwards, 5]: what each adds to its step, in the order of
    ``costs.TERMS``. ``first_block``: the number of forwards after which the first block stands. ``params``, ``canvas``:
    the request's; its tokens are made up. ``unit``, ``divisible``: its denoiser's.
    """

    shape: Shape
    params: DecodingParams
    model: ModelInfo
    canvas: Canvas
    unit: int | None
    divisible: bool
    moments: tuple[Moment, ...]
    features: NDArray[np.int64]
    first_block: int

    @property
    def forwards(self) -> int:
        """How many it takes: ``shape.forwards``, or as many as its blocks need at least or its positions at most."""
        return len(self.moments)


def find_trajectory(shape: Shape, options: GenerationParams, model: ModelInfo) -> Trajectory:
    """The trajectory of a request of ``shape`` that asks for ``options``, whose ``max_tokens`` is the shape's.

    Raises what ``resolve`` raises: the shape may be too long for the model.
    """
    params = resolve(replace(options, max_tokens=shape.max_tokens), model, shape.prompt_tokens)
    sequence = Sequence("0", [_word(model)] * shape.prompt_tokens, params, model, 0.0)
    pacer = Pacer(shape, sequence.canvas, params, model)
    moments, features = [], []
    first_block = 0
    while sequence.canvas.finish is None:
        moment = Moment.of(sequence.denoiser)
        window = moment.window
        moments.append(replace(moment, window=replace(window, visible=None, segments=[])))
        features.append(span_features(window, sequence.canvas))
        sequence.apply(window, pacer.decide(window), 0.0)
        first_block += sequence.stats.first_block is None
    unit, divisible = sequence.denoiser.unit, sequence.denoiser.divisible
    return Trajectory(
        shape, params, model, sequence.canvas, unit, divisible, tuple(moments), np.array(features), first_block + 1
    )


class Pacer:
    """Decides as many positions in each forward as ``shape.forwards`` asks for, spread evenly, from left to right.

    Blocks that are denoised one after another share the forwards by their masks, each at least one; so it comes out
    even if there are as many forwards as blocks, and no more than positions.
    """

    def __init__(self, shape: Shape, canvas: Canvas, params: DecodingParams, model: ModelInfo) -> None:
        self._canvas, self._renoises = canvas, model.denoiser == "renoise"
        traits = RULE_TRAITS[params.rule]
        self._pipelined = traits.pipelined
        self._word = _word(model)
        last = canvas.prompt_length + shape.output_tokens - 1
        ends = shape.output_tokens < shape.max_tokens and bool(model.end_ids)
        self._end_at, self._end_id = (last, model.end_ids[0]) if ends else (-1, -1)
        block_end = canvas.grid.block_end(last)
        self._stop = block_end if traits.revises else min(block_end, canvas.limit)
        self._forwards, self._forward = shape.forwards, 0

    def decide(self, window: Window) -> Decision:
        """What commits in the coming forward."""
        self._forward += 1
        if self._renoises:
            return self._renoise(window.segments[0], self._due())
        masked = self._canvas.masked
        positions = np.concatenate([s.start + np.flatnonzero(masked[s.start : s.end]) for s in window.segments])
        positions = positions[: self._due() if self._pipelined else self._quota(window.segments[0].start)]
        return Decision(positions, self._tokens(positions))

    def _due(self) -> int:
        """What an even split over all forwards would have committed by now and was not; 1 at least."""
        masked, wanted = self._canvas.masked, self._stop - self._canvas.prompt_length
        committed = len(masked) - self._canvas.prompt_length - int(np.count_nonzero(masked))
        return max(1, -(-wanted * self._forward // self._forwards) - committed)

    def _quota(self, start: int) -> int:
        """What the block at ``start`` commits so that its forwards are its share of those that are left."""
        grid, masked = self._canvas.grid, self._canvas.masked
        end = min(grid.block_end(start), self._stop)
        here, after = (int(np.count_nonzero(part)) for part in (masked[:end], masked[end : self._stop]))
        left = max(1, self._forwards - self._forward + 1)
        share = round(left * here / max(1, here + after))
        least, most = max(1, left - after), max(1, min(here, left - -(-after // grid.block_length)))
        return -(-here // min(max(share, least), most))

    def _renoise(self, segment: Segment, due: int) -> Decision:
        """A canvas ends once all of it is due."""
        positions = np.arange(segment.start, segment.end)
        ends = due >= len(positions)
        entropy = np.full(len(positions), _SURE if ends else _UNSURE)
        tokens = self._tokens(positions)
        return Decision(positions, tokens, Outlook(positions, tokens, -entropy))

    def _tokens(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.where(positions == self._end_at, self._end_id, self._word)


def _word(model: ModelInfo) -> int:
    """A token that is neither mask nor end."""
    special = {model.mask_id, *model.end_ids}
    return next(token for token in range(model.vocab_size) if token not in special)

"""The tokens of one request: its prompt, then the canvas that is being denoised."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unmask.decoding.grid import Grid
from unmask.events import NO_TOKEN
from unmask.params import DecodingParams, ModelInfo

Positions = list[int] | NDArray[np.int64]


class Canvas:
    """Positions 0 .. ``length``: prompt first, then generated tokens, some still masked.

    Whether a position is masked is explicit state, never read off its token. ``settled`` bounds the tokens that can
    no longer change: where committed tokens may be revised, the denoiser moves it on. ``end`` is the leftmost committed
    end token. Generated tokens beyond ``limit`` (prompt + max_tokens) are computed only to fill their block.
    """

    def __init__(self, prompt_ids: list[int], params: DecodingParams, model: ModelInfo, end_ids: Iterable[int]) -> None:
        self.prompt_length = len(prompt_ids)
        self.limit = self.prompt_length + params.max_tokens
        self.grid = Grid.covering(
            self.prompt_length, model.anchor, params.block_length, params.max_tokens, model.context_length
        )
        self.length = self.grid.length
        self.mask_id = model.mask_id
        blank = NO_TOKEN if model.mask_id is None else model.mask_id
        self.tokens: NDArray[np.int64] = np.full(self.length, blank, dtype=np.int64)
        self.tokens[: self.prompt_length] = prompt_ids
        self.masked: NDArray[np.bool_] = np.ones(self.length, dtype=np.bool_)
        self.masked[: self.prompt_length] = False
        self.settled = self.length
        self.end: int | None = None
        self._decided = self.prompt_length
        self._end_ids = frozenset(end_ids)
        self._ends: NDArray[np.bool_] = np.zeros(self.length, dtype=np.bool_)
        self._early_exit = params.early_exit

    def commit(self, positions: Positions, tokens: Positions) -> int:
        """Fix ``tokens`` at ``positions``, masked or to be edited; how many of them were masked."""
        newly = int(np.count_nonzero(self.masked[positions]))
        self.tokens[positions] = tokens
        self.masked[positions] = False
        self._mark_ends(positions, [token in self._end_ids for token in np.asarray(tokens).tolist()])
        while self._decided < self.length and not self.masked[self._decided]:
            self._decided += 1
        return newly

    def remask(self, positions: Positions) -> int:
        """Make masks of the committed tokens at ``positions``, none of them final; how many they are."""
        if len(positions):
            assert min(positions) >= self.settled, "text that was told cannot be taken back"
            assert self.mask_id is not None
            self.tokens[positions] = self.mask_id
            self.masked[positions] = True
            self._mark_ends(positions, False)
            self._decided = min(self._decided, *positions)
        return len(positions)

    def _mark_ends(self, positions: Positions, are_ends: bool | list[bool]) -> None:
        self._ends[positions] = are_ends
        self.end = int(self._ends.argmax()) if self._ends.any() else None

    @property
    def decided(self) -> int:
        """End of the contiguous part that is final: everything left of it can no longer change."""
        return min(self._decided, self.settled)

    @property
    def text_end(self) -> int:
        """One past the last position that is text so far: final, left of any end token, within the limit."""
        end = self.limit if self.end is None else min(self.end, self.limit)
        return max(min(self.decided, end), self.prompt_length)

    @property
    def first_block_decided(self) -> bool:
        """Whether the first block has no masks left."""
        return self.decided >= self.grid.block_end(self.prompt_length)

    @property
    def finish(self) -> Literal["stop", "length"] | None:
        """Why the request is over, if it is.

        "length" once all tokens up to the limit are decided; "stop" once the end token's block is, as the reference
        samplers do it, or with ``early_exit`` once everything up to the end token is.
        """
        if self.end is None or self.end >= self.limit:
            return "length" if self.decided >= self.limit else None
        enough = self.end + 1 if self._early_exit else min(self.grid.block_end(self.end), self.limit)
        return "stop" if self.decided >= enough else None

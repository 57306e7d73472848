"""The tokens of one request: its prompt, then the canvas that is being denoised."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unmask.decoding.grid import Grid
from unmask.params import DecodingParams


class Canvas:
    """Positions 0 .. ``length``: prompt first, then generated tokens, some still masked.

    Whether a position is masked is explicit state, never read off its token. ``decided`` is the end of the
    contiguous decided part: everything left of it is final. ``end`` is the leftmost committed end token.
    Generated tokens beyond ``limit`` (prompt + max_tokens) are computed only to fill their block.
    """

    def __init__(
        self, prompt_ids: list[int], params: DecodingParams, context_length: int, mask_id: int, end_ids: Iterable[int]
    ) -> None:
        self.prompt_length = len(prompt_ids)
        self.limit = self.prompt_length + params.max_tokens
        self.grid = Grid.covering(self.prompt_length, params.block_length, params.max_tokens, context_length)
        self.length = self.grid.length
        self.mask_id = mask_id
        self.tokens: NDArray[np.int64] = np.full(self.length, mask_id, dtype=np.int64)
        self.tokens[: self.prompt_length] = prompt_ids
        self.masked: NDArray[np.bool_] = np.ones(self.length, dtype=np.bool_)
        self.masked[: self.prompt_length] = False
        self.decided = self.prompt_length
        self.end: int | None = None
        self._end_ids = frozenset(end_ids)
        self._early_exit = params.early_exit

    def commit(self, positions: list[int], tokens: list[int]) -> None:
        """Fix ``tokens`` at masked ``positions``."""
        self.tokens[positions] = tokens
        self.masked[positions] = False
        for position, token in zip(positions, tokens, strict=True):
            if token in self._end_ids and (self.end is None or position < self.end):
                self.end = position
        while self.decided < self.length and not self.masked[self.decided]:
            self.decided += 1

    @property
    def text_end(self) -> int:
        """One past the last position that is text so far: final, left of any end token, within the limit."""
        end = self.limit if self.end is None else min(self.end, self.limit)
        return min(self.decided, end)

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

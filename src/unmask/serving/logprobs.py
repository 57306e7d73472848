"""Log-probabilities token by token, as dialects have them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unmask.answers.cells import Cells
from unmask.events import TokenLogprob


class TopLogprob(msgspec.Struct, frozen=True):
    """A token that could have been. ``token`` is its text by itself; ``bytes`` are exact for parts of characters."""

    token: str
    logprob: float
    bytes: list[int]


class Logprob(msgspec.Struct, frozen=True):
    """A token of the answer, and the likeliest ones at its place."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


def encode_entries(entries: Sequence[TokenLogprob], cells: Cells) -> list[Logprob]:
    """``entries`` on the wire."""
    return [_encode(entry, cells) for entry in entries]


def _encode(entry: TokenLogprob, cells: Cells) -> Logprob:
    top = [_top(token_id, logprob, cells) for token_id, logprob in entry.alternatives]
    token, spelled = cells.spell(entry.token_id)
    return Logprob(token, entry.logprob, spelled, top)


def _top(token_id: int, logprob: float, cells: Cells) -> TopLogprob:
    token, spelled = cells.spell(token_id)
    return TopLogprob(token, logprob, spelled)

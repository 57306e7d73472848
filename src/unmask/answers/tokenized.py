"""What a model's tokenizer makes of a text, or of a conversation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tokenized:
    """``ids`` as the model reads them, and the text of each in ``pieces`` if they were asked for. ``context``: the most
    tokens that prompt and answer have together, None if that is not known.
    """

    ids: list[int]
    pieces: list[str] | None = None
    context: int | None = None

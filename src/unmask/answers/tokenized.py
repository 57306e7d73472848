"""What a model's tokenizer makes of a text, or of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unmask.errors import InvalidValueError


@dataclass(frozen=True, slots=True)
class Tokenized:
    """``ids`` as the model reads them, and the text of each in ``pieces`` if they were asked for. ``context``: the most
    tokens that prompt and answer have together, None if that is not known.
    """

    ids: list[int]
    pieces: list[str] | None = None
    context: int | None = None


def check_ids(ids: Sequence[int], size: int) -> None:
    """Raises ``InvalidValueError`` for the first that none of ``size`` tokens has; it is named as of ``tokens``."""
    wrong = next((place for place, one in enumerate(ids) if not 0 <= one < size), None)
    if wrong is not None:
        raise InvalidValueError(f"Token id {ids[wrong]} is outside 0 to {size - 1}.", param=f"tokens[{wrong}]")
